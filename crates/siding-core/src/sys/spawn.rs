//! Starting processes without copying this one.
//!
//! `fork` from a large host costs milliseconds (measured: 11 ms at 512 MB), so everything starts
//! as `vfork` does it: the child borrows this process's memory and this thread waits until it has
//! called exec. The child functions below run on a stack of their own and only make system calls.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
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
    /// an interpreter line, as every shell runs it.
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
    pub fn new(argv: &[String], search: &str) -> Result<Self, ZeroByte> {
        let name = argv.first().map_or("", String::as_str);
        let candidates = if name.contains('/') {
            vec![c_string(name)?]
        } else {
            let place = |dir: &str| {
                c_string(&if dir.is_empty() {
                    format!("./{name}")
                } else {
                    format!("{dir}/{name}")
                })
            };
            search.split(':').map(place).collect::<Result<_, _>>()?
        };
        let words: Vec<CString> =
            argv.iter().map(|word| c_string(word)).collect::<Result<_, _>>()?;
        let script_argv = std::iter::once(c"/bin/sh".to_owned())
            .chain(std::iter::once(CString::default()))
            .chain(words.iter().skip(1).cloned())
            .collect();
        Ok(Self { candidates, argv: words, script_argv })
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
        // SAFETY: the arrays end with a null pointer and their strings live in the parent;
        // `environ` is not changed by anybody while the parent waits.
        let errno = unsafe {
            libc::execve(*candidate, args.argv.as_ptr(), environ.cast());
            let errno = *libc::__errno_location();
            if errno == libc::ENOEXEC {
                args.script_argv[1] = *candidate;
                libc::execve(c"/bin/sh".as_ptr(), args.script_argv.as_ptr(), environ.cast());
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

/// A process that is started beside this one and belongs to nobody here.
#[derive(Debug)]
pub struct Detached<'a> {
    /// Path of the program.
    pub program: &'a CStr,
    /// Its arguments, the first is its name.
    pub argv: &'a [CString],
    /// Its whole environment, as `NAME=value`.
    pub environment: &'a [CString],
    /// Its descriptors from 0 on; all others are closed.
    pub descriptors: &'a [BorrowedFd<'a>],
}

struct DetachedArgs {
    program: *const c_char,
    argv: Vec<*const c_char>,
    environment: Vec<*const c_char>,
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
    // Out of the way of the low numbers that the child fills.
    let least = c_int::try_from(start.descriptors.len()).unwrap_or(c_int::MAX);
    let copies = start
        .descriptors
        .iter()
        .map(|fd| super::descriptor::duplicate_from(fd, least))
        .collect::<io::Result<Vec<_>>>()?;
    let mut stack = vec![0_u8; STACK];
    let mut args = DetachedArgs {
        program: start.program.as_ptr(),
        argv: pointers(start.argv),
        environment: pointers(start.environment),
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
        libc::setsid();
        reset_signals();
        for (number, fd) in (0..).zip(&args.descriptors) {
            if libc::dup2(*fd, number) < 0 {
                return fail(&mut args.errno);
            }
        }
        let first = args.descriptors.len() as libc::c_uint;
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) != 0 {
            return fail(&mut args.errno);
        }
        libc::execve(args.program, args.argv.as_ptr(), args.environment.as_ptr());
        fail(&mut args.errno)
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
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
    // SAFETY: both sets are initialized by the calls.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = clone(&mut stack);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        result
    }
}

/// Returns the aligned upper end of a stack, which grows down.
fn top_of(stack: &mut [u8]) -> *mut c_void {
    let end = stack.as_mut_ptr_range().end;
    end.map_addr(|address| address & !15).cast()
}

/// Waits for a child that has no exit signal or failed to start.
fn wait_for(pid: i32) {
    // SAFETY: a null status is allowed.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL) } < 0
        && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    {}
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
