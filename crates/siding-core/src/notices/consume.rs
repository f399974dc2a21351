//! A result that was taken needs no notice.

use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, NoticeId, Story};

use super::acks::{self, Acks, Durability};
use super::error::NoticesError;
use crate::store::Root;

/// Notes that a consumer knows how a task stands, as far as `state` says: its news so far need not
/// be told to it.
///
/// Only after it was shown. A crash before this tells it again.
///
/// # Errors
///
/// [`NoticesError`].
pub fn consume(root: &Root, state: &TaskState, consumer: &Consumer) -> Result<(), NoticesError> {
    let session = &state.spec.session_id;
    let acks = Acks::read(root, session)?;
    let mut ids: Vec<NoticeId> =
        story(root, state.spec.task_id)?.ids_among(state.next_seq).collect();
    ids.retain(|id| !acks.has(consumer, *id));
    acks::add(root, session, Some(consumer), &ids, Durability::Kernel)
}

/// Notes that a task's own caller has taken its result: this news of it need not be told to
/// anybody. Only after it was shown.
///
/// # Errors
///
/// [`NoticesError`].
pub fn returned(root: &Root, session: &SessionId, news: &[NoticeId]) -> Result<(), NoticesError> {
    acks::add(root, session, None, news, Durability::Kernel)
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
