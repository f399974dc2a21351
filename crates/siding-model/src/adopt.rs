//! Adoption: what can be told of a command that somebody else has started.

use crate::id::SessionId;
use crate::process::ProcRef;
use crate::spec::Command;

/// Programs that stand between a host and the shell that it started: shells, and what only starts
/// another program. What owns the conversation is above them.
const BETWEEN: [&str; 26] = [
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

/// Most bytes of a host's name in the name of its session.
const NAME_MAX: usize = 16;

/// Whether a program of this name only stands between a host and its shell.
#[must_use]
pub fn is_between(program: &str) -> bool {
    BETWEEN.binary_search(&program).is_ok()
}

/// Returns the name of the session of a host that has opened none: the same for the whole life of
/// the process, and never that of another.
///
/// # Panics
///
/// Never: only what a name may hold is left.
#[must_use]
pub fn session_of(host: &str, process: ProcRef) -> SessionId {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = host.chars().take(NAME_MAX).map(plain).collect();
    let name = name.trim_matches('-');
    let name = if name.is_empty() { "host" } else { name };
    let ProcRef { pid, start_ticks } = process;
    format!("{name}-{pid}-{start_ticks}").parse().expect("only plain characters, and not many")
}

/// Returns what a process runs, from the words of its command line.
#[must_use]
pub fn command_of(words: &[String]) -> Command {
    match text_of(words) {
        Some(text) => Command::Shell {
            text: hosts_text(text).unwrap_or_else(|| text.to_owned()),
            shell: words[0].trim_start_matches('-').to_owned(),
        },
        None if words.is_empty() => Command::Argv { argv: vec!["?".to_owned()] },
        None => Command::Argv { argv: words.to_vec() },
    }
}

/// Returns the command that a host runs by a shell of its own, where that shell's text stands in these
/// words: its own, or those of what will start it, quoted once more for each shell in between.
#[must_use]
pub fn hosts_command(words: &[String]) -> Option<Command> {
    /// Shells around the host's that are looked into.
    const AROUND_MOST: u32 = 4;
    // The rest of a program's words, behind its options, may be a shell's.
    (0..words.len()).find_map(|from| quoted_command(text_of(&words[from..])?, AROUND_MOST))
}

/// Returns the command of a host's text, or of one that stands in this text as a shell's word.
fn quoted_command(text: &str, around: u32) -> Option<Command> {
    if let Some(text) = hosts_text(text) {
        return Some(Command::Shell { text, shell: "bash".to_owned() });
    }
    let mut texts = text.match_indices(WITH_TEXT).map(|(at, _)| &text[at + WITH_TEXT.len()..]);
    let inner = |rest| quoted_command(&first_word(rest)?, around.checked_sub(1)?);
    texts.find_map(inner)
}

/// What stands before a shell's text in the text of another.
const WITH_TEXT: &str = " -c ";

/// Returns the command that a host runs by the shell whose words these are.
#[must_use]
pub fn hosts_shell(words: &[String]) -> Option<Command> {
    let text = hosts_text(text_of(words)?)?;
    Some(Command::Shell { text, shell: words[0].trim_start_matches('-').to_owned() })
}

/// Whether these are the words of a shell that was given its text by `-c`.
#[must_use]
pub fn is_shell_with_text(words: &[String]) -> bool {
    let name = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    is_between(name.trim_start_matches('-')) && text_of(words).is_some()
}

/// Returns the text that a shell was started with by `-c`.
fn text_of(words: &[String]) -> Option<&str> {
    let mut rest = words.iter().skip(1);
    let mut has_text = false;
    while let Some(word) = rest.next() {
        let Some(letters) = word.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty())
        else {
            return has_text.then_some(word.as_str());
        };
        if letters.starts_with('-') {
            // `--norc`; `--` ends the options.
            if letters == "-" {
                return if has_text { rest.next().map(String::as_str) } else { None };
            }
            continue;
        }
        has_text |= word.starts_with('-') && letters.contains('c');
        // `-o pipefail`, also as `-euo pipefail`.
        if letters.ends_with(['o', 'O']) {
            rest.next();
        }
    }
    None
}

/// What stands before and behind the command in the text of a Claude Code shell: it restores the
/// shell's state, runs the command by `eval`, and notes the directory.
const BEFORE: &str = "&& eval ";
const BEHIND: &str = " && pwd -P >| ";

/// How the command begins in the text of a shell around the host's shell: with a quote that was
/// quoted itself. Its words are those of the inner shell's text, not the command's.
const QUOTED_AGAIN: &str = r#"'"'"'"#;

/// How the text of a Codex shell begins, and what stands before the shell and the command that it
/// becomes when it has restored the environment (0.169.0).
const CODEX: &str = "__CODEX_SNAPSHOT";
const BECOMES: &str = "\n\nexec ";

/// Returns the command that a host has wrapped into a text of its own, `None` where it is not known
/// to have.
fn hosts_text(text: &str) -> Option<String> {
    if text.starts_with(CODEX) {
        let (_, becomes) = text.split_once(BECOMES)?;
        return match unquoted(becomes)?.as_slice() {
            [_shell, flag, command] if flag.starts_with('-') => Some(command.clone()),
            _ => None,
        };
    }
    let (_, rest) = text.split_once(BEFORE)?;
    if rest.starts_with(QUOTED_AGAIN) {
        return None;
    }
    let (quoted, _) = rest.rsplit_once(BEHIND)?;
    let mut words = unquoted(quoted)?;
    // The host's own redirection, not the command's.
    if words.ends_with(&["<".to_owned(), "/dev/null".to_owned()]) {
        words.truncate(words.len() - 2);
    }
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the first word of a text as a shell would take it.
fn first_word(text: &str) -> Option<String> {
    let mut chars = text.chars();
    let mut word = None;
    loop {
        match next_part(&mut chars, &mut word)? {
            Part::OfWord => {}
            Part::Between | Part::End => return word,
        }
    }
}

/// Returns the words of a text as a shell would take them, `None` when a quote is left open.
fn unquoted(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    loop {
        match next_part(&mut chars, &mut word)? {
            Part::OfWord => {}
            Part::Between => words.extend(word.take()),
            Part::End => {
                words.extend(word.take());
                return Some(words);
            }
        }
    }
}

/// What a shell has read.
enum Part {
    OfWord,
    Between,
    End,
}

/// Reads one quoted part, one character, or what stands between two words. `None` when a quote is left
/// open.
fn next_part(chars: &mut std::str::Chars<'_>, word: &mut Option<String>) -> Option<Part> {
    let Some(c) = chars.next() else { return Some(Part::End) };
    match c {
        ' ' | '\t' => return Some(Part::Between),
        '\'' | '"' => {
            let (inside, after) = chars.as_str().split_once(c)?;
            word.get_or_insert_default().push_str(inside);
            *chars = after.chars();
        }
        '\\' => word.get_or_insert_default().push(chars.next()?),
        other => word.get_or_insert_default().push(other),
    }
    Some(Part::OfWord)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_codex_shell_is_found() {
        let text = "__CODEX_SNAPSHOT_OVERRIDE_SET_0=\"${A+x}\"\n\nif . '/h/s.sh'; then :; fi\n\n\
                    exec '/bin/bash' -c 'echo '\\''a b'\\''; make\n\nexec true'";
        assert_eq!(shell(&["/bin/bash", "-c", text]), "/bin/bash: echo 'a b'; make\n\nexec true");
        let strange = "__CODEX_SNAPSHOT=1\n\nexec a b c d";
        assert_eq!(shell(&["/bin/bash", "-c", strange]), format!("/bin/bash: {strange}"));
    }

    fn shell(line: &[&str]) -> String {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        match command_of(&words) {
            Command::Shell { text, shell } => format!("{shell}: {text}"),
            Command::Argv { argv } => argv.join("|"),
        }
    }

    #[test]
    fn the_text_of_a_shell_is_its_command() {
        assert_eq!(shell(&["bash", "-c", "make"]), "bash: make");
        assert_eq!(shell(&["/bin/bash", "-c", "-l", "make", "x"]), "/bin/bash: make");
        assert_eq!(shell(&["bash", "-lc", "make"]), "bash: make");
        assert_eq!(shell(&["bash", "-euo", "pipefail", "-c", "a; b"]), "bash: a; b");
        assert_eq!(shell(&["bash", "--norc", "+e", "-c", "--", "a"]), "bash: a");
        assert_eq!(shell(&["bash", "-e", "build.sh", "-c", "x"]), "bash|-e|build.sh|-c|x");
        assert_eq!(shell(&["bash"]), "bash");
        assert_eq!(shell(&["bash", "-c"]), "bash|-c");
        assert_eq!(shell(&[]), "?");
    }

    #[test]
    fn the_command_inside_a_hosts_text_is_found() {
        let wrapped = |command: &str| {
            let text = format!(
                "source /h/.claude/shell-snapshots/s.sh 2>/dev/null || true && shopt -u extglob \
                 2>/dev/null || true && eval {command} && pwd -P >| /tmp/claude-1-cwd"
            );
            shell(&["/bin/bash", "-c", &text])
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
    fn a_hosts_session_has_a_name() {
        let process = ProcRef { pid: 7, start_ticks: 99 };
        for (host, name) in [
            ("codex", "codex-7-99"),
            ("tmux: server", "tmux--server-7-99"),
            ("../.", "host-7-99"),
            ("", "host-7-99"),
            (&"x".repeat(400), "xxxxxxxxxxxxxxxx-7-99"),
        ] {
            assert_eq!(session_of(host, process).as_str(), name);
        }
    }

    #[test]
    fn the_programs_between_are_sorted_for_the_search() {
        assert!(BETWEEN.is_sorted());
        assert!(is_between("bash") && is_between("timeout") && !is_between("node"));
    }
}
