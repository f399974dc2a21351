//! This process, its children and how they ended.

use std::io;
use std::ops::Range;

use siding_model::outcome::LeaderEnd;
use siding_model::signal::Signal;

/// Makes orphans below this process its children instead of init's.
///
/// # Errors
///
/// The operating system's.
pub fn become_subreaper() -> io::Result<()> {
    let own = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(own))?)
}

/// Sets the name that `ps` shows, at most 15 bytes.
pub fn set_name(name: &std::ffi::CStr) {
    // The name is only for people.
    let _best_effort = rustix::thread::set_name(name);
}

/// The command line that others see of this process. After a fork it is the one of whoever it was
/// forked from, until it is overwritten.
#[derive(Debug)]
pub struct ProcessTitle {
    /// Where the arguments lie in this process's memory, and the bytes that a title may take.
    arguments: Range<usize>,
    max_len: usize,
}

impl ProcessTitle {
    /// Finds it. `None` without `/proc`, where nobody could see it.
    #[must_use]
    pub fn find() -> Option<Self> {
        let (arguments, environment) = super::procfs::self_string_ranges()?;
        // The kernel shows a title that runs over its end into the environment behind it.
        let whole =
            if environment.start == arguments.end { environment.end } else { arguments.end };
        let room = whole.checked_sub(arguments.start + 1)?;
        Some(Self { arguments, max_len: room })
    }

    /// Overwrites it.
    pub fn set(&self, title: &str) {
        let Self { arguments, max_len: room } = self;
        let shown = &title.as_bytes()[..title.len().min(*room)];
        let place = std::ptr::with_exposed_provenance_mut::<u8>(arguments.start);
        // SAFETY: the kernel says that these addresses are this process's own arguments, and directly
        // behind them its environment, on its first stack, which is never unmapped. No reference
        // points there: the standard library copies what it reads, and whatever it reads from now on
        // still ends with a zero byte.
        unsafe {
            place.write_bytes(0, arguments.len());
            std::ptr::copy_nonoverlapping(shown.as_ptr(), place, shown.len());
            place.add(shown.len()).write(0);
            // A last byte that is not zero tells the kernel that this is a title and ends at the first
            // zero byte (`get_mm_cmdline` in fs/proc/base.c).
            if shown.len() + 1 < arguments.len() {
                place.add(arguments.len() - 1).write(1);
            }
        }
    }
}

/// Returns the user this process acts as.
#[must_use]
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What the children of this process that have ended had used, with all below them that was waited
/// for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildUsage {
    /// User and system time, in milliseconds.
    pub cpu_ms: u64,
    /// Most resident memory of any one of them, in bytes.
    pub resident_bytes: u64,
}

/// Returns what those that have ended had used. The kernel counts it as they are waited for.
#[must_use]
pub fn ended_children_usage() -> ChildUsage {
    // SAFETY: all zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for one `rusage` for the whole call.
    let _best_effort = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let ms = |time: libc::timeval| {
        u64::try_from(time.tv_sec.saturating_mul(1_000).saturating_add(time.tv_usec / 1_000))
    };
    ChildUsage {
        cpu_ms: ms(usage.ru_utime).unwrap_or(0) + ms(usage.ru_stime).unwrap_or(0),
        // In units of 1024 bytes (getrusage(2)).
        resident_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
    }
}

/// What one look for a dead child found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReapResult {
    /// This child is gone now, and this was its end.
    Child {
        /// Process number.
        pid: i32,
        /// How it ended.
        end: LeaderEnd,
    },
    /// Children live, none is dead.
    NoneExited,
    /// There is no child at all. In a subreaper this proves that nothing below it lives.
    NoChildren,
}

/// Takes one dead child away, of any kind, without waiting.
///
/// # Errors
///
/// The operating system's, other than `ECHILD`.
pub fn reap_one() -> io::Result<ReapResult> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for one int for the whole call.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        if pid > 0 {
            let end = parse_wait_status(status).unwrap_or_else(|| LeaderEnd::Unknown {
                why: format!("wait status {status:#x} is neither an exit nor a signal"),
            });
            return Ok(ReapResult::Child { pid, end });
        }
        if pid == 0 {
            return Ok(ReapResult::NoneExited);
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => {
                return Ok(ReapResult::NoChildren);
            }
            error if error.raw_os_error() == Some(libc::EINTR) => {}
            error => return Err(error),
        }
    }
}

/// Returns what a wait status says, `None` when it is no end.
#[must_use]
pub fn parse_wait_status(status: i32) -> Option<LeaderEnd> {
    if libc::WIFEXITED(status) {
        let code = u8::try_from(libc::WEXITSTATUS(status)).ok()?;
        return Some(LeaderEnd::Exited { code });
    }
    if libc::WIFSIGNALED(status) {
        let signal = Signal::from_number(libc::WTERMSIG(status))?;
        return Some(LeaderEnd::Signaled { signal, by: None });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_of_137_is_not_a_kill() {
        assert_eq!(parse_wait_status(137 << 8), Some(LeaderEnd::Exited { code: 137 }));
        let killed = Signal::from_number(9).map(|signal| LeaderEnd::Signaled { signal, by: None });
        assert_eq!(parse_wait_status(9), killed);
        assert_eq!(parse_wait_status(9 | 0x80), killed, "with a core file");
        assert_eq!(parse_wait_status(0x137f), None, "stopped, not ended");
    }
}
