//! What a person or an agent should know or do next, in the words of the program.

use siding_core::sys::clock;
use siding_model::advice::{self, Dialect};
use siding_model::process::Wall;
use siding_model::report::TaskView;

/// Returns what the one who looks at a task should know or do next, `None` when its outcome says
/// all there is.
pub(crate) fn advice(view: &TaskView) -> Option<String> {
    at(view, clock::wall())
}

fn at(view: &TaskView, now: Wall) -> Option<String> {
    advice::advice(view, Dialect::Commands, now)
}

#[cfg(test)]
mod tests;
