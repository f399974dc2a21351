//! The JSON Schema of a settings file, for editors and validators.

use schemars::{Schema, json_schema};
use serde_json::{Map, Value, json};

use super::keys::{Key, Settings};

/// Returns the JSON Schema of a settings file.
///
/// A file that satisfies the schema may still be rejected: the schema cannot compare durations, and
/// does not express that only the system file may contain `locked`.
#[must_use]
pub fn file_schema() -> Schema {
    let builtin = Settings::default();
    let mut properties = Map::new();
    for key in Key::ALL {
        let mut schema = key.schema();
        schema.insert("description".to_owned(), json!(key.about()));
        schema.insert("default".to_owned(), json!(builtin.value(*key)));
        properties.insert(key.name().to_owned(), schema.to_value());
    }
    properties.insert("locked".to_owned(), locked_schema());
    json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "siding settings",
        "type": "object",
        "properties": properties,
        "additionalProperties": false
    })
}

fn locked_schema() -> Value {
    let names: Vec<_> = Key::ALL.iter().map(|key| key.name()).collect();
    json!({
        "description": "Keys that no user, project, variable or call can change. \
            In the system file only.",
        "anyOf": [
            { "type": "array", "items": { "enum": names } },
            {
                "type": "object",
                "propertyNames": { "enum": names },
                "additionalProperties": { "type": "boolean" }
            }
        ]
    })
}
