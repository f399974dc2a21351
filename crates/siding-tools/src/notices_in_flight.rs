//! Notices in answers that are on their way to the client.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siding_model::notice::NoticeId;

/// The notices in answers that have not been delivered yet, so that only one of several concurrent
/// calls includes each of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct NoticesInFlight(Arc<Mutex<HashSet<NoticeId>>>);

impl NoticesInFlight {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<NoticeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notices in one answer. Dropping this makes unacknowledged ones available to other answers.
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
