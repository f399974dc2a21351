//! Edits JSON text and keeps every byte outside the edited members.
//!
//! `jsonc-parser` finds the positions of values, commas and comments; an edit inserts, removes or
//! replaces text at these positions. [`JsonDocument::remove`] restores the exact text, including
//! comments and trailing commas, that a container with members had before [`JsonDocument::insert`].
//! For a container that was empty, the caller must record the text between its brackets
//! ([`super::record`]).

mod error;
mod spans;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde_json::Value;

pub(crate) use self::error::TextError;
use self::spans::{Container, JsonSpans};
use super::json_value::{JsonValue, Layout, format_key};

/// The JSON variant that a host's parser accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Standard JSON.
    Strict,
    /// JSON with comments.
    Comments,
    /// JSON with comments and trailing commas.
    Loose,
}

/// The path of a value, from the root.
pub(crate) type JsonPath<'w> = &'w [PathStep<'w>];

/// One step of a [`JsonPath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathStep<'w> {
    /// The key of a member of an object.
    Key(&'w str),
    /// The index of an element of an array.
    Index(usize),
}

/// A valid JSON text that is edited in place and stays valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonDocument {
    text: String,
    dialect: Dialect,
}

/// A mark that some editors write at the start of a file, before the JSON text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

impl JsonDocument {
    /// Parses a text, which may start with a byte order mark.
    ///
    /// # Errors
    ///
    /// The first mistake in the text, with its position.
    pub(crate) fn parse(text: &str, dialect: Dialect) -> Result<Self, TextError> {
        let json = Self { text: text.to_owned(), dialect };
        JsonSpans::parse(json.body(), dialect)
            .map_err(|fault| fault.after_byte_order_mark(json.has_byte_order_mark()))?;
        Ok(json)
    }

    /// Returns whether a text contains nothing except whitespace and a byte order mark.
    pub(crate) fn is_blank(text: &str) -> bool {
        text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).trim().is_empty()
    }

    /// Returns the edited text, with a byte order mark if the parsed text had one.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn has_byte_order_mark(&self) -> bool {
        self.text.starts_with(BYTE_ORDER_MARK)
    }

    fn body(&self) -> &str {
        self.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.text)
    }

    fn spans(&self) -> JsonSpans<'_> {
        JsonSpans::parse(self.body(), self.dialect).expect("it was parsed, and edits keep it valid")
    }

    /// Returns the value at a path, if it exists.
    pub(crate) fn get(&self, path: JsonPath<'_>) -> Option<Value> {
        self.spans().value(path)
    }

    /// Returns the number of members of the object or array at a path; `None` if there is none.
    pub(crate) fn len(&self, path: JsonPath<'_>) -> Option<usize> {
        Some(self.spans().container(path)?.members.len())
    }

    /// Returns the text between the brackets of a container; `None` if the path leads to none.
    pub(crate) fn inner_text(&self, path: JsonPath<'_>) -> Option<String> {
        let container = self.spans().container(path)?;
        Some(self.body()[container.inside].to_owned())
    }

    /// Returns the text of a value; empty if it does not exist.
    pub(crate) fn raw_text(&self, path: JsonPath<'_>) -> String {
        let range = self.spans().value_span(path).unwrap_or_default();
        self.body()[range].to_owned()
    }

    /// Replaces a value by `text`, which must be valid JSON.
    pub(crate) fn set_raw_text(&mut self, path: JsonPath<'_>, text: &str) {
        let range = self.spans().value_span(path).expect("the caller has checked the path");
        self.apply_edits(vec![(range, text.to_owned())]);
    }

    /// Returns an error with the position of a value, for a caller that expects another type.
    pub(crate) fn error_at(&self, path: JsonPath<'_>, what: String) -> TextError {
        let places = self.spans();
        let start = places.value_span(path).map_or(0, |range| range.start);
        TextError::at_offset(self.body(), start, what)
    }

    /// Fails if a key of the path occurs twice in its object, because hosts use only one of the two
    /// values.
    pub(crate) fn ensure_unique_keys(&self, path: JsonPath<'_>) -> Result<(), TextError> {
        match self.spans().find_duplicate_key(path) {
            None => Ok(()),
            Some((start, key)) => {
                Err(TextError::at_offset(self.body(), start, format!("`{key}` occurs twice")))
            }
        }
    }

    /// Inserts a value after the last member of a container. `key` is the new member's key in an
    /// object, and `None` in an array.
    pub(crate) fn insert(&mut self, path: JsonPath<'_>, key: Option<&str>, value: &JsonValue) {
        let body = self.body();
        let places = self.spans();
        let container = places.container(path).expect("the caller has checked the path");
        let style = InsertStyle::for_container(body, &places, &container);
        let named = key.map_or_else(String::new, |key| format_key(key, &style.layout));
        let mut text = style.before_member() + &named + &value.render(&style.layout);
        let last = places.last_token_in(&container);
        let mut edits = Vec::new();
        match container.members.last() {
            Some(_) if places.ends_with_comma(&container) => text.push(','),
            Some(end) => edits.push((end.end..end.end, ",".to_owned())),
            None if style.needs_closing_line(&body[last.end..container.inside.end]) => {
                text.push_str(&style.before_closing_bracket());
            }
            None => {}
        }
        let at = last.end;
        edits.push((at..at, text));
        self.apply_edits(edits);
    }

    /// Removes a member or element with its comma.
    pub(crate) fn remove(&mut self, path: JsonPath<'_>) {
        let body = self.body();
        let places = self.spans();
        let range = places.member_span(path).expect("the caller has checked the path");
        let before = places.token_before(range.start);
        let mut edits = Vec::new();
        let mut end = range.end;
        match places.comma_after(range.end) {
            Some(comma) if body[range.end..comma.start].trim().is_empty() => end = comma.end,
            Some(comma) => edits.push((comma, String::new())),
            None => {
                edits.extend(places.comma_before(range.start).map(|comma| (comma, String::new())))
            }
        }
        // A line comment must not extend over the text after the edit.
        let newline = body[end..].trim_start_matches([' ', '\t']).starts_with(['\n', '\r']);
        let kept = if before.ends_line && !newline { detect_newline(body) } else { "" };
        edits.push((before.end..end, kept.to_owned()));
        self.apply_edits(edits);
    }

    /// Replaces a value, in the layout of the surrounding container.
    pub(crate) fn replace(&mut self, path: JsonPath<'_>, value: &JsonValue) {
        let body = self.body();
        let places = self.spans();
        let range = places.value_span(path).expect("the caller has checked the path");
        let container = places.container(&path[..path.len().saturating_sub(1)]);
        let layout = container.map_or(Layout::Line { gap: " " }, |container| {
            InsertStyle::for_container(body, &places, &container).layout
        });
        self.apply_edits(vec![(range, value.render(&layout))]);
    }

    /// Sets the text between the brackets of a container that has no members.
    pub(crate) fn set_inner_text(&mut self, path: JsonPath<'_>, text: &str) {
        let inside = self.spans().container(path).expect("the caller has checked the path").inside;
        self.apply_edits(vec![(inside, text.to_owned())]);
    }

    fn apply_edits(&mut self, mut edits: Vec<(Range<usize>, String)>) {
        let mark = if self.has_byte_order_mark() { BYTE_ORDER_MARK } else { "" };
        let mut body = self.body().to_owned();
        // The edits are applied from the end, so that the positions of earlier edits stay valid. Of
        // two edits at one position, the first is applied last, so its text comes first.
        edits.sort_by_key(|(range, _)| range.start);
        for (range, text) in edits.into_iter().rev() {
            body.replace_range(range, &text);
        }
        self.text = format!("{mark}{body}");
    }
}

struct InsertStyle {
    layout: Layout,
    /// Whether the inserted member is the container's first.
    is_first_member: bool,
    /// Indentation of the closing bracket, if the bracket moves to a separate line.
    outer_indent: String,
}

impl InsertStyle {
    fn for_container(body: &str, places: &JsonSpans<'_>, container: &Container) -> Self {
        let root = places.root_span();
        let unit = detect_indent_unit(body, &root);
        let outer = indent_at(body, container.range.start);
        let first = container.members.is_empty();
        let on_line = match container.members.first() {
            Some(member) => !body[container.inside.start..member.start].contains('\n'),
            None => root.start < container.range.start && !body[root.clone()].contains('\n'),
        };
        // Text after a line comment must start on a new line.
        let on_line = on_line && !places.last_token_in(container).ends_line;
        let layout = if on_line {
            let tight = body[root].split_once("\":").is_none_or(|(_, rest)| !rest.starts_with(' '));
            Layout::Line { gap: if tight { "" } else { " " } }
        } else {
            let indent = match container.members.first() {
                Some(member) => indent_at(body, member.start),
                None => format!("{outer}{unit}"),
            };
            Layout::Lines { newline: detect_newline(body), indent, unit }
        };
        Self { layout, is_first_member: first, outer_indent: outer }
    }

    /// Returns the whitespace before a new member.
    fn before_member(&self) -> String {
        match &self.layout {
            Layout::Line { .. } if self.is_first_member => String::new(),
            Layout::Line { gap } => (*gap).to_owned(),
            Layout::Lines { newline, indent, .. } => format!("{newline}{indent}"),
        }
    }

    /// Returns whether the closing bracket must move to a separate line.
    fn needs_closing_line(&self, rest: &str) -> bool {
        matches!(self.layout, Layout::Lines { .. }) && !rest.contains('\n')
    }

    /// Returns the whitespace before the closing bracket if the bracket moves to a separate line.
    fn before_closing_bracket(&self) -> String {
        match &self.layout {
            Layout::Line { .. } => String::new(),
            Layout::Lines { newline, .. } => format!("{newline}{}", self.outer_indent),
        }
    }
}

/// Returns `\r\n` if the text contains it, otherwise `\n`.
fn detect_newline(body: &str) -> &'static str {
    if body.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns the indentation of the line at an offset.
fn indent_at(body: &str, at: usize) -> String {
    let line = body[..at].rfind('\n').map_or(0, |newline| newline + 1);
    body[line..at].chars().take_while(|char| matches!(char, ' ' | '\t')).collect()
}

/// Returns the indentation of one level: that of the root's first member, or two spaces.
fn detect_indent_unit(body: &str, root: &Range<usize>) -> String {
    let inside = body.get(root.start + 1..root.end).unwrap_or_default();
    let line = inside.lines().skip(1).find(|line| !line.trim().is_empty());
    let indent: String =
        line.unwrap_or_default().chars().take_while(|char| matches!(char, ' ' | '\t')).collect();
    let outer = indent_at(body, root.start);
    match indent.strip_prefix(&outer) {
        Some(unit) if !unit.is_empty() => unit.to_owned(),
        _ => "  ".to_owned(),
    }
}
