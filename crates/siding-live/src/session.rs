//! One session of a view.

use siding_core::session::Session;
use siding_model::id::SessionId;

/// A session as it was at the last refresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSession {
    /// The name of the session.
    pub id: SessionId,
    /// The replayed journal; `None` if the session has none, such as the implicit session, or if
    /// the journal cannot be read.
    pub record: Option<Session>,
    /// Whether the session may own tasks: this machine sees a living owner, or the session is the
    /// implicit one. [`LiveView::sample`](crate::LiveView::sample) checks the live sessions again,
    /// because the exit of an owner changes no file.
    pub is_live: bool,
}
