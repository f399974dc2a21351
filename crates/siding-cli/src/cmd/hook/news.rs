//! Telling what is new of background tasks, once.

mod facts;

use siding_core::notices::{DeliveryLock, NoticesError, Outbox, PendingNotices};
use siding_core::store::StateDir;
use siding_core::view::ViewDetail;
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId, NoticeKind, NoticeView};

use super::answer::Acks;
use super::conversation::Conversation;
use crate::context::{self, Task};
use crate::failure::Failure;

pub(super) use facts::{Fact, Facts, escaped};

/// How long another who is telling the same is waited for, in milliseconds. The agent waits
/// meanwhile; what he tells need not be told here.
const TURN_MS: u64 = 100;

/// What is new, and the right to tell it.
#[derive(Debug)]
pub(super) struct News<'r> {
    root: &'r StateDir,
    turns: Vec<DeliveryLock>,
    notices: Vec<NoticeView>,
}

impl<'r> News<'r> {
    /// Returns what is new in the conversation's sessions, `None` for nothing.
    pub(super) fn of(conversation: &'r Conversation) -> Result<Option<Self>, Failure> {
        // Ends that nobody has recorded yet are news.
        let _what_failed_was_said = context::recover_all(&conversation.root)?;
        let sessions = conversation.sessions()?;
        Self::in_sessions(&conversation.root, &sessions)
    }

    /// Returns what is new in some sessions, `None` for nothing.
    pub(super) fn in_sessions(
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
            let turn = match outbox.lock_delivery_within(TURN_MS) {
                Err(NoticesError::Busy { .. }) => continue,
                turn => turn?,
            };
            let PendingNotices { notices: found, .. } = outbox.pending()?;
            turns.push(turn);
            notices.extend(found);
        }
        Ok((!notices.is_empty()).then_some(Self { root, turns, notices }))
    }

    /// Returns the notices.
    pub(super) fn notices(&self) -> &[NoticeView] {
        &self.notices
    }

    /// Returns the text with `beside` at its end, and the acknowledgement of what is in it.
    pub(super) fn facts(self, beside: &str) -> (String, Acks<'r>) {
        let Self { root, turns, notices } = self;
        let mut facts = Facts::with(beside);
        let mut told: Vec<(SessionId, Vec<NoticeId>)> = Vec::new();
        for notice in notices {
            let living = match notice.kind {
                NoticeKind::Lingering => living(root, &notice),
                NoticeKind::Ended
                | NoticeKind::Stalled
                | NoticeKind::Limit
                | NoticeKind::Matched
                | NoticeKind::Ready
                | NoticeKind::Expiring => None,
            };
            let (session, id) = (notice.session_id.clone(), notice.notice_id);
            if !facts.add(Fact { notice, living }) {
                continue;
            }
            match told.iter_mut().find(|(of, _)| *of == session) {
                Some((_, ids)) => ids.push(id),
                None => told.push((session, vec![id])),
            }
        }
        (facts.text() + beside, Acks::new(root, turns, told))
    }
}

/// Returns the processes that a command has left running, in one line.
fn living(root: &StateDir, notice: &NoticeView) -> Option<String> {
    let view = Task::read(root, notice.task_id).ok()?.view(root, ViewDetail::Full);
    facts::living(&view)
}
