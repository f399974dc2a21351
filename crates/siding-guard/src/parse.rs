//! Texts to [`ast`](crate::ast).
//!
//! Owns the parser, of which nothing shows outside. It also covers what that parser passes over:
//! the commands in `${ …; }`, in escaped backticks, and the end of an unclosed `${`.

mod commands;
mod fragments;
mod origin;
mod words;

use shuck_parser::parser::{ParseStatus, Parser};

use crate::ast::{Span, Statement};
pub(crate) use origin::Origin;

/// Bytes of a text that is parsed at most: a megabyte takes a tenth of a second.
pub const MAX_SCRIPT_BYTES: usize = 64 << 10;

/// Arithmetic expressions in a text at most. The parser bounds how deep everything else nests, but
/// a thousand `$((` in one another overflow a stack of 2 MiB in a build without optimisation.
const MAX_ARITHMETIC_EXPRESSIONS: usize = 256;

/// Brackets of one kind that may be open at once. The parser stops at 100 levels by itself, but
/// takes minutes for thousands of `a[`.
const MAX_OPEN_BRACKETS: i32 = 250;

/// Marks that join commands, at most: a chain nests as deep as it is long, and giving it up again
/// needs that much stack.
const MAX_CONTROL_OPERATORS: usize = 600;

/// Words such as `time` in a row at most: the parser calls itself for each, without a bound.
const MAX_PREFIX_WORDS: usize = 16;

/// What a text says.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Its commands, in their order; of a text that does not parse those that were understood.
    pub(crate) statements: Vec<Statement>,
    /// What was not understood. None for a text that bash would take.
    pub(crate) errors: Vec<ParseError>,
}

/// Something that was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) span: Span,
    pub(crate) message: String,
}

/// Reads a text that stands at `origin`. Texts longer than [`MAX_SCRIPT_BYTES`] are not read.
pub(crate) fn parse(text: &str, origin: Origin) -> Parsed {
    let mut parsed = Parsed::default();
    let text_span = || origin.span(0, text.len());
    if text.len() > MAX_SCRIPT_BYTES {
        let what = format!(
            "the text is longer than {} KiB, the most that is read",
            MAX_SCRIPT_BYTES >> 10
        );
        parsed.errors.push(ParseError { span: text_span(), message: what });
        return parsed;
    }
    if text.matches("((").count() + text.matches("$[").count() > MAX_ARITHMETIC_EXPRESSIONS {
        let what =
            format!("more than {MAX_ARITHMETIC_EXPRESSIONS} arithmetic expressions in one text");
        parsed.errors.push(ParseError { span: text_span(), message: what });
        return parsed;
    }
    if is_too_deep(text) {
        let what = format!("more than {MAX_OPEN_BRACKETS} brackets are open at once");
        parsed.errors.push(ParseError { span: text_span(), message: what });
        return parsed;
    }
    if text.matches(['|', '&']).count() > MAX_CONTROL_OPERATORS {
        let what = format!("more than {MAX_CONTROL_OPERATORS} of `|` and `&` in one text");
        parsed.errors.push(ParseError { span: text_span(), message: what });
        return parsed;
    }
    if longest_prefix_run(text) > MAX_PREFIX_WORDS {
        let what = format!("more than {MAX_PREFIX_WORDS} of `time` and `!` in a row");
        parsed.errors.push(ParseError { span: text_span(), message: what });
        return parsed;
    }
    let result = Parser::new(text).parse();
    let mut reader = AstConverter { text, origin, errors: vec![] };
    if result.status != ParseStatus::Clean {
        let named = result.diagnostics.iter().map(|found| ParseError {
            span: reader.span(found.span),
            message: found.message.clone(),
        });
        reader.errors = named.take(MAX_REPORTED_ERRORS).collect();
        if reader.errors.is_empty() {
            let what = result
                .terminal_error
                .as_ref()
                .map_or_else(|| "it does not parse".to_owned(), ToString::to_string);
            reader.errors.push(ParseError { span: text_span(), message: what });
        }
    }
    parsed.statements = reader.statements(&result.file.body);
    parsed.errors = reader.errors;
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
        if open[kind] > MAX_OPEN_BRACKETS {
            return true;
        }
    }
    false
}

/// Returns the longest row of words that stand before a command and change only how it is waited
/// for.
fn longest_prefix_run(text: &str) -> usize {
    let (mut longest, mut row) = (0, 0);
    for word in text.split([' ', '\t', '\n', '\\', ';']).filter(|word| !word.is_empty()) {
        let is_prefix = matches!(word, "time" | "!" | "-p" | "--" | "coproc");
        row = if is_prefix { row + 1 } else { 0 };
        longest = longest.max(row);
    }
    longest
}

/// Faults of one text that are told at most.
const MAX_REPORTED_ERRORS: usize = 3;

/// Turns what the parser returned into our own shapes.
struct AstConverter<'t> {
    text: &'t str,
    origin: Origin,
    errors: Vec<ParseError>,
}

impl AstConverter<'_> {
    fn span(&self, span: shuck_ast::Span) -> Span {
        self.origin.span(span.start.offset(), span.end.offset())
    }

    fn report_error(&mut self, span: Span, what: &str) {
        self.errors.push(ParseError { span, message: what.to_owned() });
    }
}
