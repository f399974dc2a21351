//! Which notices a person is called for.

use super::story::Kind;
use super::view::{NoticeView, Status};
use crate::evidence::Verdict;

/// Whether a person may have to act: a task waits for an answer, failed, or passed its deadline or a
/// limit, or will pass its deadline soon. That something ended well, lingers or is merely silent can wait.
#[must_use]
pub fn needs_person(notice: &NoticeView) -> bool {
    match notice.kind {
        Kind::Stalled => waits_for_answer(notice),
        Kind::Limit | Kind::Expiring => true,
        // A stop has a caller, who knows of it.
        Kind::Ended => matches!(
            notice.status,
            Status::Failed | Status::TimedOut | Status::Limit | Status::Lost
        ),
        Kind::Lingering | Kind::Matched | Kind::Ready => false,
    }
}

fn waits_for_answer(notice: &NoticeView) -> bool {
    let verdict = notice.evidence.as_ref().and_then(|evidence| evidence.get("verdict")?.as_str());
    [Verdict::InputWait, Verdict::InputLikely, Verdict::PasswordLikely]
        .iter()
        .any(|asks| Some(asks.as_str()) == verdict)
}
