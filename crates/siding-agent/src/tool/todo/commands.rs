//! What an agent may do to a to-do list, and which records that makes. Pure.

use super::id::TodoId;
use super::owner::{OwnerPresence, TodoOwner};
use super::record::TodoChange;
use super::state::{Todo, TodoState, TodoStatus};

/// To-dos of a list, completed ones too.
const MAX_TODOS: usize = 1_000;
/// Bytes of a subject.
const MAX_SUBJECT_BYTES: usize = 200;
/// Bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 16 << 10;

/// A to-do that is to be put on a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TodoDraft {
    /// What is to be done, in a line.
    pub subject: String,
    /// All that is to be known about it.
    pub description: String,
    /// What is to be completed before.
    pub blocked_by: Vec<TodoId>,
}

/// Why an agent may not do something to a list, for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TodoRefusal {
    /// It is about nothing, or says too much.
    #[error("`{what}` has {len} bytes: write {least} to {most}")]
    Size {
        /// The argument.
        what: &'static str,
        /// Its bytes.
        len: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// The list is full.
    #[error(
        "the list is full with {} to-dos, completed ones too; a person can begin a new one by moving \
         `.siding/todo.jsonl` away",
        MAX_TODOS
    )]
    Full,
    /// There is none of this name.
    #[error("there is no to-do {id}; list_tasks shows those that there are")]
    Unknown {
        /// The name.
        id: TodoId,
    },
    /// It is to wait for one that is not on the list, which may be itself.
    #[error(
        "`blocked_by` names {id}, which is not on the list: a to-do waits only for those that were \
         made before it; make that one first"
    )]
    Blocker {
        /// The name.
        id: TodoId,
    },
    /// Others come first.
    #[error("{id} waits for {} to be completed; claim one of those first", join_ids(.blockers))]
    Blocked {
        /// The to-do.
        id: TodoId,
        /// What it waits for.
        blockers: Vec<TodoId>,
    },
    /// It is somebody else's.
    #[error("{id} is worked on by {}{}", .by.owner, presence_note(.presence, .by))]
    Owned {
        /// The to-do.
        id: TodoId,
        /// Its owner.
        by: Box<TodoOwner>,
        /// Whether that is still there.
        presence: OwnerPresence,
    },
    /// Nobody works on it.
    #[error("{id} was not claimed by you: claim it with claim_task before you work on it")]
    Unclaimed {
        /// The to-do.
        id: TodoId,
    },
    /// It is done.
    #[error("{id} was completed by {owner} already")]
    Completed {
        /// The to-do.
        id: TodoId,
        /// Who completed it.
        owner: String,
    },
}

fn join_ids(ids: &[TodoId]) -> String {
    ids.iter().map(TodoId::to_string).collect::<Vec<_>>().join(", ")
}

fn presence_note(presence: &OwnerPresence, by: &TodoOwner) -> String {
    match presence {
        OwnerPresence::Running => {
            format!(" in process {}, which runs; take another one", by.process.pid)
        }
        OwnerPresence::Exited => {
            ", whose process is gone: claim it before you work on it".to_owned()
        }
        OwnerPresence::Unknown => format!(
            " on {}, in a process that cannot be seen from here; take another one (a person who knows \
             that it is gone deletes the line of its claim in `.siding/todo.jsonl`)",
            by.machine.split(' ').next().unwrap_or_default()
        ),
    }
}

/// Puts a to-do on a list.
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

/// Claims a to-do for somebody. No record is made for one that is theirs already.
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

/// Has a to-do that somebody has claimed done.
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

/// Gives a to-do back that somebody has claimed.
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

/// Makes sure that a to-do is somebody's own. It is also what an agent of the same name had claimed in
/// a process that is gone: that is this one, which goes on where it was.
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
