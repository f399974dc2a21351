//! The entry of siding's MCP server in a host's file.

use serde_json::Value;

use super::json::{JsonDocument, TextError};
use super::json_value::JsonValue;
use super::program::ProgramNames;
use super::record::{self, InstallRecord, key_path};

/// Key of the server's entry in the files of all hosts.
pub(crate) const SERVER_NAME: &str = "siding";

/// Keys of the entry whose values belong to the user; a repeated install keeps these values.
const USER_KEYS: [&str; 1] = ["env"];

/// Adds or updates the entry, as a member of the object at `keys`.
///
/// # Errors
///
/// A value on the path is not an object, a key occurs twice, or an entry named `siding` starts
/// another program.
pub(crate) fn install(
    json: &mut JsonDocument,
    keys: &[&str],
    entry: &JsonValue,
    names: &ProgramNames,
    record: &mut InstallRecord,
) -> Result<(), TextError> {
    record::ensure_objects(json, keys)?;
    let full = [keys, &[SERVER_NAME]].concat();
    json.ensure_unique_keys(&key_path(&full))?;
    let Some(there) = json.get(&key_path(&full)) else {
        record::insert_at(json, &full, entry.clone(), record);
        return Ok(());
    };
    if names.parse_server_entry(&there).is_none() {
        let what = "a server named `siding` that does not start siding";
        return Err(json.error_at(&key_path(&full), what.to_owned()));
    }
    let JsonValue::Map(members) = entry else { return Ok(()) };
    for (key, value) in members {
        let member = [full.as_slice(), &[key.as_str()]].concat();
        match there.get(key) {
            Some(is) if USER_KEYS.contains(&key.as_str()) || *is == value.to_value() => {}
            Some(_) => json.replace(&key_path(&member), value),
            None if USER_KEYS.contains(&key.as_str()) => {}
            None => json.insert(&key_path(&full), Some(key), value),
        }
    }
    Ok(())
}

/// Removes the entry if it is siding's.
pub(crate) fn remove(
    json: &mut JsonDocument,
    keys: &[&str],
    names: &ProgramNames,
    record: Option<&InstallRecord>,
) {
    if find(json, keys, names).is_some() {
        json.remove(&key_path(&[keys, &[SERVER_NAME]].concat()));
        record::remove_if_empty(json, keys, record);
    }
}

/// Returns the program in siding's entry, and the entry. Returns `None` if there is no entry named
/// `siding`, or if that entry starts another program.
pub(crate) fn find(
    json: &JsonDocument,
    keys: &[&str],
    names: &ProgramNames,
) -> Option<(String, Value)> {
    let entry = json.get(&key_path(&[keys, &[SERVER_NAME]].concat()))?;
    names.parse_server_entry(&entry).map(|program| (program, entry))
}

/// Returns whether an object contains siding's entry, directly or in nested objects.
pub(crate) fn contains_siding(value: &Value, names: &ProgramNames) -> bool {
    let Value::Object(members) = value else { return false };
    members.iter().any(|(key, value)| {
        key == SERVER_NAME && names.parse_server_entry(value).is_some()
            || contains_siding(value, names)
    })
}
