//! The tasks that a beginning of several ids could name.

use std::fmt::{self, Display, Formatter};

use siding_model::advice;
use siding_model::id::TaskId;

use super::StateDir;
use crate::listing;

/// Tasks that are listed one by one.
const MAX_CHOICES: usize = 5;
/// Columns of the line about one of them.
const CHOICE_COLUMNS: usize = 76;

/// A text with which the ids of several tasks begin.
#[derive(Debug)]
pub struct AmbiguousId {
    /// What was given.
    pub text: String,
    /// How many ids begin with it.
    pub count: usize,
    /// One line for each of the first: id, state and command. Running tasks come first, then those
    /// that ended last.
    pub choices: Vec<String>,
}

impl AmbiguousId {
    /// Reads the tasks that `text` could name. `found` is in the order of ids.
    pub(super) fn new(root: &StateDir, text: &str, found: Vec<TaskId>) -> Self {
        let count = found.len();
        let live = root.live_tasks().unwrap_or_default();
        let (mut listed, ended): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|id| live.contains(id));
        listed.truncate(MAX_CHOICES);
        let room = MAX_CHOICES - listed.len();
        if room > 0 {
            let mut latest = listing::most_recent(root, ended, room);
            latest.sort_unstable();
            listed.extend(latest);
        }
        let line = |view| advice::format_task_line(&view, CHOICE_COLUMNS);
        let choices = match listing::read_views(root, &listed, line) {
            // A task that cannot be read, or was removed meanwhile, is still named.
            Ok(lines) => lines
                .into_iter()
                .map(|(id, line)| line.ok().flatten().unwrap_or_else(|| id.to_string()))
                .collect(),
            Err(_) => listed.iter().map(ToString::to_string).collect(),
        };
        Self { text: text.to_owned(), count, choices }
    }
}

impl Display for AmbiguousId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { text, count, choices } = self;
        write!(out, "`{text}` is ambiguous, {count} ids begin with it")?;
        if choices.len() < *count {
            write!(out, ", of which {} are listed", choices.len())?;
        }
        Ok(())
    }
}
