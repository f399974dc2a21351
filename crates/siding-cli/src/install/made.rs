//! What an install remembers of a file, so that an uninstall leaves it as it was.
//!
//! Most of what install adds can be taken out again by looking at the file. What cannot be seen
//! there is whether a container without members was there before, how it was laid out, and
//! whether there was a file. Nothing else of the file is kept.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::json::{Fault, Json, Step, Way};
use super::tree::Tree;

/// What install found and made in one file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Made {
    /// What was there in place of a value.
    pub(crate) blank: Option<Blank>,
    /// Containers that had no members, with what was between their brackets.
    pub(crate) empty: Vec<(Vec<String>, String)>,
    /// Members that were not there.
    pub(crate) members: Vec<Vec<String>>,
    /// The text that was put at the end.
    #[serde(default)]
    pub(crate) appended: Option<String>,
    /// Values that were replaced, with their texts.
    #[serde(default)]
    pub(crate) replaced: Vec<(Vec<String>, String)>,
    /// Directories that were not there, the uppermost first.
    #[serde(default)]
    pub(crate) directories: Vec<PathBuf>,
}

/// A file in which there was no value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Blank {
    /// There was no file.
    NoFile,
    /// It had nothing but this.
    Text(String),
}

impl Made {
    fn note_empty(&mut self, json: &Json, way: Way<'_>) {
        let keys = keys(way);
        if json.len(way) == Some(0) && !self.empty.iter().any(|(one, _)| *one == keys) {
            self.empty.push((keys, json.inside(way).unwrap_or_default()));
        }
    }

    /// Remembers the text of a value that is about to be replaced.
    pub(super) fn note_replaced(&mut self, keys: &[&str], text: String) {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        self.replaced.retain(|(one, _)| *one != keys);
        self.replaced.push((keys, text));
    }

    /// Returns the text of a value that was replaced.
    pub(super) fn replaced(&self, keys: &[&str]) -> Option<&str> {
        let (_, text) = self.replaced.iter().find(|(one, _)| one == keys)?;
        Some(text)
    }

    fn note_member(&mut self, way: Way<'_>) {
        let keys = keys(way);
        if !self.members.contains(&keys) {
            self.members.push(keys);
        }
    }
}

fn keys(way: Way<'_>) -> Vec<String> {
    let key = |step: &Step<'_>| match step {
        Step::Key(key) => (*key).to_owned(),
        Step::Index(index) => index.to_string(),
    };
    way.iter().map(key).collect()
}

/// Returns the way over these keys.
pub(crate) fn way<'k>(keys: &[&'k str]) -> Vec<Step<'k>> {
    keys.iter().map(|key| Step::Key(key)).collect()
}

/// Checks that what is on a way is an object, as far as it is there.
pub(crate) fn expect_objects(json: &Json, keys: &[&str]) -> Result<(), Fault> {
    let way = way(keys);
    json.twice(&way)?;
    for depth in 0..=way.len() {
        if json.get(&way[..depth]).is_some_and(|value| !value.is_object()) {
            let what = match depth.checked_sub(1) {
                None => "the file's value is no object".to_owned(),
                Some(last) => format!("`{}` is no object", keys[last]),
            };
            return Err(json.fault(&way[..depth], what));
        }
    }
    Ok(())
}

/// Puts a value below objects that are made where they are missing, as the member with the last of
/// `keys`, which is not there yet.
pub(crate) fn put(json: &mut Json, keys: &[&str], value: Tree, made: &mut Made) {
    let way = way(keys);
    let there = (0..keys.len()).rev().find(|depth| json.len(&way[..*depth]).is_some());
    let depth = there.expect("the root is an object");
    made.note_empty(json, &way[..depth]);
    for below in depth + 1..=keys.len() {
        made.note_member(&way[..below]);
    }
    let wrap = |value, key: &&str| Tree::Map(vec![((*key).to_owned(), value)]);
    let value = keys[depth + 1..].iter().rev().fold(value, wrap);
    json.insert(&way[..depth], Some(keys[depth]), &value);
}

/// Puts a value behind the others of an array, which is made where it is missing.
pub(crate) fn append(json: &mut Json, keys: &[&str], value: Tree, made: &mut Made) {
    let way = way(keys);
    if json.get(&way).is_some() {
        made.note_empty(json, &way);
        json.insert(&way, None, &value);
    } else {
        put(json, keys, Tree::List(vec![value]), made);
    }
}

/// Takes away a container that has lost its last member, if install made it, and gives one back
/// its inside that was empty before. Without a memory it counts as made.
pub(crate) fn tidy(json: &mut Json, keys: &[&str], made: Option<&Made>) {
    let way = way(keys);
    if json.len(&way) != Some(0) {
        return;
    }
    let now = json.inside(&way).unwrap_or_default();
    let names: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let empty = made.and_then(|made| made.empty.iter().find(|(one, _)| *one == names));
    if let Some((_, inside)) = empty {
        // A comment that has come since stays.
        if inside.trim() == now.trim() {
            json.set_inside(&way, inside);
        }
        return;
    }
    let ours = made.is_none_or(|made| made.members.contains(&names));
    if ours && now.trim().is_empty() && !keys.is_empty() {
        json.remove(&way);
        tidy(json, &keys[..keys.len() - 1], made);
    }
}
