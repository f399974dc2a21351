//! Selection of the notices that need a person's attention.

use serde::Deserialize as _;

use super::extract::NoticeKind;
use super::view::{NoticeStatus, NoticeView};
use crate::evidence::WhyVerdict;

/// Returns whether a person may have to act: the task waits for input, failed, was lost, exceeded
/// its deadline, a limit or a watchdog's threshold, was refused a host, or will soon reach its
/// deadline. No other notice needs action, such as a successful end, a requested stop, or a stall
/// in which the task does not wait for input.
#[must_use]
pub fn needs_person(notice: &NoticeView) -> bool {
    match notice.kind {
        NoticeKind::Stalled => is_waiting_for_input(notice),
        NoticeKind::Limit | NoticeKind::Expiring => true,
        // A stopped task is left out, because the requester already expects the end.
        NoticeKind::Ended => matches!(
            notice.status,
            NoticeStatus::Failed
                | NoticeStatus::TimedOut
                | NoticeStatus::Limit
                | NoticeStatus::Lost
        ),
        // The person who types already knows about it.
        NoticeKind::Lingering | NoticeKind::Matched | NoticeKind::Ready | NoticeKind::Terminal => {
            false
        }
    }
}

fn is_waiting_for_input(notice: &NoticeView) -> bool {
    let verdict = notice.evidence.as_ref().and_then(|evidence| evidence.get("verdict"));
    verdict.is_some_and(|name| WhyVerdict::deserialize(name).is_ok_and(WhyVerdict::asks_for_input))
}
