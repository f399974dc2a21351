//! Attributes in the JSON encoding of OTLP.

use serde_json::{Value, json};

use crate::text::{cut_head, make_visible};

/// Maximum length of the text of an attribute, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// A list of attributes.
#[derive(Debug, Clone, Default)]
pub(super) struct Attributes(Vec<Value>);

impl Attributes {
    /// Adds a text. Text of a task is untrusted: it is shortened, and its control characters are
    /// escaped.
    pub(super) fn text(mut self, key: &str, text: &str) -> Self {
        let text = make_visible(cut_head(text, MAX_TEXT_BYTES));
        self.0.push(json!({ "key": key, "value": { "stringValue": text } }));
        self
    }

    /// Adds a text if there is one.
    pub(super) fn optional_text(self, key: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(key, text),
            None => self,
        }
    }

    /// Adds a whole number. The encoding writes 64-bit numbers as texts.
    pub(super) fn number(mut self, key: &str, number: u64) -> Self {
        let number = i64::try_from(number).unwrap_or(i64::MAX).to_string();
        self.0.push(json!({ "key": key, "value": { "intValue": number } }));
        self
    }

    /// Adds a number if there is one.
    pub(super) fn optional_number(self, key: &str, number: Option<u64>) -> Self {
        match number {
            Some(number) => self.number(key, number),
            None => self,
        }
    }

    /// Adds a truth value.
    pub(super) fn flag(mut self, key: &str, is_set: bool) -> Self {
        self.0.push(json!({ "key": key, "value": { "boolValue": is_set } }));
        self
    }

    /// Returns the list as JSON.
    pub(super) fn into_json(self) -> Value {
        Value::Array(self.0)
    }
}
