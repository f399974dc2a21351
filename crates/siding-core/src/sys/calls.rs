//! System calls that can wait: their numbers on this architecture, and what they wait with.

use siding_model::evidence::BlockingCall;

/// A system call, as far as a wait in it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub call: BlockingCall,
    /// How its arguments tell what is waited for.
    pub shape: Shape,
}

/// Where the arguments of a system call have what is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nowhere.
    Plain,
    /// A descriptor to read from, or to write to, as this argument.
    Descriptor {
        /// Which argument.
        at: usize,
        /// Whether data is waited for.
        to_read: bool,
    },
    /// `(pollfd *, count, timeout)`; the timeout is a number of milliseconds or a pointer.
    PollArray {
        /// Whether the timeout is a pointer.
        by_pointer: bool,
    },
    /// `(count, fd_set *, fd_set *, fd_set *, timeout *)`.
    Sets,
    /// `(epoll descriptor, …, timeout)`.
    Epoll {
        /// Whether the timeout is a pointer.
        by_pointer: bool,
    },
    /// A pointer to a timeout as this argument.
    Timeout(usize),
    /// `fcntl`: a lock only with the commands that wait.
    Fcntl,
    /// What was interrupted goes on: the kernel's own name of the wait tells what it was.
    Restart,
}

const fn known(name: &'static str, call: BlockingCall, shape: Shape) -> Known {
    Known { name, call, shape }
}

const fn reads(name: &'static str, at: usize) -> Known {
    known(name, BlockingCall::Read, Shape::Descriptor { at, to_read: true })
}

const fn writes(name: &'static str, at: usize) -> Known {
    known(name, BlockingCall::Write, Shape::Descriptor { at, to_read: false })
}

const fn with(name: &'static str, call: BlockingCall, to_read: bool) -> Known {
    known(name, call, Shape::Descriptor { at: 0, to_read })
}

/// Returns what is known of a system call by its number.
#[must_use]
pub fn of_number(number: i64) -> Option<Known> {
    use BlockingCall::{
        Accept, Child, Connect, Futex, Lock, Open, Poll, Signal, Sleep, Sync, Transfer,
    };
    #[cfg(target_arch = "x86_64")]
    if let Some(old) = of_old_number(number) {
        return Some(old);
    }
    Some(match number {
        libc::SYS_read => reads("read", 0),
        libc::SYS_readv => reads("readv", 0),
        libc::SYS_pread64 => reads("pread64", 0),
        libc::SYS_preadv => reads("preadv", 0),
        libc::SYS_splice => reads("splice", 0),
        libc::SYS_tee => reads("tee", 0),
        libc::SYS_sendfile => reads("sendfile", 1),
        libc::SYS_copy_file_range => reads("copy_file_range", 0),
        libc::SYS_getdents64 => reads("getdents64", 0),
        libc::SYS_write => writes("write", 0),
        libc::SYS_writev => writes("writev", 0),
        libc::SYS_pwrite64 => writes("pwrite64", 0),
        libc::SYS_vmsplice => writes("vmsplice", 0),
        libc::SYS_ppoll => known("ppoll", Poll, Shape::PollArray { by_pointer: true }),
        libc::SYS_pselect6 => known("pselect6", Poll, Shape::Sets),
        libc::SYS_epoll_pwait => known("epoll_pwait", Poll, Shape::Epoll { by_pointer: false }),
        libc::SYS_epoll_pwait2 => known("epoll_pwait2", Poll, Shape::Epoll { by_pointer: true }),
        libc::SYS_accept => with("accept", Accept, true),
        libc::SYS_accept4 => with("accept4", Accept, true),
        libc::SYS_connect => with("connect", Connect, false),
        libc::SYS_recvfrom => with("recvfrom", Transfer, true),
        libc::SYS_recvmsg => with("recvmsg", Transfer, true),
        libc::SYS_recvmmsg => with("recvmmsg", Transfer, true),
        libc::SYS_sendto => with("sendto", Transfer, false),
        libc::SYS_sendmsg => with("sendmsg", Transfer, false),
        libc::SYS_wait4 => known("wait4", Child, Shape::Plain),
        libc::SYS_waitid => known("waitid", Child, Shape::Plain),
        libc::SYS_clone => known("clone", BlockingCall::Vfork, Shape::Plain),
        libc::SYS_clone3 => known("clone3", BlockingCall::Vfork, Shape::Plain),
        libc::SYS_nanosleep => known("nanosleep", Sleep, Shape::Plain),
        libc::SYS_clock_nanosleep => known("clock_nanosleep", Sleep, Shape::Plain),
        libc::SYS_futex => known("futex", Futex, Shape::Timeout(3)),
        libc::SYS_flock => with("flock", Lock, true),
        libc::SYS_fcntl => known("fcntl", Lock, Shape::Fcntl),
        libc::SYS_openat => known("openat", Open, Shape::Plain),
        libc::SYS_rt_sigsuspend => known("rt_sigsuspend", Signal, Shape::Plain),
        libc::SYS_rt_sigtimedwait => known("rt_sigtimedwait", Signal, Shape::Timeout(2)),
        libc::SYS_fsync => with("fsync", Sync, false),
        libc::SYS_fdatasync => with("fdatasync", Sync, false),
        libc::SYS_sync => known("sync", Sync, Shape::Plain),
        libc::SYS_syncfs => with("syncfs", Sync, false),
        libc::SYS_restart_syscall => known("restart_syscall", BlockingCall::Other, Shape::Restart),
        libc::SYS_io_getevents => known("io_getevents", BlockingCall::Other, Shape::Plain),
        libc::SYS_io_uring_enter => known("io_uring_enter", BlockingCall::Other, Shape::Plain),
        libc::SYS_msgrcv => known("msgrcv", BlockingCall::Other, Shape::Plain),
        libc::SYS_semop => known("semop", BlockingCall::Other, Shape::Plain),
        libc::SYS_semtimedop => known("semtimedop", BlockingCall::Other, Shape::Plain),
        libc::SYS_mq_timedreceive => known("mq_timedreceive", BlockingCall::Other, Shape::Plain),
        _ => return None,
    })
}

/// System calls that newer architectures do without.
#[cfg(target_arch = "x86_64")]
const fn of_old_number(number: i64) -> Option<Known> {
    Some(match number {
        libc::SYS_poll => known("poll", BlockingCall::Poll, Shape::PollArray { by_pointer: false }),
        libc::SYS_select => known("select", BlockingCall::Poll, Shape::Sets),
        libc::SYS_epoll_wait => {
            known("epoll_wait", BlockingCall::Poll, Shape::Epoll { by_pointer: false })
        }
        libc::SYS_open => known("open", BlockingCall::Open, Shape::Plain),
        libc::SYS_pause => known("pause", BlockingCall::Signal, Shape::Plain),
        libc::SYS_vfork => known("vfork", BlockingCall::Vfork, Shape::Plain),
        _ => return None,
    })
}

/// Returns what the kernel's name of a wait (`/proc/PID/wchan`) tells, for a call that was
/// interrupted and goes on, and where system calls are not told.
#[must_use]
pub fn of_wait(wchan: &str) -> Option<Known> {
    let has = |part: &str| wchan.contains(part);
    Some(if has("nanosleep") {
        known("nanosleep", BlockingCall::Sleep, Shape::Plain)
    } else if has("poll") {
        // Of its family only this one is restarted so, with its arguments intact.
        known("poll", BlockingCall::Poll, Shape::PollArray { by_pointer: false })
    } else if has("futex") {
        known("futex", BlockingCall::Futex, Shape::Plain)
    } else if has("do_wait") {
        known("wait4", BlockingCall::Child, Shape::Plain)
    } else if has("locks_lock") || has("flock_lock") {
        known("flock", BlockingCall::Lock, Shape::Plain)
    } else if has("csk_accept") || has("unix_accept") {
        known("accept", BlockingCall::Accept, Shape::Plain)
    } else if has("wait_for_partner") {
        known("openat", BlockingCall::Open, Shape::Plain)
    } else if has("sigsuspend") || has("sigtimedwait") {
        known("rt_sigsuspend", BlockingCall::Signal, Shape::Plain)
    } else {
        return None;
    })
}
