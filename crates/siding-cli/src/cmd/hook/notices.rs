//! Telling what is new of background tasks, once.

mod agent_text;

use siding_core::notices::{DeliveryLock, NoticesError, Outbox, PendingNotices};
use siding_core::store::StateDir;
use siding_core::view::ViewDetail;
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId, NoticeKind, NoticeView};

use super::answer::PendingAcks;
use super::conversation::Conversation;
use crate::context::{self, Task};
use crate::failure::Failure;

pub(super) use agent_text::{NoticeWithSurvivors, NoticesText, escape_xml};

/// How long another who is telling the same is waited for, in milliseconds. The agent waits
/// meanwhile; what he tells need not be told here.
const DELIVERY_LOCK_TIMEOUT_MS: u64 = 100;

/// What is new, and the right to tell it.
#[derive(Debug)]
pub(super) struct NewNotices<'r> {
    root: &'r StateDir,
    delivery_locks: Vec<DeliveryLock>,
    notices: Vec<NoticeView>,
}

impl<'r> NewNotices<'r> {
    /// Returns what is new in the conversation's sessions, `None` for nothing.
    pub(super) fn for_conversation(
        conversation: &'r Conversation,
    ) -> Result<Option<Self>, Failure> {
        // Ends that nobody has recorded yet are news.
        let _logged_by_callee = context::recover_all(&conversation.root)?;
        let sessions = conversation.sessions()?;
        Self::for_sessions(&conversation.root, &sessions)
    }

    /// Returns what is new in some sessions, `None` for nothing.
    pub(super) fn for_sessions(
        root: &'r StateDir,
        sessions: &[SessionId],
    ) -> Result<Option<Self>, Failure> {
        let (mut turns, mut notices) = (Vec::new(), Vec::new());
        for session in sessions {
            let outbox = Outbox::new(root, session.clone(), Consumer::agent())?;
            // Mostly there is nothing, and then nobody need wait for a turn.
            if outbox.pending()?.notices.is_empty() {
                continue;
            }
            let delivery_lock = match outbox.lock_delivery_within(DELIVERY_LOCK_TIMEOUT_MS) {
                Err(NoticesError::Busy { .. }) => continue,
                turn => turn?,
            };
            let PendingNotices { notices: found, .. } = outbox.pending()?;
            turns.push(delivery_lock);
            notices.extend(found);
        }
        Ok((!notices.is_empty()).then_some(Self { root, delivery_locks: turns, notices }))
    }

    /// Returns the notices.
    pub(super) fn notices(&self) -> &[NoticeView] {
        &self.notices
    }

    /// Returns the text with `beside` at its end, and the acknowledgement of what is in it.
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

/// Returns the processes that a command has left running, in one line.
fn surviving_processes(root: &StateDir, notice: &NoticeView) -> Option<String> {
    let view = Task::read(root, notice.task_id).ok()?.view(root, ViewDetail::Full);
    agent_text::format_survivors(&view)
}
