//! Which notices a person is called for.

use super::extract::NoticeKind;
use super::view::{NoticeStatus, NoticeView};
use crate::evidence::WhyVerdict;

/// Whether a person may have to act: a task waits for an answer, failed, or passed its deadline or a
/// limit, or will pass its deadline soon. That something ended well, lingers or is merely silent can wait.
#[must_use]
pub fn needs_person(notice: &NoticeView) -> bool {
    match notice.kind {
        NoticeKind::Stalled => is_waiting_for_input(notice),
        NoticeKind::Limit | NoticeKind::Expiring => true,
        // A stop has a caller, who knows of it.
        NoticeKind::Ended => matches!(
            notice.status,
            NoticeStatus::Failed
                | NoticeStatus::TimedOut
                | NoticeStatus::Limit
                | NoticeStatus::Lost
        ),
        NoticeKind::Lingering | NoticeKind::Matched | NoticeKind::Ready => false,
    }
}

fn is_waiting_for_input(notice: &NoticeView) -> bool {
    let verdict = notice.evidence.as_ref().and_then(|evidence| evidence.get("verdict")?.as_str());
    [WhyVerdict::InputWait, WhyVerdict::InputLikely, WhyVerdict::PasswordLikely]
        .iter()
        .any(|asks| Some(asks.as_str()) == verdict)
}
