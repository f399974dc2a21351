//! One session of a view.

use siding_core::session::Session;
use siding_model::id::SessionId;

/// A session as it was at the last refresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSession {
    /// The name of the session.
    pub id: SessionId,
    /// The replayed journal; `None` for the implicit session, and for a session whose record is
    /// missing or cannot be read.
    pub record: Option<Session>,
    /// Whether the session may own tasks, as far as this machine can see. True for the implicit
    /// session. Sessions without a change are checked again by
    /// [`LiveView::sample`](crate::LiveView::sample).
    pub is_live: bool,
}
