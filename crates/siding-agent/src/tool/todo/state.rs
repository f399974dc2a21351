//! What a to-do list holds, from what was done to it. Pure, and total: whatever a file says, no to-do
//! has two owners, and none is completed by anybody but the one who has claimed it.

use std::collections::BTreeMap;

use siding_model::process::UnixMs;

use super::id::TodoId;
use super::owner::TodoOwner;
use super::record::{self, JournalLine, TodoChange, TodoRecord};

/// A to-do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    /// What is to be done, in a line.
    pub subject: String,
    /// All that is to be known about it; may be empty.
    pub description: String,
    /// What is to be completed before. Each was on the list before this one, so no two wait for each
    /// other.
    pub blocked_by: Vec<TodoId>,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a to-do is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TodoStatus {
    /// Nobody works on it.
    Pending,
    /// Somebody does.
    InProgress {
        /// Its one owner.
        by: TodoOwner,
        /// Since when.
        since: UnixMs,
    },
    /// It is done.
    Completed {
        /// Who had claimed it.
        by: TodoOwner,
        /// When.
        at: UnixMs,
    },
}

/// A to-do list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TodoState {
    todos: BTreeMap<TodoId, Todo>,
}

/// A list as a file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayedTodos {
    /// The list.
    pub state: TodoState,
    /// Lines that cannot be understood, or say what cannot be. They count for nothing.
    pub ignored_lines: usize,
    /// Whether the last line has no newline: a crash may have left it.
    pub is_torn: bool,
}

/// A file of a newer siding, which this one must leave alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnsupportedFormat(pub(super) u32);

impl TodoState {
    /// Returns what a file says. A last line that lacks only its newline counts.
    pub(super) fn replay(journal: &[u8]) -> Result<ReplayedTodos, UnsupportedFormat> {
        let mut replayed = ReplayedTodos::default();
        for line in journal.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match record::parse_line(line) {
                JournalLine::Record(record) => {
                    replayed.ignored_lines += usize::from(!replayed.state.apply(record))
                }
                JournalLine::Header => {}
                JournalLine::Damaged => replayed.ignored_lines += 1,
                JournalLine::UnsupportedFormat(format) => return Err(UnsupportedFormat(format)),
            }
        }
        replayed.is_torn = !journal.is_empty() && !journal.ends_with(b"\n");
        Ok(replayed)
    }

    /// Takes what was done. Whether it could be; if not, nothing is changed.
    #[must_use]
    pub(super) fn apply(&mut self, TodoRecord { at, deed }: TodoRecord) -> bool {
        match deed {
            TodoChange::Created { id, subject, description, blocked_by } => {
                let is_new = !self.todos.contains_key(&id);
                if !is_new || !blocked_by.iter().all(|id| self.todos.contains_key(id)) {
                    return false;
                }
                let state = TodoStatus::Pending;
                self.todos.insert(id, Todo { subject, description, blocked_by, status: state });
                true
            }
            TodoChange::Claimed { id, by, instead_of } => {
                let Some(todo) = self.todos.get(&id) else { return false };
                let is_free = match (&todo.status, &instead_of) {
                    (TodoStatus::Pending, None) => true,
                    (TodoStatus::InProgress { by: owner, .. }, Some(lost)) => {
                        owner == lost && by != *lost
                    }
                    (
                        TodoStatus::Pending
                        | TodoStatus::InProgress { .. }
                        | TodoStatus::Completed { .. },
                        _,
                    ) => false,
                };
                let is_next = self.open_blockers(todo).next().is_none();
                is_free && is_next && self.set_status(id, TodoStatus::InProgress { by, since: at })
            }
            TodoChange::Returned { id, by } => {
                self.is_owned_by(id, &by) && self.set_status(id, TodoStatus::Pending)
            }
            TodoChange::Completed { id, by } => {
                self.is_owned_by(id, &by) && self.set_status(id, TodoStatus::Completed { by, at })
            }
        }
    }

    fn is_owned_by(&self, id: TodoId, by: &TodoOwner) -> bool {
        let state = self.todos.get(&id).map(|todo| &todo.status);
        matches!(state, Some(TodoStatus::InProgress { by: owner, .. }) if owner == by)
    }

    fn set_status(&mut self, id: TodoId, state: TodoStatus) -> bool {
        self.todos.get_mut(&id).map(|todo| todo.status = state).is_some()
    }

    /// Returns a to-do.
    #[must_use]
    pub fn get(&self, id: TodoId) -> Option<&Todo> {
        self.todos.get(&id)
    }

    /// Returns all to-dos in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (TodoId, &Todo)> {
        self.todos.iter().map(|(id, todo)| (*id, todo))
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.todos.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.todos.is_empty()
    }

    /// Returns what a to-do of this list waits for: what it is blocked by and is not completed.
    pub fn open_blockers<'b>(&'b self, todo: &'b Todo) -> impl Iterator<Item = TodoId> + 'b {
        let is_completed = move |id: &TodoId| {
            self.todos
                .get(id)
                .is_some_and(|todo| matches!(todo.status, TodoStatus::Completed { .. }))
        };
        todo.blocked_by.iter().copied().filter(move |id| !is_completed(id))
    }

    /// Returns the name of the next to-do.
    pub(super) fn next_id(&self) -> Option<TodoId> {
        self.todos.last_key_value().map_or(Some(TodoId::FIRST_ID), |(last, _)| last.next())
    }
}
