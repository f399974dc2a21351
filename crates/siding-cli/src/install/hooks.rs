//! Hook entries of Claude Code, Codex and Gemini CLI: `hooks.EVENT` is a list of groups, each with
//! a matcher and a list of handlers.

use serde_json::Value;

use super::json::{JsonDocument, JsonPath, PathStep, TextError};
use super::json_value::JsonValue;
use super::program::ProgramNames;
use super::record::{self, InstallRecord};

/// Key of the object that contains all hooks; in a group, the key of the list of handlers.
const HOOKS_KEY: &str = "hooks";

/// A call of `siding hook` that an install adds for one event of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookEntry {
    /// Name of the event as the host spells it.
    pub(crate) event: &'static str,
    /// The tools that the entry applies to; `None` for all, or for an event without tools.
    pub(crate) matcher: Option<&'static str>,
    /// Last argument of `siding hook`, which selects what siding does at the event.
    pub(crate) event_arg: &'static str,
    /// The handler in the host's format.
    pub(crate) handler: JsonValue,
}

/// A handler in a host's file that calls `siding hook`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InstalledHook {
    /// Name of the event as the host spells it.
    pub(crate) event: String,
    /// The tools that the handler applies to; `None` for all tools.
    pub(crate) matcher: Option<String>,
    /// Last argument of `siding hook`, which selects what siding does at the event.
    pub(crate) event_arg: String,
    /// Path or name of the program that the handler calls.
    pub(crate) program: String,
    /// The handler's JSON, to compare with the intended one.
    pub(crate) handler: Value,
    group: usize,
    index: usize,
}

impl HookEntry {
    fn matches_installed(&self, found: &InstalledHook) -> bool {
        (found.event.as_str(), found.matcher.as_deref(), found.event_arg.as_str())
            == (self.event, self.matcher, self.event_arg)
    }

    /// Returns the event, tools and argument of the entry, as `siding doctor` shows them.
    pub(crate) fn title(&self) -> String {
        match self.matcher {
            Some(matcher) => format!("{} ({matcher}) {}", self.event, self.event_arg),
            None => format!("{} {}", self.event, self.event_arg),
        }
    }
}

/// Returns siding's handlers. Those of one event are in the order of the file.
pub(crate) fn find(json: &JsonDocument, names: &ProgramNames) -> Vec<InstalledHook> {
    let Some(Value::Object(events)) = json.get(&[PathStep::Key(HOOKS_KEY)]) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (event, groups) in &events {
        for (group, value) in groups.as_array().into_iter().flatten().enumerate() {
            let matcher = value["matcher"].as_str().filter(|text| !text.is_empty());
            for (index, handler) in value[HOOKS_KEY].as_array().into_iter().flatten().enumerate() {
                if let Some((program, word)) = names.parse_hook_handler(handler) {
                    all.push(InstalledHook {
                        event: event.clone(),
                        matcher: matcher.map(str::to_owned),
                        event_arg: word,
                        program,
                        handler: handler.clone(),
                        group,
                        index,
                    });
                }
            }
        }
    }
    all
}

/// Adds siding's missing entries, updates its changed ones, and removes its outdated ones.
///
/// # Errors
///
/// `hooks` is not an object, or the value for one of the events does not have the host's format.
pub(crate) fn install(
    json: &mut JsonDocument,
    entries: &[HookEntry],
    names: &ProgramNames,
    record: &mut InstallRecord,
) -> Result<(), TextError> {
    check_shape(json, entries)?;
    let mut found = find(json, names);
    let mut missing = Vec::new();
    for entry in entries {
        match found.iter().position(|one| entry.matches_installed(one)) {
            None => missing.push(entry),
            Some(at) => {
                let installed = found.remove(at);
                if installed.handler != entry.handler.to_value() {
                    json.replace(&installed.json_path(), &entry.handler);
                }
            }
        }
    }
    // The entries that remain in `found` are no longer wanted: duplicates, entries of an older
    // siding, and the entry of `--notify` after `--notify off`.
    remove_handlers(json, &found, Some(record));
    for entry in missing {
        let matcher = entry.matcher.map(|text| ("matcher".to_owned(), JsonValue::text(text)));
        let handlers = (HOOKS_KEY.to_owned(), JsonValue::List(vec![entry.handler.clone()]));
        let group = JsonValue::Map(matcher.into_iter().chain([handlers]).collect());
        record::append_to_array(json, &[HOOKS_KEY, entry.event], group, record);
    }
    Ok(())
}

/// Removes all of siding's handlers, and the groups that become empty.
pub(crate) fn remove(
    json: &mut JsonDocument,
    names: &ProgramNames,
    record: Option<&InstallRecord>,
) {
    let found = find(json, names);
    remove_handlers(json, &found, record);
}

fn remove_handlers(
    json: &mut JsonDocument,
    found: &[InstalledHook],
    record: Option<&InstallRecord>,
) {
    // Removed from the end, so that the indexes of earlier entries stay valid.
    for installed in found.iter().rev() {
        json.remove(&installed.json_path());
        let [hooks, event, group, handlers, _] = installed.json_path();
        if json.len(&[hooks, event, group, handlers]) == Some(0) {
            json.remove(&[hooks, event, group]);
            record::remove_if_empty(json, &[HOOKS_KEY, &installed.event], record);
        }
    }
}

impl InstalledHook {
    fn json_path(&self) -> [PathStep<'_>; 5] {
        let event = PathStep::Key(&self.event);
        let (group, index) = (PathStep::Index(self.group), PathStep::Index(self.index));
        [PathStep::Key(HOOKS_KEY), event, group, PathStep::Key(HOOKS_KEY), index]
    }
}

/// Checks the format of every value that an entry will be added to.
fn check_shape(json: &JsonDocument, entries: &[HookEntry]) -> Result<(), TextError> {
    record::ensure_objects(json, &[HOOKS_KEY])?;
    let wrong = |way: JsonPath<'_>, what: &str| Err(json.error_at(way, what.to_owned()));
    for entry in entries {
        let way = [PathStep::Key(HOOKS_KEY), PathStep::Key(entry.event)];
        json.ensure_unique_keys(&way)?;
        let Some(groups) = json.get(&way) else { continue };
        let Value::Array(groups) = groups else {
            return wrong(&way, &format!("`{HOOKS_KEY}.{}` is not a list", entry.event));
        };
        for (index, group) in groups.iter().enumerate() {
            let way = [way[0], way[1], PathStep::Index(index)];
            if !group[HOOKS_KEY].is_array() {
                return wrong(
                    &way,
                    &format!("this entry of `{}` has no list `hooks`", entry.event),
                );
            }
        }
    }
    Ok(())
}
