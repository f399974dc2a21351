//! A socket that listens in a network namespace and is served by a process outside the
//! namespace.
//!
//! A socket stays in the namespace in which it was created, whichever process uses it.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::net_sandbox::{SandboxFailure, SandboxPart};
use super::netns::check_result;

/// Maximum number of connections that may wait to be accepted.
const BACKLOG: c_int = 128;

/// Creates a socket that listens on this port of the loopback interface, and sends it over `taker`.
///
/// # Safety
///
/// Must be called only in a child that shares its parent's memory. Makes only system calls.
pub(super) unsafe fn create_and_send(
    port: u16,
    taker: BorrowedFd<'_>,
) -> Result<(), SandboxFailure> {
    // SAFETY: the block makes only system calls, on structures of this frame and with their sizes;
    // the descriptor is closed again.
    unsafe {
        let listener = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        check_result(listener, SandboxPart::ProxyListener)?;
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = libc::INADDR_LOOPBACK.to_be();
        let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        check_result(
            libc::bind(listener, (&raw const address).cast(), size),
            SandboxPart::ProxyListener,
        )?;
        check_result(libc::listen(listener, BACKLOG), SandboxPart::ProxyListener)?;
        let result = send_listener(listener, taker);
        libc::close(listener);
        result
    }
}

/// # Safety
///
/// See [`create_and_send`].
unsafe fn send_listener(listener: c_int, taker: BorrowedFd<'_>) -> Result<(), SandboxFailure> {
    let mut byte = 0_u8;
    // `u64` elements keep the control header aligned, and there is room for the header and one
    // descriptor.
    let mut control = [0_u64; 8];
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast::<c_void>(), iov_len: 1 };
    // SAFETY: all zeros is a valid `msghdr`; every pointer in it points into this frame. `control`
    // has room for the one header that is written.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<c_int>(), listener);
        let sent = libc::sendmsg(taker.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL);
        check_result(if sent < 0 { -1 } else { 0 }, SandboxPart::ProxyListener)
    }
}
