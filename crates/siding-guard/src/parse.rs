//! Texts to [`ast`](crate::ast).
//!
//! Owns the parser, of which nothing shows outside. It also covers what that parser passes over:
//! the commands in `${ …; }`, in escaped backticks, and the end of an unclosed `${`.

mod commands;
mod origin;
mod parts;
mod words;

use shuck_parser::parser::{ParseStatus, Parser};

use crate::ast::{Span, Statement};
pub(crate) use origin::Origin;

/// Bytes of a text that is parsed at most: a megabyte takes a tenth of a second.
pub const TEXT_MAX: usize = 64 << 10;

/// Arithmetic expressions in a text at most. The parser bounds how deep everything else nests, but
/// a thousand `$((` in one another overflow a stack of 2 MiB in a build without optimisation.
const ARITHMETIC_MAX: usize = 256;

/// Brackets of one kind that may be open at once. The parser stops at 100 levels by itself, but
/// takes minutes for thousands of `a[`.
const OPEN_MAX: i32 = 250;

/// Marks that join commands, at most: a chain nests as deep as it is long, and giving it up again
/// needs that much stack.
const LINKS_MAX: usize = 600;

/// Words such as `time` in a row at most: the parser calls itself for each, without a bound.
const PREFIXES_MAX: usize = 16;

/// What a text says.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Its commands, in their order; of a text that does not parse those that were understood.
    pub(crate) statements: Vec<Statement>,
    /// What was not understood. None for a text that bash would take.
    pub(crate) faults: Vec<Fault>,
}

/// Something that was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) span: Span,
    pub(crate) what: String,
}

/// Reads a text that stands at `origin`. Texts longer than [`TEXT_MAX`] are not read.
pub(crate) fn parse(text: &str, origin: Origin) -> Parsed {
    let mut parsed = Parsed::default();
    let whole = || origin.place(0, text.len());
    if text.len() > TEXT_MAX {
        let what = format!("the text is longer than {} KiB, the most that is read", TEXT_MAX >> 10);
        parsed.faults.push(Fault { span: whole(), what });
        return parsed;
    }
    if text.matches("((").count() + text.matches("$[").count() > ARITHMETIC_MAX {
        let what = format!("more than {ARITHMETIC_MAX} arithmetic expressions in one text");
        parsed.faults.push(Fault { span: whole(), what });
        return parsed;
    }
    if is_too_deep(text) {
        let what = format!("more than {OPEN_MAX} brackets are open at once");
        parsed.faults.push(Fault { span: whole(), what });
        return parsed;
    }
    if text.matches(['|', '&']).count() > LINKS_MAX {
        let what = format!("more than {LINKS_MAX} of `|` and `&` in one text");
        parsed.faults.push(Fault { span: whole(), what });
        return parsed;
    }
    if prefixes(text) > PREFIXES_MAX {
        let what = format!("more than {PREFIXES_MAX} of `time` and `!` in a row");
        parsed.faults.push(Fault { span: whole(), what });
        return parsed;
    }
    let result = Parser::new(text).parse();
    let mut reader = Reader { text, origin, faults: vec![] };
    if result.status != ParseStatus::Clean {
        let named = result
            .diagnostics
            .iter()
            .map(|found| Fault { span: reader.span(found.span), what: found.message.clone() });
        reader.faults = named.take(FAULTS_MAX).collect();
        if reader.faults.is_empty() {
            let what = result
                .terminal_error
                .as_ref()
                .map_or_else(|| "it does not parse".to_owned(), ToString::to_string);
            reader.faults.push(Fault { span: whole(), what });
        }
    }
    parsed.statements = reader.sequence(&result.file.body);
    parsed.faults = reader.faults;
    parsed
}

/// Tells texts that would take too long; quotes are not looked at.
fn is_too_deep(text: &str) -> bool {
    let mut open = [0_i32; 3];
    for byte in text.bytes() {
        let (kind, change) = match byte {
            b'(' => (0, 1),
            b')' => (0, -1),
            b'[' => (1, 1),
            b']' => (1, -1),
            b'{' => (2, 1),
            b'}' => (2, -1),
            _ => continue,
        };
        open[kind] = (open[kind] + change).max(0);
        if open[kind] > OPEN_MAX {
            return true;
        }
    }
    false
}

/// Returns the longest row of words that stand before a command and change only how it is waited
/// for.
fn prefixes(text: &str) -> usize {
    let (mut longest, mut row) = (0, 0);
    for word in text.split([' ', '\t', '\n', '\\', ';']).filter(|word| !word.is_empty()) {
        let is_prefix = matches!(word, "time" | "!" | "-p" | "--" | "coproc");
        row = if is_prefix { row + 1 } else { 0 };
        longest = longest.max(row);
    }
    longest
}

/// Faults of one text that are told at most.
const FAULTS_MAX: usize = 3;

/// Turns what the parser returned into our own shapes.
struct Reader<'t> {
    text: &'t str,
    origin: Origin,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn span(&self, span: shuck_ast::Span) -> Span {
        self.origin.place(span.start.offset(), span.end.offset())
    }

    fn fault(&mut self, span: Span, what: &str) {
        self.faults.push(Fault { span, what: what.to_owned() });
    }
}
