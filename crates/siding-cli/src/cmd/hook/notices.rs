//! Delivers the notices of background tasks that the agent has not received yet.

mod agent_text;

use siding_core::notices::{DeliveryLock, NoticesError, Outbox, PendingNotices};
use siding_core::store::StateDir;
use siding_core::task::view::ViewDetail;
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId, NoticeKind, NoticeView};

use super::answer::PendingAcks;
use super::conversation::Conversation;
use crate::context::{self, Task};
use crate::failure::Failure;

pub(super) use agent_text::{NoticeWithSurvivors, NoticesText, escape_xml};

/// Maximum time to wait for another process that is delivering notices, in milliseconds. The agent
/// is blocked during this wait, and notices that the other process delivers need no second
/// delivery.
const DELIVERY_LOCK_TIMEOUT_MS: u64 = 100;

/// New notices, with the locks that allow this process to deliver them.
#[derive(Debug)]
pub(super) struct NewNotices<'r> {
    root: &'r StateDir,
    delivery_locks: Vec<DeliveryLock>,
    notices: Vec<NoticeView>,
}

impl<'r> NewNotices<'r> {
    /// Returns the new notices of the conversation's sessions; `None` if there are none, or if
    /// another process is delivering them.
    pub(super) fn for_conversation(
        conversation: &'r Conversation,
    ) -> Result<Option<Self>, Failure> {
        // Recovery may record that tasks have ended, and each such record is a new notice.
        let _logged_by_callee = context::recover_all(&conversation.root)?;
        let sessions = conversation.sessions()?;
        Self::for_sessions(&conversation.root, &sessions)
    }

    /// Returns the new notices of these sessions, except sessions whose notices another process is
    /// delivering; `None` if there are none.
    pub(super) fn for_sessions(
        root: &'r StateDir,
        sessions: &[SessionId],
    ) -> Result<Option<Self>, Failure> {
        let (mut turns, mut notices) = (Vec::new(), Vec::new());
        for session in sessions {
            let outbox = Outbox::new(root, session.clone(), Consumer::agent())?;
            // Usually there are no notices; waiting for the lock would then only delay the agent.
            if outbox.pending()?.notices.is_empty() {
                continue;
            }
            let delivery_lock = match outbox.lock_delivery_within(DELIVERY_LOCK_TIMEOUT_MS) {
                Err(NoticesError::Busy { .. }) => continue,
                turn => turn?,
            };
            let PendingNotices { notices: mut found, .. } = outbox.pending()?;
            siding_terminal::show_screens_in_notices(root, &mut found);
            turns.push(delivery_lock);
            notices.extend(found);
        }
        Ok((!notices.is_empty()).then_some(Self { root, delivery_locks: turns, notices }))
    }

    /// Returns the new notices, grouped by session; in each group the urgent ones come first,
    /// otherwise the order is by time.
    pub(super) fn notices(&self) -> &[NoticeView] {
        &self.notices
    }

    /// Returns the text of the notices followed by `suffix`, and the notices that fit into the
    /// text, which the caller acknowledges after the delivery.
    pub(super) fn into_text(self, suffix: &str) -> (String, PendingAcks<'r>) {
        let Self { root, delivery_locks: turns, notices } = self;
        let mut facts = NoticesText::with_suffix(suffix);
        let mut delivered: Vec<(SessionId, Vec<NoticeId>)> = Vec::new();
        for notice in notices {
            let living = match notice.kind {
                NoticeKind::Lingering => surviving_processes(root, &notice),
                NoticeKind::Ended
                | NoticeKind::Stalled
                | NoticeKind::Limit
                | NoticeKind::Matched
                | NoticeKind::Ready
                | NoticeKind::Terminal
                | NoticeKind::Expiring => None,
            };
            let (session, id) = (notice.session_id.clone(), notice.notice_id);
            if !facts.try_add(NoticeWithSurvivors { notice, survivors: living }) {
                continue;
            }
            match delivered.iter_mut().find(|(of, _)| *of == session) {
                Some((_, ids)) => ids.push(id),
                None => delivered.push((session, vec![id])),
            }
        }
        (facts.format_text() + suffix, PendingAcks::new(root, turns, delivered))
    }
}

/// Returns the processes of the notice's task that still run, in one line; `None` if none runs or
/// the task is unreadable.
fn surviving_processes(root: &StateDir, notice: &NoticeView) -> Option<String> {
    let view = Task::read(root, notice.task_id).ok()?.view(root, ViewDetail::Full);
    agent_text::format_survivors(&view)
}
