//! Escaping of untrusted text for display.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

/// Maximum number of combining marks, such as accents, on one character. Additional marks are
/// escaped, because a stack of marks would cover the lines above.
const MAX_COMBINING_MARKS: usize = 3;

/// Formats `text` as one line of at most `columns` columns that is safe to print.
///
/// Commands, names and paths are untrusted: they could move the cursor, change the direction of
/// writing or hide characters. Newline, tab and carriage return are written as `\n`, `\t`, `\r`,
/// ESC as `\e`, other control characters of ASCII as in `\x07`, and all other control characters
/// and invisible characters (zero-width, bidirectional, tags, line separators) as in `\u{202e}`. A
/// text that does not fit is cut between characters or escapes and ends in `…`. Backslashes are not
/// doubled, because the result is read by people and not parsed.
///
/// Widths follow Unicode (UAX #11): a wide character takes two columns, a combining mark none.
#[must_use]
pub fn one_line(text: &str, columns: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    // The last position that leaves a column for the `…`, in case the text does not fit.
    let mut cut = 0;
    let mut marks = 0;
    let mut unit = String::new();
    for c in text.chars() {
        unit.clear();
        let width = push_visible(c, &mut marks, &mut unit);
        if used + width > columns {
            line.truncate(cut);
            if columns > 0 {
                line.push('…');
            }
            return line;
        }
        line.push_str(&unit);
        used += width;
        if used < columns {
            cut = line.len();
        }
    }
    line
}

/// Escapes the control characters and invisible characters of a text as [`one_line`] does, but
/// keeps newlines and tabs. The result cannot move the cursor, change the direction of writing or
/// hide characters.
///
/// Characters that XML does not allow are also escaped.
#[must_use]
pub fn make_visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = 0;
    for c in text.chars() {
        match c {
            '\n' | '\t' => {
                marks = 0;
                out.push(c);
            }
            _ if is_noncharacter(c) => {
                push_escape(c, &mut out);
            }
            _ => {
                push_visible(c, &mut marks, &mut out);
            }
        }
    }
    out
}

/// Returns whether Unicode reserves the code point for internal use of a program. XML does not
/// allow U+FFFE and U+FFFF.
fn is_noncharacter(c: char) -> bool {
    u32::from(c) & 0xfffe == 0xfffe || matches!(c, '\u{fdd0}'..='\u{fdef}')
}

/// Appends a character or its escape to `unit`, and returns the width in columns.
fn push_visible(c: char, marks: &mut usize, unit: &mut String) -> usize {
    let short = match c {
        '\n' => "\\n",
        '\t' => "\\t",
        '\r' => "\\r",
        '\x1b' => "\\e",
        _ => "",
    };
    if !short.is_empty() {
        unit.push_str(short);
        return short.len();
    }
    let width = c.width().filter(|_| !is_invisible(c));
    *marks = if width == Some(0) { *marks + 1 } else { 0 };
    match width {
        Some(width) if *marks <= MAX_COMBINING_MARKS => {
            unit.push(c);
            width
        }
        _ => push_escape(c, unit),
    }
}

fn push_escape(c: char, unit: &mut String) -> usize {
    let number = u32::from(c);
    let _writing_to_string = match number {
        0..0x80 => write!(unit, "\\x{number:02x}"),
        _ => write!(unit, "\\u{{{number:x}}}"),
    };
    unit.len()
}

/// Returns whether a character is invisible but changes the display: soft hyphen, joiners and
/// zero-width spaces, bidirectional controls, line separators, fillers, variation selectors,
/// interlinear annotation, tags.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}
