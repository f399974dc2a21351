//! Edits of JSON text that leave every byte alone which they do not own.
//!
//! A text is read with `jsonc-parser`, for the places of values, commas and comments; an edit puts
//! text in at one place or takes it out. What [`Json::insert`] adds to a container that has members
//! [`Json::remove`] takes out again to the byte, comments and trailing commas included. Of a
//! container that was empty its inside must be remembered by the caller ([`super::made`]).

mod fault;
mod places;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde_json::Value;

pub(crate) use self::fault::Fault;
use self::places::{Container, Places};
use super::tree::{Layout, Tree, member};

/// What a host's parser takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// JSON of the standard.
    Strict,
    /// With comments.
    Comments,
    /// With comments, and commas behind the last member.
    Loose,
}

/// The place of a value: the way from the root.
pub(crate) type Way<'w> = &'w [Step<'w>];

/// One step down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'w> {
    /// To an object's member.
    Key(&'w str),
    /// To an array's element.
    Index(usize),
}

/// A text that is one JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Json {
    text: String,
    dialect: Dialect,
}

/// What some editors put before a text; no part of it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

impl Json {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub(crate) fn read(text: &str, dialect: Dialect) -> Result<Self, Fault> {
        let json = Self { text: text.to_owned(), dialect };
        Places::read(json.body(), dialect).map_err(|fault| fault.behind_mark(json.has_mark()))?;
        Ok(json)
    }

    /// Returns whether a text has nothing in it.
    pub(crate) fn is_blank(text: &str) -> bool {
        text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).trim().is_empty()
    }

    /// Returns the text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn has_mark(&self) -> bool {
        self.text.starts_with(BYTE_ORDER_MARK)
    }

    fn body(&self) -> &str {
        self.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.text)
    }

    fn places(&self) -> Places<'_> {
        Places::read(self.body(), self.dialect).expect("it was read, and edits keep it JSON")
    }

    /// Returns a value, if it is there.
    pub(crate) fn get(&self, way: Way<'_>) -> Option<Value> {
        self.places().value(way)
    }

    /// Returns how many members a container has, `None` where there is none.
    pub(crate) fn len(&self, way: Way<'_>) -> Option<usize> {
        Some(self.places().container(way)?.members.len())
    }

    /// Returns what is between the brackets of a container.
    pub(crate) fn inside(&self, way: Way<'_>) -> Option<String> {
        let container = self.places().container(way)?;
        Some(self.body()[container.inside].to_owned())
    }

    /// Returns the text of a value, empty where there is none.
    pub(crate) fn text_of(&self, way: Way<'_>) -> String {
        let range = self.places().range(way).unwrap_or_default();
        self.body()[range].to_owned()
    }

    /// Puts the text of a value in the place of one.
    pub(crate) fn set_text(&mut self, way: Way<'_>, text: &str) {
        let range = self.places().range(way).expect("the caller has looked");
        self.apply(vec![(range, text.to_owned())]);
    }

    /// Returns a fault at a value, for a caller whom its shape does not suit.
    pub(crate) fn fault(&self, way: Way<'_>, what: String) -> Fault {
        let places = self.places();
        let start = places.range(way).map_or(0, |range| range.start);
        Fault::at(self.body(), start, what)
    }

    /// Returns a fault when a key on the way is there twice: a host takes one of them.
    pub(crate) fn twice(&self, way: Way<'_>) -> Result<(), Fault> {
        match self.places().twice(way) {
            None => Ok(()),
            Some((start, key)) => {
                Err(Fault::at(self.body(), start, format!("`{key}` is there twice")))
            }
        }
    }

    /// Puts a value behind the last member of a container, under `key` in an object.
    pub(crate) fn insert(&mut self, way: Way<'_>, key: Option<&str>, value: &Tree) {
        let body = self.body();
        let places = self.places();
        let container = places.container(way).expect("the caller has looked");
        let style = Style::of(body, &places, &container);
        let named = key.map_or_else(String::new, |key| member(key, &style.layout));
        let mut text = style.before() + &named + &value.render(&style.layout);
        let last = places.last_in(&container);
        let mut edits = Vec::new();
        match container.members.last() {
            Some(_) if places.is_comma_last(&container) => text.push(','),
            Some(end) => edits.push((end.end..end.end, ",".to_owned())),
            None if style.closes(&body[last.end..container.inside.end]) => {
                text.push_str(&style.closing());
            }
            None => {}
        }
        let at = last.end;
        edits.push((at..at, text));
        self.apply(edits);
    }

    /// Takes a member or element out, with its comma.
    pub(crate) fn remove(&mut self, way: Way<'_>) {
        let body = self.body();
        let places = self.places();
        let range = places.member(way).expect("the caller has looked");
        let before = places.before(range.start);
        let mut edits = Vec::new();
        let mut end = range.end;
        match places.comma_behind(range.end) {
            Some(comma) if body[range.end..comma.start].trim().is_empty() => end = comma.end,
            Some(comma) => edits.push((comma, String::new())),
            None => {
                edits.extend(places.comma_before(range.start).map(|comma| (comma, String::new())))
            }
        }
        // A comment to the end of the line must not swallow what follows.
        let newline = body[end..].trim_start_matches([' ', '\t']).starts_with(['\n', '\r']);
        let kept = if before.ends_line && !newline { newline_of(body) } else { "" };
        edits.push((before.end..end, kept.to_owned()));
        self.apply(edits);
    }

    /// Puts another value in the place of one.
    pub(crate) fn replace(&mut self, way: Way<'_>, value: &Tree) {
        let body = self.body();
        let places = self.places();
        let range = places.range(way).expect("the caller has looked");
        let container = places.container(&way[..way.len().saturating_sub(1)]);
        let layout = container.map_or(Layout::Line { gap: " " }, |container| {
            Style::of(body, &places, &container).layout
        });
        self.apply(vec![(range, value.render(&layout))]);
    }

    /// Puts a text between the brackets of a container that has no members.
    pub(crate) fn set_inside(&mut self, way: Way<'_>, text: &str) {
        let inside = self.places().container(way).expect("the caller has looked").inside;
        self.apply(vec![(inside, text.to_owned())]);
    }

    fn apply(&mut self, mut edits: Vec<(Range<usize>, String)>) {
        let mark = if self.has_mark() { BYTE_ORDER_MARK } else { "" };
        let mut body = self.body().to_owned();
        // From the end, so that the places of the others stay; of two at one place the first goes
        // in last, and so stands first.
        edits.sort_by_key(|(range, _)| range.start);
        for (range, text) in edits.into_iter().rev() {
            body.replace_range(range, &text);
        }
        self.text = format!("{mark}{body}");
    }
}

/// How what is put into a container is laid out.
struct Style {
    layout: Layout,
    /// Whether members that are there are on the line of the bracket.
    first: bool,
    /// What stands before the line with the closing bracket, where that gets a line of its own.
    outer: String,
}

impl Style {
    fn of(body: &str, places: &Places<'_>, container: &Container) -> Self {
        let root = places.root();
        let unit = unit(body, &root);
        let outer = indent_at(body, container.range.start);
        let first = container.members.is_empty();
        let on_line = match container.members.first() {
            Some(member) => !body[container.inside.start..member.start].contains('\n'),
            None => root.start < container.range.start && !body[root.clone()].contains('\n'),
        };
        // Whatever follows a comment to the end of the line has to begin a new one.
        let on_line = on_line && !places.last_in(container).ends_line;
        let layout = if on_line {
            let tight = body[root].split_once("\":").is_none_or(|(_, rest)| !rest.starts_with(' '));
            Layout::Line { gap: if tight { "" } else { " " } }
        } else {
            let indent = match container.members.first() {
                Some(member) => indent_at(body, member.start),
                None => format!("{outer}{unit}"),
            };
            Layout::Lines { newline: newline_of(body), indent, unit }
        };
        Self { layout, first, outer }
    }

    /// Returns what stands before a new member.
    fn before(&self) -> String {
        match &self.layout {
            Layout::Line { .. } if self.first => String::new(),
            Layout::Line { gap } => (*gap).to_owned(),
            Layout::Lines { newline, indent, .. } => format!("{newline}{indent}"),
        }
    }

    /// Returns whether the closing bracket has to be put on a line of its own.
    fn closes(&self, rest: &str) -> bool {
        matches!(self.layout, Layout::Lines { .. }) && !rest.contains('\n')
    }

    /// Returns what stands before that bracket then.
    fn closing(&self) -> String {
        match &self.layout {
            Layout::Line { .. } => String::new(),
            Layout::Lines { newline, .. } => format!("{newline}{}", self.outer),
        }
    }
}

/// Returns how lines end.
fn newline_of(body: &str) -> &'static str {
    if body.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns the blanks that a line begins with.
fn indent_at(body: &str, at: usize) -> String {
    let line = body[..at].rfind('\n').map_or(0, |newline| newline + 1);
    body[line..at].chars().take_while(|char| matches!(char, ' ' | '\t')).collect()
}

/// Returns what each level is indented by: that of the root's first member, else two blanks.
fn unit(body: &str, root: &Range<usize>) -> String {
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
