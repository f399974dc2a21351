//! Parses shell texts into the types in [`ast`](crate::ast).
//!
//! Only this module uses the parser crate and its types. The module also parses constructs that the
//! parser crate does not: the commands in `${ …; }` and in escaped backticks. An unclosed `${`,
//! which the parser crate accepts, is reported as an error.

mod commands;
mod fragments;
mod words;

use shuck_parser::parser::{ParseStatus, Parser};

use crate::ast::{Origin, Span, Statement};

/// Maximum length of a text that is parsed, in bytes. The limit bounds the run time of the parser,
/// which parses a megabyte in a tenth of a second.
pub const MAX_SCRIPT_BYTES: usize = 64 << 10;

/// Maximum number of arithmetic expressions in a text. The limit is needed because a thousand
/// nested `$((` overflow a stack of 2 MiB in a debug build.
const MAX_ARITHMETIC_EXPRESSIONS: usize = 256;

/// Maximum number of brackets of one kind that may be open at the same place. The parser rejects
/// more than 100 levels, but takes minutes to do so for thousands of `a[`.
const MAX_OPEN_BRACKETS: i32 = 250;

/// Maximum number of characters `|` and `&`, which form the operators that join commands. The
/// parser's tree of a chain is as deep as the chain is long, and dropping the tree recurses to this
/// depth.
const MAX_CONTROL_CHARACTERS: usize = 600;

/// Maximum number of consecutive words such as `time`. The parser recurses for each such word, and
/// does not limit the recursion itself.
const MAX_PREFIX_WORDS: usize = 16;

/// The result of parsing a text, which may be incomplete.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// The commands of all parts of the text that could be parsed, in order.
    pub(crate) statements: Vec<Statement>,
    /// The first parts that could not be parsed, or the whole text if it exceeds a limit. Usually
    /// empty for a text that bash accepts and that is within the limits.
    pub(crate) errors: Vec<ParseError>,
}

/// A part of a text that could not be parsed, with the parser's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) span: Span,
    pub(crate) message: String,
}

/// Parses a text. `origin` is the text's place in the judged text. A text that exceeds
/// [`MAX_SCRIPT_BYTES`] or another limit is not parsed, and the result contains only an error.
pub(crate) fn parse(text: &str, origin: Origin) -> Parsed {
    let mut parsed = Parsed::default();
    let text_span = || origin.span(0, text.len());
    if text.len() > MAX_SCRIPT_BYTES {
        let what = format!("the text is longer than {} KiB, the maximum", MAX_SCRIPT_BYTES >> 10);
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
        let what = format!(
            "more than {MAX_OPEN_BRACKETS} brackets of one kind are open at the same place"
        );
        parsed.errors.push(ParseError { span: text_span(), message: what });
        return parsed;
    }
    if text.matches(['|', '&']).count() > MAX_CONTROL_CHARACTERS {
        let what = format!("more than {MAX_CONTROL_CHARACTERS} of `|` and `&` in one text");
        parsed.errors.push(ParseError { span: text_span(), message: what });
        return parsed;
    }
    if longest_prefix_run(text) > MAX_PREFIX_WORDS {
        let what = format!("more than {MAX_PREFIX_WORDS} words such as `time` and `!` in a row");
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
                .map_or_else(|| "it cannot be parsed".to_owned(), ToString::to_string);
            reader.errors.push(ParseError { span: text_span(), message: what });
        }
    }
    parsed.statements = reader.statements(&result.file.body);
    parsed.errors = reader.errors;
    parsed
}

/// Returns whether more than [`MAX_OPEN_BRACKETS`] brackets of one kind are open somewhere in a
/// text. Brackets in quotes are counted too.
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

/// Returns the length of the longest run of words such as `time` and `!`, which may precede a
/// command any number of times.
fn longest_prefix_run(text: &str) -> usize {
    let (mut longest, mut row) = (0, 0);
    for word in text.split([' ', '\t', '\n', '\\', ';']).filter(|word| !word.is_empty()) {
        let is_prefix = matches!(word, "time" | "!" | "-p" | "--" | "coproc");
        row = if is_prefix { row + 1 } else { 0 };
        longest = longest.max(row);
    }
    longest
}

/// Maximum number of errors of the parser crate that are reported for one text.
const MAX_REPORTED_ERRORS: usize = 3;

/// Converts the tree of the parser crate into the types in [`ast`](crate::ast).
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
