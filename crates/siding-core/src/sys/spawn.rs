//! Starting processes without copying this one.
//!
//! `fork` from a large host costs milliseconds (measured: 11 ms at 512 MB), so everything starts
//! as `vfork` does it: the child borrows this process's memory and this thread waits until it has
//! called exec. The child functions below run on a stack of their own and only make system calls.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use siding_model::id::Birthmark;

/// Bytes of stack for a child until its exec. It makes a few system calls and no deep ones.
const STACK: usize = 32 << 10;

/// Highest signal number of the kernel, and the size of its set of signals.
const KERNEL_SIGNALS: c_int = 64;
const SIGSET_BYTES: usize = 8;

/// A program to execute, ready for a child that may not allocate.
#[derive(Debug)]
pub struct Program {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    /// `/bin/sh`, the candidate (filled in per attempt) and the arguments: for a script without
    /// an interpreter line, as every shell runs it. Empty when such a script is not to be run.
    script_argv: Vec<CString>,
}

/// A text that holds a zero byte, which no argument of a program can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` holds a zero byte, which no argument or variable can")]
pub struct ZeroByte {
    /// The text.
    pub text: String,
}

fn c_string(text: &str) -> Result<CString, ZeroByte> {
    CString::new(text).map_err(|_| ZeroByte { text: text.replace('\0', "\\0") })
}

impl Program {
    /// Prepares `argv`, whose first word is the program: a path when it holds a slash, else a
    /// name that is looked for in the directories of `search`, a `PATH`.
    ///
    /// # Errors
    ///
    /// [`ZeroByte`].
    pub fn new(argv: &[String], search: &[u8]) -> Result<Self, ZeroByte> {
        let name = argv.first().map_or("", String::as_str);
        let zero_byte = |_| ZeroByte { text: name.replace('\0', "\\0") };
        let candidates = if name.contains('/') {
            vec![c_string(name)?]
        } else {
            let place = |dir: &[u8]| {
                let dir = if dir.is_empty() { b"." } else { dir };
                CString::new([dir, b"/", name.as_bytes()].concat()).map_err(zero_byte)
            };
            search.split(|&byte| byte == b':').map(place).collect::<Result<_, _>>()?
        };
        let words: Vec<CString> =
            argv.iter().map(|word| c_string(word)).collect::<Result<_, _>>()?;
        let script_argv = std::iter::once(c"/bin/sh".to_owned())
            .chain(std::iter::once(CString::default()))
            .chain(words.iter().skip(1).cloned())
            .collect();
        Ok(Self { candidates, argv: words, script_argv })
    }

    /// Prepares the program at exactly this path. A script without an interpreter line is none.
    ///
    /// # Errors
    ///
    /// [`ZeroByte`].
    pub fn at(path: &str, argv: &[String]) -> Result<Self, ZeroByte> {
        let argv = argv.iter().map(|word| c_string(word)).collect::<Result<_, _>>()?;
        Ok(Self { candidates: vec![c_string(path)?], argv, script_argv: Vec::new() })
    }
}

fn pointers(words: &[CString]) -> Vec<*const c_char> {
    words.iter().map(|word| word.as_ptr()).chain(std::iter::once(ptr::null())).collect()
}

/// How the leader of a task begins.
#[derive(Debug)]
pub struct Leader<'a> {
    /// What it executes.
    pub program: &'a Program,
    /// Its whole environment, as `NAME=value`.
    pub environment: &'a [CString],
    /// Its directory.
    pub cwd: BorrowedFd<'a>,
    /// Its descriptors 0, 1 and 2.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Descriptors it inherits under the numbers they have.
    pub kept: &'a [BorrowedFd<'a>],
    /// Its birthmark, where one can be given.
    pub birthmark: Option<Birthmark>,
    /// Directory of the control group that it is to be in, where there is one. When it cannot
    /// enter it starts all the same.
    pub group: Option<BorrowedFd<'a>>,
}

/// What the child function of [`leader`] works on.
struct LeaderArgs {
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    script_argv: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    cwd: RawFd,
    stdio: [RawFd; 3],
    kept: Vec<RawFd>,
    birthmark: Option<u64>,
    /// A control group to enter, when it was not born there.
    group: Option<RawFd>,
    /// Whether the child has come to run at all.
    born: bool,
    errno: c_int,
}

/// Starts the leader of a task: in its own session, marked, with default signal handling, and
/// first in line when memory runs out. Returns its number once its exec has worked.
///
/// # Errors
///
/// The operating system's reason why nothing was started, as exec gave it.
pub fn leader(leader: &Leader<'_>) -> io::Result<i32> {
    let program = leader.program;
    let mut args = LeaderArgs {
        candidates: program.candidates.iter().map(|path| path.as_ptr()).collect(),
        argv: pointers(&program.argv),
        script_argv: pointers(&program.script_argv),
        environment: pointers(leader.environment),
        cwd: leader.cwd.as_raw_fd(),
        stdio: leader.stdio.map(|fd| fd.as_raw_fd()),
        kept: leader.kept.iter().map(AsRawFd::as_raw_fd).collect(),
        birthmark: leader.birthmark.map(|mark| mark.0),
        group: None,
        born: false,
        errno: 0,
    };
    let pid = match leader.group.and_then(|group| born_into(group, &mut args)) {
        Some(pid) => pid,
        None => {
            args.group = leader.group.map(|group| group.as_raw_fd());
            borrow_and_run(run_leader, (&raw mut args).cast(), libc::SIGCHLD)?
        }
    };
    if args.errno == 0 {
        return Ok(pid);
    }
    wait_for(pid);
    Err(io::Error::from_raw_os_error(args.errno))
}

/// Starts the leader as a member of a control group, `None` where that does not work: before
/// Linux 5.7, behind a filter of system calls, and when this process's own group was killed once.
/// The kernel then takes the child for a latecomer to that kill, and it never runs (seen on
/// Linux 6.18).
fn born_into(group: BorrowedFd<'_>, args: &mut LeaderArgs) -> Option<i32> {
    let place: *mut LeaderArgs = args;
    let pid = borrowing(|stack| {
        // SAFETY: as in `borrow_and_run`.
        unsafe { super::clone3::into_group(group, stack, run_leader, place.cast()) }
    });
    let pid = pid.ok()?;
    if args.born {
        return Some(pid);
    }
    wait_for(pid);
    None
}

/// Runs in the child, on memory that it shares with its parent.
extern "C" fn run_leader(args: *mut c_void) -> c_int {
    // SAFETY: `leader` passes a `LeaderArgs` that nobody else touches until this child has called
    // exec or _exit. Only system calls follow; nothing allocates, locks or unwinds.
    unsafe {
        let args = &mut *args.cast::<LeaderArgs>();
        args.born = true;
        if let Some(group) = args.group {
            enter(group);
        }
        libc::setsid();
        // The shim itself was started with default actions (`run_detached`); only what Rust's own
        // start ignores is to be undone.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        block_no_signals();
        if let Some(mark) = args.birthmark {
            let limit = libc::rlimit { rlim_cur: mark, rlim_max: mark };
            libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit);
        }
        prefer_for_oom();
        if libc::fchdir(args.cwd) != 0 || !place_stdio(args.stdio) {
            return fail(&mut args.errno);
        }
        for fd in &args.kept {
            libc::fcntl(*fd, libc::F_SETFD, 0);
        }
        args.errno = execute(args);
        libc::_exit(127)
    }
}

/// Tries each candidate as `execvp` does, and returns the errno that says most.
///
/// # Safety
///
/// Only in a child that shares its parent's memory, with all pointers of `args` alive.
unsafe fn execute(args: &mut LeaderArgs) -> c_int {
    let mut best = libc::ENOENT;
    let is_searched = args.candidates.len() > 1;
    for candidate in &args.candidates {
        // SAFETY: the arrays end with a null pointer and their strings live in the parent, which
        // waits.
        let errno = unsafe {
            libc::execve(*candidate, args.argv.as_ptr(), args.environment.as_ptr());
            let errno = *libc::__errno_location();
            if errno == libc::ENOEXEC && args.script_argv.len() > 1 {
                args.script_argv[1] = *candidate;
                let (argv, environment) = (args.script_argv.as_ptr(), args.environment.as_ptr());
                libc::execve(c"/bin/sh".as_ptr(), argv, environment);
            }
            errno
        };
        match errno {
            libc::ENOENT | libc::ENOTDIR if is_searched => {}
            // Found but not allowed: a later directory may hold a better one.
            libc::EACCES => best = errno,
            _ => return errno,
        }
    }
    best
}

/// A program that is started beside this process and belongs to nobody here.
#[derive(Debug)]
pub struct Detached<'a> {
    /// Path of the program.
    pub program: &'a CStr,
    /// Its arguments, the first is its name. Its environment is empty.
    pub argv: &'a [&'a CStr],
    /// Its descriptors from 0 on; all others are closed.
    pub descriptors: &'a [BorrowedFd<'a>],
}

struct DetachedArgs {
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
pub fn detached(start: &Detached<'_>) -> io::Result<()> {
    let copies = copies_of(start.descriptors)?;
    let mut stack = vec![0_u8; STACK];
    let mut args = DetachedArgs {
        program: start.program.as_ptr(),
        argv: start.argv.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect(),
        descriptors: copies.iter().map(AsRawFd::as_raw_fd).collect(),
        child_stack: top_of(&mut stack),
        errno: 0,
    };
    // Without an exit signal the helper is invisible to a host that waits for any child.
    let helper = borrow_and_run(run_helper, (&raw mut args).cast(), 0)?;
    wait_for(helper);
    if args.errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(args.errno)) }
}

/// Runs in the helper: starts the real child and leaves, which makes it an orphan.
extern "C" fn run_helper(args: *mut c_void) -> c_int {
    // SAFETY: as in `run_leader`; `child_stack` is a stack that only the child uses.
    unsafe {
        let stack = (*args.cast::<DetachedArgs>()).child_stack;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        if libc::clone(run_detached, stack, flags, args) < 0 {
            return fail(&mut (*args.cast::<DetachedArgs>()).errno);
        }
        libc::_exit(0)
    }
}

extern "C" fn run_detached(args: *mut c_void) -> c_int {
    // SAFETY: as in `run_leader`.
    unsafe {
        let args = &mut *args.cast::<DetachedArgs>();
        if !stand_alone(&args.descriptors) {
            return fail(&mut args.errno);
        }
        let nothing: *const c_char = ptr::null();
        libc::execve(args.program, args.argv.as_ptr(), &raw const nothing);
        fail(&mut args.errno)
    }
}

/// Cuts a new process off from the one that started it: a session of its own, default signal
/// handling, and no descriptors but these, which become 0, 1, 2 and so on.
///
/// # Safety
///
/// Only in a child. Its descriptors must be above the numbers that are filled.
unsafe fn stand_alone(descriptors: &[RawFd]) -> bool {
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
fn copies_of(descriptors: &[BorrowedFd<'_>]) -> io::Result<Vec<OwnedFd>> {
    let least = c_int::try_from(descriptors.len()).unwrap_or(c_int::MAX);
    descriptors.iter().map(|fd| super::descriptor::duplicate_from(fd, least)).collect()
}

/// The process between this one and a forked one, which leaves at once. Taken away when dropped.
#[derive(Debug)]
pub struct Between(Option<libc::pid_t>);

impl Between {
    /// Waits until it has left, and returns whether it has started the forked process.
    ///
    /// # Errors
    ///
    /// The operating system's reason why that was not started.
    pub fn left(&mut self) -> io::Result<()> {
        match self.0.take().map(wait_for) {
            None | Some(0) => Ok(()),
            // It leaves with the error's number as its exit code.
            Some(status) => Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status))),
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _nobody_asks = self.left();
    }
}

/// Goes on with `main` in a copy of this process that belongs to nobody here, as [`detached`]
/// starts a program: for a small process this takes a third of the time of an exec, and is ready
/// at once. `descriptors` become its 0, 1, 2 and so on; the process ends with what `main` returns.
///
/// Only for a process with one thread: of the others the copy would have the locks and not the
/// threads.
///
/// # Errors
///
/// The operating system's.
pub fn forked(descriptors: &[BorrowedFd<'_>], main: fn() -> u8) -> io::Result<Between> {
    // The copy could tell nobody that it lacks a system call (Linux 5.9): no descriptor is closed.
    // SAFETY: only a system call.
    if unsafe { libc::syscall(libc::SYS_close_range, libc::c_uint::MAX, libc::c_uint::MAX, 0) } != 0
    {
        return Err(io::Error::last_os_error());
    }
    let copies = copies_of(descriptors)?;
    let numbers: Vec<RawFd> = copies.iter().map(AsRawFd::as_raw_fd).collect();
    // A Ctrl-C between the fork and the new session would be meant for this process alone.
    let blocked = BlockedSignals::all();
    // SAFETY: there is one thread, so each copy is a whole process that may do anything. The one
    // between does nothing but fork; the last one never returns.
    let between = unsafe {
        match libc::fork() {
            0 => match libc::fork() {
                0 => {
                    if !stand_alone(&numbers) {
                        libc::_exit(127);
                    }
                    let code = std::panic::catch_unwind(main).unwrap_or(101);
                    libc::_exit(c_int::from(code))
                }
                -1 => libc::_exit(*libc::__errno_location()),
                _ => libc::_exit(0),
            },
            pid => pid,
        }
    };
    let error = io::Error::last_os_error();
    drop(blocked);
    if between < 0 { Err(error) } else { Ok(Between(Some(between))) }
}

/// Runs `child` in a process that shares this one's memory, and returns its number once it has
/// called exec or has ended. All signals are blocked meanwhile: a handler in the child would run
/// on the parent's memory.
fn borrow_and_run(
    child: extern "C" fn(*mut c_void) -> c_int,
    args: *mut c_void,
    exit_signal: c_int,
) -> io::Result<i32> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | exit_signal;
    borrowing(|stack| {
        // SAFETY: CLONE_VFORK suspends this thread until the child no longer uses `stack`, `args`
        // or any other memory of ours.
        let pid = unsafe { libc::clone(child, top_of(stack), flags, args) };
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
    })
}

/// Lends a stack to a clone and blocks all signals meanwhile.
fn borrowing(clone: impl FnOnce(&mut [u8]) -> io::Result<i32>) -> io::Result<i32> {
    let mut stack = vec![0_u8; STACK];
    let _blocked = BlockedSignals::all();
    clone(&mut stack)
}

/// All signals of this thread blocked, until dropped.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn all() -> Self {
        // SAFETY: both sets are initialized by the calls.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the call that blocked.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// Returns the aligned upper end of a stack, which grows down.
fn top_of(stack: &mut [u8]) -> *mut c_void {
    let end = stack.as_mut_ptr_range().end;
    end.map_addr(|address| address & !15).cast()
}

/// Waits for a child, whatever signal it leaves with, and returns its wait status.
fn wait_for(pid: i32) -> c_int {
    let mut status = 0;
    // SAFETY: `status` is a valid place for one int for the whole call.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } < 0
        && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    {}
    status
}

/// Notes the current errno for the parent and ends the child.
///
/// # Safety
///
/// Only in a child that shares its parent's memory.
unsafe fn fail(errno: &mut c_int) -> c_int {
    // SAFETY: errno's place is the parent thread's, which waits.
    unsafe {
        *errno = *libc::__errno_location();
        libc::_exit(127)
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
        for number in 1..=KERNEL_SIGNALS {
            let nothing = ptr::null_mut::<c_void>();
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                &raw const default,
                nothing,
                SIGSET_BYTES,
            );
        }
        block_no_signals();
    }
}

/// # Safety
///
/// Only in a child: the mask is this thread's own.
unsafe fn block_no_signals() {
    // SAFETY: the set is initialized by the first call.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Makes the kernel choose this process rather than its keeper when memory runs out. An ordinary
/// user may raise the value and not lower it, so the task is raised instead of the shim lowered.
///
/// # Safety
///
/// Only in a child that shares its parent's memory.
unsafe fn prefer_for_oom() {
    // SAFETY: constant strings; the descriptor is closed again. A failure only loses a preference.
    unsafe {
        let fd = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::write(fd, c"300".as_ptr().cast(), 3);
            libc::close(fd);
        }
    }
}

/// Moves this process to a control group. It stays where it is when that is refused.
///
/// # Safety
///
/// Only in a child that shares its parent's memory.
unsafe fn enter(group: RawFd) {
    // SAFETY: constant strings; the descriptor is closed again.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CLOEXEC;
        let fd = libc::openat(group, c"cgroup.procs".as_ptr(), flags);
        if fd >= 0 {
            libc::write(fd, c"0".as_ptr().cast(), 1);
            libc::close(fd);
        }
    }
}

/// # Safety
///
/// Only in a child that shares its parent's memory.
unsafe fn place_stdio(stdio: [RawFd; 3]) -> bool {
    // SAFETY: only system calls. The sources are above 2, so no copy overwrites a later source.
    unsafe { (0..).zip(stdio).all(|(number, fd)| libc::dup2(fd, number) >= 0) }
}
