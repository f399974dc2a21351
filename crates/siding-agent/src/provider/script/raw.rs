//! The TOML structure of a script. The errors of serde list the allowed keys.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::format::TextPart;
use crate::message::{FinishReason, Usage};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScript {
    #[serde(default)]
    pub(super) restart: bool,
    #[serde(default)]
    pub(super) answer: Vec<Spanned<RawAnswer>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAnswer {
    pub(super) expect: Option<String>,
    pub(super) mismatch: Option<String>,
    #[serde(default)]
    pub(super) delay_ms: u64,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    #[serde(default)]
    pub(super) text: RawText,
    #[serde(default)]
    pub(super) call: Vec<RawCall>,
    pub(super) stop: Option<FinishReason>,
    pub(super) usage: Option<RawUsage>,
    pub(super) error: Option<RawError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCall {
    pub(super) tool: String,
    pub(super) input: Option<toml::Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawUsage {
    pub(super) input: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
    pub(super) output: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawError {
    pub(super) status: Option<u16>,
    pub(super) message: Option<String>,
    pub(super) retry_after_ms: Option<u64>,
}

/// A text, or a list of its parts.
#[derive(Default)]
pub(super) struct RawText(pub(super) Vec<RawPart>);

pub(super) struct RawPart {
    pub(super) text: String,
    pub(super) delay_ms: u64,
}

impl From<RawUsage> for Usage {
    fn from(raw: RawUsage) -> Self {
        let RawUsage { input, cache_read, cache_write, output } = raw;
        Self { input, cache_read, cache_write, output }
    }
}

impl From<RawPart> for TextPart {
    fn from(raw: RawPart) -> Self {
        Self { text: raw.text, delay: Duration::from_millis(raw.delay_ms) }
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = RawText;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text, or a list of texts and of tables { text, delay_ms }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawText, E> {
                Ok(RawText(vec![RawPart { text: text.to_owned(), delay_ms: 0 }]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawText, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = items.next_element()? {
                    parts.push(part);
                }
                Ok(RawText(parts))
            }
        }

        deserializer.deserialize_any(Texts)
    }
}

impl<'de> Deserialize<'de> for RawPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            text: String,
            #[serde(default)]
            delay_ms: u64,
        }

        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = RawPart;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text, or a table { text, delay_ms }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawPart, E> {
                Ok(RawPart { text: text.to_owned(), delay_ms: 0 })
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<RawPart, A::Error> {
                let Table { text, delay_ms } =
                    Table::deserialize(MapAccessDeserializer::new(fields))?;
                Ok(RawPart { text, delay_ms })
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}
