//! The operating system. Every system call and every `unsafe` of the project is in here.
//!
//! Nothing in here decides anything: each function is one kernel mechanism with its rule written
//! beside it. No foreign type but the standard library's descriptors leaves this module.

pub mod beneath;
mod borrowed;
pub mod calls;
pub mod cgroupfs;
pub mod clock;
mod clone3;
pub mod confine;
pub mod descriptor;
pub mod detached;
pub mod diag;
pub mod entry;
pub mod file;
pub mod foreign;
pub mod inotify;
pub mod landlock;
pub mod limit;
pub mod machine;
pub mod memory;
pub mod netns;
pub mod pidfd;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod procfs;
pub mod signals;
pub mod socket;
pub mod sockets;
pub mod spawn;
mod tcp_only;
pub mod threads;
pub mod tty;
mod way_out;

/// Returns 64 random bits.
///
/// # Errors
///
/// The operating system's.
pub fn random() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
