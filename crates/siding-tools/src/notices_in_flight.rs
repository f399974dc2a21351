//! Notices in answers that are on their way to the client.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siding_model::notice::NoticeId;

/// The notices in answers that have not been delivered yet. Other calls leave these notices out, so
/// that only one of several concurrent answers contains a notice.
#[derive(Debug, Clone, Default)]
pub(crate) struct NoticesInFlight(Arc<Mutex<HashSet<NoticeId>>>);

impl NoticesInFlight {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<NoticeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notices in one answer. Dropping the value makes the notices that are not acknowledged
/// available to other answers.
#[derive(Debug)]
pub struct AnswerNotices {
    pub(crate) ids: Vec<NoticeId>,
    pub(crate) in_flight: NoticesInFlight,
}

impl Drop for AnswerNotices {
    fn drop(&mut self) {
        self.in_flight.lock().retain(|id| !self.ids.contains(id));
    }
}
