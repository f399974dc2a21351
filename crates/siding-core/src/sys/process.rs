//! This process, its children, and how they ended.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use siding_model::outcome::LeaderEnd;
use siding_model::signal::Signal;

use super::procfs::SelfStat;

/// Makes this process, instead of init, the new parent of orphans among its descendants
/// (PR_SET_CHILD_SUBREAPER, prctl(2)).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn become_subreaper() -> io::Result<()> {
    let own = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(own))?)
}

/// Leaves orphans among the descendants of this process to init again.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn resign_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(None)?)
}

/// Held during [`probe_subreaper`], so that a concurrent probe does not take the state of another
/// probe for the earlier state.
static SUBREAPER_PROBE: Mutex<()> = Mutex::new(());

/// Checks that this process can become a subreaper, and restores its earlier state: a subreaper
/// that does not expect orphans never waits for them.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn probe_subreaper() -> io::Result<()> {
    let _keeps_alive = SUBREAPER_PROBE.lock().unwrap_or_else(PoisonError::into_inner);
    set_and_restore_subreaper()
}

fn set_and_restore_subreaper() -> io::Result<()> {
    let earlier = rustix::process::child_subreaper()?;
    become_subreaper()?;
    Ok(rustix::process::set_child_subreaper(earlier)?)
}

/// Sets the name that `ps` shows, at most 15 bytes.
pub fn set_name(name: &std::ffi::CStr) {
    // PR_SET_NAME fails only if the address of the name is invalid (prctl(2)).
    let _best_effort = rustix::thread::set_name(name);
}

/// The command line of this process as other processes see it. A forked process has the title of
/// its parent until it overwrites the title.
#[derive(Debug)]
pub struct ProcessTitle {
    /// The addresses of the arguments in this process's memory.
    arguments: Range<usize>,
    /// Maximum length of a title, in bytes.
    max_len: usize,
}

impl ProcessTitle {
    /// Returns the addresses of the title in memory; `None` if the kernel does not show them.
    #[must_use]
    pub fn from_stat(own: SelfStat) -> Option<Self> {
        let (arguments, environment) = own.string_ranges?;
        // A long title may continue into the environment, which follows the arguments, because the
        // kernel also shows that part.
        let whole =
            if environment.start == arguments.end { environment.end } else { arguments.end };
        let room = whole.checked_sub(arguments.start + 1)?;
        Some(Self { arguments, max_len: room })
    }

    /// Overwrites the title. A title that is too long for the memory is cut.
    pub fn set(&self, title: &str) {
        let Self { arguments, max_len: room } = self;
        let shown = &title.as_bytes()[..title.len().min(*room)];
        let place = std::ptr::with_exposed_provenance_mut::<u8>(arguments.start);
        // SAFETY: according to the kernel these addresses are this process's own arguments, and up
        // to `max_len` its environment if that follows directly, on its first stack, which is never
        // unmapped. `shown` and its NUL byte fit there. No reference points there: the standard
        // library copies what it reads, and whatever it reads from now on still ends with a NUL
        // byte.
        unsafe {
            place.write_bytes(0, arguments.len());
            std::ptr::copy_nonoverlapping(shown.as_ptr(), place, shown.len());
            place.add(shown.len()).write(0);
            // A last byte other than NUL tells the kernel that this is a title, which ends at the
            // first NUL byte (`get_mm_cmdline` in fs/proc/base.c).
            if shown.len() + 1 < arguments.len() {
                place.add(arguments.len() - 1).write(1);
            }
        }
    }
}

/// Returns the effective user ID of this process.
#[must_use]
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The resources that the ended children of this process have used, together with all their
/// descendants that were waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildUsage {
    /// The user and system CPU time, in milliseconds.
    pub cpu_ms: u64,
    /// The largest resident memory of a single one of these processes, in bytes. At least the peak
    /// of this process when it started a child, because execve(2) counts the memory that the child
    /// had before.
    pub resident_bytes: u64,
}

/// Returns the usage of the ended children. The kernel adds the usage of a child when this process
/// reaps the child.
#[must_use]
pub fn ended_children_usage() -> ChildUsage {
    // SAFETY: all zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid storage for one `rusage` for the whole call.
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

/// The result of [`reap_one`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReapResult {
    /// This child was reaped.
    Child {
        /// The process ID, which the kernel may reuse from now on.
        pid: i32,
        /// The way in which the child ended.
        end: LeaderEnd,
    },
    /// There are children, but none has exited.
    NoneExited,
    /// There is no child. In a subreaper this proves that no descendant lives.
    NoChildren,
}

/// Reaps one exited child of any kind, without blocking.
///
/// # Errors
///
/// The I/O error of the system call, except `ECHILD`.
pub fn reap_one() -> io::Result<ReapResult> {
    let mut status = 0;
    loop {
        // `__WALL` includes children without an exit signal (wait(2)).
        // SAFETY: `status` is valid storage for one int for the whole call.
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

/// Parses a wait status. `None` if it is neither an exit nor the end by a signal.
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
    fn the_probe_restores_whether_this_process_is_a_subreaper() {
        // Tests of `doctor` may run in this process at the same time.
        let _keeps_alive = SUBREAPER_PROBE.lock().unwrap_or_else(PoisonError::into_inner);
        let is_subreaper = || rustix::process::child_subreaper().expect("known").is_some();
        for earlier in [Some(rustix::process::getpid()), None] {
            rustix::process::set_child_subreaper(earlier).expect("set");
            set_and_restore_subreaper().expect("works");
            assert_eq!(is_subreaper(), earlier.is_some());
        }
    }

    #[test]
    fn an_exit_code_of_137_is_not_a_kill() {
        assert_eq!(parse_wait_status(137 << 8), Some(LeaderEnd::Exited { code: 137 }));
        let killed = Signal::from_number(9).map(|signal| LeaderEnd::Signaled { signal, by: None });
        assert_eq!(parse_wait_status(9), killed);
        assert_eq!(parse_wait_status(9 | 0x80), killed, "with a core file");
        assert_eq!(parse_wait_status(0x137f), None, "stopped, not ended");
    }
}
