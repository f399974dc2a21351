//! The schemas of a tool's arguments and of its structured content. That of the arguments is as short
//! as it can be: every word of it is read at the beginning of every conversation.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::structured::StructuredAnswer;

/// Returns the schema of a type with named fields.
#[must_use]
pub fn of<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    let Value::Object(mut schema) = Value::from(schema) else {
        // A type with named fields has no other.
        return Map::new();
    };
    // Some providers refuse an object that does not say so.
    let fields = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(fields) = fields {
        fields.values_mut().filter_map(Value::as_object_mut).for_each(shorten);
    }
    schema
}

/// Returns the schema of a tool's structured content whose own fields are `T`.
#[must_use]
pub(crate) fn of_structured<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<StructuredAnswer<T>>();
    schema.remove("title");
    schema.remove("description");
    let mut schema = Value::from(schema);
    remove_number_formats(&mut schema);
    match schema {
        Value::Object(schema) => schema,
        // A type with named fields has no other.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

/// Leaves out formats of numbers, such as `uint64`: the standard has none, and clients warn of them.
fn remove_number_formats(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("format").is_some_and(|format| format != "date-time") {
                fields.remove("format");
            }
            fields.values_mut().for_each(remove_number_formats);
        }
        Value::Array(all) => all.iter_mut().for_each(remove_number_formats),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Leaves out what is not for a model: what a field is when it is left out, which its words say, and
/// that it may be null, which is what leaving it out is for.
fn shorten(field: &mut Map<String, Value>) {
    field.remove("default");
    field.remove("format");
    if let Some(Value::Array(types)) = field.get("type")
        && let Some(kind) = types.iter().find(|kind| *kind != "null").cloned()
    {
        field.insert("type".to_owned(), kind);
    }
    if let Some(Value::Array(values)) = field.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}
