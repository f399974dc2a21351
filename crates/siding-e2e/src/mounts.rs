//! Mounts file systems that only one test sees.

use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

/// Creates a private mount namespace for the calling thread and its future children. The kernel
/// removes the namespace's mounts with its last process, however the test ends
/// (mount_namespaces(7)).
///
/// # Errors
///
/// The error of the system call; `EPERM` without root's rights.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: the call takes only a number. As a side effect, the thread stops sharing its working
    // directory and umask with the other threads.
    check_result(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", Path::new("/"), libc::MS_REC | libc::MS_PRIVATE, None)
}

/// Mounts a tmpfs, or with `MS_REMOUNT` changes the flags of the existing one.
///
/// # Errors
///
/// The error of the system call.
pub fn mount_tmpfs(at: &Path, flags: libc::c_ulong, options: Option<&str>) -> io::Result<()> {
    mount_filesystem(c"tmpfs", at, flags, options)
}

/// Mounts a second `/proc` over the first, with options.
///
/// # Errors
///
/// The error of the system call.
pub fn mount_proc(options: &str) -> io::Result<()> {
    mount_filesystem(c"proc", Path::new("/proc"), 0, Some(options))
}

/// Bind-mounts the file or directory `from` over the existing `at`.
///
/// # Errors
///
/// The error of the system call.
pub fn bind_mount(from: &Path, at: &Path) -> io::Result<()> {
    mount(&c_path(from), at, libc::MS_BIND, None)
}

/// Unmounts the file system at `at`, which this test has mounted.
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
    let options = options.map(|options| CString::new(options).expect("a string without NUL"));
    mount(kind, at, flags, options.as_deref())
}

/// Calls mount(2). `what` is the source path of a bind mount and the file system type of a new
/// mount; a change of the propagation ignores it.
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
    CString::new(path.as_os_str().as_encoded_bytes()).expect("a string without NUL")
}
