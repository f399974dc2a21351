//! The birthmark: `RLIMIT_RTTIME` as a label that processes inherit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siding_model::id::Birthmark;

/// Returns the mark of this process, `None` when it has none.
#[must_use]
pub fn own_birthmark() -> Option<Birthmark> {
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

/// Marks a process of this user while it runs, and all that it starts from now on.
///
/// # Errors
///
/// `EPERM` when it is another user's, or has a smaller limit; `ESRCH` when there is none.
pub fn set_birthmark_of(pid: i32, mark: Birthmark) -> std::io::Result<()> {
    let limit = libc::rlimit64 { rlim_cur: mark.0, rlim_max: mark.0 };
    // SAFETY: `limit` is a valid limit for the whole call, and the old one is not asked for.
    let result = unsafe {
        libc::prlimit64(pid, libc::RLIMIT_RTTIME, &raw const limit, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Whether processes can be marked while they run. Changes nothing: this process is given the limit that
/// it has.
///
/// # Errors
///
/// What a sandbox answers, or a filter of system calls.
pub fn probe_set_birthmark() -> std::io::Result<()> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let nothing = std::ptr::null_mut();
    // SAFETY: `limit` is a valid place for one limit, and then a valid limit.
    let done = unsafe {
        libc::prlimit64(own, libc::RLIMIT_RTTIME, std::ptr::null(), &raw mut limit) == 0
            && libc::prlimit64(own, libc::RLIMIT_RTTIME, &raw const limit, nothing) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Returns the hard `RLIMIT_RTTIME` of a process, `None` when it has no limit.
///
/// # Errors
///
/// `EPERM` for another user's process, `ESRCH` when there is none.
pub(super) fn hard_rttime(pid: i32) -> std::io::Result<Option<u64>> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: nothing is set, and `limit` is a valid place for one limit.
    let result =
        unsafe { libc::prlimit64(pid, libc::RLIMIT_RTTIME, std::ptr::null(), &raw mut limit) };
    if result != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok((limit.rlim_max != libc::RLIM64_INFINITY).then_some(limit.rlim_max))
}
