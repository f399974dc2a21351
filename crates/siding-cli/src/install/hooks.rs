//! Hook entries as Claude Code, Codex and Gemini CLI have them: `hooks.EVENT` is a list of groups,
//! each with a matcher and a list of handlers.

use serde_json::Value;

use super::json::{Fault, Json, Step, Way};
use super::made::{self, Made};
use super::program::Names;
use super::tree::Tree;

/// The member with all hooks.
const HOOKS: &str = "hooks";

/// One entry that is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The host's name of the event.
    pub(crate) event: &'static str,
    /// The tools it is for; `None` for an event that has none, or for all.
    pub(crate) matcher: Option<&'static str>,
    /// The last argument of `siding hook`.
    pub(crate) word: &'static str,
    /// The handler as the host wants it.
    pub(crate) handler: Tree,
}

/// A handler of siding's that is there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// The host's name of the event.
    pub(crate) event: String,
    /// The tools it is for.
    pub(crate) matcher: Option<String>,
    /// The last argument of `siding hook`.
    pub(crate) word: String,
    /// The program it calls.
    pub(crate) program: String,
    /// All of it.
    pub(crate) handler: Value,
    group: usize,
    index: usize,
}

impl Entry {
    fn is_for(&self, found: &Found) -> bool {
        (found.event.as_str(), found.matcher.as_deref(), found.word.as_str())
            == (self.event, self.matcher, self.word)
    }

    /// Returns what is said of it: the event, and the tools.
    pub(crate) fn title(&self) -> String {
        match self.matcher {
            Some(matcher) => format!("{} ({matcher}) {}", self.event, self.word),
            None => format!("{} {}", self.event, self.word),
        }
    }
}

/// Returns siding's handlers, in the order of the file.
pub(crate) fn find(json: &Json, names: &Names) -> Vec<Found> {
    let Some(Value::Object(events)) = json.get(&[Step::Key(HOOKS)]) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (event, groups) in &events {
        for (group, value) in groups.as_array().into_iter().flatten().enumerate() {
            let matcher = value["matcher"].as_str().filter(|text| !text.is_empty());
            for (index, handler) in value[HOOKS].as_array().into_iter().flatten().enumerate() {
                if let Some((program, word)) = names.hook(handler) {
                    all.push(Found {
                        event: event.clone(),
                        matcher: matcher.map(str::to_owned),
                        word,
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

/// Brings the entries about, and nothing else of siding's.
///
/// # Errors
///
/// When `hooks` is no object, or what is in it for one of the events is not as the host wants it.
pub(crate) fn install(
    json: &mut Json,
    entries: &[Entry],
    names: &Names,
    made: &mut Made,
) -> Result<(), Fault> {
    check(json, entries)?;
    let mut found = find(json, names);
    let mut missing = Vec::new();
    for entry in entries {
        match found.iter().position(|one| entry.is_for(one)) {
            None => missing.push(entry),
            Some(at) => {
                let one = found.remove(at);
                if one.handler != entry.handler.value() {
                    json.replace(&one.way(), &entry.handler);
                }
            }
        }
    }
    // What an older siding put there, or somebody twice.
    take(json, &found, Some(made));
    for entry in missing {
        let matcher = entry.matcher.map(|text| ("matcher".to_owned(), Tree::text(text)));
        let handlers = (HOOKS.to_owned(), Tree::List(vec![entry.handler.clone()]));
        let group = Tree::Map(matcher.into_iter().chain([handlers]).collect());
        made::append(json, &[HOOKS, entry.event], group, made);
    }
    Ok(())
}

/// Takes all of siding's handlers out.
pub(crate) fn remove(json: &mut Json, names: &Names, made: Option<&Made>) {
    let found = find(json, names);
    take(json, &found, made);
}

fn take(json: &mut Json, found: &[Found], made: Option<&Made>) {
    // From the end, so that the numbers of the others stay.
    for one in found.iter().rev() {
        json.remove(&one.way());
        let [hooks, event, group, handlers, _] = one.way();
        if json.len(&[hooks, event, group, handlers]) == Some(0) {
            json.remove(&[hooks, event, group]);
            made::tidy(json, &[HOOKS, &one.event], made);
        }
    }
}

impl Found {
    fn way(&self) -> [Step<'_>; 5] {
        let event = Step::Key(&self.event);
        let (group, index) = (Step::Index(self.group), Step::Index(self.index));
        [Step::Key(HOOKS), event, group, Step::Key(HOOKS), index]
    }
}

/// Checks the shape of everything that entries go to.
fn check(json: &Json, entries: &[Entry]) -> Result<(), Fault> {
    made::expect_objects(json, &[HOOKS])?;
    let wrong = |way: Way<'_>, what: &str| Err(json.fault(way, what.to_owned()));
    for entry in entries {
        let way = [Step::Key(HOOKS), Step::Key(entry.event)];
        json.twice(&way)?;
        let Some(groups) = json.get(&way) else { continue };
        let Value::Array(groups) = groups else {
            return wrong(&way, &format!("`{HOOKS}.{}` is no list", entry.event));
        };
        for (index, group) in groups.iter().enumerate() {
            let way = [way[0], way[1], Step::Index(index)];
            if !group[HOOKS].is_array() {
                return wrong(
                    &way,
                    &format!("this entry of `{}` has no list `hooks`", entry.event),
                );
            }
        }
    }
    Ok(())
}
