//! The schemas of a tool's arguments and structured content. The schema of the arguments is kept
//! short, because a model reads it at the start of every conversation.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::structured::StructuredAnswer;

/// Returns the schema of a tool's arguments. `T` must be a struct with named fields.
#[must_use]
pub fn for_arguments<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    let Value::Object(mut schema) = Value::from(schema) else {
        // Unreachable: the schema of a type with named fields is an object.
        return Map::new();
    };
    // Some model providers reject an object schema without `properties`.
    let fields = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(fields) = fields {
        fields.values_mut().filter_map(Value::as_object_mut).for_each(shorten);
    }
    schema
}

/// Returns the schema of the structured content of a tool whose own fields are `T`. Some clients
/// pass this schema to their models, so it is kept short: only the fields of the answer itself and
/// of [`TASK_TYPE_NAME`] keep their descriptions.
#[must_use]
pub(crate) fn for_structured_answer<T: JsonSchema>() -> Map<String, Value> {
    let settings =
        SchemaSettings::draft2020_12().for_serialize().with(|settings| settings.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<StructuredAnswer<T>>();
    schema.remove("title");
    schema.remove("description");
    let Value::Object(mut schema) = Value::from(schema) else {
        // Unreachable: the schema of a type with named fields is an object.
        return Map::new();
    };
    schema.values_mut().for_each(simplify);
    let types = schema.get_mut("$defs").and_then(Value::as_object_mut);
    for (_, one) in types.into_iter().flatten().filter(|(name, _)| *name != TASK_TYPE_NAME) {
        remove_descriptions(one);
    }
    schema
}

/// The type whose fields keep their descriptions in the schema.
const TASK_TYPE_NAME: &str = "TaskSummary";

/// Removes all formats except `date-time`: number formats such as `uint64` are not in the JSON
/// Schema standard, and clients print warnings about them. Replaces a `oneOf` of constants by the
/// shorter `enum`.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("format").is_some_and(|format| format != "date-time") {
                fields.remove("format");
            }
            if let Some(words) = fields.get("oneOf").and_then(enum_values) {
                fields.remove("oneOf");
                fields.insert("enum".to_owned(), words);
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(all) => all.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the constants of a `oneOf` if it consists only of string constants.
fn enum_values(choice: &Value) -> Option<Value> {
    let word = |one: &Value| one.get("const").filter(|word| word.is_string()).cloned();
    choice.as_array()?.iter().map(word).collect::<Option<Vec<_>>>().map(Value::Array)
}

/// Removes every description in a schema: those of the type, its fields and its variants.
fn remove_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            fields.values_mut().for_each(remove_descriptions);
        }
        Value::Array(all) => all.iter_mut().for_each(remove_descriptions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes the parts of a field's schema that a model does not need: the default, the number format
/// and the type `null`. The description states a default that a model must know, and an optional
/// field can be omitted instead of being null.
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
