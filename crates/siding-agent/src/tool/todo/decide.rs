//! What an agent may do to a to-do list, and which records that makes. Pure.

use super::board::{Board, State, Todo};
use super::holder::{Holder, Presence};
use super::id::TodoId;
use super::record::Deed;

/// To-dos of a list, completed ones too.
const TODOS_MAX: usize = 1_000;
/// Bytes of a subject.
const SUBJECT_MAX: usize = 200;
/// Bytes of a description.
const DESCRIPTION_MAX: usize = 16 << 10;

/// A to-do that is to be put on a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// What is to be done, in a line.
    pub subject: String,
    /// All that is to be known about it.
    pub description: String,
    /// What is to be completed before.
    pub blocked_by: Vec<TodoId>,
}

/// Why an agent may not do something to a list, for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
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
        TODOS_MAX
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
    #[error("{id} waits for {} to be completed; claim one of those first", list(.blockers))]
    Blocked {
        /// The to-do.
        id: TodoId,
        /// What it waits for.
        blockers: Vec<TodoId>,
    },
    /// It is somebody else's.
    #[error("{id} is worked on by {}{}", .by.owner, why(.presence, .by))]
    Owned {
        /// The to-do.
        id: TodoId,
        /// Its owner.
        by: Box<Holder>,
        /// Whether that is still there.
        presence: Presence,
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

fn list(ids: &[TodoId]) -> String {
    ids.iter().map(TodoId::to_string).collect::<Vec<_>>().join(", ")
}

fn why(presence: &Presence, by: &Holder) -> String {
    match presence {
        Presence::Here => format!(" in process {}, which runs; take another one", by.process.pid),
        Presence::Gone => ", whose process is gone: claim it before you work on it".to_owned(),
        Presence::Unseen => format!(
            " on {}, in a process that cannot be seen from here; take another one (a person who knows \
             that it is gone deletes the line of its claim in `.siding/todo.jsonl`)",
            by.machine.split(' ').next().unwrap_or_default()
        ),
    }
}

/// Puts a to-do on a list.
pub(super) fn create(board: &Board, draft: &Draft) -> Result<Vec<Deed>, Refusal> {
    let size = |what, text: &str, least, most| match text.len() {
        len if (least..=most).contains(&len) => Ok(()),
        len => Err(Refusal::Size { what, len, least, most }),
    };
    size("subject", &draft.subject, 1, SUBJECT_MAX)?;
    size("description", &draft.description, 0, DESCRIPTION_MAX)?;
    if board.len() >= TODOS_MAX {
        return Err(Refusal::Full);
    }
    let id = board.next_id().ok_or(Refusal::Full)?;
    if let Some(&id) = draft.blocked_by.iter().find(|id| board.get(**id).is_none()) {
        return Err(Refusal::Blocker { id });
    }
    let Draft { subject, description, mut blocked_by } = draft.clone();
    blocked_by.sort_unstable();
    blocked_by.dedup();
    Ok(vec![Deed::Created { id, subject, description, blocked_by }])
}

/// Claims a to-do for somebody. No record is made for one that is theirs already.
pub(super) fn claim(
    board: &Board,
    id: TodoId,
    who: &Holder,
    presence: impl Fn(&Holder) -> Presence,
) -> Result<Vec<Deed>, Refusal> {
    let todo = find(board, id)?;
    let blockers: Vec<TodoId> = board.waits_for(todo).collect();
    let claimed = |instead_of| vec![Deed::Claimed { id, by: who.clone(), instead_of }];
    match &todo.state {
        State::Completed { by, .. } => Err(Refusal::Completed { id, owner: by.owner.clone() }),
        State::InProgress { by, .. } if by == who => Ok(vec![]),
        State::InProgress { by, .. } => match presence(by) {
            Presence::Gone => Ok(claimed(Some(by.clone()))),
            presence @ (Presence::Here | Presence::Unseen) => {
                Err(Refusal::Owned { id, by: Box::new(by.clone()), presence })
            }
        },
        State::Pending if blockers.is_empty() => Ok(claimed(None)),
        State::Pending => Err(Refusal::Blocked { id, blockers }),
    }
}

/// Has a to-do that somebody has claimed done.
pub(super) fn complete(
    board: &Board,
    id: TodoId,
    who: &Holder,
    presence: impl Fn(&Holder) -> Presence,
) -> Result<Vec<Deed>, Refusal> {
    if let State::Completed { by, .. } = &find(board, id)?.state
        && by.owner == who.owner
    {
        return Ok(vec![]);
    }
    let mut deeds = own(board, id, who, presence)?;
    deeds.push(Deed::Completed { id, by: who.clone() });
    Ok(deeds)
}

/// Gives a to-do back that somebody has claimed.
pub(super) fn give_back(
    board: &Board,
    id: TodoId,
    who: &Holder,
    presence: impl Fn(&Holder) -> Presence,
) -> Result<Vec<Deed>, Refusal> {
    let mut deeds = own(board, id, who, presence)?;
    deeds.push(Deed::Returned { id, by: who.clone() });
    Ok(deeds)
}

/// Makes sure that a to-do is somebody's own. It is also what an agent of the same name had claimed in
/// a process that is gone: that is this one, which goes on where it was.
fn own(
    board: &Board,
    id: TodoId,
    who: &Holder,
    presence: impl Fn(&Holder) -> Presence,
) -> Result<Vec<Deed>, Refusal> {
    match &find(board, id)?.state {
        State::Pending => Err(Refusal::Unclaimed { id }),
        State::InProgress { by, .. } if by != who && by.owner != who.owner => {
            Err(Refusal::Owned { id, by: Box::new(by.clone()), presence: presence(by) })
        }
        State::InProgress { .. } | State::Completed { .. } => claim(board, id, who, presence),
    }
}

fn find(board: &Board, id: TodoId) -> Result<&Todo, Refusal> {
    board.get(id).ok_or(Refusal::Unknown { id })
}
