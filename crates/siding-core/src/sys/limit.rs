//! The birthmark: `RLIMIT_RTTIME` as a label that processes inherit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siding_model::id::Birthmark;

/// Returns the mark of this process, `None` when it has none.
#[must_use]
pub fn birthmark() -> Option<Birthmark> {
    getrlimit(Resource::Rttime).maximum.map(Birthmark)
}

/// Marks this process and all it will start.
///
/// # Errors
///
/// `EPERM` when the mark is larger than the one it has: a hard limit can only be lowered.
pub fn set_birthmark(mark: Birthmark) -> std::io::Result<()> {
    let limit = Rlimit { current: Some(mark.0), maximum: Some(mark.0) };
    Ok(setrlimit(Resource::Rttime, limit)?)
}
