//! JSON Schemas of the JSON that siding prints and reads.

use schemars::Schema;

/// Returns a schema in the form that is printed and committed.
///
/// Its objects are sorted: serde_json keeps their original order only if a library enables its
/// feature `preserve_order`, which differs between builds.
pub(crate) fn schema_text(schema: Schema) -> String {
    let mut value = schema.to_value();
    value.sort_all_objects();
    let schema = Schema::try_from(value).expect("sorting keeps it a schema");
    serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
}

/// Asserts that `docs/schema/NAME.schema.json` is the schema of a type. If `UPDATE_SCHEMAS` is set,
/// writes the file instead.
#[cfg(test)]
pub(crate) fn assert_committed<T: schemars::JsonSchema>(name: &str) {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let text = schema_text(settings.into_generator().into_root_schema_for::<T>());
    let path = format!("{}/../../docs/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &text).expect("the schema can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, text, "run the tests once with UPDATE_SCHEMAS=1 to write {path}");
}
