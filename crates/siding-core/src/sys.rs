//! The operating system: every `unsafe` block of the shipped crates, and every system call for
//! which the standard library has no function.
//!
//! The functions wrap mechanisms of the kernel, and their documentation states the kernel's rules.
//! They contain no policy. No type of `libc` or `rustix` appears in the interface of this module:
//! descriptors are those of the standard library.

pub mod birthmark;
pub mod blocking_syscalls;
pub mod cgroupfs;
pub mod clock;
mod clone3;
pub mod daemonize;
pub mod descriptor;
pub mod dir_entry;
pub mod file;
pub mod inotify;
pub mod inspect_process;
pub mod journald;
pub mod landlock;
pub mod memory;
pub mod net_sandbox;
pub mod netns;
mod netns_listener;
pub mod pidfd;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod procfs;
pub mod pty;
pub mod resolve_beneath;
mod seccomp;
pub mod signals;
pub mod sock_diag;
pub mod spawn;
pub mod system_info;
pub mod tcp_sockets;
pub mod terminal_attributes;
pub mod terminal_holder;
pub mod threads;
pub mod timer;
pub mod tty;
pub mod unix_socket;
mod vfork;

/// Returns 64 random bits.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn random_u64() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
