//! The state of a to-do list, replayed from its records. The replay is pure and succeeds for any
//! records: a to-do never has two owners, and only its owner completes it.

use std::collections::BTreeMap;

use siding_model::process::UnixMs;

use super::id::TodoId;
use super::owner::TodoOwner;
use super::record::{self, JournalLine, TodoChange, TodoRecord};

/// A to-do with its current status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    /// A summary in one line.
    pub subject: String,
    /// Everything besides the subject that the owner needs to know; may be empty.
    pub description: String,
    /// The to-dos that must be completed first. Each is older than this one, so there are no
    /// cycles.
    pub blocked_by: Vec<TodoId>,
    /// Whether the to-do is pending, claimed or completed.
    pub status: TodoStatus,
}

/// The status of a to-do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TodoStatus {
    /// The to-do has no owner, and can be claimed once its blockers are completed.
    Pending,
    /// An agent has claimed the to-do.
    InProgress {
        /// The agent that works on the to-do.
        by: TodoOwner,
        /// The time of the claim, for display only.
        since: UnixMs,
    },
    /// The owner has completed the to-do.
    Completed {
        /// The agent that completed the to-do.
        by: TodoOwner,
        /// The time of the completion, for display only.
        at: UnixMs,
    },
}

/// The to-dos of a list, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TodoState {
    todos: BTreeMap<TodoId, Todo>,
}

/// The list that a journal describes, and facts about the journal itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayedTodos {
    /// All to-dos, in their state after the last valid record.
    pub state: TodoState,
    /// The number of lines that were ignored: lines that cannot be parsed, and changes that the
    /// state before them does not allow.
    pub ignored_lines: usize,
    /// Whether the last line has no newline, which may be the result of a crash.
    pub is_torn: bool,
}

/// The version of a file that was written by a newer siding and must not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnsupportedFormat(pub(super) u32);

impl TodoState {
    /// Replays a journal. A last line that lacks only its newline is valid.
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

    /// Applies a record. Returns false and changes nothing if the current state does not allow the
    /// change.
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

    /// Returns the to-do with this id; `None` if the list has none.
    #[must_use]
    pub fn get(&self, id: TodoId) -> Option<&Todo> {
        self.todos.get(&id)
    }

    /// Iterates over all to-dos in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (TodoId, &Todo)> {
        self.todos.iter().map(|(id, todo)| (*id, todo))
    }

    /// Returns the number of to-dos, including completed ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.todos.len()
    }

    /// Returns whether the list contains no to-dos.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.todos.is_empty()
    }

    /// Iterates over the blockers of a to-do that are not completed.
    pub fn open_blockers<'b>(&'b self, todo: &'b Todo) -> impl Iterator<Item = TodoId> + 'b {
        let is_completed = move |id: &TodoId| {
            self.todos
                .get(id)
                .is_some_and(|todo| matches!(todo.status, TodoStatus::Completed { .. }))
        };
        todo.blocked_by.iter().copied().filter(move |id| !is_completed(id))
    }

    /// Returns the id of the next new to-do; `None` if no greater id exists.
    pub(super) fn next_id(&self) -> Option<TodoId> {
        self.todos.last_key_value().map_or(Some(TodoId::FIRST_ID), |(last, _)| last.next())
    }
}
