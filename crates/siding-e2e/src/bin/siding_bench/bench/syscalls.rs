//! Safe functions for the system calls of the bench, and a timestamp that processes share.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Reads `CLOCK_MONOTONIC`, which is the same for all processes.
pub(super) fn monotonic_now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Ends the process immediately, without running destructors or exit handlers.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: _exit takes a number, never returns, and runs no code of this program.
    unsafe { libc::_exit(code) }
}

extern "C" fn ignore_signal(_: libc::c_int) {}

/// Makes this process, but not the programs that it starts, survive SIGINT, SIGTERM and SIGHUP.
/// Installs an empty handler instead of `SIG_IGN`, because a program started with execve(2)
/// inherits ignored signals but not handlers.
pub(super) fn survive_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler does nothing, so it may run at any moment.
        unsafe { libc::signal(signal, ignore_signal as *const () as libc::sighandler_t) };
    }
}

/// A time that one process stores and another process reads, in memory that both map.
#[derive(Debug)]
pub(super) struct SharedTimestamp(NonNull<AtomicU64>);

const TIMESTAMP_BYTES: usize = size_of::<AtomicU64>();

impl SharedTimestamp {
    /// Maps the timestamp in a file, which is created if missing.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(TIMESTAMP_BYTES as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: this is a new mapping of a file that is long enough, and the kernel chooses the
        // address.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                TIMESTAMP_BYTES,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(address.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn cell(&self) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned, long enough, and lives until `self` is dropped; all
        // processes that share it use it only as this atomic number.
        unsafe { self.0.as_ref() }
    }

    /// Stores the current time.
    pub(super) fn set(&self) {
        self.cell().store(monotonic_now().as_nanos() as u64, Ordering::Release);
    }

    /// Clears the stored time.
    pub(super) fn clear(&self) {
        self.cell().store(0, Ordering::Release);
    }

    /// Returns the stored time; `None` when no time is stored.
    pub(super) fn get(&self) -> Option<Duration> {
        match self.cell().load(Ordering::Acquire) {
            0 => None,
            moment => Some(Duration::from_nanos(moment)),
        }
    }
}

impl Drop for SharedTimestamp {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into the mapping remains.
        unsafe { libc::munmap(self.0.as_ptr().cast(), TIMESTAMP_BYTES) };
    }
}
