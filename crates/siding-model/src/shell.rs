//! Recognition of command texts that only run one program with plain words as arguments. siding can
//! execute such a program without starting bash.

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
