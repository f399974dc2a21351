//! The committed schemas of what is printed as JSON.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// Asserts that `docs/schema/NAME.schema.json` is the schema of a type. With `UPDATE_SCHEMAS` set
/// it is written instead.
pub(crate) fn assert_committed<T: JsonSchema>(name: &str) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    let path = format!("{}/../../docs/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &text).expect("the schema can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, text, "run the tests once with UPDATE_SCHEMAS=1 to write {path}");
}
