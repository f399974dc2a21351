//! Starting processes that belong to nobody: in a session of their own, whose parent has left.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use super::memory::{self, GuardedStack};
use super::vfork::{
    BlockedSignals, STACK_BYTES, exit_with_errno, stack_top, unblock_all_signals, vfork_and_run,
    wait_for_child,
};

/// Highest signal number of the kernel, and the size of its set of signals.
const MAX_SIGNAL: c_int = 64;
const SIGSET_BYTES: usize = 8;

/// A program that is started beside this process and belongs to nobody here.
#[derive(Debug)]
pub struct DaemonCommand<'a> {
    /// Path of the program.
    pub program: &'a CStr,
    /// Its arguments, the first is its name. Its environment is empty.
    pub argv: &'a [&'a CStr],
    /// Its descriptors from 0 on; all others are closed.
    pub descriptors: &'a [BorrowedFd<'a>],
}

struct DaemonArgs {
    program: *const c_char,
    argv: Vec<*const c_char>,
    descriptors: Vec<RawFd>,
    child_stack: *mut c_void,
    errno: c_int,
}

/// Starts a process in a session of its own whose parent has already left, so that nobody who
/// ends this process's group, session or tree ends it too. Returns once its exec has worked.
///
/// # Errors
///
/// The operating system's.
pub fn spawn_daemon(start: &DaemonCommand<'_>) -> io::Result<()> {
    let copies = duplicate_descriptors(start.descriptors)?;
    let mut stack = vec![0_u8; STACK_BYTES];
    let mut args = DaemonArgs {
        program: start.program.as_ptr(),
        argv: start.argv.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect(),
        descriptors: copies.iter().map(AsRawFd::as_raw_fd).collect(),
        child_stack: stack_top(&mut stack),
        errno: 0,
    };
    // Without an exit signal the helper is invisible to a host that waits for any child.
    let helper = vfork_and_run(run_helper, (&raw mut args).cast(), 0)?;
    wait_for_child(helper);
    if args.errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(args.errno)) }
}

/// Runs in the helper: starts the real child and leaves, which makes it an orphan.
extern "C" fn run_helper(args: *mut c_void) -> c_int {
    // SAFETY: as in `run_leader`; `child_stack` is a stack that only the child uses.
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
    // SAFETY: as in `run_leader`.
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

/// Cuts a new process off from the one that started it: a session of its own, default signal
/// handling, and no descriptors but these, which become 0, 1, 2 and so on.
///
/// # Safety
///
/// Only in a child. Its descriptors must be above the numbers that are filled.
unsafe fn detach(descriptors: &[RawFd]) -> bool {
    // SAFETY: only system calls.
    unsafe {
        libc::setsid();
        reset_signals();
        let first = descriptors.len() as libc::c_uint;
        (0..).zip(descriptors).all(|(number, fd)| libc::dup2(*fd, number) >= 0)
            && libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0
    }
}

/// Returns copies of descriptors that are out of the way of the low numbers they will get.
fn duplicate_descriptors(descriptors: &[BorrowedFd<'_>]) -> io::Result<Vec<OwnedFd>> {
    let least = c_int::try_from(descriptors.len()).unwrap_or(c_int::MAX);
    descriptors.iter().map(|fd| super::descriptor::duplicate_from(fd, least)).collect()
}

/// What the child function of [`fork_daemon`] works on.
struct ForkedArgs {
    descriptors: Vec<RawFd>,
    main: fn() -> u8,
}

/// The process between this one and a forked one, which leaves at once. Taken away when dropped.
#[derive(Debug)]
pub struct IntermediateChild(Option<libc::pid_t>);

impl IntermediateChild {
    /// Waits until it has left.
    ///
    /// # Errors
    ///
    /// The operating system's reason why it could not start the forked process.
    pub fn wait_exited(&mut self) -> io::Result<()> {
        match self.0.take().map(wait_for_child) {
            None | Some(0) => Ok(()),
            // It leaves with the error's number as its exit code.
            Some(status) => Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status))),
        }
    }
}

impl Drop for IntermediateChild {
    fn drop(&mut self) {
        let _best_effort = self.wait_exited();
    }
}

/// Goes on with `main` in a copy of this process that belongs to nobody here, as [`spawn_daemon`]
/// starts a program: for a small process this takes a third of the time of an exec. `descriptors`
/// become its 0, 1, 2 and so on; the process ends with what `main` returns.
///
/// The process between is the copy. It leaves its memory to the forked one, which costs 0.1 ms less
/// than a second copy.
///
/// Only for a process with one thread: of the others the copy would have the locks and not the
/// threads.
///
/// # Errors
///
/// The operating system's.
pub fn fork_daemon(
    descriptors: &[BorrowedFd<'_>],
    main: fn() -> u8,
) -> io::Result<IntermediateChild> {
    // The copy could tell nobody that it lacks a system call (Linux 5.9): no descriptor is closed.
    // SAFETY: only a system call.
    if unsafe { libc::syscall(libc::SYS_close_range, libc::c_uint::MAX, libc::c_uint::MAX, 0) } != 0
    {
        return Err(io::Error::last_os_error());
    }
    let copies = duplicate_descriptors(descriptors)?;
    let numbers = copies.iter().map(AsRawFd::as_raw_fd).collect();
    let mut args = ForkedArgs { descriptors: numbers, main };
    let stack = GuardedStack::new(FORKED_STACK_BYTES)?;
    // A Ctrl-C between the fork and the new session would be meant for this process alone.
    let blocked = BlockedSignals::block_all();
    // SAFETY: there is one thread, so the copy is a whole process. It does nothing but start the
    // other one and leave, so that this one has all memory for itself: `args` stays where it is,
    // on the first stack, which nobody uses any more. Not by the C library's fork, with which the
    // kernel would clear the thread's number when the copy leaves, in memory that is in use.
    let between = unsafe {
        match libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) {
            0 => {
                memory::abandon_stack(&raw const args);
                let flags = libc::CLONE_VM | libc::SIGCHLD;
                let pid = libc::clone(run_forked, stack.top(), flags, (&raw mut args).cast());
                libc::_exit(if pid < 0 { *libc::__errno_location() } else { 0 })
            }
            pid => pid,
        }
    };
    let error = io::Error::last_os_error();
    drop(blocked);
    match libc::pid_t::try_from(between) {
        Ok(pid) if pid > 0 => Ok(IntermediateChild(Some(pid))),
        Ok(_) | Err(_) => Err(error),
    }
}

/// Stack of a forked process: its own from then on, of which it takes what it touches.
const FORKED_STACK_BYTES: usize = 1 << 20;

/// Runs in the forked process.
extern "C" fn run_forked(args: *mut c_void) -> c_int {
    // SAFETY: the memory is a copy that belongs to this process, and so is the `ForkedArgs` in it.
    // Whoever made it only leaves. This never returns.
    unsafe {
        let args = &*args.cast::<ForkedArgs>();
        if !detach(&args.descriptors) {
            libc::_exit(127);
        }
        let code = std::panic::catch_unwind(args.main).unwrap_or(101);
        libc::_exit(c_int::from(code))
    }
}

/// Gives every signal its default action and blocks none.
///
/// # Safety
///
/// Only in a child: handlers were copied, not shared, so the parent keeps its own.
unsafe fn reset_signals() {
    // The kernel's own structure has another layout on each machine; all zeros is the default
    // action on every one. The C library would leave out the two signals that it uses itself, and
    // programs started by its `posix_spawn` ignore those.
    let default = [0_u64; 8];
    // SAFETY: only system calls; `default` is larger than the structure that is read. SIGKILL and
    // SIGSTOP refuse, which changes nothing.
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
