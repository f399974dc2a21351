//! The operations on a to-do list and the records that they produce. Pure.

use super::id::TodoId;
use super::owner::{OwnerPresence, TodoOwner};
use super::record::TodoChange;
use super::state::{Todo, TodoState, TodoStatus};

/// Maximum number of to-dos in a list, including completed ones.
const MAX_TODOS: usize = 1_000;
/// Maximum bytes of a subject.
const MAX_SUBJECT_BYTES: usize = 200;
/// Maximum bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 16 << 10;

/// A to-do that is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TodoDraft {
    /// A summary in one line.
    pub subject: String,
    /// Everything in addition to the subject that the owner needs to know.
    pub description: String,
    /// The to-dos that must be completed first.
    pub blocked_by: Vec<TodoId>,
}

/// Why an operation is refused. The messages are for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TodoRefusal {
    /// An argument is too short or too long.
    #[error("`{what}` has {len} bytes: write {least} to {most}")]
    Size {
        /// The name of the argument, such as `subject`.
        what: &'static str,
        /// The length of the given argument in bytes.
        len: usize,
        /// The smallest allowed length in bytes.
        least: usize,
        /// The greatest allowed length in bytes.
        most: usize,
    },
    /// The list already has the maximum number of to-dos, or the greatest possible id is in use.
    #[error(
        "the list is full with {} to-dos, completed ones too; a person can start a new one by \
         moving `.siding/todo.jsonl` away",
        MAX_TODOS
    )]
    Full,
    /// No to-do has this id.
    #[error("there is no to-do {id}; list_tasks shows the existing ones")]
    Unknown {
        /// The id that the agent gave.
        id: TodoId,
    },
    /// `blocked_by` contains an id that no to-do has, such as the id that the new to-do would get.
    #[error(
        "`blocked_by` names {id}, which is not on the list: a to-do can wait only for older ones; \
         create that one first"
    )]
    Blocker {
        /// The first such id in `blocked_by`.
        id: TodoId,
    },
    /// The to-do cannot be claimed until other to-dos are completed.
    #[error("{id} waits for {} to be completed; claim one of those first", join_ids(.blockers))]
    Blocked {
        /// The to-do that cannot be claimed yet.
        id: TodoId,
        /// The open to-dos that it waits for.
        blockers: Vec<TodoId>,
    },
    /// Another agent owns the to-do.
    #[error("{id} belongs to {}{}", .by.owner, presence_note(.presence, .by))]
    Owned {
        /// The to-do that the agent tried to claim, complete or return.
        id: TodoId,
        /// The agent that owns the to-do.
        by: Box<TodoOwner>,
        /// Whether the owner's process still exists.
        presence: OwnerPresence,
    },
    /// The to-do has not been claimed.
    #[error("{id} is not claimed: claim it with claim_task before you work on it")]
    Unclaimed {
        /// The to-do that the agent tried to complete or return.
        id: TodoId,
    },
    /// The to-do is already completed.
    #[error("{id} was already completed by {owner}")]
    Completed {
        /// The to-do that the agent tried to claim, complete or return.
        id: TodoId,
        /// The name of the agent that completed the to-do.
        owner: String,
    },
}

fn join_ids(ids: &[TodoId]) -> String {
    ids.iter().map(TodoId::to_string).collect::<Vec<_>>().join(", ")
}

fn presence_note(presence: &OwnerPresence, by: &TodoOwner) -> String {
    match presence {
        OwnerPresence::Running => {
            format!(" in process {}, which is running; choose another one", by.process.pid)
        }
        OwnerPresence::Exited => {
            ", whose process has ended: claim it before you work on it".to_owned()
        }
        OwnerPresence::Unknown => format!(
            " on {}, in a process that cannot be observed from here; choose another one (a person \
             who knows that it has ended can delete the line of its claim in `.siding/todo.jsonl`)",
            by.machine.split(' ').next().unwrap_or_default()
        ),
    }
}

/// Returns the record that adds a to-do to the list.
pub(super) fn create(state: &TodoState, draft: &TodoDraft) -> Result<Vec<TodoChange>, TodoRefusal> {
    let size = |what, text: &str, least, most| match text.len() {
        len if (least..=most).contains(&len) => Ok(()),
        len => Err(TodoRefusal::Size { what, len, least, most }),
    };
    size("subject", &draft.subject, 1, MAX_SUBJECT_BYTES)?;
    size("description", &draft.description, 0, MAX_DESCRIPTION_BYTES)?;
    if state.len() >= MAX_TODOS {
        return Err(TodoRefusal::Full);
    }
    let id = state.next_id().ok_or(TodoRefusal::Full)?;
    if let Some(&id) = draft.blocked_by.iter().find(|id| state.get(**id).is_none()) {
        return Err(TodoRefusal::Blocker { id });
    }
    let TodoDraft { subject, description, mut blocked_by } = draft.clone();
    blocked_by.sort_unstable();
    blocked_by.dedup();
    Ok(vec![TodoChange::Created { id, subject, description, blocked_by }])
}

/// Returns the record that makes `who` the owner of a to-do, or no record if `who` already owns it.
pub(super) fn claim(
    state: &TodoState,
    id: TodoId,
    who: &TodoOwner,
    presence: impl Fn(&TodoOwner) -> OwnerPresence,
) -> Result<Vec<TodoChange>, TodoRefusal> {
    let todo = find_todo(state, id)?;
    let blockers: Vec<TodoId> = state.open_blockers(todo).collect();
    let claimed = |instead_of| vec![TodoChange::Claimed { id, by: who.clone(), instead_of }];
    match &todo.status {
        TodoStatus::Completed { by, .. } => {
            Err(TodoRefusal::Completed { id, owner: by.owner.clone() })
        }
        TodoStatus::InProgress { by, .. } if by == who => Ok(vec![]),
        TodoStatus::InProgress { by, .. } => match presence(by) {
            OwnerPresence::Exited => Ok(claimed(Some(by.clone()))),
            presence @ (OwnerPresence::Running | OwnerPresence::Unknown) => {
                Err(TodoRefusal::Owned { id, by: Box::new(by.clone()), presence })
            }
        },
        TodoStatus::Pending if blockers.is_empty() => Ok(claimed(None)),
        TodoStatus::Pending => Err(TodoRefusal::Blocked { id, blockers }),
    }
}

/// Returns the records that complete a to-do of `owner`, or no records if that agent has already
/// completed it.
pub(super) fn complete(
    state: &TodoState,
    id: TodoId,
    owner: &TodoOwner,
    presence: impl Fn(&TodoOwner) -> OwnerPresence,
) -> Result<Vec<TodoChange>, TodoRefusal> {
    if let TodoStatus::Completed { by, .. } = &find_todo(state, id)?.status
        && by.owner == owner.owner
    {
        return Ok(vec![]);
    }
    let mut deeds = take_ownership(state, id, owner, presence)?;
    deeds.push(TodoChange::Completed { id, by: owner.clone() });
    Ok(deeds)
}

/// Returns the records that release a to-do of `owner`, so that other agents may claim it.
pub(super) fn give_back(
    state: &TodoState,
    id: TodoId,
    owner: &TodoOwner,
    presence: impl Fn(&TodoOwner) -> OwnerPresence,
) -> Result<Vec<TodoChange>, TodoRefusal> {
    let mut deeds = take_ownership(state, id, owner, presence)?;
    deeds.push(TodoChange::Returned { id, by: owner.clone() });
    Ok(deeds)
}

/// Checks that `owner` owns a to-do, and returns the record of a new claim if one is needed. A new
/// claim is needed if an earlier process of the same agent claimed the to-do and has ended.
fn take_ownership(
    state: &TodoState,
    id: TodoId,
    owner: &TodoOwner,
    presence: impl Fn(&TodoOwner) -> OwnerPresence,
) -> Result<Vec<TodoChange>, TodoRefusal> {
    match &find_todo(state, id)?.status {
        TodoStatus::Pending => Err(TodoRefusal::Unclaimed { id }),
        TodoStatus::InProgress { by, .. } if by != owner && by.owner != owner.owner => {
            Err(TodoRefusal::Owned { id, by: Box::new(by.clone()), presence: presence(by) })
        }
        TodoStatus::InProgress { .. } | TodoStatus::Completed { .. } => {
            claim(state, id, owner, presence)
        }
    }
}

fn find_todo(state: &TodoState, id: TodoId) -> Result<&Todo, TodoRefusal> {
    state.get(id).ok_or(TodoRefusal::Unknown { id })
}
