//! Notices about the session's other tasks, appended to the answer of a tool. A client without
//! hooks receives notices only in this way.

use std::collections::HashSet;
use std::fmt::Write as _;

use siding_core::notices::Outbox;
use siding_model::advice::Dialect;
use siding_model::id::TaskId;
use siding_model::notice::{Consumer, NoticeId, NoticeView, format_notice_xml};
use siding_model::text::cut_head;
use siding_terminal::show_screens_in_notices;

use crate::answer::ToolAnswer;
use crate::context::ToolContext;
use crate::delivery::DeliveryAck;
use crate::notices_in_flight::AnswerNotices;

/// Maximum size of the notices in one answer, in bytes.
const MAX_NOTICES_BYTES: usize = 8 << 10;
/// Maximum size of the command in a shortened notice, in bytes.
const COMMAND_BYTES: usize = 80;

/// Appends the session's pending notices to an answer, unless the client's hooks deliver them. If
/// the notices cannot be read, they remain pending, and a later answer delivers them.
pub fn add_to_answer(context: &ToolContext, answer: &mut ToolAnswer) {
    let Ok(outbox) = Outbox::new(&context.root, context.session.clone(), Consumer::agent()) else {
        return;
    };
    // The lock is acquired before the outbox is read, so that a notice in another answer is either
    // in this set or acknowledged in the outbox.
    let mut in_flight = context.notices_in_flight.lock();
    let Ok(mut pending) = outbox.pending() else { return };
    // Notices about these tasks would repeat the answer.
    let reported: HashSet<TaskId> =
        answer.delivery_acks.iter().filter_map(DeliveryAck::task).collect();
    pending
        .notices
        .retain(|new| !reported.contains(&new.task_id) && !in_flight.contains(&new.notice_id));
    if pending.notices.is_empty() || context.hooks_deliver_notices() {
        return;
    }
    show_screens_in_notices(&context.root, &mut pending.notices);
    let (text, ids) = format_notices(context.dialect, pending.notices);
    // The notices are announced in siding's own lines, because the output of a task may imitate a
    // block of notices.
    answer
        .lines
        .push("notices about this session's background tasks are in the last block".to_owned());
    in_flight.extend(ids.iter().copied());
    answer.notices = Some(text);
    answer.delivery_acks.push(DeliveryAck::Notices(AnswerNotices {
        ids,
        in_flight: context.notices_in_flight.clone(),
    }));
}

/// Formats as many notices as fit, in order. Returns the text and the ids of the formatted notices.
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
    let mut text = format!("Reported by siding about this session's background tasks:\n{blocks}");
    if ids.len() < all {
        let remaining = all - ids.len();
        let _writing_to_string =
            writeln!(text, "{remaining} more will follow with the next answer.");
    }
    (text, ids)
}

/// Formats a notice for a model, shortened if it is too long for one answer.
#[must_use]
pub fn format_notice(dialect: Dialect, mut notice: NoticeView) -> String {
    let text = format_notice_xml(&notice);
    if text.len() <= MAX_NOTICES_BYTES {
        return text;
    }
    shorten_notice(dialect, &mut notice);
    format_notice_xml(&notice)
}

/// Replaces, shortens or removes the fields that can be long.
fn shorten_notice(dialect: Dialect, notice: &mut NoticeView) {
    notice.summary =
        format!("too long for this notice; {} shows it", dialect.format_tool("output"));
    notice.command = cut_head(&notice.command, COMMAND_BYTES).to_owned();
    notice.evidence = None;
}
