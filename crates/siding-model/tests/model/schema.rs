//! Tests that the generated schemas agree with the published schemas.
//!
//! `task_view` checks values; this module checks that no field is missing, renamed or wider than
//! published.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use siding_model::notice::NoticeView;
use siding_model::task_view::{TaskView, WaitView};

use crate::task_view::published_schema;

#[test]
fn the_generated_task_schema_matches_the_published_one() {
    let own = generated::<TaskView>();
    assert_eq!(disagreements("task", &own), [""; 0]);
}

#[test]
fn the_generated_wait_schema_matches_the_published_one() {
    let own = generated::<WaitView>();
    assert_eq!(disagreements("wait", &own), [""; 0]);
}

#[test]
fn the_generated_notice_schema_matches_the_published_one() {
    let own = generated::<NoticeView>();
    assert_eq!(disagreements("notice", &own), [""; 0]);
}

/// Every field is always present: an unknown value is null.
#[test]
fn every_field_is_required() {
    for own in [generated::<TaskView>(), generated::<WaitView>(), generated::<NoticeView>()] {
        let fields = fields(&own);
        assert_eq!(required(&own), fields.keys().map(String::as_str).collect());
    }
}

/// Returns the schema of serialized values, in which an optional field is present and null.
fn generated<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Without this test, a comparison that accepts everything would go unnoticed.
#[test]
fn a_schema_that_breaks_the_contract_is_detected() {
    let good = generated::<TaskView>();
    type SchemaBreak = fn(&mut Value);
    let breaks: [(&str, SchemaBreak); 5] = [
        ("task.cwd is missing", |own| {
            own["properties"].as_object_mut().expect("an object").remove("cwd");
        }),
        ("task.elapsed_ms may be a string", |own| {
            own["properties"]["elapsed_ms"] = json!({"type": "string"});
        }),
        ("task.phase may be \"finished\"", |own| {
            own["properties"]["phase"] = json!({"enum": ["finished"]});
        }),
        ("task.output.bytes is missing", |own| {
            own["properties"]["output"] = json!({"type": "object", "properties": {}});
        }),
        ("task.outcome is never \"lost\"", |own| {
            own["properties"]["outcome"] = json!({"type": "null"});
        }),
    ];
    for (expected, damage) in breaks {
        let mut own = good.clone();
        damage(&mut own);
        let found = disagreements("task", &own);
        assert!(found.iter().any(|found| found == expected), "no `{expected}` in {found:#?}");
    }
}

fn disagreements(name: &str, own: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(&published_schema(name), own, own, name, &mut found);
    found
}

/// Compares a part of the published schema with the same part of the generated schema `root`.
fn compare(contract: &Value, own: &Value, root: &Value, at: &str, found: &mut Vec<String>) {
    let own = resolve(root, own);
    let own = &own;
    if let Some(promised) = contract.get("oneOf") {
        compare_variants(promised, own, root, at, found);
        return;
    }
    let allowed = types(contract);
    // `detail` of a wait may have any type.
    if !allowed.is_empty() {
        let wider = types(own).into_iter().filter(|name| !allowed.contains(name));
        found.extend(wider.map(|name| format!("{at} may be a {name}")));
    }
    if let Some(promised) = contract.get("enum").and_then(Value::as_array) {
        let unknown = values(own, root).into_iter().filter(|value| !promised.contains(value));
        found.extend(unknown.map(|value| format!("{at} may be {value}")));
    }
    let own_object = object(own, root);
    for (key, promised) in fields(contract) {
        let path = format!("{at}.{key}");
        match own_object["properties"].get(&key) {
            Some(own) => compare(&promised, own, root, &path, found),
            None => found.push(format!("{path} is missing")),
        }
    }
    for key in required(contract).difference(&required(&own_object)) {
        found.push(format!("{at}.{key} may be left out"));
    }
    if let (Some(promised), Some(own)) = (contract.get("items"), own.get("items")) {
        compare(promised, own, root, &format!("{at}[]"), found);
    }
}

/// Compares the variants by their `kind`. Both schemas must have the same variants.
fn compare_variants(
    promised: &Value,
    own: &Value,
    root: &Value,
    at: &str,
    found: &mut Vec<String>,
) {
    let kind = |variant: &Value| variant["properties"]["kind"]["const"].clone();
    let promised: Vec<&Value> = promised.as_array().expect("a list").iter().collect();
    let own: Vec<Value> =
        variants(own, root).into_iter().filter(|one| !kind(one).is_null()).collect();
    for variant in promised.iter().filter(|variant| !kind(variant).is_null()) {
        let kind_name = kind(variant);
        match own.iter().find(|one| kind(one) == kind_name) {
            None => found.push(format!("{at} is never {kind_name}")),
            Some(one) => {
                let name = kind_name.as_str().expect("the name of a kind");
                compare(variant, one, root, &format!("{at}.{name}"), found);
            }
        }
    }
    for one in &own {
        if !promised.iter().any(|variant| kind(variant) == kind(one)) {
            found.push(format!("{at} may be of kind {}", kind(one)));
        }
    }
}

/// Returns the schema that a reference points to.
fn resolve(root: &Value, schema: &Value) -> Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            let pointer = reference.strip_prefix('#').expect("a reference into the same schema");
            resolve(root, root.pointer(pointer).expect("the reference resolves"))
        }
        None => {
            let mut schema = schema.clone();
            for word in ["anyOf", "oneOf"] {
                let Some(Value::Array(variants)) = schema.get_mut(word) else { continue };
                for variant in variants {
                    *variant = resolve(root, variant);
                }
            }
            schema
        }
    }
}

/// Returns the alternatives of a schema, resolved recursively, or the schema itself if it has none.
fn variants(schema: &Value, root: &Value) -> Vec<Value> {
    let schema = resolve(root, schema);
    let inner = ["anyOf", "oneOf"].iter().find_map(|word| schema.get(word)?.as_array().cloned());
    match inner {
        Some(inner) => inner.iter().flat_map(|one| variants(one, root)).collect(),
        None => vec![schema],
    }
}

/// Returns the alternative that is an object, or an empty schema.
fn object(schema: &Value, root: &Value) -> Value {
    let is_object = |one: &Value| one.get("properties").is_some();
    variants(schema, root).into_iter().find(is_object).unwrap_or_else(|| json!({}))
}

/// Returns all values that an enumeration allows.
fn values(schema: &Value, root: &Value) -> Vec<Value> {
    let of_one = |one: Value| -> Vec<Value> {
        if let Some(values) = one.get("enum").and_then(Value::as_array) {
            return values.clone();
        }
        let null = types(&one).contains("null").then_some(Value::Null);
        one.get("const").cloned().into_iter().chain(null).collect()
    };
    variants(schema, root).into_iter().flat_map(of_one).collect()
}

fn types(schema: &Value) -> BTreeSet<&str> {
    let own = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(name)) => BTreeSet::from([name.as_str()]),
        _ => BTreeSet::new(),
    };
    let inner = ["anyOf", "oneOf"].iter().filter_map(|word| schema.get(word)?.as_array());
    own.into_iter().chain(inner.flatten().flat_map(types)).collect()
}

fn fields(schema: &Value) -> Map<String, Value> {
    schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn required(schema: &Value) -> BTreeSet<&str> {
    let keys = schema.get("required").and_then(Value::as_array);
    keys.into_iter().flatten().filter_map(Value::as_str).collect()
}
