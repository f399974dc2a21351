//! The changes of a view at a refresh.

use std::collections::BTreeSet;

use siding_model::id::{SessionId, TaskId};

/// The tasks and sessions that a refresh has changed. A task is in at most one of `appeared`,
/// `ended`, `changed` and `removed`. The passing of time alone is not a change, unless it affects a
/// task's unread notices or its need for a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tasks that are new in the view, whether they run or have ended already.
    pub appeared: BTreeSet<TaskId>,
    /// Tasks that were running before, and have an outcome now.
    pub ended: BTreeSet<TaskId>,
    /// Tasks whose state, unread notices or need for a person have changed.
    pub changed: BTreeSet<TaskId>,
    /// Tasks of the view that no longer exist, or can no longer be read.
    pub removed: BTreeSet<TaskId>,
    /// Sessions that were opened, closed or removed, whose owners have changed, or whose notices
    /// were acknowledged.
    pub sessions: BTreeSet<SessionId>,
}

impl Changes {
    /// Returns whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty()
            && self.ended.is_empty()
            && self.changed.is_empty()
            && self.removed.is_empty()
            && self.sessions.is_empty()
    }

    /// Returns whether the task appeared, ended, changed or was removed.
    #[must_use]
    pub fn contains(&self, id: TaskId) -> bool {
        let sets = [&self.appeared, &self.ended, &self.changed, &self.removed];
        sets.iter().any(|set| set.contains(&id))
    }

    /// Removes from `changed` the tasks that another set contains.
    pub(crate) fn retain_exclusive(&mut self) {
        let Self { appeared, ended, changed, removed, .. } = self;
        changed.retain(|id| !appeared.contains(id) && !ended.contains(id) && !removed.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_change_concerns_its_task() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let set = || BTreeSet::from([id]);
        assert!(!Changes::default().contains(id));
        assert!(Changes { appeared: set(), ..Changes::default() }.contains(id));
        assert!(Changes { ended: set(), ..Changes::default() }.contains(id));
        assert!(Changes { changed: set(), ..Changes::default() }.contains(id));
        assert!(Changes { removed: set(), ..Changes::default() }.contains(id));
    }
}
