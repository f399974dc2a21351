//! What a to-do list holds, from what was done to it. Pure, and total: whatever a file says, no to-do
//! has two owners, and none is completed by anybody but the one who has claimed it.

use std::collections::BTreeMap;

use siding_model::process::UnixMs;

use super::holder::Holder;
use super::id::TodoId;
use super::record::{self, Deed, Line, Record};

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
    pub state: State,
}

/// How far a to-do is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nobody works on it.
    Pending,
    /// Somebody does.
    InProgress {
        /// Its one owner.
        by: Holder,
        /// Since when.
        since: UnixMs,
    },
    /// It is done.
    Completed {
        /// Who had claimed it.
        by: Holder,
        /// When.
        at: UnixMs,
    },
}

/// A to-do list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Board {
    todos: BTreeMap<TodoId, Todo>,
}

/// A list as a file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folded {
    /// The list.
    pub board: Board,
    /// Lines that cannot be understood, or say what cannot be. They count for nothing.
    pub void: usize,
    /// Whether the last line has no newline: a crash may have left it.
    pub is_torn: bool,
}

/// A file of a newer siding, which this one must leave alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooNew(pub(super) u32);

impl Board {
    /// Returns what a file says. A last line that lacks only its newline counts.
    pub(super) fn fold(journal: &[u8]) -> Result<Folded, TooNew> {
        let mut folded = Folded::default();
        for line in journal.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match record::read(line) {
                Line::Record(record) => folded.void += usize::from(!folded.board.apply(record)),
                Line::Header => {}
                Line::Damaged => folded.void += 1,
                Line::TooNew(format) => return Err(TooNew(format)),
            }
        }
        folded.is_torn = !journal.is_empty() && !journal.ends_with(b"\n");
        Ok(folded)
    }

    /// Takes what was done. Whether it could be; if not, nothing is changed.
    #[must_use]
    pub(super) fn apply(&mut self, Record { at, deed }: Record) -> bool {
        match deed {
            Deed::Created { id, subject, description, blocked_by } => {
                let is_new = !self.todos.contains_key(&id);
                if !is_new || !blocked_by.iter().all(|id| self.todos.contains_key(id)) {
                    return false;
                }
                let state = State::Pending;
                self.todos.insert(id, Todo { subject, description, blocked_by, state });
                true
            }
            Deed::Claimed { id, by, instead_of } => {
                let Some(todo) = self.todos.get(&id) else { return false };
                let is_free = match (&todo.state, &instead_of) {
                    (State::Pending, None) => true,
                    (State::InProgress { by: owner, .. }, Some(lost)) => {
                        owner == lost && by != *lost
                    }
                    (State::Pending | State::InProgress { .. } | State::Completed { .. }, _) => {
                        false
                    }
                };
                let is_next = self.waits_for(todo).next().is_none();
                is_free && is_next && self.set(id, State::InProgress { by, since: at })
            }
            Deed::Returned { id, by } => self.is_held(id, &by) && self.set(id, State::Pending),
            Deed::Completed { id, by } => {
                self.is_held(id, &by) && self.set(id, State::Completed { by, at })
            }
        }
    }

    fn is_held(&self, id: TodoId, by: &Holder) -> bool {
        let state = self.todos.get(&id).map(|todo| &todo.state);
        matches!(state, Some(State::InProgress { by: owner, .. }) if owner == by)
    }

    fn set(&mut self, id: TodoId, state: State) -> bool {
        self.todos.get_mut(&id).map(|todo| todo.state = state).is_some()
    }

    /// Returns a to-do.
    #[must_use]
    pub fn get(&self, id: TodoId) -> Option<&Todo> {
        self.todos.get(&id)
    }

    /// Returns all to-dos in the order of their ids.
    pub fn all(&self) -> impl Iterator<Item = (TodoId, &Todo)> {
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
    pub fn waits_for<'b>(&'b self, todo: &'b Todo) -> impl Iterator<Item = TodoId> + 'b {
        let is_completed = move |id: &TodoId| {
            self.todos.get(id).is_some_and(|todo| matches!(todo.state, State::Completed { .. }))
        };
        todo.blocked_by.iter().copied().filter(move |id| !is_completed(id))
    }

    /// Returns the name of the next to-do.
    pub(super) fn next_id(&self) -> Option<TodoId> {
        self.todos.last_key_value().map_or(Some(TodoId::FIRST), |(last, _)| last.next())
    }
}
