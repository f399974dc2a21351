//! Replaces a text in the content of a file. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

use siding_model::text;

/// Maximum number of matches that an error message lists.
const MAX_SHOWN_MATCHES: usize = 10;
/// Maximum bytes of a listed line.
const MAX_LINE_BYTES: usize = 200;

/// How many matches are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplaceScope {
    /// The only match; several matches are an error.
    One,
    /// All matches.
    All,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    /// The complete content after the replacement.
    pub(super) content: Vec<u8>,
    /// The number of replaced matches.
    pub(super) replacements: usize,
}

/// Why nothing was replaced. The messages are for the model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReplaceError {
    /// `old` is empty.
    #[error("`old` is empty: use write_file to write the complete file")]
    Empty,
    /// `old` and `new` are equal, as given or after the adjustment of their line endings.
    #[error("`old` and `new` are the same")]
    Same,
    /// The content contains NUL bytes, so it is not text.
    #[error("it contains NUL bytes, so it is not text; change it in bash")]
    Binary,
    /// `old` does not occur in the content.
    #[error("`old` does not occur{hint}")]
    NotFound {
        /// The end of the message, which states the probable reason; empty if the reason is
        /// unknown.
        hint: String,
    },
    /// `old` occurs more than once.
    #[error(
        "`old` occurs {count} times; include more of the text around the intended one, or set \
         `replace_all`:\n{lines}"
    )]
    Ambiguous {
        /// The number of matches, or two for matches that overlap.
        count: usize,
        /// The number and the text of the line in which each match starts, for the first ten
        /// matches.
        lines: String,
    },
}

/// Replaces `old` with `new`. If all lines of the file have the same ending, the line endings in
/// `old` and `new` are converted to it first. In any other file, `old` is searched as given, then
/// with CR LF if the file has both endings, or with LF if it has none.
pub(super) fn replace_text(
    content: &[u8],
    old: &str,
    new: &str,
    scope: ReplaceScope,
) -> Result<Replacement, ReplaceError> {
    if old.is_empty() {
        return Err(ReplaceError::Empty);
    }
    if old == new {
        return Err(ReplaceError::Same);
    }
    if content.contains(&0) {
        return Err(ReplaceError::Binary);
    }
    let forms: &[fn(&str) -> Cow<'_, str>] = match LineEndings::detect(content) {
        LineEndings::Lf => &[to_lf],
        LineEndings::CrLf => &[to_crlf],
        LineEndings::None => &[unchanged, to_lf],
        LineEndings::Mixed => &[unchanged, to_crlf],
    };
    for form in forms {
        let (old, new) = (form(old), form(new));
        let places = find_matches(content, &old);
        match (places.as_slice(), scope) {
            ([], _) => {}
            _ if old == new => return Err(ReplaceError::Same),
            ([at], ReplaceScope::One) if overlaps_itself(content, &old, *at) => {
                return Err(ambiguous(content, 2, &places));
            }
            ([_], _) | (_, ReplaceScope::All) => {
                return Ok(replace_matches(content, &places, &old, &new));
            }
            (_, ReplaceScope::One) => return Err(ambiguous(content, places.len(), &places)),
        }
    }
    Err(ReplaceError::NotFound { hint: not_found_hint(content, old) })
}

/// Which line endings occur in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEndings {
    None,
    Lf,
    CrLf,
    Mixed,
}

impl LineEndings {
    fn detect(content: &[u8]) -> Self {
        let mut before = None;
        let (mut lf, mut crlf) = (false, false);
        for &byte in content {
            if byte == b'\n' {
                if before == Some(b'\r') { crlf = true } else { lf = true }
            }
            before = Some(byte);
        }
        match (lf, crlf) {
            (false, false) => Self::None,
            (true, false) => Self::Lf,
            (false, true) => Self::CrLf,
            (true, true) => Self::Mixed,
        }
    }
}

fn unchanged(text: &str) -> Cow<'_, str> {
    text.into()
}

fn to_lf(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

fn to_crlf(text: &str) -> Cow<'_, str> {
    if text.contains('\n') { to_lf(text).replace('\n', "\r\n").into() } else { text.into() }
}

/// Returns the offsets of the matches, which do not overlap. Only valid UTF-8 is searched, so a
/// match never starts or ends within a character.
fn find_matches(content: &[u8], wanted: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    for chunk in content.utf8_chunks() {
        places.extend(chunk.valid().match_indices(wanted).map(|(at, _)| from + at));
        from += chunk.valid().len() + chunk.invalid().len();
    }
    places
}

/// Returns whether another match overlaps the match at this offset. The edit is then ambiguous.
fn overlaps_itself(content: &[u8], wanted: &str, at: usize) -> bool {
    let first = wanted.chars().next().map_or(1, char::len_utf8);
    let end = content.len().min(at + 2 * wanted.len() - 1);
    !find_matches(&content[at + first..end], wanted).is_empty()
}

fn replace_matches(content: &[u8], places: &[usize], old: &str, new: &str) -> Replacement {
    let mut changed = Vec::with_capacity(content.len());
    let mut from = 0;
    for &at in places {
        changed.extend_from_slice(&content[from..at]);
        changed.extend_from_slice(new.as_bytes());
        from = at + old.len();
    }
    changed.extend_from_slice(&content[from..]);
    Replacement { content: changed, replacements: places.len() }
}

fn ambiguous(content: &[u8], count: usize, places: &[usize]) -> ReplaceError {
    let mut lines = String::new();
    // Newlines are counted from match to match, so that no part of the content is counted twice.
    let (mut number, mut seen) = (1, 0);
    for &at in places.iter().take(MAX_SHOWN_MATCHES) {
        number += count_newlines(&content[seen..at]);
        seen = at;
        let start = content[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        push_numbered_line(&mut lines, number, first_line(&content[start..]));
    }
    if places.len() > MAX_SHOWN_MATCHES {
        let _writing_to_string = writeln!(lines, "… and {} more", places.len() - MAX_SHOWN_MATCHES);
    }
    ReplaceError::Ambiguous { count, lines }
}

/// Returns the probable reason why a text does not occur; empty if the reason is unknown.
fn not_found_hint(content: &[u8], old: &str) -> String {
    let plain = String::from_utf8_lossy(content).replace("\r\n", "\n");
    let old = to_lf(old);
    if let Some(bare) = strip_line_numbers(&old)
        && plain.contains(&bare)
    {
        return ": its lines start with the numbers that read_file shows, which are not in the file"
            .to_owned();
    }
    if let Some(unended) = old.strip_suffix('\n')
        && plain.ends_with(unended)
    {
        return ": it ends in a newline, and the file does not".to_owned();
    }
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    let begins_with = wanted.iter().position(|line| !line.is_empty());
    let Some(begins_with) = begins_with else { return String::new() };
    let lines: Vec<&str> = plain.lines().collect();
    let candidates = (0..lines.len()).filter(|&at| lines[at].trim() == wanted[begins_with]);
    // The candidate with the most consecutive matching lines is shown.
    let alike = |at: usize| {
        let there = lines[at..].iter().zip(&wanted[begins_with..]);
        there.take_while(|(line, wanted)| line.trim() == **wanted).count()
    };
    let Some(at) = candidates.take(MAX_SHOWN_MATCHES).max_by_key(|&at| alike(at)) else {
        return "; read the file again".to_owned();
    };
    let mut shown = String::new();
    for (number, line) in
        lines.iter().enumerate().skip(at).take(wanted[begins_with..].len().min(MAX_SHOWN_MATCHES))
    {
        push_numbered_line(&mut shown, number + 1, line.as_bytes());
    }
    format!(" exactly like that, including white space. Similar text:\n{shown}")
}

/// Removes the line numbers that `read_file` adds; returns `None` if a line has no number.
fn strip_line_numbers(text: &str) -> Option<String> {
    let lines: Option<Vec<&str>> = text.lines().map(strip_line_number).collect();
    lines.map(|lines| lines.join("\n"))
}

fn strip_line_number(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once('\t')?;
    number.trim().parse::<u64>().ok().map(|_| rest)
}

fn count_newlines(content: &[u8]) -> usize {
    content.iter().filter(|&&byte| byte == b'\n').count()
}

fn first_line(content: &[u8]) -> &[u8] {
    content.split(|&byte| byte == b'\n').next().unwrap_or_default()
}

/// Appends the number of a line and the line, in the format of `read_file`.
fn push_numbered_line(out: &mut String, number: usize, line: &[u8]) {
    // Only the start is converted, because a line may be megabytes long.
    let line = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES + 4)]);
    let line = line.trim_end_matches('\r');
    let head = text::cut_head(line, MAX_LINE_BYTES);
    let more = if head.len() < line.len() { "…" } else { "" };
    let _writing_to_string = writeln!(out, "{number}\t{head}{more}");
}

#[cfg(test)]
mod tests;
