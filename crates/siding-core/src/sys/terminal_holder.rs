//! The holder of a terminal: a process that keeps the master of a task's pseudoterminal open, so
//! that the terminal survives the task's shim.
//!
//! When the last descriptor of a master is closed, the kernel hangs up the terminal: the task's
//! programs receive SIGHUP, and their writes fail. A master cannot be opened again by a path, and
//! with `kernel.yama.ptrace_scope` = 1 another process may not take a descriptor from a process of
//! the task (pidfd_getfd(2)). The holder therefore hands the master to a shim that takes over.
//!
//! The holder shares the memory of the shim that starts it (`CLONE_VM`), because a copy would take
//! more memory than everything else that a terminal needs. It has descriptors of its own, and is not
//! a child of the shim (`CLONE_PARENT`), so that the shim's proof of an empty process tree does not
//! have to exclude it. It survives a kill of the shim; the kernel's out-of-memory killer terminates
//! both.
//!
//! A new holder waits until the shim has recorded it in the task's journal ([`WaitingHolder`]). It
//! exits if the shim ends before: it carries the birthmark of the task, and without the record it
//! would be mistaken for a process of the task.
//!
//! The code of the holder must neither allocate memory nor use errno, which belong to the shim's
//! thread. rustix makes system calls without errno.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags};

use super::vfork::{BlockedSignals, new_stack, stack_top};
use super::{descriptor, file, pipe, unix_socket};

/// The process name of a holder.
pub const HOLDER_NAME: &std::ffi::CStr = c"siding-terminal";

/// The number of the first descriptor that a holder keeps: the listening socket. The master and the
/// output FIFO follow.
const FIRST_KEPT_FD: RawFd = 0;
/// Number of the descriptors that a holder keeps.
const KEPT_FDS: usize = 3;
/// The descriptor after these: the read end of the pipe from which a holder receives its release.
/// The holder closes it then.
const RELEASE_FD: RawFd = 3;
/// Number of the descriptors with which a holder starts.
const START_FDS: usize = KEPT_FDS + 1;

/// Interval of the holder's checks after no process has the terminal open: whether its output was
/// stored, or can no longer be stored.
const RECHECK_INTERVAL: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// Pause after a failed system call, which would probably fail again immediately.
const FAILURE_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The timeout of a poll(2) that does not wait.
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The arguments of [`run_holder`] in the holder.
struct HolderArgs {
    /// The descriptors with which the holder starts, all from [`START_FDS`] on.
    start_fds: [RawFd; START_FDS],
    /// The user whose processes may receive the master.
    uid: u32,
}

/// A holder that does nothing yet. It exits if this value is dropped, or this process ends, before
/// the call of [`Self::release`].
#[derive(Debug)]
#[must_use = "a holder that is not released exits"]
pub struct WaitingHolder {
    /// The process ID.
    pub pid: i32,
    /// The write end of the pipe from which the holder receives its release.
    pipe: OwnedFd,
}

impl WaitingHolder {
    /// Lets the holder serve, now that the journal names it.
    pub fn release(self) {
        // An error means that the holder has been killed, which its pidfd reports.
        let _peer_gone = file::write(&self.pipe, b"r");
    }
}

/// Starts a holder. Once it is released, it hands `master` to every process of this user that
/// connects to `listener`. It keeps `fifo`, the read end of the output FIFO, open, so that output in
/// the FIFO survives too.
///
/// The holder exits when no process has the terminal open, unless the terminal or the FIFO contains
/// output that no shim has stored. It then stays until that output is read, or until the FIFO is
/// removed, after which no shim can store the output.
///
/// This process must have a single thread, and must not be PID 1 of its PID namespace.
///
/// # Errors
///
/// The I/O error of the system call: `EINVAL` in PID 1, `EAGAIN` if the user may have no further
/// process.
pub fn start(
    listener: BorrowedFd<'_>,
    master: BorrowedFd<'_>,
    fifo: BorrowedFd<'_>,
) -> io::Result<WaitingHolder> {
    descriptor::probe_close_range()?;
    // The pipe has no other write end than this one: the holder closes its copy, and a program that
    // this process starts does not inherit one.
    let (awaits_release, release) = pipe::create_pipe()?;
    file::set_blocking(&awaits_release)?;
    let start_fds = [listener, master, fifo, awaits_release.as_fd()];
    let least = c_int::try_from(START_FDS).unwrap_or(c_int::MAX);
    let copies: Vec<OwnedFd> = start_fds
        .into_iter()
        .map(|fd| descriptor::duplicate_from(fd, least))
        .collect::<io::Result<_>>()?;
    // The holder closes its copy of `ready` after its last use of errno.
    let (is_ready, ready) = pipe::create_pipe()?;
    file::set_blocking(&is_ready)?;
    let ready = descriptor::duplicate_from(ready, least)?;
    // The holder uses its arguments and its stack for as long as it lives, possibly longer than this
    // process, so neither is ever freed.
    let args = Box::leak(Box::new(HolderArgs {
        start_fds: std::array::from_fn(|index| copies[index].as_raw_fd()),
        uid: super::process::effective_uid(),
    }));
    let stack = Box::leak(new_stack());
    let flags = libc::CLONE_VM | libc::CLONE_PARENT;
    let args: *mut HolderArgs = args;
    // The holder keeps all signals blocked: a handler would run on the memory of this process.
    let keeps_blocked = BlockedSignals::block_all();
    // SAFETY: `args` and the stack are leaked, so they exist for as long as the holder runs. The
    // holder uses no other memory of this process that changes. It uses errno only before it has
    // closed `ready`, and this thread waits for that below.
    let pid = unsafe { libc::clone(run_holder, stack_top(stack), flags, args.cast()) };
    let error = io::Error::last_os_error();
    drop(keeps_blocked);
    if pid < 0 {
        return Err(error);
    }
    drop(ready);
    // The read ends when the holder has closed its copy of the write end, or has been killed.
    let _end_of_file = file::read(&is_ready, &mut [0])?;
    Ok(WaitingHolder { pid, pipe: release })
}

/// Runs in the holder.
extern "C" fn run_holder(args: *mut c_void) -> c_int {
    // SAFETY: `start` passes a `HolderArgs` that is never changed or freed. Until `ready` is closed,
    // the shim's thread waits, so errno may be used.
    let uid = unsafe {
        let args = &*args.cast::<HolderArgs>();
        libc::prctl(libc::PR_SET_NAME, HOLDER_NAME.as_ptr());
        for (number, fd) in (FIRST_KEPT_FD..).zip(args.start_fds) {
            if libc::dup2(fd, number) < 0 {
                libc::_exit(1);
            }
        }
        let uid = args.uid;
        // The other descriptors are those of the shim. They include the task's lock, with which no
        // other shim could take over, the write end of the release pipe, whose end must report the
        // end of the shim, and `ready`, whose end tells the shim to continue.
        libc::syscall(libc::SYS_close_range, START_FDS as libc::c_uint, libc::c_uint::MAX, 0);
        uid
    };
    let numbers = [FIRST_KEPT_FD, FIRST_KEPT_FD + 1, FIRST_KEPT_FD + 2];
    // SAFETY: the descriptors were opened above, and stay open until this process exits.
    let kept = numbers.map(|number| unsafe { BorrowedFd::borrow_raw(number) });
    // SAFETY: the descriptor was opened above, and has no other owner.
    let release = unsafe { OwnedFd::from_raw_fd(RELEASE_FD) };
    if await_release(release) {
        serve(kept, uid);
    }
    // exit_group(2) without the C library, whose exit handlers belong to the shim.
    // SAFETY: the call ends this process and writes to no memory. A failure is impossible.
    unsafe { libc::_exit(0) }
}

/// Waits until the shim releases this holder. Returns false if the shim has ended or needs no holder.
fn await_release(pipe: OwnedFd) -> bool {
    let mut byte = [0_u8];
    loop {
        match rustix::io::read(&pipe, &mut byte[..]) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result == Ok(1),
        }
    }
}

/// Hands the master to the processes that connect, until no process has the terminal open and its
/// output is stored.
fn serve([listener, master, fifo]: [BorrowedFd<'_>; KEPT_FDS], uid: u32) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(listener, PollFlags::IN),
            // Only the hang-up is of interest, which poll(2) always reports.
            PollFd::from_borrowed_fd(master, PollFlags::empty()),
        ];
        if !poll_or_pause(&mut fds, None) {
            continue;
        }
        let [mut connection, terminal] = fds.map(|fd| fd.revents());
        if terminal.contains(PollFlags::NVAL) {
            return;
        }
        if terminal.intersects(PollFlags::HUP | PollFlags::ERR) {
            if !has_storable_output(master, fifo) {
                return;
            }
            // poll(2) reports the hang-up until a process opens the terminal again, so only the
            // socket is polled meanwhile.
            let mut fds = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
            if !poll_or_pause(&mut fds, Some(&RECHECK_INTERVAL)) {
                continue;
            }
            connection = fds[0].revents();
        }
        if connection.intersects(PollFlags::ERR | PollFlags::NVAL) {
            return;
        }
        if connection.contains(PollFlags::IN) {
            hand_over(listener, master, uid);
        }
    }
}

/// Calls poll(2). If it fails, for example because the kernel has no memory, pauses and returns
/// false, so that a loop does not occupy a core.
fn poll_or_pause(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> bool {
    let is_polled = rustix::event::poll(fds, timeout).is_ok();
    if !is_polled {
        pause();
    }
    is_polled
}

fn pause() {
    // A poll(2) without descriptors needs no memory.
    let _interrupted = rustix::event::poll(&mut [], Some(&FAILURE_PAUSE));
}

/// Returns whether the terminal or the FIFO contains output that a shim can still store. A shim
/// opens the FIFO by its path, which is removed at the end of the task.
fn has_storable_output(master: BorrowedFd<'_>, fifo: BorrowedFd<'_>) -> bool {
    // Before the kernel reports that the master has no data, it moves the bytes that are still on
    // their way from the programs (`n_tty_poll`), so no output is missed here.
    let mut fds = [master, fifo].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let is_polled = rustix::event::poll(&mut fds, Some(&NO_WAIT)).is_ok();
    let has_output = !is_polled || fds.iter().any(|fd| fd.revents().contains(PollFlags::IN));
    has_output && rustix::fs::fstat(fifo).is_ok_and(|facts| facts.st_nlink > 0)
}

/// Accepts a connection, and hands the master to it. A process of another user, except root, receives
/// nothing.
fn hand_over(listener: BorrowedFd<'_>, master: BorrowedFd<'_>, uid: u32) {
    let Ok(client) =
        rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    else {
        // The connection stays in the queue of the socket, which stays readable, for example while
        // the system has no descriptor left (accept(2)).
        pause();
        return;
    };
    let Ok(peer) = rustix::net::sockopt::socket_peercred(&client) else { return };
    let peer = peer.uid.as_raw();
    if peer != uid && peer != 0 {
        return;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [master];
    if ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        let packet = [io::IoSlice::new(b"m")];
        // An error means that the client has disconnected and needs no master.
        let _peer_gone =
            rustix::net::sendmsg(&client, &packet, &mut ancillary, SendFlags::NOSIGNAL);
    }
}

/// Receives the master of a terminal from its holder. `None` if no holder listens at `name` below
/// `dir`.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn receive_master(dir: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    /// Timeout for a holder that does not accept the connection, for example because a signal has
    /// stopped it, in milliseconds.
    const ACCEPT_TIMEOUT_MS: u64 = 2_000;
    let holder = match unix_socket::connect(dir, name, ACCEPT_TIMEOUT_MS) {
        Ok(holder) => holder,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if super::poll::wait_readable(&[holder.as_fd()], Some(ACCEPT_TIMEOUT_MS))? != [true] {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let received = unix_socket::receive_with_fds(&holder, 16)?;
    Ok(received.and_then(|(_, mut descriptors)| descriptors.pop()))
}
