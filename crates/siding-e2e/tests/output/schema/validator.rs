//! The part of JSON Schema (draft 2020-12) that the committed schemas use.
//!
//! A keyword that is not known here fails the test, so nothing is passed over unchecked. Beyond the
//! draft, a field that the schema does not name is a fault: hosts read the schema to know them all.

use regex::Regex;
use serde_json::{Map, Value};

/// A schema that was read.
#[derive(Debug)]
pub(super) struct Schema(Value);

impl Schema {
    #[track_caller]
    pub(super) fn new(text: &str) -> Self {
        Self(serde_json::from_str(text).expect("a schema is JSON"))
    }

    #[track_caller]
    pub(super) fn assert_valid(&self, value: &Value) {
        let faults = self.faults(value);
        assert!(faults.is_empty(), "{}\nin {value:#}", faults.join("\n"));
    }

    /// What is wrong with a value, each with its place.
    pub(super) fn faults(&self, value: &Value) -> Vec<String> {
        let mut faults = vec![];
        check(&self.0, value, "", &mut faults);
        faults
    }
}

fn check(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let schema = match schema {
        Value::Object(schema) => schema,
        Value::Bool(true) => return,
        other => panic!("no schema: {other}"),
    };
    for (keyword, wanted) in schema {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" => true,
            "type" => any(wanted, |kind| is_of_type(value, kind)),
            "enum" => any(wanted, |one| one == value),
            "const" => wanted == value,
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= wanted.as_f64()),
            "pattern" => value.as_str().is_none_or(|text| matches(text, wanted)),
            "format" => value.as_str().is_none_or(|text| has_format(text, wanted)),
            "required" => value.as_object().is_none_or(|object| {
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
            "oneOf" => list(wanted).iter().filter(|one| agrees(one, value)).count() == 1,
            unknown => panic!("the schema uses `{unknown}`, which is not checked here"),
        };
        if !holds {
            faults.push(format!("{at}: {value} breaks {keyword} {wanted}"));
        }
    }
}

fn properties(schema: &Map<String, Value>, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    let known = schema["properties"].as_object().expect("an object of schemas");
    for (name, value) in object {
        match known.get(name) {
            Some(schema) => check(schema, value, &format!("{at}/{name}"), faults),
            None => faults.push(format!("{at}/{name}: the schema does not name it")),
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
        unknown => panic!("there is no type `{unknown}`"),
    }
}

fn matches(text: &str, pattern: &Value) -> bool {
    Regex::new(string(pattern)).expect("a pattern").is_match(text)
}

fn has_format(text: &str, format: &Value) -> bool {
    assert_eq!(format, "date-time", "no other format is checked here");
    let moment = r"^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d(\.\d+)?(Z|[+-]\d\d:\d\d)$";
    matches(text, &Value::from(moment))
}

/// Whether it holds for the value, or for one in the list.
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
    let schema = Schema::new(
        r#"{"type": ["object", "null"], "required": ["a"], "properties": {
            "a": {"oneOf": [{"const": 1}, {"type": "integer", "minimum": 1}, {"enum": ["x"]}]},
            "b": {"items": {"type": "string", "pattern": "^b"}}}}"#,
    );
    let faults = |text: &str| schema.faults(&serde_json::from_str(text).expect("JSON")).len();
    for (right, count) in [
        ("null", 0),
        (r#"{"a": "x"}"#, 0),
        (r#"{"a": 2, "b": ["b", "bb"]}"#, 0),
        // Two of the three at once.
        (r#"{"a": 1}"#, 1),
        (r#"{"a": 0}"#, 1),
        ("{}", 1),
        ("[]", 1),
        (r#"{"a": 2, "b": ["b", "c", 7]}"#, 2),
        (r#"{"a": 2, "c": 0}"#, 1),
    ] {
        assert_eq!(faults(right), count, "{right}");
    }
}
