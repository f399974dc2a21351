//! Parses the arguments that a model wrote. A value of the wrong type is converted if its meaning
//! is clear, such as the text `5` for a number. Otherwise the error names the argument, the given
//! value and the allowed values.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use siding_model::text;

use crate::schema;

/// Maximum width of a wrong value, or of the name of an unknown argument, in an error message, in
/// columns.
const SHOWN_VALUE_COLUMNS: usize = 60;

/// Parses the arguments of a tool. A null argument is treated as omitted.
///
/// # Errors
///
/// Returns a message for the model about the wrong argument.
pub fn parse<T: DeserializeOwned + JsonSchema>(input: Value) -> Result<T, String> {
    let schema = Value::Object(schema::for_arguments::<T>());
    let none = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&none);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut given = normalize_names(into_object(input)?, fields);
    if let Some(name) = given.keys().find(|name| !fields.contains_key(*name)) {
        let name = text::one_line(name, SHOWN_VALUE_COLUMNS);
        let known: Vec<String> = fields
            .iter()
            .map(|(name, field)| {
                let must = if required.contains(&name.as_str()) { "" } else { "; optional" };
                format!("`{name}` ({}{must})", describe_allowed(field))
            })
            .collect();
        return Err(format!("unknown argument `{name}`; the arguments are {}", known.join(", ")));
    }
    if let Some(name) = required.iter().find(|name| !given.contains_key(**name)) {
        let field = &fields[*name];
        return Err(format!(
            "`{name}` is missing: {}{}",
            describe_allowed(field),
            describe_purpose(field)
        ));
    }
    for (name, value) in &mut given {
        let field = &fields[name];
        *value = coerce(std::mem::take(value), field).map_err(|wrong| {
            format!(
                "`{name}`: {} is not {}{}",
                format_value(&wrong),
                describe_allowed(field),
                describe_purpose(field)
            )
        })?;
    }
    serde_json::from_value(Value::Object(given.clone()))
        .map_err(|why| describe_type_error::<T>(&given, &why.to_string()))
}

/// Drops null arguments, and accepts two names that the schema does not have: `task_id`, as results
/// name it, in place of `id`, and the singular name of a list, such as `id` in place of `ids`.
fn normalize_names(given: Map<String, Value>, fields: &Map<String, Value>) -> Map<String, Value> {
    let given = given.into_iter().filter(|(_, value)| !value.is_null());
    let mut named: Map<String, Value> = given.collect();
    for (in_results, name) in [("task_id", "id"), ("task_id", "ids"), ("task_ids", "ids")] {
        if fields.contains_key(name)
            && !fields.contains_key(in_results)
            && !named.contains_key(name)
            && let Some(value) = named.remove(in_results)
        {
            named.insert(name.to_owned(), value);
        }
    }
    for (name, field) in fields {
        if field["type"] == "array"
            && let Some(one) = name.strip_suffix('s')
            && !fields.contains_key(one)
            && !named.contains_key(name)
            && let Some(value) = named.remove(one)
        {
            named.insert(name.clone(), value);
        }
    }
    named
}

/// Returns a message for arguments that match the schema but that the type `T` rejects.
fn describe_type_error<T: DeserializeOwned>(given: &Map<String, Value>, why: &str) -> String {
    // serde's error does not name the argument. The argument at fault is the one whose removal
    // changes the error.
    let is_at_fault = |name: &&String| {
        let mut others = given.clone();
        others.remove(name.as_str());
        serde_json::from_value::<T>(Value::Object(others))
            .err()
            .is_none_or(|other| other.to_string() != why)
    };
    match given.keys().find(is_at_fault) {
        Some(name) => format!("`{name}`: {}: {why}", format_value(&given[name])),
        None => why.to_owned(),
    }
}

/// Returns the arguments as an object. Some models write the object as a JSON text, which is
/// parsed.
fn into_object(input: Value) -> Result<Map<String, Value>, String> {
    let input = match input {
        Value::Null => return Ok(Map::new()),
        Value::String(text) if text.trim().is_empty() => return Ok(Map::new()),
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other,
    };
    match input {
        Value::Object(fields) => Ok(fields),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => Err(format!(
            "the arguments must be a JSON object, not {}; if the answer was cut off, write less in one call",
            format_value(&other)
        )),
    }
}

/// Converts a value to the type in `schema` where its meaning is clear: for example, a text to the
/// number that it represents, or a text that is not a JSON list to a list with this text as its
/// only item. The error is the part of the value that does not fit.
fn coerce(value: Value, schema: &Value) -> Result<Value, Value> {
    let fitted = match (schema["type"].as_str().unwrap_or_default(), value) {
        ("string", Value::Number(number)) => Value::String(number.to_string()),
        ("string", Value::Bool(truth)) => Value::String(truth.to_string()),
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => return Err(Value::String(text)),
        },
        ("integer", value) => Value::Number(whole_number(&value).ok_or(value)?),
        ("number", Value::String(text)) => match text.trim().parse::<Number>() {
            Ok(number) => Value::Number(number),
            Err(_) => return Err(Value::String(text)),
        },
        ("array", Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Array(items)) => coerce_items(items, &schema["items"])?,
            _ => coerce_items(vec![Value::String(text)], &schema["items"])?,
        },
        ("array", Value::Array(items)) => coerce_items(items, &schema["items"])?,
        ("object", Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => coerce_fields(fields, &schema["additionalProperties"])?,
            _ => return Err(Value::String(text)),
        },
        ("object", Value::Object(fields)) => {
            coerce_fields(fields, &schema["additionalProperties"])?
        }
        (_, other) => other,
    };
    let is_right = match schema["type"].as_str() {
        Some("string") => fitted.is_string(),
        Some("boolean") => fitted.is_boolean(),
        Some("integer" | "number") => {
            fitted.is_number() && schema["minimum"].as_f64() <= fitted.as_f64()
        }
        Some("array") => fitted.is_array(),
        Some("object") => fitted.is_object(),
        Some(_) | None => true,
    };
    let is_one_of = schema["enum"].as_array().is_none_or(|allowed| allowed.contains(&fitted));
    if is_right && is_one_of { Ok(fitted) } else { Err(fitted) }
}

fn coerce_items(items: Vec<Value>, schema: &Value) -> Result<Value, Value> {
    items.into_iter().map(|item| coerce(item, schema)).collect::<Result<_, _>>().map(Value::Array)
}

fn coerce_fields(fields: Map<String, Value>, schema: &Value) -> Result<Value, Value> {
    let one = |(name, value): (String, Value)| match coerce(value, schema) {
        Ok(value) => Ok((name, value)),
        // For a field of an object, the error contains the field's name.
        Err(wrong) => Err(Value::Object(Map::from_iter([(name, wrong)]))),
    };
    fields.into_iter().map(one).collect::<Result<_, _>>().map(Value::Object)
}

/// Returns the integer that a value such as `5`, `5.0` or `"5"` represents; `None` if it represents
/// none.
fn whole_number(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.clone()),
        Value::Number(number) => number.to_string().strip_suffix(".0")?.parse().ok(),
        Value::String(text) => {
            let number: Number = text.trim().parse().ok()?;
            whole_number(&Value::Number(number))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Describes which values a schema allows.
fn describe_allowed(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return format!("one of {}", values.join(", "));
    }
    match schema["type"].as_str() {
        Some("string") => "a text".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => match schema["minimum"].as_i64() {
            Some(least) => format!("a whole number of at least {least}"),
            None => "a whole number".to_owned(),
        },
        Some("number") => "a number".to_owned(),
        Some("array") => format!("a list, each {}", describe_allowed(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("names, each with {}", describe_allowed(&schema["additionalProperties"]))
        }
        Some("object") => "an object".to_owned(),
        Some(_) | None => "any value".to_owned(),
    }
}

/// Returns the description of an argument, in parentheses.
fn describe_purpose(schema: &Value) -> String {
    schema["description"].as_str().map_or_else(String::new, |about| format!(" ({about})"))
}

fn format_value(value: &Value) -> String {
    text::one_line(&value.to_string(), SHOWN_VALUE_COLUMNS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// A speed.
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Speed {
        Fast,
        Slow,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct TestArgs {
        /// A path.
        path: String,
        /// A number.
        #[serde(default)]
        count: Option<std::num::NonZeroU32>,
        /// A flag.
        #[serde(default)]
        all: bool,
        /// A list.
        #[serde(default)]
        names: Vec<String>,
        /// Variables.
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// A speed.
        #[serde(default)]
        how: Option<Speed>,
    }

    #[track_caller]
    fn accepted(input: Value) -> TestArgs {
        parse(input).expect("is taken")
    }

    #[track_caller]
    fn assert_refused(input: Value, parts: &[&str]) {
        let why = parse::<TestArgs>(input).expect_err("is wrong");
        for part in parts {
            assert!(why.contains(part), "no {part} in {why}");
        }
    }

    #[test]
    fn an_id_may_have_the_name_that_results_give_it() {
        #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
        struct One {
            id: String,
        }
        #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
        struct Several {
            ids: Vec<String>,
        }
        assert_eq!(parse(json!({ "task_id": "b" })), Ok(One { id: "b".into() }));
        let several = Several { ids: vec!["b".into()] };
        assert_eq!(parse(json!({ "task_id": "b" })), Ok(several));
        assert_eq!(parse(json!({ "task_ids": ["b"] })), Ok(Several { ids: vec!["b".into()] }));
        assert!(parse::<One>(json!({ "id": "a", "task_id": "b" })).is_err(), "one of them is lost");
        assert_refused(json!({ "path": "a", "task_id": "b" }), &["unknown argument `task_id`"]);
    }

    #[test]
    fn unambiguous_values_are_coerced() {
        let plain = || TestArgs {
            path: "a".into(),
            count: None,
            all: false,
            names: vec![],
            env: BTreeMap::new(),
            how: None,
        };
        assert_eq!(
            accepted(json!({ "path": "a", "count": null, "all": null, "how": null })),
            plain()
        );
        assert_eq!(accepted(json!("{\"path\": \"a\"}")), plain());
        for (all, wanted) in [(json!(true), true), (json!("True"), true), (json!("false"), false)] {
            assert_eq!(
                accepted(json!({ "path": "a", "all": all })),
                TestArgs { all: wanted, ..plain() }
            );
        }
        for count in [json!(5), json!(5.0), json!("5"), json!(" 5.0 ")] {
            let count = accepted(json!({ "path": "a", "count": count })).count;
            assert_eq!(count.map(u32::from), Some(5));
        }
        for names in [json!(["x"]), json!("x"), json!("[\"x\"]")] {
            assert_eq!(accepted(json!({ "path": "a", "names": names })).names, ["x"]);
        }
        assert_eq!(accepted(json!({ "path": 7, "names": [1, true] })).names, ["1", "true"]);
        assert_eq!(accepted(json!({ "path": "[]" })).path, "[]");
        assert_eq!(accepted(json!({ "path": "a", "name": "x" })).names, ["x"], "a list of one");
        for env in [json!({ "A": "x", "B": 8080, "C": true, "D": 0.5 }), json!("{\"A\":\"x\"}")] {
            let env = accepted(json!({ "path": "a", "env": env })).env;
            assert_eq!(env["A"], "x");
            assert!(env.get("B").is_none_or(|port| port == "8080"), "{env:?}");
        }
    }

    #[test]
    fn an_error_names_the_argument_its_value_and_what_is_allowed() {
        assert_refused(
            json!({ "path": "a", "cuont": 3 }),
            &["`cuont`", "`path` (a text)", "`count` (a whole"],
        );
        assert_refused(json!({ "count": 3 }), &["`path` is missing", "a text", "A path"]);
        assert_refused(json!({ "path": { "a": 1 } }), &["`path`", "{\"a\":1}", "a text"]);
        assert_refused(
            json!({ "path": "a", "count": "many" }),
            &["`count`", "\"many\"", "whole number"],
        );
        assert_refused(json!({ "path": "a", "count": 2.5 }), &["`count`", "2.5", "whole number"]);
        assert_refused(json!({ "path": "a", "count": 0 }), &["`count`", "0", "at least 1"]);
        assert_refused(json!({ "path": "a", "count": -3 }), &["`count`", "-3", "at least 1"]);
        assert_refused(json!({ "path": "a", "count": 1_u64 << 40 }), &["`count`", "1099511627776"]);
        assert_refused(
            json!({ "path": "a", "all": "maybe" }),
            &["`all`", "\"maybe\"", "true or false"],
        );
        assert_refused(
            json!({ "path": "a", "names": [{}] }),
            &["`names`", "{}", "a list, each a text"],
        );
        let env = json!({ "A": 1, "B": [] });
        assert_refused(
            json!({ "path": "a", "env": env }),
            &["`env`", "{\"B\":[]}", "each with a text"],
        );
        // The singular together with the plural is ambiguous.
        assert_refused(json!({ "path": "a", "name": "x", "names": ["y"] }), &["`name`", "`names`"]);
        assert_refused(
            json!({ "path": "a", "how": "well" }),
            &["`how`", "\"well\"", "fast", "slow"],
        );
        assert_refused(json!(["a"]), &["[\"a\"]", "object"]);
        assert_refused(json!("{\"path\": \"a"), &["cut"]);
    }
}
