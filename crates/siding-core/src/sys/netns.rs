//! Network namespaces: moves a process into a new one, where the process reaches no other machine.
//!
//! An ordinary user may create a network namespace inside a user namespace, in which the process
//! has all capabilities until its exec (user_namespaces(7)). The user stays the same there, because
//! the user ID is mapped onto itself, and no other user ID is mapped.

use std::ffi::{CStr, CString, c_int};

use super::net_sandbox::{SandboxFailure, SandboxPart};

/// The loopback interface of a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// The interface is up, so processes in the namespace can reach each other.
    Up,
    /// The interface is down, so the namespace has no usable interface.
    Down,
}

/// The lines for `/proc/self/uid_map` and `gid_map` that map the user and the group onto
/// themselves.
#[derive(Debug)]
pub(super) struct IdMaps {
    user: CString,
    group: CString,
}

impl IdMaps {
    pub(super) fn for_this_process() -> Self {
        let line = |number: u32| {
            CString::new(format!("{number} {number} 1")).expect("digits and spaces hold no zero")
        };
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        Self { user: line(user.as_raw()), group: line(group.as_raw()) }
    }
}

/// Moves the calling process into a network namespace of its own.
///
/// # Safety
///
/// Must be called only in a child that shares its parent's memory and nothing else. Makes only
/// system calls.
pub(super) unsafe fn enter(maps: &IdMaps, loopback: Loopback) -> Result<(), SandboxFailure> {
    // SAFETY: this process is a child, as this function requires, so only the child's namespaces
    // change. The strings in `maps` live for the whole call.
    unsafe {
        // Root needs no user namespace, and would lose its privileges over files and devices inside
        // one.
        if libc::unshare(libc::CLONE_NEWNET) != 0 {
            // CLONE_NEWUSER also unshares the file system attributes (the working directory and the
            // umask), which no other process shares with this one.
            check_result(
                libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET),
                SandboxPart::Namespace,
            )?;
            // An unprivileged process may map its group only after it has written `deny` here
            // (user_namespaces(7)).
            write_file(c"/proc/self/setgroups", c"deny")?;
            write_file(c"/proc/self/uid_map", &maps.user)?;
            write_file(c"/proc/self/gid_map", &maps.group)?;
        }
        match loopback {
            Loopback::Up => bring_up_loopback(),
            Loopback::Down => Ok(()),
        }
    }
}

/// # Safety
///
/// See [`enter`].
unsafe fn write_file(path: &CStr, text: &CStr) -> Result<(), SandboxFailure> {
    // SAFETY: both strings end with a NUL byte, and the number of bytes to write is the length of
    // `text`. The descriptor is used only if it was opened, and is closed again.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check_result(file, SandboxPart::User)?;
        let written = libc::write(file, text.as_ptr().cast(), text.count_bytes());
        let result = check_result(if written < 0 { -1 } else { 0 }, SandboxPart::User);
        libc::close(file);
        result
    }
}

/// Brings up the loopback interface. The kernel then assigns the addresses of the interface.
///
/// # Safety
///
/// See [`enter`].
unsafe fn bring_up_loopback() -> Result<(), SandboxFailure> {
    // SAFETY: all zeros is a valid `ifreq`, whose name becomes `lo` and stays terminated; the
    // kernel only reads `request`, which outlives the call. The descriptor is closed again.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check_result(socket, SandboxPart::Loopback)?;
        let mut request: libc::ifreq = std::mem::zeroed();
        for (place, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
            *place = byte.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let result = check_result(
            libc::ioctl(socket, libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request),
            SandboxPart::Loopback,
        );
        libc::close(socket);
        result
    }
}

/// Converts the result of a system call: for a failure, returns the part and the errno.
///
/// # Safety
///
/// See [`enter`].
pub(super) unsafe fn check_result(result: c_int, part: SandboxPart) -> Result<(), SandboxFailure> {
    // SAFETY: errno is in the memory of the parent's thread, which waits until this child has
    // called exec or _exit.
    if result < 0 { Err((part, unsafe { *libc::__errno_location() })) } else { Ok(()) }
}
