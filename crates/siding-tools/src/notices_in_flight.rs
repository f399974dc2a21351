//! Notices in answers that are on their way to the client.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siding_model::notice::NoticeId;

/// The notices that stand in answers which are on their way, so that of several calls at once only
/// one tells them.
#[derive(Debug, Clone, Default)]
pub(crate) struct NoticesInFlight(Arc<Mutex<HashSet<NoticeId>>>);

impl NoticesInFlight {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<NoticeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notices that stand in an answer.
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
