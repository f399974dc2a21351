//! The note that a running task already has the name of a new task.

use siding_core::store::StateDir;
use siding_core::task::listing;
use siding_model::id::TaskId;

use super::plan::RunPlan;

/// Returns the note for a person whose new task has the name of a running task. Must be called
/// before the start; afterwards, the name refers to the new task.
pub(super) fn note_for_person(root: &StateDir, plan: &RunPlan) -> Option<String> {
    let name = plan.task.spec().name.as_deref().filter(|_| plan.is_person)?;
    // If the tasks cannot be read, the start fails, or a command that uses the name reports it.
    let earlier = listing::find_running_named(root, name).ok().flatten()?;
    Some(format_note(name, plan.task.id(), earlier))
}

fn format_note(name: &str, new: TaskId, earlier: TaskId) -> String {
    format!("`{name}` now means {new}; {earlier} has the same name and still runs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_says_which_task_the_name_means() {
        let id = |text: &str| text.parse::<TaskId>().expect("an id");
        assert_eq!(
            format_note("web", id("b-5k7q0n2m8x5t"), id("b-4k7q0n2m8x5t")),
            "`web` now means b-5k7q0n2m8x5t; b-4k7q0n2m8x5t has the same name and still runs"
        );
    }
}
