//! Notices that an answer already contains but that are not acknowledged yet.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siding_model::notice::NoticeId;

/// The ids of notices in answers that are not acknowledged yet. Concurrent calls leave these
/// notices out, so that only one answer contains each notice.
#[derive(Debug, Clone, Default)]
pub(crate) struct NoticesInFlight(Arc<Mutex<HashSet<NoticeId>>>);

impl NoticesInFlight {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<NoticeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notices in one answer. Dropping the value removes these notices from the set of notices in
/// flight, so that another answer can contain the notices that were not acknowledged.
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
