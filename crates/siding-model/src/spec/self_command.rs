//! Display of the command lines of tasks that run siding itself.
//!
//! A task of any kind except `local_bash` executes this program by its absolute path, in some cases
//! with an internal first argument. Lists, notices and the history show the public command in place
//! of this command line.

/// The first argument of the process that runs a workflow.
pub const WORKFLOW_ARG: &str = "__workflow";
/// The first argument of the process that monitors another MCP server.
pub const WATCH_MCP_ARG: &str = "__watch-mcp";
/// The first argument of the process that rewrites an agent's notes.
pub const DREAM_ARG: &str = "__dream";
/// The second argument, after `a2a`, of the process that follows a remote task.
pub const FOLLOW_ARG: &str = "follow";

/// The flag after [`WORKFLOW_ARG`] that precedes the path of the workflow file.
pub const WORKFLOW_FILE_FLAG: &str = "--file";
/// The flag after [`WORKFLOW_ARG`] that precedes the checksum of the workflow file.
pub const WORKFLOW_CHECKSUM_FLAG: &str = "--checked";
/// The flag after [`WORKFLOW_ARG`] that precedes the id of the workflow to resume.
pub const WORKFLOW_RESUME_FLAG: &str = "--resume";

/// Returns the words of the public command for `argv`, whose first word is siding's path.
pub(super) fn public_words(argv: &[String]) -> Vec<&str> {
    let words: Vec<&str> = argv.iter().skip(1).map(String::as_str).collect();
    let mut public = vec!["siding"];
    match words.as_slice() {
        [DREAM_ARG, rest @ ..] => {
            public.push("dream");
            public.extend(rest);
        }
        [WATCH_MCP_ARG, rest @ ..] => {
            public.push("monitor-mcp");
            public.extend(rest);
        }
        ["a2a", FOLLOW_ARG, rest @ ..] => {
            public.extend(["a2a", "send"]);
            public.extend(rest);
        }
        [WORKFLOW_ARG, rest @ ..] => {
            public.push("workflow");
            public.extend(workflow_words(rest));
        }
        words => public.extend(words),
    }
    public
}

/// Returns the public words of a workflow: `run` with the flags and the file, or `resume` with the
/// id.
fn workflow_words<'w>(words: &[&'w str]) -> Vec<&'w str> {
    let mut command = "run";
    let (mut flags, mut target) = (Vec::new(), None);
    let mut rest = words.iter();
    while let Some(&word) = rest.next() {
        match word {
            WORKFLOW_FILE_FLAG => target = rest.next(),
            WORKFLOW_RESUME_FLAG => {
                command = "resume";
                target = rest.next();
            }
            WORKFLOW_CHECKSUM_FLAG => {
                let _checksum = rest.next();
            }
            flag => flags.push(flag),
        }
    }
    std::iter::once(command).chain(flags).chain(target.copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn public_command(words: &[&str]) -> String {
        let argv: Vec<String> =
            std::iter::once(&"/opt/bin/siding").chain(words).map(ToString::to_string).collect();
        public_words(&argv).join(" ")
    }

    #[test]
    fn the_public_command_is_displayed() {
        for (words, public) in [
            (&["agent", "--subagent", "a-1"][..], "siding agent --subagent a-1"),
            (&[DREAM_ARG, "--session=s"], "siding dream --session=s"),
            (&[WATCH_MCP_ARG, "--tool=t", "--", "server"], "siding monitor-mcp --tool=t -- server"),
            (&["a2a", FOLLOW_ARG, "--", "http://h", "hi"], "siding a2a send -- http://h hi"),
            (&[WORKFLOW_ARG, WORKFLOW_RESUME_FLAG, "w-1"], "siding workflow resume w-1"),
            (&[], "siding"),
        ] {
            assert_eq!(public_command(words), public);
        }
        let words = [
            WORKFLOW_ARG,
            WORKFLOW_FILE_FLAG,
            "ci.toml",
            WORKFLOW_CHECKSUM_FLAG,
            "7",
            "--keep-going",
        ];
        assert_eq!(public_command(&words), "siding workflow run --keep-going ci.toml");
        assert_eq!(public_command(&[WORKFLOW_ARG, WORKFLOW_FILE_FLAG]), "siding workflow run");
    }
}
