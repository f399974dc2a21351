//! The simple commands of a shell text.

use shuck_ast::{
    BinaryCommand, Command, CompoundCommand, SimpleCommand as ParsedCommand, Stmt, StmtSeq,
    StmtTerminator, static_command_name_text,
};
use shuck_parser::parser::{ParseStatus, Parser};
use siding_model::history::SimpleCommand;

/// Bytes of a text that is parsed at most: a megabyte takes a tenth of a second.
pub const TEXT_MAX: usize = 64 << 10;

/// Returns the simple commands that a text for bash runs and waits for, in their order: those of
/// lists, pipelines, groups, loops and branches. `None` for a text that does not parse or is
/// longer than [`TEXT_MAX`].
///
/// Left out are commands sent to the background with `&`, bodies of functions, and what stands
/// inside of words, such as `$(…)`.
#[must_use]
pub fn simple_commands(text: &str) -> Option<Vec<SimpleCommand>> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let parsed = Parser::new(text).parse();
    if parsed.status != ParseStatus::Clean {
        return None;
    }
    let mut finder = Finder { text, found: Vec::new() };
    finder.sequence(&parsed.file.body);
    Some(finder.found)
}

struct Finder<'t> {
    text: &'t str,
    found: Vec<SimpleCommand>,
}

impl Finder<'_> {
    fn sequence(&mut self, sequence: &StmtSeq) {
        for statement in sequence.iter() {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        // The parser bounds how deep a text nests, and with it this recursion.
        if matches!(statement.terminator, Some(StmtTerminator::Background(_))) {
            return;
        }
        match &statement.command {
            Command::Simple(command) => self.simple(command),
            Command::Binary(BinaryCommand { left, right, .. }) => {
                self.statement(left);
                self.statement(right);
            }
            Command::Compound(compound) => self.compound(compound),
            Command::Builtin(_)
            | Command::Decl(_)
            | Command::Function(_)
            | Command::AnonymousFunction(_) => {}
        }
    }

    fn simple(&mut self, command: &ParsedCommand) {
        // Its name says the first word of a command; it is the one that takes out backslashes.
        let name = static_command_name_text(&command.name, self.text);
        // `A=1` alone has a name without text.
        if name.as_deref() == Some("") {
            return;
        }
        let arguments = command.args.iter().map(|word| static_command_name_text(word, self.text));
        let words = std::iter::once(name).chain(arguments);
        let words = words.map(|word| word.map(std::borrow::Cow::into_owned)).collect();
        self.found.push(SimpleCommand { words });
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::If(branch) => {
                self.sequence(&branch.condition);
                self.sequence(&branch.then_branch);
                for (condition, body) in &branch.elif_branches {
                    self.sequence(condition);
                    self.sequence(body);
                }
                if let Some(body) = &branch.else_branch {
                    self.sequence(body);
                }
            }
            CompoundCommand::For(each) => self.sequence(&each.body),
            CompoundCommand::Repeat(repeat) => self.sequence(&repeat.body),
            CompoundCommand::Foreach(each) => self.sequence(&each.body),
            CompoundCommand::ArithmeticFor(each) => self.sequence(&each.body),
            CompoundCommand::While(each) => {
                self.sequence(&each.condition);
                self.sequence(&each.body);
            }
            CompoundCommand::Until(each) => {
                self.sequence(&each.condition);
                self.sequence(&each.body);
            }
            CompoundCommand::Case(case) => {
                for item in &case.cases {
                    self.sequence(&item.body);
                }
            }
            CompoundCommand::Select(select) => self.sequence(&select.body),
            CompoundCommand::Subshell(body) | CompoundCommand::BraceGroup(body) => {
                self.sequence(body);
            }
            CompoundCommand::Time(time) => {
                if let Some(timed) = &time.command {
                    self.statement(timed);
                }
            }
            CompoundCommand::Always(always) => {
                self.sequence(&always.body);
                self.sequence(&always.always_body);
            }
            // A coprocess runs beside the shell.
            CompoundCommand::Coproc(_)
            | CompoundCommand::Arithmetic(_)
            | CompoundCommand::Conditional(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use siding_model::history::slow;

    use super::*;

    /// The commands as lines, a word that only the running shell knows as `?`.
    fn lines(text: &str) -> Vec<String> {
        let commands = simple_commands(text).unwrap_or_else(|| panic!("`{text}` parses"));
        let line = |command: &SimpleCommand| {
            let words = command.words.iter().map(|word| word.as_deref().unwrap_or("?"));
            words.collect::<Vec<_>>().join("|")
        };
        commands.iter().map(line).collect()
    }

    #[test]
    fn words_are_what_the_shell_makes_of_them() {
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
            assert_eq!(lines(text), expected, "{text}");
        }
    }

    #[test]
    fn what_nobody_waits_for_is_left_out() {
        for text in ["make &", "f() { make; }", "coproc make", "cat <<'E'\nmake\nE"] {
            assert!(!lines(text).iter().any(|line| line.starts_with("make")), "{text}");
        }
        assert_eq!(lines("make & ninja"), ["ninja"]);
        assert_eq!(lines("echo \"$(make)\""), ["echo|?"]);
    }

    #[test]
    fn a_text_that_does_not_parse_is_not_guessed_at() {
        for text in ["make 'never closed", "if make", "make )", "fi"] {
            assert_eq!(simple_commands(text), None, "{text}");
        }
        assert_eq!(simple_commands(&format!("make {}", "x".repeat(TEXT_MAX))), None);
        assert_eq!(simple_commands(""), Some(Vec::new()));
    }

    /// Deep nesting is where parsers overflow their stack.
    #[test]
    fn a_text_that_nests_without_end_is_survived() {
        for (open, close) in [("(", ")"), ("$(", ")"), ("{ ", "; }"), ("`", "`"), ("if ", "")] {
            let deep = format!("{}make{}", open.repeat(9_000), close.repeat(9_000));
            let _any_answer = simple_commands(&deep);
        }
    }

    #[test]
    fn texts_about_tests_are_no_tests() {
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
            assert_eq!(slow(&commands).as_deref(), expected, "{text}");
        }
    }
}
