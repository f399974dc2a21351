//! A result that was taken needs no notice.

use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, NoticeId, Story};

use super::acks::{self, Acks, Durability};
use super::error::NoticesError;
use crate::store::Root;

/// Notes that somebody knows how a task stands, as far as `state` says: its news so far need not be
/// told to `consumer`, or to nobody (`None`) when its own caller has taken the result.
///
/// Only after it was shown. A crash before this tells it again.
///
/// # Errors
///
/// [`NoticesError`].
pub fn consume(
    root: &Root,
    state: &TaskState,
    consumer: Option<&Consumer>,
) -> Result<(), NoticesError> {
    let session = &state.spec.session_id;
    let story = story(root, state.spec.task_id)?;
    let mut ids: Vec<NoticeId> = story.ids_among(state.next_seq).collect();
    if let Some(consumer) = consumer {
        let acks = Acks::read(root, session)?;
        ids.retain(|id| !acks.has(consumer, *id));
    }
    acks::add(root, session, consumer, &ids, Durability::Kernel)
}

/// Returns the session of a task and what the task has told so far.
///
/// # Errors
///
/// [`NoticesError`].
pub fn notices_of(root: &Root, task: TaskId) -> Result<(SessionId, Vec<NoticeId>), NoticesError> {
    let Story { state, notices } = story(root, task)?;
    Ok((state.spec.session_id, notices.iter().map(|notice| notice.id).collect()))
}

fn story(root: &Root, id: TaskId) -> Result<Story, NoticesError> {
    root.task(id)?.story().map_err(|source| NoticesError::Journal { id, source })
}
