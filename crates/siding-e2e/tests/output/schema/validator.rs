//! A validator for the part of JSON Schema (draft 2020-12) that the committed schemas use. An
//! unknown keyword fails the test, so that no constraint is skipped. The validator is stricter than
//! the draft in one point: a schema with `required` and without `type` accepts only objects. Under
//! the draft such a schema accepts every value that is not an object, so a null `outcome` would
//! match all alternatives of its `oneOf`, which requires exactly one match.

use regex::Regex;
use serde_json::{Map, Value};

/// A schema in which each `$ref` has been replaced by its definition.
#[derive(Debug)]
pub(super) struct Schema(Value);

impl Schema {
    #[track_caller]
    pub(super) fn new(schema: &Value) -> Self {
        Self(inlined(schema, &schema["$defs"]))
    }

    #[track_caller]
    pub(super) fn assert_valid(&self, value: &Value) {
        let faults = self.faults(value);
        assert!(faults.is_empty(), "{}\nin {value:#}", faults.join("\n"));
    }

    /// Returns one message per violation, each with the path of the violating value.
    pub(super) fn faults(&self, value: &Value) -> Vec<String> {
        let mut faults = vec![];
        check(&self.0, value, "", &mut faults);
        faults
    }
}

fn check(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    if *schema == true {
        return;
    }
    let schema = schema.as_object().unwrap_or_else(|| panic!("not a schema: {schema}"));
    for (keyword, wanted) in schema {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => true,
            "type" => any(wanted, |kind| is_of_type(value, kind)),
            "enum" => any(wanted, |one| one == value),
            "const" => wanted == value,
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= wanted.as_f64()),
            "pattern" => value.as_str().is_none_or(|text| matches(text, wanted)),
            "format" => value.as_str().is_none_or(|text| has_format(text, wanted)),
            "required" => value.as_object().map_or(schema.contains_key("type"), |object| {
                list(wanted).iter().all(|name| object.contains_key(string(name)))
            }),
            "properties" => {
                properties(schema, value, at, faults);
                true
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(wanted, item, &format!("{at}/{index}"), faults);
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let others = value.as_object().into_iter().flatten();
                for (name, value) in
                    others.filter(|(name, _)| !known.is_some_and(|known| known.contains_key(*name)))
                {
                    check(wanted, value, &format!("{at}/{name}"), faults);
                }
                true
            }
            "anyOf" => list(wanted).iter().any(|one| agrees(one, value)),
            "oneOf" => list(wanted).iter().filter(|one| agrees(one, value)).count() == 1,
            unknown => panic!("the schema uses `{unknown}`, which is not checked here"),
        };
        if !holds {
            faults.push(format!("{at}: {value} breaks {keyword} {wanted}"));
        }
    }
}

/// Returns the schema with each `$ref` replaced by its definition.
fn inlined(schema: &Value, definitions: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut whole = Map::new();
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let name =
                    reference.strip_prefix("#/$defs/").expect("a reference into the same document");
                let Value::Object(meant) = inlined(&definitions[name], definitions) else {
                    panic!("no definition of {name}")
                };
                whole = meant;
            }
            let others =
                fields.iter().filter(|(name, _)| !["$ref", "$defs"].contains(&name.as_str()));
            whole.extend(others.map(|(name, one)| (name.clone(), inlined(one, definitions))));
            Value::Object(whole)
        }
        Value::Array(all) => all.iter().map(|one| inlined(one, definitions)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

fn properties(schema: &Map<String, Value>, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    let known = schema["properties"].as_object().expect("an object of schemas");
    for (name, value) in object {
        // A field that `properties` does not name is allowed here; `additionalProperties` may
        // restrict it.
        if let Some(schema) = known.get(name) {
            check(schema, value, &format!("{at}/{name}"), faults);
        }
    }
}

fn agrees(schema: &Value, value: &Value) -> bool {
    let mut faults = vec![];
    check(schema, value, "", &mut faults);
    faults.is_empty()
}

fn is_of_type(value: &Value, kind: &Value) -> bool {
    match string(kind) {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        unknown => panic!("unknown type `{unknown}`"),
    }
}

fn matches(text: &str, pattern: &Value) -> bool {
    Regex::new(string(pattern)).expect("a pattern").is_match(text)
}

fn has_format(text: &str, format: &Value) -> bool {
    if string(format).trim_start_matches('u').starts_with("int") {
        // A format such as `uint64` constrains numbers, not strings.
        return true;
    }
    assert_eq!(format, "date-time", "no other format is checked here");
    let moment = r"^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d(\.\d+)?(Z|[+-]\d\d:\d\d)$";
    matches(text, &Value::from(moment))
}

/// Returns whether the predicate holds for `wanted` or, if `wanted` is a list, for any of its
/// elements.
fn any(wanted: &Value, holds: impl Fn(&Value) -> bool) -> bool {
    wanted.as_array().map_or_else(|| holds(wanted), |all| all.iter().any(&holds))
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[track_caller]
fn string(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn the_validator_knows_right_from_wrong() {
    let schema = Schema::new(&serde_json::json!(
        {"type": ["object", "array"], "required": ["a"], "properties": {
            "a": {"oneOf": [{"const": 1}, {"type": "integer", "minimum": 1}, {"enum": ["x"]}]},
            "b": {"items": {"type": "string", "pattern": "^b"}}}}
    ));
    let faults = |text: &str| schema.faults(&serde_json::from_str(text).expect("JSON")).len();
    for (right, count) in [
        (r#"{"a": "x"}"#, 0),
        (r#"{"a": 2, "b": ["b", "bb"]}"#, 0),
        // A number matches two of the three alternatives, but `oneOf` requires exactly one match.
        (r#"{"a": 1}"#, 1),
        (r#"{"a": 0}"#, 1),
        ("{}", 1),
        ("[]", 0),
        (r#"{"a": 2, "b": ["b", "c", 7]}"#, 2),
        (r#"{"a": 2, "c": 0}"#, 0),
        ("null", 1),
    ] {
        assert_eq!(faults(right), count, "{right}");
    }
}
