//! The screens that one caller has seen.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use siding_model::id::TaskId;

/// Maximum number of tasks whose last screens are remembered.
const MAX_TASKS: usize = 64;

/// For each task, the hash of the last screen that an answer to this caller has shown. If the task
/// still has this screen before the next keys, their answer contains only the changes.
#[derive(Debug, Default)]
pub(crate) struct ShownScreens(Mutex<HashMap<TaskId, String>>);

impl ShownScreens {
    /// Records that an answer shows the screen of a task.
    pub(crate) fn record(&self, id: TaskId, hash: String) {
        let mut shown = self.lock();
        // A forgotten screen only causes an answer with the whole screen.
        if shown.len() >= MAX_TASKS && !shown.contains_key(&id) {
            shown.clear();
        }
        shown.insert(id, hash);
    }

    /// Returns the hash of the last shown screen of a task; `None` if none was shown.
    pub(crate) fn last(&self, id: TaskId) -> Option<String> {
        self.lock().get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_screen_of_a_task_counts_as_shown() {
        let (one, other): (TaskId, TaskId) =
            ("b-4k7q0n2m8x5t".parse().unwrap(), "b-4k7q0n2m8x5v".parse().unwrap());
        let shown = ShownScreens::default();
        shown.record(one, "a".to_owned());
        shown.record(one, "b".to_owned());
        assert_eq!((shown.last(one).as_deref(), shown.last(other)), (Some("b"), None));
    }
}
