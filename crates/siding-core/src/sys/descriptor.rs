//! Duplicates, creates and inherits descriptors, and raises their limit.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;

use super::file;

/// Duplicates a descriptor to the lowest free number that is not below `least`, with close-on-exec.
///
/// # Errors
///
/// The I/O error of the system call, `EMFILE` or `EINVAL` if no such number is available.
pub fn duplicate_from(fd: impl AsFd, least: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, least)?)
}

/// Sets whether a descriptor is closed on exec.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn set_close_on_exec(fd: impl AsFd, closed: bool) -> io::Result<()> {
    let flags = if closed { FdFlags::CLOEXEC } else { FdFlags::empty() };
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// Returns whether two descriptors refer to the same file, pipe or device.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn is_same_object(first: impl AsFd, second: impl AsFd) -> io::Result<bool> {
    let (first, second) = (rustix::fs::fstat(first)?, rustix::fs::fstat(second)?);
    Ok((first.st_dev, first.st_ino) == (second.st_dev, second.st_ino))
}

/// Creates an anonymous file in memory (memfd_create(2)).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn create_memfd(name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?)
}

/// Takes ownership of a descriptor that this process inherited, and sets close-on-exec.
///
/// # Errors
///
/// `EBADF` if the process did not inherit it.
pub fn take_inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the borrow lives for this call only; a closed number gives EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    set_close_on_exec(borrowed, true)?;
    // SAFETY: the number is open (checked above), and has no other owner in this process. By their
    // start protocols, shims, proxies and host supervisors take each inherited descriptor exactly
    // once, before they open any other.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Replaces the standard input of this process with `/dev/null`. The descriptor number stays in
/// use, so that no other file gets it.
///
/// # Errors
///
/// The I/O error of the system call, for example if there is no `/dev/null`.
pub fn redirect_stdin_to_null() -> io::Result<()> {
    let null = file::open_null()?;
    // SAFETY: only numbers are passed, and no value owns the standard descriptors.
    let replaced = unsafe { libc::dup2(null.as_raw_fd(), 0) };
    if replaced < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns whether the process that started this one has passed on a descriptor with this number.
/// siding opens its own descriptors with close-on-exec.
#[must_use]
pub fn is_inherited(number: RawFd) -> bool {
    // SAFETY: the call takes only numbers, and changes nothing; a closed number gives EBADF.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Checks whether the kernel can close a range of descriptors in one call (close_range(2)).
///
/// # Errors
///
/// `ENOSYS` before Linux 5.9, or the error of a sandbox.
pub fn probe_close_range() -> io::Result<()> {
    let none = libc::c_uint::MAX;
    // SAFETY: the call takes only numbers; no descriptor has this number, so nothing is closed.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, none, none, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the soft limit on open descriptors; 2^20 if there is none.
#[must_use]
pub fn open_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20)
}

/// Raises the soft limit on open descriptors to the hard limit, for a client that waits on many
/// descriptors.
pub fn raise_open_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Only an unusual sandbox refuses to raise the limit; the client can then wait on as many
    // descriptors as the old limit allows.
    let _best_effort =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Runs one ignored unit test in a process of its own, which may open 32 descriptors.
#[cfg(test)]
pub(crate) fn run_test_with_few_descriptors(test_name: &str) {
    let this = std::env::current_exe().expect("it runs");
    let line = "ulimit -n 32; exec \"$0\" \"$@\"";
    let mut inner = std::process::Command::new("bash");
    let done =
        inner.args(["-c", line]).arg(this).args(["--ignored", "--exact", test_name]).output();
    let done = done.expect("bash is installed");
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && stdout.contains("1 passed"), "{stdout}");
}

/// Opens files until this process can open only `free` more descriptors.
#[cfg(test)]
pub(crate) fn take_descriptors(free: usize) -> Vec<std::fs::File> {
    let open = || std::fs::File::open("/dev/null");
    let mut taken: Vec<_> = std::iter::from_fn(|| open().ok()).collect();
    taken.truncate(taken.len().checked_sub(free).expect("so many were free"));
    taken
}
