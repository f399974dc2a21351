//! The record of what an install changed in a file, from which an uninstall restores the original
//! file exactly.
//!
//! An uninstall recognizes most of what the install added by the content of the file itself. The
//! record holds the rest: whether the file existed, which containers and directories the install
//! created, the text between the brackets of empty containers, the block that was appended, and the
//! values that were replaced. No other content of the file is stored.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::json::{JsonDocument, JsonPath, PathStep, TextError};
use super::json_value::JsonValue;

/// The values that an install found and added in one file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct InstallRecord {
    /// The original file, if it contained no value.
    pub(crate) blank: Option<OriginalEmptyFile>,
    /// Paths of containers that were empty, with the text between their brackets.
    pub(crate) empty: Vec<(Vec<String>, String)>,
    /// Paths of members that the install created.
    pub(crate) members: Vec<Vec<String>>,
    /// The block that the install appended to a TOML file.
    #[serde(default)]
    pub(crate) appended: Option<String>,
    /// Paths of values that were replaced, with their original texts.
    #[serde(default)]
    pub(crate) replaced: Vec<(Vec<String>, String)>,
    /// Directories that the install created, the uppermost first.
    #[serde(default)]
    pub(crate) directories: Vec<PathBuf>,
}

/// The original state of a file that contained no value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OriginalEmptyFile {
    /// The file did not exist.
    NoFile,
    /// The file contained only this text.
    Text(String),
}

impl InstallRecord {
    fn record_empty(&mut self, json: &JsonDocument, path: JsonPath<'_>) {
        let keys = path_keys(path);
        if json.len(path) == Some(0) && !self.empty.iter().any(|(one, _)| *one == keys) {
            self.empty.push((keys, json.inner_text(path).unwrap_or_default()));
        }
    }

    /// Records the text of a value that is about to be replaced.
    pub(super) fn record_replaced(&mut self, keys: &[&str], text: String) {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        self.replaced.retain(|(one, _)| *one != keys);
        self.replaced.push((keys, text));
    }

    /// Returns the original text of a value; `None` if the install did not replace it.
    pub(super) fn replaced_text(&self, keys: &[&str]) -> Option<&str> {
        let (_, text) = self.replaced.iter().find(|(one, _)| one == keys)?;
        Some(text)
    }

    fn record_member(&mut self, path: JsonPath<'_>) {
        let keys = path_keys(path);
        if !self.members.contains(&keys) {
            self.members.push(keys);
        }
    }
}

fn path_keys(path: JsonPath<'_>) -> Vec<String> {
    let key = |step: &PathStep<'_>| match step {
        PathStep::Key(key) => (*key).to_owned(),
        PathStep::Index(index) => index.to_string(),
    };
    path.iter().map(key).collect()
}

pub(crate) fn key_path<'k>(keys: &[&'k str]) -> Vec<PathStep<'k>> {
    keys.iter().map(|key| PathStep::Key(key)).collect()
}

/// Fails if an existing value on the path is not an object, or an object has one of the keys twice.
pub(crate) fn ensure_objects(json: &JsonDocument, keys: &[&str]) -> Result<(), TextError> {
    let path = key_path(keys);
    json.ensure_unique_keys(&path)?;
    for depth in 0..=path.len() {
        if json.get(&path[..depth]).is_some_and(|value| !value.is_object()) {
            let what = match depth.checked_sub(1) {
                None => "the file's value is not an object".to_owned(),
                Some(last) => format!("`{}` is not an object", keys[last]),
            };
            return Err(json.error_at(&path[..depth], what));
        }
    }
    Ok(())
}

/// Inserts a value at the path `keys`, where no value may exist yet, and creates missing objects on
/// the path.
pub(crate) fn insert_at(
    json: &mut JsonDocument,
    keys: &[&str],
    value: JsonValue,
    record: &mut InstallRecord,
) {
    let path = key_path(keys);
    let there = (0..keys.len()).rev().find(|depth| json.len(&path[..*depth]).is_some());
    let depth = there.expect("the root is an object");
    record.record_empty(json, &path[..depth]);
    for below in depth + 1..=keys.len() {
        record.record_member(&path[..below]);
    }
    let wrap = |value, key: &&str| JsonValue::Map(vec![((*key).to_owned(), value)]);
    let value = keys[depth + 1..].iter().rev().fold(value, wrap);
    json.insert(&path[..depth], Some(keys[depth]), &value);
}

/// Appends a value to an array; a missing array is created.
pub(crate) fn append_to_array(
    json: &mut JsonDocument,
    keys: &[&str],
    value: JsonValue,
    record: &mut InstallRecord,
) {
    let path = key_path(keys);
    if json.get(&path).is_some() {
        record.record_empty(json, &path);
        json.insert(&path, None, &value);
    } else {
        insert_at(json, keys, JsonValue::List(vec![value]), record);
    }
}

/// Removes an empty container if the install created it, and then its parents in the same way; or
/// restores the original text between its brackets. Without a record, the container is removed. A
/// container with a comment stays unchanged.
pub(crate) fn remove_if_empty(
    json: &mut JsonDocument,
    keys: &[&str],
    record: Option<&InstallRecord>,
) {
    let path = key_path(keys);
    if json.len(&path) != Some(0) {
        return;
    }
    let now = json.inner_text(&path).unwrap_or_default();
    let names: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let empty = record.and_then(|made| made.empty.iter().find(|(one, _)| *one == names));
    if let Some((_, inside)) = empty {
        // A comment that was added between the brackets after the install must not be lost.
        if inside.trim() == now.trim() {
            json.set_inner_text(&path, inside);
        }
        return;
    }
    let ours = record.is_none_or(|made| made.members.contains(&names));
    if ours && now.trim().is_empty() && !keys.is_empty() {
        json.remove(&path);
        remove_if_empty(json, &keys[..keys.len() - 1], record);
    }
}
