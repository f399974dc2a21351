//! The birthmark: `RLIMIT_RTTIME` as a label that processes inherit.
//!
//! A resource limit is inherited by fork(2) and preserved by execve(2) (getrlimit(2)), so the limit
//! survives setsid(2), a cleared environment and sudo. Any user can read the limit in
//! `/proc/PID/limits`. `RLIMIT_RTTIME` affects only threads with a real-time scheduling policy,
//! which the processes of a task rarely have. An environment variable was the alternative and was
//! lost more often: of five processes that had escaped from a killed shim, three still had the
//! variable, and all five had the limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siding_model::id::Birthmark;

/// Returns the mark of this process: its hard limit, which another program may have set. `None` if
/// the limit is unlimited.
#[must_use]
pub fn own_birthmark() -> Option<Birthmark> {
    getrlimit(Resource::Rttime).maximum.map(Birthmark)
}

/// Sets the mark of this process. Every process that it starts afterwards inherits the mark.
///
/// # Errors
///
/// `EPERM` if the mark is larger than the present hard limit and this process lacks
/// `CAP_SYS_RESOURCE`: without it, a process can only lower a hard limit (getrlimit(2)).
pub fn set_birthmark(mark: Birthmark) -> std::io::Result<()> {
    let limit = Rlimit { current: Some(mark.0), maximum: Some(mark.0) };
    Ok(setrlimit(Resource::Rttime, limit)?)
}

/// Marks a running process of this user. Every process that it starts afterwards inherits the mark.
///
/// # Errors
///
/// `EPERM` if this process lacks `CAP_SYS_RESOURCE`, and the marked process belongs to another user
/// or has a smaller limit; `ESRCH` if no process has this ID.
pub fn set_birthmark_of(pid: i32, mark: Birthmark) -> std::io::Result<()> {
    let limit = libc::rlimit64 { rlim_cur: mark.0, rlim_max: mark.0 };
    // SAFETY: `limit` is a valid limit for the whole call, and the null pointer requests no old
    // limit.
    let result = unsafe {
        libc::prlimit64(pid, libc::RLIMIT_RTTIME, &raw const limit, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Checks whether running processes can be marked. Sets the limit of this process to its present
/// value with prlimit(2), the call that marks other processes.
///
/// # Errors
///
/// The error of a sandbox or of a system call filter (seccomp(2)).
pub fn probe_set_birthmark() -> std::io::Result<()> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let nothing = std::ptr::null_mut();
    // SAFETY: `limit` is valid storage for one limit: the first call writes it, and the second only
    // reads it. The null pointers request nothing.
    let done = unsafe {
        libc::prlimit64(own, libc::RLIMIT_RTTIME, std::ptr::null(), &raw mut limit) == 0
            && libc::prlimit64(own, libc::RLIMIT_RTTIME, &raw const limit, nothing) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Returns the hard `RLIMIT_RTTIME` of a process, or `None` if it is unlimited.
///
/// # Errors
///
/// `EPERM` for another user's process if this process lacks `CAP_SYS_RESOURCE`; `ESRCH` if no
/// process has this ID.
pub(super) fn hard_rttime(pid: i32) -> std::io::Result<Option<u64>> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the null pointer sets no limit, and `limit` is valid storage for one limit.
    let result =
        unsafe { libc::prlimit64(pid, libc::RLIMIT_RTTIME, std::ptr::null(), &raw mut limit) };
    if result != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok((limit.rlim_max != libc::RLIM64_INFINITY).then_some(limit.rlim_max))
}
