//! JSON Schemas of the JSON that siding prints and reads.

use schemars::Schema;

/// Returns a schema as the text that siding prints and that the repository contains.
///
/// The members of all objects are sorted, so that every build prints the same text. Without
/// sorting, the order would depend on whether a dependency enables serde_json's feature
/// `preserve_order`.
pub(crate) fn schema_text(schema: Schema) -> String {
    let mut value = schema.to_value();
    value.sort_all_objects();
    let schema = Schema::try_from(value).expect("sorting keeps it a schema");
    serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
}
