//! A JSON value to write into a host's file; its members keep their order.

use serde_json::Value;

/// A JSON value that siding writes. Its numbers are unsigned integers, and its objects keep the
/// order of their members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonValue {
    Text(String),
    Number(u64),
    Flag(bool),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// The line breaks and indentation with which a value is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// On one line; `gap` follows each comma and colon, and is empty or a space.
    Line { gap: &'static str },
    /// One line for each member.
    Lines {
        /// `\n` or `\r\n`.
        newline: &'static str,
        /// Indentation of the line on which the value starts.
        indent: String,
        /// Additional indentation of each level.
        unit: String,
    },
}

impl JsonValue {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// Returns an object with `members` in the given order.
    pub(crate) fn map<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Map(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Converts the value to serde_json's type.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Number(number) => Value::from(*number),
            Self::Flag(flag) => Value::from(*flag),
            Self::List(list) => list.iter().map(Self::to_value).collect(),
            Self::Map(members) => {
                members.iter().map(|(key, value)| (key.clone(), value.to_value())).collect()
            }
        }
    }

    /// Formats the value as JSON text.
    pub(crate) fn render(&self, layout: &Layout) -> String {
        let mut out = String::new();
        self.write(layout, 0, &mut out);
        out
    }

    fn write(&self, layout: &Layout, depth: usize, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(&json_quote(text)),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::Flag(flag) => out.push_str(&flag.to_string()),
            Self::List(list) => {
                let members = list.iter().map(|value| (None, value));
                write_members('[', ']', members, layout, depth, out);
            }
            Self::Map(map) => {
                let members = map.iter().map(|(key, value)| (Some(key.as_str()), value));
                write_members('{', '}', members, layout, depth, out);
            }
        }
    }
}

fn write_members<'t>(
    open: char,
    close: char,
    members: impl Iterator<Item = (Option<&'t str>, &'t JsonValue)>,
    layout: &Layout,
    depth: usize,
    out: &mut String,
) {
    out.push(open);
    let mut any = false;
    for (key, value) in members {
        if any {
            out.push(',');
        }
        break_line(layout, depth + 1, any, out);
        any = true;
        if let Some(key) = key {
            out.push_str(&format_key(key, layout));
        }
        value.write(layout, depth + 1, out);
    }
    if any {
        break_line(layout, depth, false, out);
    }
    out.push(close);
}

fn break_line(layout: &Layout, depth: usize, after_comma: bool, out: &mut String) {
    match layout {
        Layout::Line { gap } if after_comma => out.push_str(gap),
        Layout::Line { .. } => {}
        Layout::Lines { newline, indent, unit } => {
            out.push_str(newline);
            out.push_str(indent);
            out.push_str(&unit.repeat(depth));
        }
    }
}

/// Formats a key with its colon.
pub(crate) fn format_key(key: &str, layout: &Layout) -> String {
    let gap = match layout {
        Layout::Line { gap } => gap,
        Layout::Lines { .. } => " ",
    };
    format!("{}:{gap}", json_quote(key))
}

fn json_quote(text: &str) -> String {
    Value::from(text).to_string()
}
