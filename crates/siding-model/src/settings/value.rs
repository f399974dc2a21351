//! The types of setting values: parsing, validation and formatting.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::executors::BadExecutor;
use crate::duration::{self, DurationError};
use crate::limits::OnLimit;
use crate::net::BadNetPolicy;
use crate::signal::{BadSignal, Signal};
use crate::size::{ByteRate, Bytes, SizeError};
use crate::spec::OnLeaderExit;
use crate::text::one_line;
use crate::unowned::{BadOrphanRule, UnownedReapMode};

/// The displayed form of an empty table.
pub(super) const EMPTY_TABLE_WORD: &str = "none";

/// A value as its source contains it, before validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RawValue {
    /// A string in a file, or the value of a variable or flag.
    Text(String),
    /// An integer in a file, such as a number of bytes or processes.
    Integer(i64),
    /// A boolean in a file. Variables and flags contain a boolean as text.
    Boolean(bool),
    /// An array in a file, such as a list of programs.
    List(Vec<Self>),
    /// A table in a file, which defines a rule, or executors by their names.
    Table(BTreeMap<String, Self>),
    /// Any other type, such as a date. The text names the type, with an article.
    Other(&'static str),
}

impl RawValue {
    /// Returns the content of a string.
    pub(super) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the content of a string, shortened as in messages, or an integer as text.
    fn text_or_number(&self, allowed: &'static str) -> Result<String, ValueError> {
        if let Self::Integer(number) = self {
            return Ok(number.to_string());
        }
        self.as_text().map(printable).ok_or_else(|| ValueError::not_allowed(self, allowed))
    }
}

impl fmt::Display for RawValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Boolean(truth) => write!(f, "{truth}"),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                f.write_str(&items.join(", "))
            }
            Self::Table(table) => f.write_str(&display_table(table)),
            Self::Other(kind) => write!(f, "{kind}"),
        }
    }
}

/// Returns the name of the rule that a table defines, or the names of the tables in it, such as
/// those of executors.
fn display_table(table: &BTreeMap<String, RawValue>) -> String {
    if let Some(RawValue::Text(name)) = table.get("name") {
        return name.clone();
    }
    if table.is_empty() {
        return EMPTY_TABLE_WORD.to_owned();
    }
    table.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The reason why a value is invalid. The text of the error says which values are allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The duration is malformed or too long.
    #[error(transparent)]
    BadDuration(#[from] DurationError),
    /// The size is malformed or too large.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The signal is unknown.
    #[error(transparent)]
    Signal(#[from] BadSignal),
    /// The rule is malformed.
    #[error(transparent)]
    Rule(#[from] BadOrphanRule),
    /// The network policy is malformed.
    #[error(transparent)]
    Net(#[from] BadNetPolicy),
    /// The table of an executor is malformed.
    #[error(transparent)]
    Executor(#[from] BadExecutor),
    /// The key does not accept this value.
    #[error("`{found}` is not allowed here; write {allowed}")]
    NotAllowed {
        /// The rejected value, escaped and cut to 60 columns; the type of an array or a table;
        /// `this` for a webhook, whose value may contain a secret.
        found: String,
        /// Description of the allowed values, which follows `write` in the message.
        allowed: &'static str,
    },
}

impl ValueError {
    pub(super) fn not_allowed(raw: &RawValue, allowed: &'static str) -> Self {
        Self::NotAllowed { found: describe_rejected(raw), allowed }
    }
}

/// Returns a rejected value for a message, or its type if it is an array or a table, which could be
/// long.
pub(super) fn describe_rejected(raw: &RawValue) -> String {
    match raw {
        RawValue::List(_) => "an array".to_owned(),
        RawValue::Table(_) => "a table".to_owned(),
        RawValue::Text(_) | RawValue::Integer(_) | RawValue::Boolean(_) | RawValue::Other(_) => {
            printable(&raw.to_string())
        }
    }
}

/// Makes text from a file or variable safe to print in a message, and shortens it.
pub(super) fn printable(text: &str) -> String {
    one_line(text, 60)
}

/// A type that the value of a setting can have.
pub(super) trait Value: Sized + Clone + PartialEq + fmt::Debug {
    /// Parses and validates a value.
    fn read(raw: &RawValue) -> Result<Self, ValueError>;
    /// Returns the value as a settings file contains it. [`Self::read`] accepts the result, except
    /// that of a webhook, whose secret is removed.
    fn raw(&self) -> RawValue;
    /// Returns the JSON Schema of the value in a settings file.
    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema;
}

impl Value for Duration {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        // A number without a unit becomes text too: the duration parser rejects it, and its
        // error asks for a unit.
        let text = raw.text_or_number("a duration such as `15s`, `30m` or `1h30m`")?;
        Ok(duration::parse(&text)?)
    }

    fn raw(&self) -> RawValue {
        RawValue::Text(duration::format_duration_exact(*self))
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^ *[0-9][0-9.]* *[a-z]+( *[0-9][0-9.]* *[a-z]+)* *$"
        })
    }
}

impl Value for Bytes {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        Ok(raw.text_or_number("a size such as `8MiB`, or a number of bytes")?.parse()?)
    }

    fn raw(&self) -> RawValue {
        RawValue::Text(self.to_string())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                { "type": "string", "pattern": "^ *[0-9]+ *([kKMGT]i?)?[bB]? *$" },
                { "type": "integer", "minimum": 0 }
            ]
        })
    }
}

impl Value for ByteRate {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let text =
            raw.text_or_number("a rate such as `1MiB/s`, or a number of bytes per second")?;
        let text = text.trim();
        Ok(Self(text.strip_suffix("/s").unwrap_or(text).parse()?))
    }

    fn raw(&self) -> RawValue {
        RawValue::Text(self.to_string())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                { "type": "string", "pattern": "^ *[0-9]+ *([kKMGT]i?)?[bB]?(/s)? *$" },
                { "type": "integer", "minimum": 0 }
            ]
        })
    }
}

impl Value for Signal {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        Ok(raw.text_or_number("a signal such as `TERM` or `SIGINT`, or its number")?.parse()?)
    }

    fn raw(&self) -> RawValue {
        RawValue::Text(self.to_string())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                { "type": "string" },
                { "type": "integer", "minimum": 1, "maximum": 64 }
            ]
        })
    }
}

impl Value for bool {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        match raw {
            RawValue::Boolean(truth) => Ok(*truth),
            RawValue::Text(text) if ["true", "1"].contains(&text.trim()) => Ok(true),
            RawValue::Text(text) if ["false", "0"].contains(&text.trim()) => Ok(false),
            RawValue::Text(_)
            | RawValue::Integer(_)
            | RawValue::List(_)
            | RawValue::Table(_)
            | RawValue::Other(_) => Err(ValueError::not_allowed(raw, "`true` or `false`")),
        }
    }

    fn raw(&self) -> RawValue {
        RawValue::Boolean(*self)
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({ "type": "boolean" })
    }
}

impl Value for u32 {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let number = match raw {
            RawValue::Integer(number) => Self::try_from(*number).ok(),
            RawValue::Text(text) => text.trim().parse().ok(),
            RawValue::Boolean(_) | RawValue::List(_) | RawValue::Table(_) | RawValue::Other(_) => {
                None
            }
        };
        number.ok_or_else(|| ValueError::not_allowed(raw, "a whole number from 0 to 4294967295"))
    }

    fn raw(&self) -> RawValue {
        RawValue::Integer(i64::from(*self))
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32 })
    }
}

impl Value for String {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let text = raw.as_text().map(str::to_owned);
        text.ok_or_else(|| ValueError::not_allowed(raw, "a text in quotes"))
    }

    fn raw(&self) -> RawValue {
        RawValue::Text(self.clone())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1 })
    }
}

/// Whether the blocking budget applies to a call that specifies no wait. [`crate::budget`] has
/// further conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AssistantMode {
    /// The budget applies unless a person at a terminal calls.
    #[default]
    Auto,
    /// The budget applies even if a person at a terminal calls.
    On,
    /// The budget never applies.
    Off,
}

/// Whether `siding run` gives the command of a person at a terminal a terminal of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunTerminal {
    /// The command has one if nothing but the person's terminal is its input and output.
    #[default]
    Auto,
    /// The command has one only with `--pty`.
    Never,
}

/// A value that is one of a few keywords.
trait KeywordValue: Copy + PartialEq + fmt::Debug + 'static {
    /// All values with their keywords.
    const KEYWORDS: &'static [(&'static str, Self)];
    /// All keywords, for an error message.
    const ALLOWED: &'static str;
}

impl KeywordValue for AssistantMode {
    const KEYWORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
    const ALLOWED: &'static str = "`auto`, `on` or `off`";
}

impl KeywordValue for RunTerminal {
    const KEYWORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("never", Self::Never)];
    const ALLOWED: &'static str = "`auto` or `never`";
}

impl KeywordValue for OnLimit {
    const KEYWORDS: &'static [(&'static str, Self)] =
        &[("notice", Self::Notice), ("stop", Self::Stop)];
    const ALLOWED: &'static str = "`notice` or `stop`";
}

impl KeywordValue for UnownedReapMode {
    const KEYWORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("report", Self::Report), ("end", Self::End)];
    const ALLOWED: &'static str = "`off`, `report` or `end`";
}

impl KeywordValue for OnLeaderExit {
    const KEYWORDS: &'static [(&'static str, Self)] =
        &[("linger", Self::Linger), ("reap", Self::Reap)];
    const ALLOWED: &'static str = "`linger` or `reap`";
}

impl<W: KeywordValue> Value for W {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let text = match raw {
            RawValue::List(_) | RawValue::Table(_) => String::new(),
            RawValue::Text(_)
            | RawValue::Integer(_)
            | RawValue::Boolean(_)
            | RawValue::Other(_) => raw.to_string(),
        };
        let found = W::KEYWORDS.iter().find(|(word, _)| *word == text.trim());
        found.map(|(_, value)| *value).ok_or_else(|| ValueError::not_allowed(raw, W::ALLOWED))
    }

    fn raw(&self) -> RawValue {
        let found = W::KEYWORDS.iter().find(|(_, value)| value == self);
        RawValue::Text(found.map_or_else(String::new, |(word, _)| (*word).to_owned()))
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        let words: Vec<_> = W::KEYWORDS.iter().map(|(word, _)| *word).collect();
        schemars::json_schema!({ "type": "string", "enum": words })
    }
}
