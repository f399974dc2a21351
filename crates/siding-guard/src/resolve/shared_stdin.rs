//! Detects commands that read the standard input from which their shell reads its commands, and
//! reads of named pipes that have no writer.

use super::observation::{Call, Construct, Observation};
use super::walk::{CodeSource, ExecContext, Walker};
use crate::ast::{Span, Statement};

/// Programs that read standard input, each with the smallest number of operands with which the
/// program reads files instead. `grep x` reads standard input and `grep x FILE` does not, so `grep`
/// has 2.
const STDIN_READERS: &[(&str, usize)] = &[
    ("awk", 2),
    ("base64", 1),
    ("bash", 1),
    ("bc", 1),
    ("cat", 1),
    ("cut", 1),
    ("dash", 1),
    ("egrep", 2),
    ("fgrep", 2),
    ("gawk", 2),
    ("grep", 2),
    ("head", 1),
    ("jq", 2),
    ("less", 1),
    ("mapfile", usize::MAX),
    ("md5sum", 1),
    ("more", 1),
    ("mysql", 2),
    ("node", 1),
    ("nl", 1),
    ("paste", 1),
    ("psql", usize::MAX),
    ("python", 1),
    ("python3", 1),
    ("read", usize::MAX),
    ("readarray", usize::MAX),
    ("rev", 1),
    ("sed", 2),
    ("select", usize::MAX),
    ("sh", 1),
    ("sha256sum", 1),
    ("sort", 1),
    ("ssh", usize::MAX),
    ("tac", 1),
    ("tail", 1),
    ("tee", usize::MAX),
    ("tr", usize::MAX),
    ("uniq", 1),
    ("wc", 1),
    ("xargs", usize::MAX),
    ("zsh", 1),
];

/// Options with which some of the [`STDIN_READERS`] do not read standard input.
const NO_STDIN_OPTIONS: &[&str] = &[
    "-V",
    "-a",
    "-c",
    "-e",
    "-f",
    "-l",
    "-m",
    "-n",
    "-p",
    "-r",
    "-R",
    "-u",
    "--arg-file",
    "--command",
    "--eval",
    "--execute",
    "--file",
    "--help",
    "--null-input",
    "--recursive",
    "--version",
];

impl Walker {
    /// Walks the commands of a text. Reports for each statement the first command that reads the
    /// standard input from which the shell reads later commands.
    pub(super) fn walk_checking_stdin(
        &mut self,
        statements: &[Statement],
        context: &ExecContext,
        source: CodeSource,
    ) {
        let last = statements.len().saturating_sub(1);
        let is_asked = source != CodeSource::Word && last > 0 && !context.has_redirected_stdin;
        if !is_asked {
            self.walk_sequence(statements, context);
            return;
        }
        for (at, statement) in statements.iter().enumerate() {
            let before = self.observations.len();
            self.walk_sequence(std::slice::from_ref(statement), context);
            let is_concerned = match source {
                CodeSource::Word => false,
                CodeSource::Eval => at == 0,
                CodeSource::Stdin => at < last,
            };
            let reader_span = self.observations[before..].iter().find_map(stdin_reader_span);
            if let Some(span) = reader_span.filter(|_| is_concerned) {
                self.report_construct(Construct::InputTaken, span);
            }
        }
    }

    /// Reports the first read of each named pipe that the text creates and to which no redirection
    /// in the text writes.
    pub(super) fn report_unwritten_fifos(&mut self) {
        let calls = || {
            self.observations.iter().filter_map(|seen| match seen {
                Observation::Call(call) => Some(call),
                Observation::Assignment { .. }
                | Observation::FileRead { .. }
                | Observation::FileWrite { .. }
                | Observation::Construct { .. } => None,
            })
        };
        let mut found = vec![];
        for pipe in calls().filter(|call| call.program == "mkfifo").flat_map(|call| &call.args) {
            let is_written = self.observations.iter().any(
                |seen| matches!(seen, Observation::FileWrite { to, .. } if to.text == pipe.text),
            );
            let reads = |call: &&Call| {
                call.program != "mkfifo"
                    && !matches!(call.program.as_str(), "rm" | "ls" | "test" | "[" | "chmod")
                    && (call.stdin_file.as_ref() == Some(&pipe.text)
                        || call.args.iter().any(|arg| arg.text == pipe.text))
            };
            found.extend(calls().find(reads).filter(|_| !is_written).map(|call| call.span));
        }
        for span in found {
            self.report_construct(Construct::EmptyPipe, span);
        }
    }
}

/// Returns the span of the call if it reads the standard input of its shell.
fn stdin_reader_span(observation: &Observation) -> Option<Span> {
    match observation {
        Observation::Call(call) if reads_shared_stdin(call) => Some(call.span),
        Observation::Call(_)
        | Observation::Assignment { .. }
        | Observation::FileRead { .. }
        | Observation::FileWrite { .. }
        | Observation::Construct { .. } => None,
    }
}

/// Returns whether a call reads the standard input of its shell.
fn reads_shared_stdin(call: &Call) -> bool {
    if call.has_redirected_stdin || call.unknown_wrapper.is_some() || call.has_timeout {
        return false;
    }
    let Some((_, words)) = STDIN_READERS.iter().find(|(name, _)| *name == call.program) else {
        return false;
    };
    let is_elsewhere = |text: &str| {
        NO_STDIN_OPTIONS.iter().any(|option| {
            text == *option
                || option.len() == 2
                    && !text.starts_with("--")
                    && text.starts_with('-')
                    && text.ends_with(&option[1..])
        })
    };
    // With an option from the list, the programs named here do not read standard input. In other
    // programs the same letters have another meaning: `read -r`, `sort -n`, `sed -n x`.
    let has_own = matches!(
        call.program.as_str(),
        "bash"
            | "dash"
            | "grep"
            | "jq"
            | "mysql"
            | "node"
            | "psql"
            | "python"
            | "python3"
            | "sh"
            | "ssh"
            | "xargs"
            | "zsh"
    ) && call.args.iter().any(|arg| is_elsewhere(&arg.text));
    let operands = call.args.iter().filter(|arg| arg.text == "-" || !arg.text.starts_with('-'));
    !has_own && operands.filter(|arg| arg.text != "-").count() < *words
}

#[cfg(test)]
mod tests {
    use crate::resolve::{Construct, Observation, walk};

    fn reports_taken_input(text: &str) -> bool {
        let (seen, _) = walk(text, &[]);
        seen.iter().any(|seen| {
            matches!(seen, Observation::Construct { construct: Construct::InputTaken, .. })
        })
    }

    #[test]
    fn commands_that_consume_shared_stdin_are_reported() {
        for text in [
            "eval 'cat\necho b'",
            "eval 'read x; echo $x'",
            "bash <<'E'\ncat\nls\nE",
            "bash <<'E'\nread x\nls\nE",
            "ssh h <<'E'\nssh other uptime\nls\nE",
            "printf 'cat\\nls\\n' | sh",
        ] {
            assert!(reports_taken_input(text), "{text}");
        }
        for text in [
            "eval 'cat'",
            "eval 'cat x\necho b'",
            "eval 'ls\ncat'",
            "eval 'ls\necho b'",
            "bash <<'E'\ncat x\nls\nE",
            "bash <<'E'\ncat <<X\na\nX\nls\nE",
            "bash <<'E'\nls\ncat\nE",
            "bash <<'E'\nls | grep x\nls\nE",
            "bash <<'E'\npsql -c 'select 1'\nls\nE",
            "bash <<'E'\nwhile read l; do echo $l; done < f\nls\nE",
            "cat\nls",
        ] {
            assert!(!reports_taken_input(text), "{text}");
        }
    }
}
