//! Finds schema changes that break programs that read the output.
//!
//! A change is compatible if every promised field, value and alternative remains, no required field
//! becomes optional, and no value can have an additional type. Added fields, values and
//! alternatives are compatible.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Returns one line for each difference that makes the outputs in `own` incompatible with those in
/// `promised`.
pub(super) fn find_all(promised: &Value, own: &Value) -> Vec<String> {
    let mut breaks = Vec::new();
    let outputs = promised["$defs"].as_object().into_iter().flatten();
    for (name, output) in outputs.filter(|(name, _)| name.starts_with(char::is_lowercase)) {
        match own["$defs"].get(name) {
            None => breaks.push(format!("{name} is missing")),
            Some(now) => compare(&inline(output, promised), &inline(now, own), name, &mut breaks),
        }
    }
    breaks
}

/// Returns a schema with each reference replaced by the definition that it names in `root`.
fn inline(schema: &Value, root: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut whole = Map::new();
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').expect("a reference into the document");
                let meant = root.pointer(pointer).expect("the reference resolves");
                whole.extend(inline(meant, root).as_object().cloned().unwrap_or_default());
            }
            let others = fields.iter().filter(|(name, _)| *name != "$ref");
            whole.extend(others.map(|(name, one)| (name.clone(), inline(one, root))));
            Value::Object(whole)
        }
        Value::Array(all) => all.iter().map(|one| inline(one, root)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

fn compare(promised: &Value, own: &Value, at: &str, breaks: &mut Vec<String>) {
    let (promised, own) = (alternatives(promised), alternatives(own));
    let (allowed, possible) = (types(&promised), types(&own));
    if promised.iter().all(|one| one.get("type").is_some()) {
        breaks.extend(possible.difference(&allowed).map(|name| format!("{at} may be a {name}")));
    }
    let remaining = values(&own);
    let lost = values(&promised).into_iter().filter(|value| !remaining.contains(value));
    breaks.extend(lost.map(|value| format!("{at} is never {value}")));
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", ".*")] {
        let inner = |all: &[&Value]| all.iter().find_map(|one| one.get(keyword)).cloned();
        if let (Some(promised), Some(own)) = (inner(&promised), inner(&own)) {
            compare(&promised, &own, &format!("{at}{suffix}"), breaks);
        }
    }
    for object in promised.iter().filter(|one| one.get("properties").is_some()) {
        let same_tag = own.iter().filter(|one| tag(one) == tag(object));
        // Objects without a tag differ only in their fields, so the most similar one is the
        // counterpart.
        match same_tag.map(|own| compare_objects(object, own, at)).min_by_key(Vec::len) {
            None => breaks.push(format!("{at} is never {}", tag(object).unwrap_or(&Value::Null))),
            Some(found) => breaks.extend(found),
        }
    }
}

fn compare_objects(promised: &Value, own: &Value, at: &str) -> Vec<String> {
    let mut breaks = Vec::new();
    for (name, field) in promised["properties"].as_object().into_iter().flatten() {
        match own["properties"].get(name) {
            None => breaks.push(format!("{at}.{name} is missing")),
            Some(own) => compare(field, own, &format!("{at}.{name}"), &mut breaks),
        }
    }
    let required = |schema: &Value| -> BTreeSet<String> {
        let names = schema["required"].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (promised, own) = (required(promised), required(own));
    breaks.extend(promised.difference(&own).map(|name| format!("{at}.{name} may be left out")));
    breaks
}

/// Returns a schema's alternatives as a flat list, or the schema itself if it has none.
fn alternatives(schema: &Value) -> Vec<&Value> {
    match ["anyOf", "oneOf"].iter().find_map(|word| schema.get(word)?.as_array()) {
        Some(inner) => inner.iter().flat_map(alternatives).collect(),
        None => vec![schema],
    }
}

/// Returns the constant by which an alternative is recognized, such as the `kind` of an outcome.
fn tag(schema: &Value) -> Option<&Value> {
    schema["properties"].as_object()?.values().find_map(|field| field.get("const"))
}

fn types<'s>(alternatives: &[&'s Value]) -> BTreeSet<&'s str> {
    let names = alternatives.iter().filter_map(|one| one.get("type"));
    names.flat_map(elements).filter_map(Value::as_str).collect()
}

/// Returns the values that the alternatives list with `const` or `enum`.
fn values<'s>(alternatives: &[&'s Value]) -> Vec<&'s Value> {
    let constants = alternatives.iter().filter_map(|one| one.get("const"));
    let enumerations = alternatives.iter().filter_map(|one| one.get("enum"));
    constants.chain(enumerations.flat_map(elements)).collect()
}

/// Returns the elements of an array, or any other value as the only element.
fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::generate_document;
    use super::*;

    #[test]
    fn breaking_changes_are_found_and_additions_are_not() {
        let promised = generate_document().to_value();
        type Change = fn(&mut Value);
        let changes: [(Option<&str>, Change); 9] = [
            (Some("wait is missing"), |own| drop(remove(own, "/$defs", "wait"))),
            (Some("task.cwd is missing"), |own| drop(remove(own, "/$defs/task/properties", "cwd"))),
            (Some("task.cwd may be left out"), |own| {
                own["$defs"]["task"]["required"] = json!(["task_id"]);
            }),
            (Some("task.elapsed_ms may be a string"), |own| {
                own["$defs"]["task"]["properties"]["elapsed_ms"] = json!({"type": "string"});
            }),
            (Some("task.phase is never \"ended\""), |own| {
                own["$defs"]["PhaseName"] = json!({"type": "string", "enum": ["finished"]});
            }),
            (Some("task.output.bytes is missing"), |own| {
                drop(remove(own, "/$defs/OutputView/properties", "bytes"))
            }),
            (Some("task.processes[].pid is missing"), |own| {
                drop(remove(own, "/$defs/ProcessView/properties", "pid"))
            }),
            (Some("task.outcome is never \"lost\""), |own| {
                let kinds = own["$defs"]["Outcome"]["oneOf"].as_array_mut().expect("kinds");
                kinds.retain(|one| one["properties"]["kind"]["const"] != "lost");
            }),
            (None, |own| {
                own["$defs"]["task"]["properties"]["color"] = json!({"type": "string"});
                let values = own["$defs"]["TaskKind"]["oneOf"].as_array_mut().expect("values");
                values.push(json!({"type": "string", "const": "new"}));
                let kinds = own["$defs"]["Outcome"]["oneOf"].as_array_mut().expect("kinds");
                kinds.push(json!({"type": "object", "properties": {"kind": {"const": "new"}}}));
            }),
        ];
        for (expected, change) in changes {
            let mut own = promised.clone();
            change(&mut own);
            let found = find_all(&promised, &own);
            match expected {
                Some(expected) => assert!(found.contains(&expected.to_owned()), "{found:#?}"),
                None => assert_eq!(found, [""; 0]),
            }
        }
    }

    fn remove(schema: &mut Value, pointer: &str, name: &str) -> Option<Value> {
        schema.pointer_mut(pointer)?.as_object_mut()?.remove(name)
    }
}
