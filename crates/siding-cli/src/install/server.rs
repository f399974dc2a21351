//! The entry of siding's MCP server in a host's file.

use serde_json::Value;

use super::json::{Fault, Json};
use super::made::{self, Made, way};
use super::program::Names;
use super::tree::Tree;

/// The name under which hosts know the server.
pub(crate) const NAME: &str = "siding";

/// What a person may set in the entry: it is theirs.
const THEIRS: [&str; 1] = ["env"];

/// Brings the entry about, as a member of the object at `keys`.
///
/// # Errors
///
/// When something on the way is no object, or an entry with that name starts another program.
pub(crate) fn install(
    json: &mut Json,
    keys: &[&str],
    entry: &Tree,
    names: &Names,
    made: &mut Made,
) -> Result<(), Fault> {
    made::expect_objects(json, keys)?;
    let full = [keys, &[NAME]].concat();
    json.twice(&way(&full))?;
    let Some(there) = json.get(&way(&full)) else {
        made::put(json, &full, entry.clone(), made);
        return Ok(());
    };
    if names.server(&there).is_none() {
        let what = "a server named `siding` that does not start siding";
        return Err(json.fault(&way(&full), what.to_owned()));
    }
    let Tree::Map(members) = entry else { return Ok(()) };
    for (key, value) in members {
        let member = [full.as_slice(), &[key.as_str()]].concat();
        match there.get(key) {
            Some(is) if THEIRS.contains(&key.as_str()) || *is == value.value() => {}
            Some(_) => json.replace(&way(&member), value),
            None if THEIRS.contains(&key.as_str()) => {}
            None => json.insert(&way(&full), Some(key), value),
        }
    }
    Ok(())
}

/// Takes the entry out, if it is siding's.
pub(crate) fn remove(json: &mut Json, keys: &[&str], names: &Names, made: Option<&Made>) {
    if find(json, keys, names).is_some() {
        json.remove(&way(&[keys, &[NAME]].concat()));
        made::tidy(json, keys, made);
    }
}

/// Returns the entry and the program it starts, if it is siding's.
pub(crate) fn find(json: &Json, keys: &[&str], names: &Names) -> Option<(String, Value)> {
    let entry = json.get(&way(&[keys, &[NAME]].concat()))?;
    names.server(&entry).map(|program| (program, entry))
}

/// Returns whether siding's entry is anywhere below a value.
pub(crate) fn is_below(value: &Value, names: &Names) -> bool {
    let Value::Object(members) = value else { return false };
    members
        .iter()
        .any(|(key, value)| key == NAME && names.server(value).is_some() || is_below(value, names))
}
