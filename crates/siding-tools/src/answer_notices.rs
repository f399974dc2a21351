//! What has become of the session's other tasks, told behind the answer of a tool. There is no other
//! way to a client that no hook tells it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siding_core::notices::Outbox;
use siding_core::session::{self, Session};
use siding_core::sys::procfs;
use siding_model::advice::Dialect;
use siding_model::id::TaskId;
use siding_model::notice::{Consumer, NoticeId, NoticeView, format_notice_xml};
use siding_model::text::cut_head;

use crate::answer::ToolAnswer;
use crate::context::ToolContext;
use crate::delivery::DeliveryAck;

/// Bytes of notices behind one answer.
const MAX_NOTICES_BYTES: usize = 8 << 10;
/// Bytes of a command in a notice that would be longer than that.
const COMMAND_BYTES: usize = 80;

/// The notices that stand in answers which are on their way, so that of several calls at once only
/// one tells them.
#[derive(Debug, Clone, Default)]
pub(crate) struct NoticesInFlight(Arc<Mutex<HashSet<NoticeId>>>);

impl NoticesInFlight {
    fn lock(&self) -> MutexGuard<'_, HashSet<NoticeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notices that stand in an answer.
#[derive(Debug)]
pub struct AnswerNotices {
    pub(crate) ids: Vec<NoticeId>,
    in_flight: NoticesInFlight,
}

impl Drop for AnswerNotices {
    fn drop(&mut self) {
        self.in_flight.lock().retain(|id| !self.ids.contains(id));
    }
}

/// Puts the session's news behind an answer. What cannot be read is told later.
pub fn add_to_answer(context: &ToolContext, answer: &mut ToolAnswer) {
    let Ok(outbox) = Outbox::new(&context.root, context.session.clone(), Consumer::agent()) else {
        return;
    };
    // From before the look: what another answer tells is either in here or acknowledged.
    let mut in_flight = context.notices_in_flight.lock();
    let Ok(mut pending) = outbox.pending() else { return };
    // The answer itself says how these stand.
    let reported: HashSet<TaskId> =
        answer.delivery_acks.iter().filter_map(DeliveryAck::task).collect();
    pending
        .notices
        .retain(|new| !reported.contains(&new.task_id) && !in_flight.contains(&new.notice_id));
    if pending.notices.is_empty() || hooks_deliver_notices(context) {
        return;
    }
    let (text, ids) = format_notices(context.dialect, pending.notices);
    // Said where no task can say it: what a task wrote may look like news.
    answer.lines.push("news of this session's background tasks is in the last block".to_owned());
    in_flight.extend(ids.iter().copied());
    answer.notices = Some(text);
    answer.delivery_acks.push(DeliveryAck::Notices(AnswerNotices {
        ids,
        in_flight: context.notices_in_flight.clone(),
    }));
}

/// Whether hooks of the client tell the news of all its sessions: they have opened one for its owner.
pub(crate) fn hooks_deliver_notices(context: &ToolContext) -> bool {
    let own =
        procfs::boot_id().ok().zip(session::read(&context.root, &context.session).ok().flatten());
    let owner = own.and_then(|(boot, session)| session.living_owner(&boot));
    let sessions = owner.and_then(|owner| session::list_owned_by(&context.root, owner).ok());
    let has_hooks = |one: &Session| session::has_hooks(&context.root, &one.id);
    sessions.is_some_and(|all| all.iter().any(has_hooks))
}

/// Returns as many notices as there is room for, in order, and which these are.
fn format_notices(dialect: Dialect, notices: Vec<NoticeView>) -> (String, Vec<NoticeId>) {
    let (mut blocks, mut ids) = (String::new(), Vec::new());
    let all = notices.len();
    for notice in notices {
        let id = notice.notice_id;
        let block = format_notice(dialect, notice);
        if blocks.len() + block.len() > MAX_NOTICES_BYTES && !ids.is_empty() {
            break;
        }
        blocks.push_str(&block);
        ids.push(id);
    }
    let mut text = format!("Reported by siding, of this session's background tasks:\n{blocks}");
    if ids.len() < all {
        let remaining = all - ids.len();
        let _writing_to_string =
            writeln!(text, "{remaining} more will be reported with the next answer.");
    }
    (text, ids)
}

/// Returns a notice as a model is told it, in short where it is too long for one answer.
#[must_use]
pub fn format_notice(dialect: Dialect, mut notice: NoticeView) -> String {
    let text = format_notice_xml(&notice);
    if text.len() <= MAX_NOTICES_BYTES {
        return text;
    }
    shorten_notice(dialect, &mut notice);
    format_notice_xml(&notice)
}

/// Leaves only what no task can make long.
fn shorten_notice(dialect: Dialect, notice: &mut NoticeView) {
    notice.summary =
        format!("too long to be told here; {} shows it", dialect.format_tool("output"));
    notice.command = cut_head(&notice.command, COMMAND_BYTES).to_owned();
    notice.evidence = None;
}
