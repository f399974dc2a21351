//! Mounts that one test alone sees.

use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

/// Gives the calling thread, and what it starts, mounts that nobody else sees and that go away
/// with it, however the test ends.
///
/// # Errors
///
/// The operating system's, `EPERM` for whoever is not root.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes only a number; the thread's directory and umask become its own, too.
    check_result(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", Path::new("/"), libc::MS_REC | libc::MS_PRIVATE, None)
}

/// Mounts a small file system in memory, or mounts the one that is there anew with other flags.
///
/// # Errors
///
/// The operating system's.
pub fn mount_tmpfs(at: &Path, flags: libc::c_ulong, options: Option<&str>) -> io::Result<()> {
    mount_filesystem(c"tmpfs", at, flags, options)
}

/// Mounts `/proc` anew, with options.
///
/// # Errors
///
/// The operating system's.
pub fn mount_proc(options: &str) -> io::Result<()> {
    mount_filesystem(c"proc", Path::new("/proc"), 0, Some(options))
}

/// Lets the file or directory `from` be seen at `at`, where there is one already.
///
/// # Errors
///
/// The operating system's.
pub fn bind_mount(from: &Path, at: &Path) -> io::Result<()> {
    mount(&c_path(from), at, libc::MS_BIND, None)
}

/// Takes a mount of this test away.
pub fn unmount(at: &Path) {
    let path = c_path(at);
    // SAFETY: the pointer is to a string that lives until the call returns.
    if let Err(error) = check_result(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) }) {
        eprintln!("`{}` stays mounted: {error}", at.display());
    }
}

fn mount_filesystem(
    kind: &CStr,
    at: &Path,
    flags: libc::c_ulong,
    options: Option<&str>,
) -> io::Result<()> {
    let options = options.map(|options| CString::new(options).expect("no zero byte"));
    mount(kind, at, flags, options.as_deref())
}

/// A bind takes `what` for the path, any other mount for its kind.
fn mount(what: &CStr, at: &Path, flags: libc::c_ulong, options: Option<&CStr>) -> io::Result<()> {
    let at = c_path(at);
    let options = options.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: all pointers are to strings that live until the call returns.
    check_result(unsafe {
        libc::mount(what.as_ptr(), at.as_ptr(), what.as_ptr(), flags, options.cast())
    })
}

fn check_result(done: libc::c_int) -> io::Result<()> {
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("no zero byte")
}
