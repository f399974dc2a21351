//! Recognition of command texts that only run one program with plain words as arguments, which
//! siding can execute without starting bash, and of commands that only a shell can run.

use std::path::Path;

use crate::shell_words::{join_quoted, quote_word};
use crate::spec::TaskCommand;

/// The builtins and keywords of bash 5.2 (`compgen -b` and `compgen -k`), sorted. A text whose
/// first word is in this list does not run the program with that name.
const BASH_BUILTINS_AND_KEYWORDS: [&str; 83] = [
    "!",
    ".",
    ":",
    "[",
    "[[",
    "]]",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
    "{",
    "}",
];

/// Variables that change how bash interprets a plain text. These variables name files that bash
/// reads first, set options, hide programs, or define functions, which may have the name of a
/// program.
const BASH_BEHAVIOR_VARIABLES: [&str; 7] = [
    "BASH_ENV=",
    "BASH_FUNC_",
    "BASHOPTS=",
    "SHELLOPTS=",
    "POSIXLY_CORRECT=",
    "BASH_COMPAT=",
    "EXECIGNORE=",
];

/// Returns the words of a text if `bash -c` would only execute the program that the first word
/// names. Returns `None` for any other text and in case of doubt.
#[must_use]
pub fn plain_program_words(text: &str) -> Option<Vec<&str>> {
    let text = text.trim_matches([' ', '\t', '\n']);
    let plain = |c: char| c.is_ascii_alphanumeric() || " \t_-./:@%+,=".contains(c);
    if !text.chars().all(plain) {
        return None;
    }
    let words: Vec<&str> = text.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let first = *words.first()?;
    // The first word is an assignment (`A=1`) or a job (`%1`).
    if first.contains(['=', '%']) {
        return None;
    }
    // Without arguments, the builtins `true` and `false` do the same as the programs.
    let is_same = matches!(words.as_slice(), ["true" | "false"]);
    (is_same || BASH_BUILTINS_AND_KEYWORDS.binary_search(&first).is_err()).then_some(words)
}

/// First words of a command after which it is not certain that the next commands run, or that they
/// have the input of the shell.
const CONTROL_WORDS: [&str; 11] =
    ["case", "exec", "exit", "for", "function", "if", "return", "select", "set", "until", "while"];

/// Returns whether a shell that runs this text certainly calls its builtin `read`, with the standard
/// input of the shell. Returns false in case of doubt: for a text with a redirection, a pipe, a group,
/// a branch or a loop.
#[must_use]
pub fn calls_read(text: &str) -> bool {
    // The commands, with `'` in place of quoted texts.
    let mut list = String::new();
    let mut quote = None;
    let mut is_escaped = false;
    for c in text.chars() {
        match (quote, c) {
            (Some('"'), '\\') if !is_escaped => {
                is_escaped = true;
                continue;
            }
            (Some(open), _) if c == open && !is_escaped => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => {
                quote = Some(c);
                list.push('\'');
            }
            (None, '\\' | '<' | '|' | '(' | ')' | '{' | '`' | '#') => return false,
            (None, _) => list.push(c),
        }
        is_escaped = false;
    }
    let mut calls = false;
    for command in list.split([';', '\n']) {
        let first = command.split_whitespace().next().unwrap_or_default();
        if CONTROL_WORDS.binary_search(&first).is_ok() {
            return false;
        }
        // `-u` reads from another descriptor.
        calls |= first == "read" && !command.contains(" -u");
    }
    calls
}

/// Shells that read the aliases and functions of their user with `-ic`.
const INTERACTIVE_SHELLS: [&str; 4] = ["bash", "fish", "ksh", "zsh"];

/// Returns advice about a command whose program was not found, if a shell could have run it: a
/// builtin of the shell, a line without quotes, or an alias. `login_shell` is the person's shell.
#[must_use]
pub fn not_found_advice(
    command: &TaskCommand,
    login_shell: &str,
    is_program: impl Fn(&str) -> bool,
) -> Option<String> {
    let words: Vec<&str> = match command {
        TaskCommand::Argv { argv } => argv.iter().map(String::as_str).collect(),
        TaskCommand::Shell { text, .. } => plain_program_words(text)?,
    };
    let (first, arguments) = words.split_first()?;
    let first = *first;
    let program = first.split_whitespace().next().unwrap_or_default();
    // The first of several words is a part of a line, as in `siding run 'echo a' b`, unless it is a
    // path with a blank.
    let is_line = program != first && !program.contains('/');
    let start = if is_line { first.to_owned() } else { quote_argument(first) };
    let arguments = arguments.iter().map(|word| quote_argument(word));
    let line = std::iter::once(start).chain(arguments).collect::<Vec<_>>().join(" ");
    let is_builtin = BASH_BUILTINS_AND_KEYWORDS.binary_search(&first).is_ok();
    let has_operator = words.iter().any(|word| is_shell_operator(word));
    if is_builtin || has_operator || is_line {
        let line = if is_builtin && !has_operator { format!("{line}; COMMAND") } else { line };
        let call = format_run_call(&[line.as_str()]);
        return Some(format!("quote a line for the shell as one word: `{call}`"));
    }
    if first.contains('/') || is_program(first) {
        return None;
    }
    if is_assignment(first) {
        let call = format_run_call(&[line.as_str()]);
        return Some(format!("set a variable with `--env {first}`, or quote the line: `{call}`"));
    }
    let name = Path::new(login_shell).file_name().and_then(|name| name.to_str());
    let shell = name.filter(|name| INTERACTIVE_SHELLS.contains(name)).unwrap_or("bash");
    let call = format_run_call(&[shell, "-ic", line.as_str()]);
    Some(format!("if `{first}` is an alias or a function of your shell: `{call}`"))
}

/// Returns whether a word sets a variable: `NAME=VALUE`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns whether an argument is an operator of the shell, or ends with the end of a command.
fn is_shell_operator(word: &str) -> bool {
    word.ends_with(';') || matches!(word, "&&" | "||" | "|" | "&" | ">" | ">>" | "<")
}

/// Quotes an argument for a shell, except an operator.
fn quote_argument(word: &str) -> String {
    if is_shell_operator(word) { word.to_owned() } else { quote_word(word) }
}

/// Returns a call of `siding run` with these words, quoted for a shell.
fn format_run_call(words: &[&str]) -> String {
    join_quoted(["siding", "run", "--"].iter().chain(words))
}

/// Returns whether an environment variable, given as `NAME=value`, does not change how bash
/// interprets a plain text.
#[must_use]
pub fn has_no_effect_on_bash(variable: &[u8]) -> bool {
    !BASH_BEHAVIOR_VARIABLES.iter().any(|name| variable.starts_with(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_program_words_are_split() {
        assert_eq!(plain_program_words("true"), Some(vec!["true"]));
        assert_eq!(
            plain_program_words(" cargo  build --release\t-p=x \n"),
            Some(vec!["cargo", "build", "--release", "-p=x"])
        );
        assert_eq!(
            plain_program_words("./run.sh a:b c@d 50%"),
            Some(vec!["./run.sh", "a:b", "c@d", "50%"])
        );
    }

    #[test]
    fn shell_syntax_is_left_to_the_shell() {
        for text in [
            "", " ", "a;b", "a|b", "a&", "a\nb", "a 'b'", "a \"b\"", "a $b", "a `b`", "a *", "a ?",
            "a [b]", "a {b,c}", "a ~", "a ~/b", "a >b", "a <b", "a (b)", "a #b", "a !b", "a \\b",
            "a^b", "A=1 a", "A=1", "%1", "cd /", "exec a", "echo hi", "kill 1", "true x", "time a",
            "if a", "[ a ]", ". a", ": a", "ä", "a\0b", "a\rb", "a\u{b}b",
        ] {
            assert_eq!(plain_program_words(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_certain_call_of_read_is_recognized() {
        assert!(CONTROL_WORDS.is_sorted());
        for text in [
            "read",
            "read -p 'go; on? ' x && echo $x",
            "printf \"a\\\"; \"; read -r a",
            "echo Name\nread name\necho \"hi $name\"",
        ] {
            assert!(calls_read(text), "{text:?}");
        }
        for text in [
            "",
            "ready",
            "echo read",
            "echo 'a; read b'",
            "read x < file",
            "ls | while read x; do y; done",
            "if false; then a; read x; fi",
            "f() { read x; }",
            "true || read x",
            "a && read x",
            "exit 0; read x",
            "read -u 3 x",
            "# read\nread",
            "a | b; read x",
        ] {
            assert!(!calls_read(text), "{text:?}");
        }
    }

    #[test]
    fn a_command_that_only_a_shell_can_run_is_recognized() {
        let advice_for_words = |words: &[&str]| {
            let argv = words.iter().map(|word| (*word).to_owned()).collect();
            not_found_advice(&TaskCommand::Argv { argv }, "/bin/sh", |name| name == "make")
        };
        for (words, call) in [
            (&["cd", "dir;", "make"][..], "`siding run -- 'cd dir; make'`"),
            (&["cd", "dir", "&&", "make"], "`siding run -- 'cd dir && make'`"),
            (&["cd", "dir"], "`siding run -- 'cd dir; COMMAND'`"),
            (&["make;", "./run"], "`siding run -- 'make; ./run'`"),
            (&["ll", "-a"], "`siding run -- bash -ic 'll -a'`"),
            (&["FOO=1", "env"], "`siding run -- 'FOO=1 env'`"),
            (&["echo a", "b"], "`siding run -- 'echo a b'`"),
            (&["make -C a/b", "&&", "./run"], "`siding run -- 'make -C a/b && ./run'`"),
        ] {
            let advice = advice_for_words(words).expect("advice");
            assert!(advice.ends_with(call), "{advice}");
        }
        for words in [&["./cd"][..], &["make", "all"], &["/opt/my app/run", "x"], &[]] {
            assert_eq!(advice_for_words(words), None, "{words:?}");
        }
        let advice_for_text = |text: &str| {
            let command = TaskCommand::Shell { text: text.to_owned(), shell: "bash".to_owned() };
            not_found_advice(&command, "/usr/bin/zsh", |_| false)
        };
        let advice = advice_for_text("ll -a").expect("advice");
        assert!(advice.ends_with("`siding run -- zsh -ic 'll -a'`"), "{advice}");
        assert_eq!(advice_for_text("make | ll"), None);
    }

    #[test]
    fn builtins_and_keywords_are_sorted_for_binary_search() {
        assert!(BASH_BUILTINS_AND_KEYWORDS.is_sorted());
    }

    #[test]
    fn variables_that_change_bash_are_detected() {
        for name in BASH_BEHAVIOR_VARIABLES {
            assert!(!has_no_effect_on_bash(format!("{name}x").as_bytes()), "{name}");
        }
        assert!(has_no_effect_on_bash(b"BASH=/bin/bash") && has_no_effect_on_bash(b"PATH=/bin"));
    }
}
