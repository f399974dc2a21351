//! Commands that read their standard input, and what that takes from others.

use super::call::{Call, Seen, Shape};
use super::walk::{Carrier, Place, Walker};
use crate::ast::{Span, Statement};

/// Programs that read standard input where fewer words than these name something else: `grep x`
/// reads it, `grep x FILE` does not.
const READING: &[(&str, usize)] = &[
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

/// Options with which these programs take their input from elsewhere, or need none.
const ELSEWHERE: &[&str] = &[
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
    /// Goes through the commands of a text, and tells which of them takes the input of the others.
    pub(super) fn carried(&mut self, statements: &[Statement], place: &Place, carrier: Carrier) {
        let last = statements.len().saturating_sub(1);
        let is_asked = carrier != Carrier::Word && last > 0 && !place.has_input;
        if !is_asked {
            self.sequence(statements, place);
            return;
        }
        for (at, statement) in statements.iter().enumerate() {
            let before = self.seen.len();
            self.sequence(std::slice::from_ref(statement), place);
            let is_concerned = match carrier {
                Carrier::Word => false,
                Carrier::Eval => at == 0,
                Carrier::Input => at < last,
            };
            let taking = self.seen[before..].iter().find_map(taking);
            if let Some(span) = taking.filter(|_| is_concerned) {
                self.shape(Shape::InputTaken, span);
            }
        }
    }

    /// Tells which named pipe is read that nothing in the text writes.
    pub(super) fn empty_pipes(&mut self) {
        let calls = || {
            self.seen.iter().filter_map(|seen| match seen {
                Seen::Call(call) => Some(call),
                Seen::Set { .. } | Seen::Read { .. } | Seen::Write { .. } | Seen::Shape { .. } => {
                    None
                }
            })
        };
        let mut found = vec![];
        for pipe in calls().filter(|call| call.program == "mkfifo").flat_map(|call| &call.args) {
            let is_written = self
                .seen
                .iter()
                .any(|seen| matches!(seen, Seen::Write { to, .. } if to.text == pipe.text));
            let reads = |call: &&Call| {
                call.program != "mkfifo"
                    && !matches!(call.program.as_str(), "rm" | "ls" | "test" | "[" | "chmod")
                    && (call.input.as_ref() == Some(&pipe.text)
                        || call.args.iter().any(|arg| arg.text == pipe.text))
            };
            found.extend(calls().find(reads).filter(|_| !is_written).map(|call| call.span));
        }
        for span in found {
            self.shape(Shape::EmptyPipe, span);
        }
    }
}

/// Returns where a command stands that reads the standard input of its shell.
fn taking(seen: &Seen) -> Option<Span> {
    match seen {
        Seen::Call(call) if reads(call) => Some(call.span),
        Seen::Call(_)
        | Seen::Set { .. }
        | Seen::Read { .. }
        | Seen::Write { .. }
        | Seen::Shape { .. } => None,
    }
}

/// Whether a call reads the standard input that it shares with others.
fn reads(call: &Call) -> bool {
    if call.has_input || call.guessed_from.is_some() || call.is_bounded {
        return false;
    }
    let Some((_, words)) = READING.iter().find(|(name, _)| *name == call.program) else {
        return false;
    };
    let is_elsewhere = |text: &str| {
        ELSEWHERE.iter().any(|option| {
            text == *option
                || option.len() == 2
                    && !text.starts_with("--")
                    && text.starts_with('-')
                    && text.ends_with(&option[1..])
        })
    };
    // `read -r`, `sort -n`, `sed -n x` read all the same.
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
    use crate::unwrap::{Seen, Shape, walk};

    fn is_taken(text: &str) -> bool {
        let (seen, _) = walk(text);
        seen.iter().any(|seen| matches!(seen, Seen::Shape { shape: Shape::InputTaken, .. }))
    }

    #[test]
    fn what_takes_the_lines_of_others_is_told() {
        for text in [
            "eval 'cat\necho b'",
            "eval 'read x; echo $x'",
            "bash <<'E'\ncat\nls\nE",
            "bash <<'E'\nread x\nls\nE",
            "ssh h <<'E'\nssh other uptime\nls\nE",
            "printf 'cat\\nls\\n' | sh",
        ] {
            assert!(is_taken(text), "{text}");
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
            assert!(!is_taken(text), "{text}");
        }
    }
}
