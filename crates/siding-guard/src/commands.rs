//! Lists those simple commands of a shell text for which the shell waits.

use siding_model::history::SimpleCommand;

use crate::ast::{GroupKind, Node, Origin, Statement, Word};
use crate::parse::parse;

/// Returns the simple commands that a bash text runs and waits for, in order: the commands in
/// lists, pipelines, groups, loops and branches. Returns `None` for a text that does not parse or
/// exceeds a limit of the parser, such as [`MAX_SCRIPT_BYTES`](crate::MAX_SCRIPT_BYTES).
///
/// Background commands (`&`, `coproc`), bodies of functions, commands inside words such as `$(…)`,
/// declarations such as `export`, jumps such as `exit`, and `[[ … ]]` and `(( … ))` are omitted.
#[must_use]
pub fn simple_commands(text: &str) -> Option<Vec<SimpleCommand>> {
    let parsed = parse(text, Origin::Verbatim(0));
    if !parsed.errors.is_empty() {
        return None;
    }
    let mut found = vec![];
    collect_commands(&parsed.statements, &mut found);
    Some(found)
}

fn collect_commands(statements: &[Statement], found: &mut Vec<SimpleCommand>) {
    for one in statements.iter().filter(|statement| !statement.is_background) {
        match &one.node {
            Node::Simple { words, .. } if !words.is_empty() => {
                found.push(SimpleCommand { words: words.iter().map(Word::static_text).collect() });
            }
            Node::Pipeline(parts) | Node::Chain(parts) => collect_commands(parts, found),
            Node::Group { body, kind: GroupKind::CurrentShell | GroupKind::Subshell } => {
                collect_commands(body, found);
            }
            Node::Branches { always, maybe, .. } => {
                collect_commands(always, found);
                for branch in maybe {
                    collect_commands(branch, found);
                }
            }
            Node::Loop(each) => {
                collect_commands(&each.condition, found);
                collect_commands(&each.body, found);
            }
            // The shell does not wait for a coprocess.
            Node::Group { kind: GroupKind::Coprocess, .. }
            | Node::Simple { .. }
            | Node::Declaration { .. }
            | Node::Function { .. }
            | Node::Expression(_)
            | Node::Jump { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use siding_model::history::known_slow_words;

    use super::*;
    use crate::parse::MAX_SCRIPT_BYTES;

    /// Returns the commands as lines, with `?` for a word that only the running shell knows.
    fn command_lines(text: &str) -> Vec<String> {
        let commands = simple_commands(text).unwrap_or_else(|| panic!("`{text}` parses"));
        let line = |command: &SimpleCommand| {
            let words = command.words.iter().map(|word| word.as_deref().unwrap_or("?"));
            words.collect::<Vec<_>>().join("|")
        };
        commands.iter().map(line).collect()
    }

    #[test]
    fn words_are_unquoted_as_the_shell_does() {
        for (text, expected) in [
            ("cargo build", &["cargo|build"][..]),
            ("A=1 B=2 make -j2 >log 2>&1", &["make|-j2"]),
            ("A=1", &[]),
            ("git commit -m \"run the tests\"", &["git|commit|-m|run the tests"]),
            ("r\"\"m 'a b' c\\ d", &["rm|a b|c d"]),
            ("$CC -c x.c", &["?|-c|x.c"]),
            ("cd a && make | tee log; echo done", &["cd|a", "make", "tee|log", "echo|done"]),
            ("if test -d x; then npm ci; else npm i; fi", &["test|-d|x", "npm|ci", "npm|i"]),
            ("for i in 1 2; do pytest $i; done", &["pytest|?"]),
            ("(make; { ninja; })", &["make", "ninja"]),
            ("time cargo test", &["cargo|test"]),
            ("! make", &["make"]),
            ("while sleep 1; do make; done", &["sleep|1", "make"]),
            ("case x in a) make;; esac", &["make"]),
            ("# make\necho x", &["echo|x"]),
        ] {
            assert_eq!(command_lines(text), expected, "{text}");
        }
    }

    #[test]
    fn background_and_nested_commands_are_left_out() {
        for text in ["make &", "f() { make; }", "coproc make", "cat <<'E'\nmake\nE"] {
            assert!(!command_lines(text).iter().any(|line| line.starts_with("make")), "{text}");
        }
        assert_eq!(command_lines("make & ninja"), ["ninja"]);
        assert_eq!(command_lines("echo \"$(make)\""), ["echo|?"]);
    }

    #[test]
    fn unparsable_or_oversized_text_returns_none() {
        for text in ["make 'never closed", "if make", "make )", "fi"] {
            assert_eq!(simple_commands(text), None, "{text}");
        }
        assert_eq!(simple_commands(&format!("make {}", "x".repeat(MAX_SCRIPT_BYTES))), None);
        assert_eq!(simple_commands(""), Some(Vec::new()));
    }

    /// A recursive parser can overflow its stack on deeply nested input.
    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        for (open, close) in [("(", ")"), ("$(", ")"), ("{ ", "; }"), ("`", "`"), ("if ", "")] {
            let deep = format!("{}make{}", open.repeat(9_000), close.repeat(9_000));
            let _best_effort = simple_commands(&deep);
        }
    }

    #[test]
    fn commands_that_only_mention_tests_are_not_slow() {
        for (text, expected) in [
            ("cat latest.txt", None),
            ("git commit -m \"tests\"", None),
            ("git commit -m 'make; cargo build'", None),
            ("echo 'npm install' >> README.md", None),
            ("grep -rn pytest . | head", None),
            ("cat > x.sh <<'E'\ncargo build\nE", None),
            ("cd web && npm install", Some("npm install")),
            ("RUST_LOG=debug cargo test 2>&1 | tail -40", Some("cargo test")),
            ("test -d target || cargo build", Some("cargo build")),
        ] {
            let commands = simple_commands(text).expect("it parses");
            assert_eq!(known_slow_words(&commands).as_deref(), expected, "{text}");
        }
    }
}
