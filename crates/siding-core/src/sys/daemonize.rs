//! Starts detached processes: each has a session of its own (setsid(2)), and its parent has exited.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use super::vfork::{
    BlockedSignals, exit_with_errno, new_stack, stack_top, unblock_all_signals, vfork_and_run,
    wait_for_child,
};

/// The highest signal number of the kernel.
const MAX_SIGNAL: c_int = 64;
/// The size of the kernel's signal set, in bytes.
const SIGSET_BYTES: usize = 8;

/// A program to start as a detached process.
#[derive(Debug)]
pub struct DaemonCommand<'a> {
    /// The path of the program.
    pub program: &'a CStr,
    /// The arguments; the first is the program's name. The environment is empty.
    pub argv: &'a [&'a CStr],
    /// The descriptors that become 0, 1, 2, … in the new process. All others are closed in that
    /// process.
    pub descriptors: &'a [BorrowedFd<'a>],
}

struct DaemonArgs {
    program: *const c_char,
    argv: Vec<*const c_char>,
    descriptors: Vec<RawFd>,
    child_stack: *mut c_void,
    errno: c_int,
}

/// Starts a detached process: it has a session of its own (setsid(2)) and its parent has exited, so
/// it survives when this process's group, session or tree is killed. Returns after a successful
/// exec.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn spawn_daemon(start: &DaemonCommand<'_>) -> io::Result<()> {
    let copies = duplicate_descriptors(start.descriptors)?;
    let mut stack = new_stack();
    let mut args = DaemonArgs {
        program: start.program.as_ptr(),
        argv: start.argv.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect(),
        descriptors: copies.iter().map(AsRawFd::as_raw_fd).collect(),
        child_stack: stack_top(&mut stack),
        errno: 0,
    };
    // Without an exit signal, the helper is invisible to a host that waits for any child, because
    // wait(2) reports a child without an exit signal only with `__WALL` or `__WCLONE`.
    let helper = vfork_and_run(run_helper, (&raw mut args).cast(), 0)?;
    let status = wait_for_child(helper);
    if args.errno == 0 {
        check_helper_status(status)
    } else {
        Err(io::Error::from_raw_os_error(args.errno))
    }
}

/// Returns the error in the wait status of a process that exits with 0 or with the errno of a
/// failed system call. A process that was killed has not finished its work.
fn check_helper_status(status: c_int) -> io::Result<()> {
    if !libc::WIFEXITED(status) {
        let signal = libc::WTERMSIG(status);
        return Err(io::Error::other(format!(
            "signal {signal} killed the process that starts it; try again"
        )));
    }
    match libc::WEXITSTATUS(status) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Runs in the helper: starts the detached process and exits, which makes the detached process an
/// orphan.
extern "C" fn run_helper(args: *mut c_void) -> c_int {
    // SAFETY: `spawn_daemon` passes a `DaemonArgs` that it does not touch until this process has
    // exited, and `child_stack` is a stack that only the detached process uses. Only system calls
    // follow.
    unsafe {
        let stack = (*args.cast::<DaemonArgs>()).child_stack;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        if libc::clone(run_daemon, stack, flags, args) < 0 {
            return exit_with_errno(&mut (*args.cast::<DaemonArgs>()).errno);
        }
        libc::_exit(0)
    }
}

extern "C" fn run_daemon(args: *mut c_void) -> c_int {
    // SAFETY: the helper passes a `DaemonArgs` that no other code touches until this process has
    // called exec or _exit. Only system calls follow.
    unsafe {
        let args = &mut *args.cast::<DaemonArgs>();
        if !detach(&args.descriptors) {
            return exit_with_errno(&mut args.errno);
        }
        let nothing: *const c_char = ptr::null();
        libc::execve(args.program, args.argv.as_ptr(), &raw const nothing);
        exit_with_errno(&mut args.errno)
    }
}

/// Detaches this process from the one that started it: creates a session (setsid(2)), sets default
/// signal actions, and closes all descriptors except these, which are renumbered from 0. Returns
/// false if the descriptors could not be set up.
///
/// # Safety
///
/// Must be called only in a child. The descriptors must have higher numbers than those that they
/// become.
unsafe fn detach(descriptors: &[RawFd]) -> bool {
    // SAFETY: this process is a child, as this function requires, so only the child's session,
    // signal actions and descriptors change. The calls write to no memory.
    unsafe {
        libc::setsid();
        reset_signals();
        let first = descriptors.len() as libc::c_uint;
        (0..).zip(descriptors).all(|(number, fd)| libc::dup2(*fd, number) >= 0)
            && libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0
    }
}

/// Duplicates descriptors to numbers above those that they will become, because dup2(2) would
/// otherwise overwrite one that is still needed.
fn duplicate_descriptors(descriptors: &[BorrowedFd<'_>]) -> io::Result<Vec<OwnedFd>> {
    let least = c_int::try_from(descriptors.len()).unwrap_or(c_int::MAX);
    descriptors.iter().map(|fd| super::descriptor::duplicate_from(fd, least)).collect()
}

/// The child of this process that starts a forked process and then exits. Dropping the value reaps
/// the child.
#[derive(Debug)]
pub struct IntermediateChild(Option<libc::pid_t>);

impl IntermediateChild {
    /// Waits until the intermediate process has exited.
    ///
    /// # Errors
    ///
    /// The I/O error with which fork(2) failed in the intermediate process, or an error if that
    /// process was killed.
    pub fn wait_exited(&mut self) -> io::Result<()> {
        // The intermediate process exits with the errno of its failed fork(2).
        self.0.take().map(wait_for_child).map_or(Ok(()), check_helper_status)
    }
}

impl Drop for IntermediateChild {
    fn drop(&mut self) {
        let _best_effort = self.wait_exited();
    }
}

/// Runs `main` in a copy of this process. The copy is detached as [`spawn_daemon`] detaches a
/// program, and exits with the value that `main` returns, with 101 if `main` panics, or with 127 if
/// it cannot be detached. For a small process a copy takes a third of the time of an exec.
/// `descriptors` become 0, 1, 2, … in the copy.
///
/// Only for a process with one thread, because the copy would have the locks of other threads, but
/// not the threads that release them (fork(2)).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn fork_daemon(
    descriptors: &[BorrowedFd<'_>],
    main: fn() -> u8,
) -> io::Result<IntermediateChild> {
    // Checks for close_range(2) (Linux 5.9), because the copy could not report that the call is
    // missing.
    // SAFETY: the call takes only numbers; no descriptor has this number, so nothing is closed.
    if unsafe { libc::syscall(libc::SYS_close_range, libc::c_uint::MAX, libc::c_uint::MAX, 0) } != 0
    {
        return Err(io::Error::last_os_error());
    }
    let copies = duplicate_descriptors(descriptors)?;
    let numbers: Vec<RawFd> = copies.iter().map(AsRawFd::as_raw_fd).collect();
    // A Ctrl-C is meant for this process alone, but would also reach the copy until the copy has a
    // session of its own.
    let _keeps_alive = BlockedSignals::block_all();
    // SAFETY: this process has one thread, as this function requires, so no lock is held in a copy
    // by a thread that the copy lacks. The first copy only creates the second and exits, and the
    // second is a child in which `run_forked` may run.
    unsafe {
        match libc::fork() {
            0 => match libc::fork() {
                0 => run_forked(&numbers, main),
                -1 => libc::_exit(*libc::__errno_location()),
                _ => libc::_exit(0),
            },
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(IntermediateChild(Some(pid))),
        }
    }
}

/// Detaches the forked process, runs `main` and exits. The numbers of `descriptors` are above those
/// that they become.
fn run_forked(descriptors: &[RawFd], main: fn() -> u8) -> ! {
    // SAFETY: this process is a child, and the numbers of `descriptors` are above those that they
    // become, as `detach` requires. _exit(2) takes only a number.
    unsafe {
        if !detach(descriptors) {
            libc::_exit(127);
        }
        let code = std::panic::catch_unwind(main).unwrap_or(101);
        libc::_exit(c_int::from(code))
    }
}

/// Sets the default action of every signal and unblocks all signals.
///
/// # Safety
///
/// Must be called only in a child, whose handlers are copies, so that the parent's handlers do not
/// change.
unsafe fn reset_signals() {
    // The kernel's structure has a different layout on each architecture; all zeros is the default
    // action on every one. The system call is made directly, because sigaction(3) refuses the two
    // signals that the C library itself uses. Both are ignored in a program that was started by the
    // C library's posix_spawn(3).
    let default = [0_u64; 8];
    // SAFETY: this process is a child, as this function requires, so only the child's signal
    // actions and signal mask change. `default` is larger than the structure that the kernel reads.
    // The kernel refuses SIGKILL and SIGSTOP, which always have the default action.
    unsafe {
        for number in 1..=MAX_SIGNAL {
            let nothing = ptr::null_mut::<c_void>();
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                &raw const default,
                nothing,
                SIGSET_BYTES,
            );
        }
        unblock_all_signals();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_helper_has_not_succeeded() {
        assert!(check_helper_status(0).is_ok());
        let failed_fork = libc::EAGAIN << 8;
        let error = check_helper_status(failed_fork).expect_err("its fork failed");
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
        let error = check_helper_status(libc::SIGKILL).expect_err("it was killed");
        assert!(error.raw_os_error().is_none() && error.to_string().contains("signal 9"));
    }
}
