//! `siding schema`, which prints the JSON Schemas of all outputs, or the schema of one output.

use serde_json::json;

use crate::support::{read_docs_file, run_ok, run_refused, sandbox};

#[test]
fn schema_prints_the_committed_document_or_one_output() {
    let sandbox = sandbox();
    let document = run_ok(&sandbox, &["schema"]);
    assert_eq!(document.stdout_text(), read_docs_file("schema/siding.schema.json"));
    let wait = run_ok(&sandbox, &["schema", "wait"]).json();
    assert_eq!(wait["$ref"], json!("#/$defs/wait"));
    assert_eq!(wait["$defs"]["wait"], document.json()["$defs"]["wait"]);
    let refused = run_refused(&sandbox, &["schema", "tusk"]);
    assert!(refused.contains("'task'"), "{refused}");
}
