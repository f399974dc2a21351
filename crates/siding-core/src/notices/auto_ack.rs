//! A result that was taken needs no notice.

use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, Coverage, NoticeId, TaskNotices};

use super::acks::{self, Acks, Durability};
use super::error::NoticesError;
use crate::session;
use crate::store::StateDir;

/// Notes that somebody in session `reader` was shown a task, as far as `state` says: what was shown
/// need not be told to the agent, if it is the one whose task that is. A stranger who looks takes
/// nobody's news.
///
/// Only after it was shown. A crash before this tells it again.
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
    // A program has more than one session: its shells' and that of its MCP server.
    if !session::share_owner(root, reader, session) {
        return Ok(());
    }
    let agent = Consumer::agent();
    let acks = Acks::read(root, session)?;
    let mut ids: Vec<NoticeId> = read_task_notices(root, state.spec.task_id)?
        .covered_ids_before(state.next_seq, shown)
        .collect();
    ids.retain(|id| !acks.is_acknowledged(&agent, *id));
    acks::append_acks(root, session, Some(&agent), &ids, Durability::Kernel)
}

/// Notes that a task's own caller has taken its result: this news of it need not be told to
/// anybody. Only after it was shown.
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

/// Returns the session of a task and what its caller need not be told of it.
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

fn read_task_notices(root: &StateDir, id: TaskId) -> Result<TaskNotices, NoticesError> {
    root.task_dir(id)?.read_notices().map_err(|source| NoticesError::Journal { id, source })
}
