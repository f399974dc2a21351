//! Acknowledges notices whose content a caller has already received in another way.

use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, Coverage, NoticeId, TaskNotices};

use super::acks::{self, Acks, Durability};
use super::error::NoticesError;
use crate::session;
use crate::store::StateDir;

/// Acknowledges, for the agent that owns a task, the notices up to `state` that `shown` covers. Has
/// no effect if `reader` is a session of another owner, because a reader that does not own the task
/// must not suppress the owner's notices.
///
/// Must be called after the content was shown, so that a crash before this call repeats a notice
/// instead of losing it.
///
/// # Errors
///
/// [`NoticesError`].
pub fn ack_shown(
    root: &StateDir,
    state: &TaskState,
    reader: &SessionId,
    shown: Coverage,
) -> Result<(), NoticesError> {
    let session = &state.spec.session_id;
    // One program may have several sessions, such as that of its shells and that of its MCP server.
    if !session::share_owner(root, reader, session) {
        return Ok(());
    }
    let agent = Consumer::agent();
    let task = state.spec.task_id;
    let mut ids = covered_notices(root, state, shown)?;
    let acks = Acks::read_for_task(root, session, task)?;
    ids.retain(|id| !acks.is_acknowledged(&agent, *id));
    acks::append_acks(root, session, Some(&agent), &ids, Durability::Kernel)
}

/// Returns the notices about a task whose events a result has shown. `state` is the state that the
/// result was made from.
///
/// # Errors
///
/// [`NoticesError`].
pub fn covered_notices(
    root: &StateDir,
    state: &TaskState,
    shown: Coverage,
) -> Result<Vec<NoticeId>, NoticesError> {
    let notices = read_task_notices(root, state.spec.task_id)?;
    Ok(notices.covered_ids_before(state.next_seq, shown).collect())
}

/// Acknowledges, for every consumer, the notices about a task whose result was returned to its
/// caller. Must be called after the result was returned, so that a crash cannot lose a notice.
///
/// # Errors
///
/// [`NoticesError`].
pub fn ack_returned(
    root: &StateDir,
    session: &SessionId,
    news: &[NoticeId],
) -> Result<(), NoticesError> {
    acks::append_acks(root, session, None, news, Durability::Kernel)
}

/// Returns the session of a task and the notices that a full result covers.
///
/// # Errors
///
/// [`NoticesError`].
pub fn caller_notices(
    root: &StateDir,
    task: TaskId,
) -> Result<(SessionId, Vec<NoticeId>), NoticesError> {
    let TaskNotices { state, notices } = read_task_notices(root, task)?;
    Ok((state.spec.session_id, Coverage::FullResult.covered_ids(&notices).collect()))
}

/// Returns the session of a task and all notices about the task so far, including those that are
/// shown only as notices: a refused host, and an approaching deadline.
///
/// # Errors
///
/// [`NoticesError`].
pub fn notices_of_task(
    root: &StateDir,
    task: TaskId,
) -> Result<(SessionId, Vec<NoticeId>), NoticesError> {
    let TaskNotices { state, notices } = read_task_notices(root, task)?;
    Ok((state.spec.session_id, notices.iter().map(|notice| notice.id).collect()))
}

fn read_task_notices(root: &StateDir, id: TaskId) -> Result<TaskNotices, NoticesError> {
    root.task_dir(id)?.read_notices().map_err(|source| NoticesError::Journal { id, source })
}
