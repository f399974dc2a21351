//! System calls that can block: their numbers on this architecture, and which arguments describe
//! what they wait for.

use siding_model::evidence::BlockingCall;

/// A system call in which a thread can block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockingSyscall {
    /// The name in section 2 of the manual, such as `poll`.
    pub name: &'static str,
    /// The kind of event that a thread in this system call waits for.
    pub call: BlockingCall,
    /// The way in which the arguments describe the awaited object.
    pub layout: ArgumentLayout,
}

/// The arguments of a system call that describe the awaited object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentLayout {
    /// No argument describes what is waited for.
    Plain,
    /// One argument is the descriptor of the file or socket that the call waits for.
    Descriptor {
        /// The index of the descriptor among the arguments.
        at: usize,
        /// Whether the call waits until it can read from the descriptor; false if it waits until it
        /// can write. Has no meaning for calls that do neither, such as flock(2).
        to_read: bool,
    },
    /// `(pollfd *, count, timeout)`, with a timeout in milliseconds or a pointer to a `timespec`.
    PollArray {
        /// Whether the timeout is a pointer.
        by_pointer: bool,
    },
    /// `(count, fd_set *, fd_set *, fd_set *, timeout *)`.
    FdSets,
    /// `(epoll descriptor, …, timeout)`.
    Epoll {
        /// Whether the timeout is a pointer.
        by_pointer: bool,
    },
    /// The argument with this index is a pointer to a timeout.
    Timeout(usize),
    /// `fcntl`, which blocks only with a command that waits for a lock.
    Fcntl,
    /// `restart_syscall`, which continues an interrupted call. Only the wait channel shows which
    /// call.
    Restart,
}

const fn syscall(name: &'static str, call: BlockingCall, shape: ArgumentLayout) -> BlockingSyscall {
    BlockingSyscall { name, call, layout: shape }
}

const fn read_call(name: &'static str, at: usize) -> BlockingSyscall {
    syscall(name, BlockingCall::Read, ArgumentLayout::Descriptor { at, to_read: true })
}

const fn write_call(name: &'static str, at: usize) -> BlockingSyscall {
    syscall(name, BlockingCall::Write, ArgumentLayout::Descriptor { at, to_read: false })
}

const fn descriptor_call(name: &'static str, call: BlockingCall, to_read: bool) -> BlockingSyscall {
    syscall(name, call, ArgumentLayout::Descriptor { at: 0, to_read })
}

/// Returns the system call with this number, if it is known to block.
#[must_use]
pub fn by_number(number: i64) -> Option<BlockingSyscall> {
    use BlockingCall::{
        Accept, Child, Connect, Futex, Lock, Open, Poll, Signal, Sleep, Sync, Transfer,
    };
    #[cfg(target_arch = "x86_64")]
    if let Some(old) = by_legacy_number(number) {
        return Some(old);
    }
    Some(match number {
        libc::SYS_read => read_call("read", 0),
        libc::SYS_readv => read_call("readv", 0),
        libc::SYS_pread64 => read_call("pread64", 0),
        libc::SYS_preadv => read_call("preadv", 0),
        libc::SYS_splice => read_call("splice", 0),
        libc::SYS_tee => read_call("tee", 0),
        libc::SYS_sendfile => read_call("sendfile", 1),
        libc::SYS_copy_file_range => read_call("copy_file_range", 0),
        libc::SYS_getdents64 => read_call("getdents64", 0),
        libc::SYS_write => write_call("write", 0),
        libc::SYS_writev => write_call("writev", 0),
        libc::SYS_pwrite64 => write_call("pwrite64", 0),
        libc::SYS_vmsplice => write_call("vmsplice", 0),
        libc::SYS_ppoll => syscall("ppoll", Poll, ArgumentLayout::PollArray { by_pointer: true }),
        libc::SYS_pselect6 => syscall("pselect6", Poll, ArgumentLayout::FdSets),
        libc::SYS_epoll_pwait => {
            syscall("epoll_pwait", Poll, ArgumentLayout::Epoll { by_pointer: false })
        }
        libc::SYS_epoll_pwait2 => {
            syscall("epoll_pwait2", Poll, ArgumentLayout::Epoll { by_pointer: true })
        }
        libc::SYS_accept => descriptor_call("accept", Accept, true),
        libc::SYS_accept4 => descriptor_call("accept4", Accept, true),
        libc::SYS_connect => descriptor_call("connect", Connect, false),
        libc::SYS_recvfrom => descriptor_call("recvfrom", Transfer, true),
        libc::SYS_recvmsg => descriptor_call("recvmsg", Transfer, true),
        libc::SYS_recvmmsg => descriptor_call("recvmmsg", Transfer, true),
        libc::SYS_sendto => descriptor_call("sendto", Transfer, false),
        libc::SYS_sendmsg => descriptor_call("sendmsg", Transfer, false),
        libc::SYS_wait4 => syscall("wait4", Child, ArgumentLayout::Plain),
        libc::SYS_waitid => syscall("waitid", Child, ArgumentLayout::Plain),
        libc::SYS_clone => syscall("clone", BlockingCall::Vfork, ArgumentLayout::Plain),
        libc::SYS_clone3 => syscall("clone3", BlockingCall::Vfork, ArgumentLayout::Plain),
        libc::SYS_nanosleep => syscall("nanosleep", Sleep, ArgumentLayout::Plain),
        libc::SYS_clock_nanosleep => syscall("clock_nanosleep", Sleep, ArgumentLayout::Plain),
        libc::SYS_futex => syscall("futex", Futex, ArgumentLayout::Timeout(3)),
        libc::SYS_flock => descriptor_call("flock", Lock, true),
        libc::SYS_fcntl => syscall("fcntl", Lock, ArgumentLayout::Fcntl),
        libc::SYS_openat => syscall("openat", Open, ArgumentLayout::Plain),
        libc::SYS_rt_sigsuspend => syscall("rt_sigsuspend", Signal, ArgumentLayout::Plain),
        libc::SYS_rt_sigtimedwait => syscall("rt_sigtimedwait", Signal, ArgumentLayout::Timeout(2)),
        libc::SYS_fsync => descriptor_call("fsync", Sync, false),
        libc::SYS_fdatasync => descriptor_call("fdatasync", Sync, false),
        libc::SYS_sync => syscall("sync", Sync, ArgumentLayout::Plain),
        libc::SYS_syncfs => descriptor_call("syncfs", Sync, false),
        libc::SYS_restart_syscall => {
            syscall("restart_syscall", BlockingCall::Other, ArgumentLayout::Restart)
        }
        libc::SYS_io_getevents => {
            syscall("io_getevents", BlockingCall::Other, ArgumentLayout::Plain)
        }
        libc::SYS_io_uring_enter => {
            syscall("io_uring_enter", BlockingCall::Other, ArgumentLayout::Plain)
        }
        libc::SYS_msgrcv => syscall("msgrcv", BlockingCall::Other, ArgumentLayout::Plain),
        libc::SYS_semop => syscall("semop", BlockingCall::Other, ArgumentLayout::Plain),
        libc::SYS_semtimedop => syscall("semtimedop", BlockingCall::Other, ArgumentLayout::Plain),
        libc::SYS_mq_timedreceive => {
            syscall("mq_timedreceive", BlockingCall::Other, ArgumentLayout::Plain)
        }
        _ => return None,
    })
}

/// Returns the system call with this number, if it is one that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const fn by_legacy_number(number: i64) -> Option<BlockingSyscall> {
    Some(match number {
        libc::SYS_poll => {
            syscall("poll", BlockingCall::Poll, ArgumentLayout::PollArray { by_pointer: false })
        }
        libc::SYS_select => syscall("select", BlockingCall::Poll, ArgumentLayout::FdSets),
        libc::SYS_epoll_wait => {
            syscall("epoll_wait", BlockingCall::Poll, ArgumentLayout::Epoll { by_pointer: false })
        }
        libc::SYS_open => syscall("open", BlockingCall::Open, ArgumentLayout::Plain),
        libc::SYS_pause => syscall("pause", BlockingCall::Signal, ArgumentLayout::Plain),
        libc::SYS_vfork => syscall("vfork", BlockingCall::Vfork, ArgumentLayout::Plain),
        _ => return None,
    })
}

/// Returns the system call in which a thread with this wait channel (`/proc/PID/wchan`) waits;
/// `None` if the channel belongs to no call that this function knows. The wait channel is the only
/// source for a call that continues after an interruption (`restart_syscall(2)`), and on kernels
/// without `/proc/PID/syscall`.
#[must_use]
pub fn by_wait_channel(wchan: &str) -> Option<BlockingSyscall> {
    let has = |part: &str| wchan.contains(part);
    Some(if has("nanosleep") {
        syscall("nanosleep", BlockingCall::Sleep, ArgumentLayout::Plain)
    } else if has("ep_poll") {
        // An interrupted epoll_wait(2) is not continued by restart_syscall(2), so its arguments are
        // unknown.
        syscall("epoll_wait", BlockingCall::Poll, ArgumentLayout::Plain)
    } else if has("poll") {
        // Of poll(2), ppoll(2) and select(2), only poll(2) is continued by restart_syscall(2), and
        // its arguments are still in the registers.
        syscall("poll", BlockingCall::Poll, ArgumentLayout::PollArray { by_pointer: false })
    } else if has("futex") {
        syscall("futex", BlockingCall::Futex, ArgumentLayout::Plain)
    } else if has("do_wait") {
        syscall("wait4", BlockingCall::Child, ArgumentLayout::Plain)
    } else if has("locks_lock") || has("flock_lock") {
        syscall("flock", BlockingCall::Lock, ArgumentLayout::Plain)
    } else if has("csk_accept") || has("unix_accept") {
        syscall("accept", BlockingCall::Accept, ArgumentLayout::Plain)
    } else if has("wait_for_partner") {
        syscall("openat", BlockingCall::Open, ArgumentLayout::Plain)
    } else if has("sigsuspend") || has("sigtimedwait") {
        syscall("rt_sigsuspend", BlockingCall::Signal, ArgumentLayout::Plain)
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_channel_distinguishes_poll_and_epoll_wait() {
        let name = |wchan| by_wait_channel(wchan).map(|known| (known.name, known.call));
        assert_eq!(name("ep_poll"), Some(("epoll_wait", BlockingCall::Poll)));
        for poll in ["do_sys_poll", "poll_schedule_timeout.constprop.0"] {
            assert_eq!(name(poll), Some(("poll", BlockingCall::Poll)), "{poll}");
        }
        assert_eq!(name("pipe_read"), None);
    }
}
