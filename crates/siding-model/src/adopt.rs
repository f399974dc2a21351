//! Adoption of a process that siding did not start: derives the command from the process's command
//! line, and the name of a session from its host.

use crate::id::SessionId;
use crate::process::ProcRef;
use crate::spec::TaskCommand;

/// Programs that may run between a host and its command: shells, and programs that only start
/// another program. The search for the host in the process tree skips these programs.
const WRAPPER_PROGRAMS: [&str; 26] = [
    "ash",
    "bash",
    "busybox",
    "bwrap",
    "codex-linux-sandbox",
    "dash",
    "doas",
    "env",
    "firejail",
    "fish",
    "ionice",
    "ksh",
    "mksh",
    "nice",
    "nohup",
    "prlimit",
    "script",
    "setpriv",
    "setsid",
    "sh",
    "stdbuf",
    "su",
    "sudo",
    "timeout",
    "unshare",
    "zsh",
];

/// Characters at the start of a host's name that become part of the session's name.
const MAX_HOST_NAME_CHARS: usize = 16;

/// Returns whether a program of this name may run between a host and the host's command: a shell,
/// or a program that only starts another program.
#[must_use]
pub fn is_wrapper_program(program: &str) -> bool {
    WRAPPER_PROGRAMS.binary_search(&program).is_ok()
}

/// Returns the session name for a host that has opened no session. The name contains the host
/// process's pid and start time, so the names of two host processes differ.
///
/// # Panics
///
/// Never: characters that a session name does not allow are replaced.
#[must_use]
pub fn session_for_host(host: &str, process: ProcRef) -> SessionId {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = host.chars().take(MAX_HOST_NAME_CHARS).map(plain).collect();
    let name = name.trim_matches('-');
    let name = if name.is_empty() { "host" } else { name };
    let ProcRef { pid, start_ticks } = process;
    format!("{name}-{pid}-{start_ticks}").parse().expect("only allowed characters are left")
}

/// Returns the command that a process runs, derived from its argument vector; `?` if the vector is
/// empty.
#[must_use]
pub fn command_from_argv(words: &[String]) -> TaskCommand {
    match dash_c_text(words) {
        Some(text) => TaskCommand::Shell {
            text: unwrap_host_text(text).unwrap_or_else(|| text.to_owned()),
            shell: words[0].trim_start_matches('-').to_owned(),
        },
        None if words.is_empty() => TaskCommand::Argv { argv: vec!["?".to_owned()] },
        None => TaskCommand::Argv { argv: words.to_vec() },
    }
}

/// Finds the command that a host runs in a shell, from the argument vector of this shell or of a
/// program around it. The shell's `-c` text is an argument in `words`, or part of the text of an
/// outer shell, where it is quoted once more for each shell around it. Returns `None` if no text is
/// the wrapper text of a known host.
#[must_use]
pub fn find_host_command(words: &[String]) -> Option<TaskCommand> {
    /// Maximum number of outer shells whose text is searched.
    const MAX_SHELL_NESTING: u32 = 4;
    // Each suffix is tried: `bwrap OPTIONS bash -c TEXT` contains the shell's argument vector.
    (0..words.len())
        .find_map(|from| find_quoted_command(dash_c_text(&words[from..])?, MAX_SHELL_NESTING))
}

/// Returns the command from a host's wrapper text, or from a wrapper text that this text passes to
/// an inner shell with `-c`.
fn find_quoted_command(text: &str, nesting_left: u32) -> Option<TaskCommand> {
    if let Some(text) = unwrap_host_text(text) {
        return Some(TaskCommand::Shell { text, shell: "bash".to_owned() });
    }
    let mut texts = text.match_indices(DASH_C).map(|(at, _)| &text[at + DASH_C.len()..]);
    let inner = |rest| find_quoted_command(&first_word(rest)?, nesting_left.checked_sub(1)?);
    texts.find_map(inner)
}

/// The option that precedes an inner shell's text inside the text of the outer shell.
const DASH_C: &str = " -c ";

/// Returns the command that a host runs in the shell with this argument vector, or `None` if the
/// shell's `-c` text is not the wrapper text of a known host.
#[must_use]
pub fn host_shell_command(words: &[String]) -> Option<TaskCommand> {
    let text = unwrap_host_text(dash_c_text(words)?)?;
    Some(TaskCommand::Shell { text, shell: words[0].trim_start_matches('-').to_owned() })
}

/// Returns whether the words are the argument vector of a shell, or of another wrapper program,
/// with the option `-c`.
#[must_use]
pub fn is_shell_with_dash_c(words: &[String]) -> bool {
    let name = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    is_wrapper_program(name.trim_start_matches('-')) && dash_c_text(words).is_some()
}

/// Returns the argument of a shell's option `-c`.
fn dash_c_text(words: &[String]) -> Option<&str> {
    let mut rest = words.iter().skip(1);
    let mut has_text = false;
    while let Some(word) = rest.next() {
        let Some(letters) = word.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty())
        else {
            return has_text.then_some(word.as_str());
        };
        if letters.starts_with('-') {
            // `--` ends the options; other long options, such as `--norc`, are skipped.
            if letters == "-" {
                return if has_text { rest.next().map(String::as_str) } else { None };
            }
            continue;
        }
        has_text |= word.starts_with('-') && letters.contains('c');
        // `-o` takes a value, even as the last of several letters, as in `-euo pipefail`.
        if letters.ends_with(['o', 'O']) {
            rest.next();
        }
    }
    None
}

/// The texts before and after the quoted command in the `-c` text of Claude Code. The `-c` text
/// restores the shell's state, runs the command with `eval`, and writes the working directory to a
/// file.
const CLAUDE_EVAL_PREFIX: &str = "&& eval ";
const CLAUDE_PWD_SUFFIX: &str = " && pwd -P >| ";

/// A quote that was itself quoted: the start of the command when the wrapper text is nested in the
/// text of an outer shell. The outer shell's quoting has to be removed before the command is split
/// into words.
const NESTED_QUOTE: &str = r#"'"'"'"#;

/// The start of the `-c` text of Codex 0.169.0. The text restores the environment and then replaces
/// the shell with `exec SHELL -c COMMAND`.
const CODEX_TEXT_PREFIX: &str = "__CODEX_SNAPSHOT";
const CODEX_EXEC: &str = "\n\nexec ";

/// Returns the command inside a host's wrapper text, or `None` if the text is not a known wrapper.
fn unwrap_host_text(text: &str) -> Option<String> {
    if text.starts_with(CODEX_TEXT_PREFIX) {
        let (_, becomes) = text.split_once(CODEX_EXEC)?;
        return match split_shell_words(becomes)?.as_slice() {
            [_shell, flag, command] if flag.starts_with('-') => Some(command.clone()),
            _ => None,
        };
    }
    let (_, rest) = text.split_once(CLAUDE_EVAL_PREFIX)?;
    if rest.starts_with(NESTED_QUOTE) {
        return None;
    }
    let (quoted, _) = rest.rsplit_once(CLAUDE_PWD_SUFFIX)?;
    let mut words = split_shell_words(quoted)?;
    // Claude Code adds this redirection to every command.
    if words.ends_with(&["<".to_owned(), "/dev/null".to_owned()]) {
        words.truncate(words.len() - 2);
    }
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the first word of a text, split as in [`split_shell_words`]. Returns `None` if the text
/// is empty or starts with a blank, or if the word ends in an open quote or in a backslash.
fn first_word(text: &str) -> Option<String> {
    let mut chars = text.chars();
    let mut word = None;
    loop {
        match next_shell_token(&mut chars, &mut word)? {
            ShellToken::InWord => {}
            ShellToken::Separator | ShellToken::End => return word,
        }
    }
}

/// Returns the words of a text, split at blanks outside quotes, without the quotes and backslashes.
/// A backslash inside double quotes is kept. Returns `None` when a quote is not closed, or a
/// backslash is the last character.
fn split_shell_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    loop {
        match next_shell_token(&mut chars, &mut word)? {
            ShellToken::InWord => {}
            ShellToken::Separator => words.extend(word.take()),
            ShellToken::End => {
                words.extend(word.take());
                return Some(words);
            }
        }
    }
}

/// The effect of one shell token on the current word.
enum ShellToken {
    InWord,
    Separator,
    End,
}

/// Reads one quoted part, one character, or the separator between two words, and appends characters
/// to `word`. Returns `None` when a quote is not closed, or a backslash is the last character.
fn next_shell_token(
    chars: &mut std::str::Chars<'_>,
    word: &mut Option<String>,
) -> Option<ShellToken> {
    let Some(c) = chars.next() else { return Some(ShellToken::End) };
    match c {
        ' ' | '\t' => return Some(ShellToken::Separator),
        '\'' | '"' => {
            let (inside, after) = chars.as_str().split_once(c)?;
            word.get_or_insert_default().push_str(inside);
            *chars = after.chars();
        }
        '\\' => word.get_or_insert_default().push(chars.next()?),
        other => word.get_or_insert_default().push(other),
    }
    Some(ShellToken::InWord)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_inside_a_codex_shell_is_found() {
        let text = "__CODEX_SNAPSHOT_OVERRIDE_SET_0=\"${A+x}\"\n\nif . '/h/s.sh'; then :; fi\n\n\
                    exec '/bin/bash' -c 'echo '\\''a b'\\''; make\n\nexec true'";
        assert_eq!(
            describe_command(&["/bin/bash", "-c", text]),
            "/bin/bash: echo 'a b'; make\n\nexec true"
        );
        let strange = "__CODEX_SNAPSHOT=1\n\nexec a b c d";
        assert_eq!(
            describe_command(&["/bin/bash", "-c", strange]),
            format!("/bin/bash: {strange}")
        );
    }

    fn describe_command(line: &[&str]) -> String {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        match command_from_argv(&words) {
            TaskCommand::Shell { text, shell } => format!("{shell}: {text}"),
            TaskCommand::Argv { argv } => argv.join("|"),
        }
    }

    #[test]
    fn the_dash_c_text_of_a_shell_is_its_command() {
        assert_eq!(describe_command(&["bash", "-c", "make"]), "bash: make");
        assert_eq!(describe_command(&["/bin/bash", "-c", "-l", "make", "x"]), "/bin/bash: make");
        assert_eq!(describe_command(&["bash", "-lc", "make"]), "bash: make");
        assert_eq!(describe_command(&["bash", "-euo", "pipefail", "-c", "a; b"]), "bash: a; b");
        assert_eq!(describe_command(&["bash", "--norc", "+e", "-c", "--", "a"]), "bash: a");
        assert_eq!(
            describe_command(&["bash", "-e", "build.sh", "-c", "x"]),
            "bash|-e|build.sh|-c|x"
        );
        assert_eq!(describe_command(&["bash"]), "bash");
        assert_eq!(describe_command(&["bash", "-c"]), "bash|-c");
        assert_eq!(describe_command(&[]), "?");
    }

    #[test]
    fn the_command_inside_a_host_wrapper_text_is_found() {
        let wrapped = |command: &str| {
            let text = format!(
                "source /h/.claude/shell-snapshots/s.sh 2>/dev/null || true && shopt -u extglob \
                 2>/dev/null || true && eval {command} && pwd -P >| /tmp/claude-1-cwd"
            );
            describe_command(&["/bin/bash", "-c", &text])
        };
        assert_eq!(wrapped(r"'npm test' \< /dev/null"), "/bin/bash: npm test");
        assert_eq!(
            wrapped(r#"'echo '"'"'a b'"'"' && x' \< /dev/null"#),
            "/bin/bash: echo 'a b' && x"
        );
        assert_eq!(wrapped("ls"), "/bin/bash: ls");
        assert!(wrapped("'left open").contains("&& eval 'left open"));
    }

    #[test]
    fn a_host_session_is_named_after_its_process() {
        let process = ProcRef { pid: 7, start_ticks: 99 };
        for (host, name) in [
            ("codex", "codex-7-99"),
            ("tmux: server", "tmux--server-7-99"),
            ("../.", "host-7-99"),
            ("", "host-7-99"),
            (&"x".repeat(400), "xxxxxxxxxxxxxxxx-7-99"),
        ] {
            assert_eq!(session_for_host(host, process).as_str(), name);
        }
    }

    #[test]
    fn wrapper_programs_are_sorted_for_binary_search() {
        assert!(WRAPPER_PROGRAMS.is_sorted());
        assert!(
            is_wrapper_program("bash")
                && is_wrapper_program("timeout")
                && !is_wrapper_program("node")
        );
    }
}
