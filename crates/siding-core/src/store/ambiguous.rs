//! The error for a text with which several task ids begin.

use std::fmt::{self, Display, Formatter};

use siding_model::id::TaskId;

/// A text with which the ids of several tasks begin.
#[derive(Debug)]
pub struct AmbiguousId {
    /// The text as the caller gave it.
    pub text: String,
    /// Every task whose id begins with the text, in the order of ids.
    pub ids: Vec<TaskId>,
    /// One line for each task to choose from; empty until
    /// [`resolve_id`](crate::task::listing::resolve_id) reads the tasks.
    pub choices: Vec<String>,
}

impl Display for AmbiguousId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { text, ids, choices } = self;
        write!(out, "`{text}` is ambiguous, {} ids begin with it", ids.len())?;
        if choices.len() < ids.len() {
            write!(out, ", of which {} are listed", choices.len())?;
        }
        Ok(())
    }
}
