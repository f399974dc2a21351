//! Sends signals, and receives them through a descriptor.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus};

use siding_model::signal::Signal;

/// Sends a signal to the process behind a pidfd (pidfd_send_signal(2)).
pub(super) fn pidfd_send(fd: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    // SAFETY: with a null siginfo the call does the same as kill(2); no memory is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd.as_raw_fd(),
            signal.number(),
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a signal to a process group.
///
/// Only for a group that has an unreaped child of this process as its leader or as a member,
/// because the kernel does not reuse the number of such a group.
///
/// # Errors
///
/// The I/O error of the system call; `ESRCH` if `pgrp` is not greater than 1.
pub fn send_to_group(pgrp: i32, signal: Signal) -> io::Result<()> {
    if pgrp <= 1 {
        // kill(-1) means every process, and kill(0) this process's own group.
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    kill_pid(-pgrp, signal)
}

fn kill_pid(pid: i32, signal: Signal) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::kill(pid, signal.number()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a signal to the calling thread, and lets the thread receive the signal even if it blocks
/// this signal.
pub fn raise_unblocked(signal: Signal) {
    let set = signal_set(&[signal]);
    let mut before = std::mem::MaybeUninit::uninit();
    // SAFETY: `set` is initialized and outlives the calls; `before` is read only after the kernel
    // has written it.
    unsafe {
        libc::raise(signal.number());
        // A blocked signal is pending until here.
        if libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, before.as_mut_ptr()) == 0 {
            libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
    }
}

/// Sends a signal to every process of this process's group, as the kernel does for a key of the
/// terminal.
pub fn signal_own_group(signal: Signal) {
    // 0 selects the process group of the caller (kill(2)), which contains at least one process.
    let _best_effort = kill_pid(0, signal);
}

/// Stops this process until another process continues it.
pub fn stop_self() {
    // SAFETY: no memory is passed.
    let _best_effort = unsafe { libc::raise(libc::SIGSTOP) };
}

/// Signals of this process, received through a descriptor that becomes readable (signalfd(2)).
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl SignalFd {
    /// Blocks these signals in the calling thread, and returns the descriptor that receives them.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn block(signals: &[Signal]) -> io::Result<Self> {
        let set = signal_set(signals);
        // SAFETY: `set` is initialized and outlives both calls.
        let fd = unsafe {
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this number, and it has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns all pending signals. Several of the same kind may have been merged into one.
    #[must_use]
    pub fn read_pending(&self) -> Vec<Signal> {
        const SIGINFO_BYTES: usize = size_of::<libc::signalfd_siginfo>();
        let mut taken = Vec::new();
        let mut buffer = [0_u8; SIGINFO_BYTES * 8];
        while let Ok(count) = rustix::io::read(&self.0, &mut buffer) {
            for entry in buffer[..count].chunks_exact(SIGINFO_BYTES) {
                // `ssi_signo` is the first field, 32 bits in native order.
                let number = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
                taken.extend(Signal::from_number(number));
            }
            if count < buffer.len() {
                break;
            }
        }
        taken
    }
}

/// A program in the foreground of the terminal, for whose end this process waits.
///
/// The program blocks no signal, whatever this thread blocks: otherwise Ctrl-C, Ctrl-Z and a change
/// of the terminal's size would not reach it. Ctrl-Z also stops this process, as the shell
/// expects of a job. SIGINT and SIGQUIT are discarded until the end, because the keys are meant for
/// the program. The other blocked signals remain pending, for example for a [`SignalFd`].
pub struct ForegroundProgram {
    child: Child,
    /// The signals that this thread blocked before the start.
    blocked: libc::sigset_t,
}

impl fmt::Debug for ForegroundProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForegroundProgram").field("child", &self.child).finish_non_exhaustive()
    }
}

impl ForegroundProgram {
    /// Starts the program.
    ///
    /// # Errors
    ///
    /// The I/O error if the program could not be started.
    pub fn start(program: &mut Command) -> io::Result<Self> {
        unblock_in_child(program);
        let blocked = change_mask(libc::SIG_BLOCK, &signal_set(&[Signal::INT, Signal::QUIT]));
        match program.spawn() {
            Ok(child) => {
                change_mask(libc::SIG_UNBLOCK, &signal_set(&[Signal::TSTP]));
                Ok(Self { child, blocked })
            }
            Err(error) => {
                change_mask(libc::SIG_SETMASK, &blocked);
                Err(error)
            }
        }
    }

    /// Returns the pipe to the program's standard input, if the command has one.
    pub fn stdin(&mut self) -> Option<&mut ChildStdin> {
        self.child.stdin.as_mut()
    }

    /// Closes the pipe to the program's standard input, and waits for the end of the program.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        let ended = self.child.wait();
        discard_pending(&signal_set(&[Signal::INT, Signal::QUIT]));
        change_mask(libc::SIG_SETMASK, &self.blocked);
        ended
    }
}

/// Makes a program start with no signal blocked. A process that reads its signals from a descriptor
/// blocks them, and a child inherits the mask of the thread that starts it.
pub fn unblock_in_child(program: &mut Command) {
    // The mask is changed in the child: a change here would deliver the pending signals of this
    // thread.
    let unblock_all = || -> io::Result<()> {
        change_mask(libc::SIG_SETMASK, &signal_set(&[]));
        Ok(())
    };
    // SAFETY: the closure only changes a set on its stack and calls pthread_sigmask, which is
    // async-signal-safe.
    unsafe { program.pre_exec(unblock_all) };
}

/// Makes a program receive SIGTERM when the thread that starts it ends, even by SIGKILL
/// (PR_SET_PDEATHSIG, prctl(2)). The children of the program receive no signal, so the program
/// itself must terminate them on SIGTERM.
pub fn terminate_child_with_thread(program: &mut Command) {
    let parent = rustix::process::getpid();
    let request_signal = move || -> io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
        // If the parent ended before the request, no signal is sent.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: the closure only makes the system calls prctl and getppid, and allocates nothing.
    unsafe { program.pre_exec(request_signal) };
}

/// Runs a program in the foreground of the terminal, and waits for its end, as a
/// [`ForegroundProgram`].
///
/// # Errors
///
/// The I/O error if the program could not be started.
pub fn run_in_foreground(program: &mut Command) -> io::Result<ExitStatus> {
    ForegroundProgram::start(program)?.wait()
}

/// Changes the signals that the calling thread blocks, and returns the previous ones. `how` is one
/// of the constants of sigprocmask(2).
fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = signal_set(&[]);
    // SAFETY: both sets are initialized and outlive the call.
    unsafe { libc::pthread_sigmask(how, set, &raw mut before) };
    before
}

/// Discards pending signals that this thread blocks.
fn discard_pending(set: &libc::sigset_t) {
    // SAFETY: a zeroed timespec is a valid one, and both arguments outlive the calls. The kernel
    // writes no information through a null pointer.
    unsafe {
        let no_time: libc::timespec = std::mem::zeroed();
        while libc::sigtimedwait(set, std::ptr::null_mut(), &raw const no_time) > 0 {}
    }
}

fn signal_set(signals: &[Signal]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initializes the whole set, sigaddset changes an initialized one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.number());
        }
        set.assume_init()
    }
}
