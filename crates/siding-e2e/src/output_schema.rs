//! Reads the committed schemas of JSON output.

use serde_json::Value;

/// The output of `siding schema`, which a test of siding-cli keeps up to date.
const COMMITTED: &str = include_str!("../../../docs/schema/siding.schema.json");

/// Returns the committed schema of an output, with the definitions that it refers to.
///
/// # Panics
///
/// When no output of siding has this name.
#[must_use]
#[track_caller]
pub fn output_schema(name: &str) -> Value {
    let mut document: Value = serde_json::from_str(COMMITTED).expect("the document is JSON");
    let mut schema = document["$defs"][name].clone();
    assert!(schema.is_object(), "no output is named `{name}`");
    schema["$defs"] = document["$defs"].take();
    schema
}
