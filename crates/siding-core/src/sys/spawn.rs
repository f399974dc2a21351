//! Starts the leader of a task without copying this process.
//!
//! fork(2) copies the page tables, which takes milliseconds in a large process (measured: 11 ms at
//! 512 MB), so the child shares this process's memory until the exec. Until then, the child makes
//! only system calls.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use siding_model::id::Birthmark;

use super::net_sandbox::{NetSandbox, SandboxError, SandboxFailure};
use super::vfork::{
    exit_with_errno, unblock_all_signals, vfork_and_run, wait_for_child, with_vfork_stack,
};

/// A program to execute, prepared for a child that must not allocate memory.
#[derive(Debug)]
pub struct Program {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    /// The arguments for a script without an interpreter line, which is run as every shell runs it:
    /// `/bin/sh`, the candidate (filled in for each attempt), and the words after the first. Empty
    /// if scripts without that line must not be run.
    script_argv: Vec<CString>,
}

/// The error for a text with a NUL byte, which no argument or variable of a program can contain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` contains a NUL byte, which no argument or variable can contain")]
pub struct NulByte {
    /// The text, in which each NUL byte is replaced by `\0`.
    pub text: String,
}

fn c_string(text: &str) -> Result<CString, NulByte> {
    CString::new(text).map_err(|_| NulByte { text: text.replace('\0', "\\0") })
}

impl Program {
    /// Prepares `argv`, whose first word is the program: a path if it contains a slash, otherwise a
    /// name that is searched for in the directories of `search`, a `PATH`.
    ///
    /// # Errors
    ///
    /// [`NulByte`] if a word contains a NUL byte.
    pub fn new(argv: &[String], search: &[u8]) -> Result<Self, NulByte> {
        let name = argv.first().map_or("", String::as_str);
        let nul_byte = |_| NulByte { text: name.replace('\0', "\\0") };
        // An empty name is not searched for, as in execvp(3), because it would denote the searched
        // directories themselves.
        let candidates = if name.is_empty() || name.contains('/') {
            vec![c_string(name)?]
        } else {
            let place = |dir: &[u8]| {
                let dir = if dir.is_empty() { b"." } else { dir };
                CString::new([dir, b"/", name.as_bytes()].concat()).map_err(nul_byte)
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

    /// Prepares the program at exactly this path. A script without an interpreter line is not run.
    ///
    /// # Errors
    ///
    /// [`NulByte`] if a word contains a NUL byte.
    pub fn at_path(path: &str, argv: &[String]) -> Result<Self, NulByte> {
        let argv = argv.iter().map(|word| c_string(word)).collect::<Result<_, _>>()?;
        Ok(Self { candidates: vec![c_string(path)?], argv, script_argv: Vec::new() })
    }
}

fn c_pointers(words: &[CString]) -> Vec<*const c_char> {
    words.iter().map(|word| word.as_ptr()).chain(std::iter::once(ptr::null())).collect()
}

/// The arguments for the start of a task's leader.
#[derive(Debug)]
pub struct Leader<'a> {
    /// The program, with its arguments.
    pub program: &'a Program,
    /// The whole environment, as `NAME=value`.
    pub environment: &'a [CString],
    /// The directory in which the program starts.
    pub cwd: BorrowedFd<'a>,
    /// The descriptors that become 0, 1 and 2. Their own numbers must be above 2.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Whether the standard input is a terminal that becomes the leader's controlling terminal.
    pub controls_terminal: bool,
    /// Descriptors that the leader inherits under their present numbers.
    pub inherited_fds: &'a [BorrowedFd<'a>],
    /// The birthmark, if one can be set.
    pub birthmark: Option<Birthmark>,
    /// The directory of the control group to start in, if there is one. A leader that cannot enter
    /// the group starts without it.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// The network confinement, if the policy requires one. A leader that cannot be confined does
    /// not start.
    pub net_sandbox: Option<&'a NetSandbox>,
}

/// The arguments of [`run_leader`] in the child, and the results that it stores for the parent.
struct LeaderArgs<'a> {
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    script_argv: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    cwd: RawFd,
    stdio: [RawFd; 3],
    controls_terminal: bool,
    inherited_fds: Vec<RawFd>,
    birthmark: Option<u64>,
    /// The control group that the leader enters by itself, if it was not created there.
    cgroup: Option<RawFd>,
    net_sandbox: Option<&'a NetSandbox>,
    sandbox_failure: Option<SandboxFailure>,
    /// Whether the child has run: the kernel may kill it before its first instruction.
    has_run: bool,
    /// Whether the child has prepared itself and called exec.
    has_called_exec: bool,
    errno: c_int,
}

impl LeaderArgs<'_> {
    /// Returns the reason why the child did not execute the program. `None` after a successful
    /// exec, and if the child was killed during the exec: its wait status then has the signal.
    fn failure(&self) -> Option<io::Error> {
        if let Some(failed) = self.sandbox_failure {
            return Some(io::Error::other(SandboxError::from(failed)));
        }
        if self.errno != 0 {
            return Some(io::Error::from_raw_os_error(self.errno));
        }
        (!self.has_called_exec).then(|| {
            io::Error::other("the new process was killed before it could execute the program")
        })
    }
}

/// Starts the leader of a task: in its own session (setsid(2)), with the birthmark, with default
/// signal actions, and with a raised OOM score. Returns the leader's process ID after a successful
/// exec.
///
/// # Errors
///
/// The I/O error of the system call that failed, usually execve(2); a [`SandboxError`] if the
/// leader could not be confined; an error without an errno if the leader was killed before the
/// exec.
pub fn spawn_leader(leader: &Leader<'_>) -> io::Result<i32> {
    let program = leader.program;
    let mut args = LeaderArgs {
        candidates: program.candidates.iter().map(|path| path.as_ptr()).collect(),
        argv: c_pointers(&program.argv),
        script_argv: c_pointers(&program.script_argv),
        environment: c_pointers(leader.environment),
        cwd: leader.cwd.as_raw_fd(),
        stdio: leader.stdio.map(|fd| fd.as_raw_fd()),
        controls_terminal: leader.controls_terminal,
        inherited_fds: leader.inherited_fds.iter().map(AsRawFd::as_raw_fd).collect(),
        birthmark: leader.birthmark.map(|mark| mark.0),
        cgroup: None,
        net_sandbox: leader.net_sandbox,
        sandbox_failure: None,
        has_run: false,
        has_called_exec: false,
        errno: 0,
    };
    let pid = match leader.cgroup.and_then(|group| clone_leader_into_cgroup(group, &mut args)) {
        Some(pid) => pid,
        None => {
            args.cgroup = leader.cgroup.map(|group| group.as_raw_fd());
            vfork_and_run(run_leader, (&raw mut args).cast(), libc::SIGCHLD)?
        }
    };
    match args.failure() {
        None => Ok(pid),
        Some(error) => {
            wait_for_child(pid);
            Err(error)
        }
    }
}

/// Starts the leader as a member of a control group. `None` if that fails: for example before Linux
/// 5.7, behind a system call filter, or if this process's own group was killed once. In the last
/// case the kernel treats the child as a process that the kill has missed, and kills it before it
/// runs (observed on Linux 6.18).
fn clone_leader_into_cgroup(group: BorrowedFd<'_>, args: &mut LeaderArgs<'_>) -> Option<i32> {
    let place: *mut LeaderArgs<'_> = args;
    let pid = with_vfork_stack(|stack| {
        // SAFETY: `run_leader` touches only the `LeaderArgs` behind `place` and what that refers
        // to, and `with_vfork_stack` has blocked all signals.
        unsafe { super::clone3::clone_into_cgroup(group, stack, run_leader, place.cast()) }
    });
    let pid = pid.ok()?;
    if args.has_run {
        return Some(pid);
    }
    wait_for_child(pid);
    None
}

/// Runs in the child, in memory that it shares with its parent.
extern "C" fn run_leader(args: *mut c_void) -> c_int {
    // SAFETY: `spawn_leader` passes a `LeaderArgs` that no other code touches until this child has
    // called exec or _exit. Only system calls follow; nothing allocates, locks or unwinds.
    unsafe {
        let args = &mut *args.cast::<LeaderArgs<'_>>();
        args.has_run = true;
        if let Some(group) = args.cgroup {
            enter_cgroup(group);
        }
        libc::setsid();
        // The shim itself was started with default actions (`super::daemonize`); only the signal
        // that Rust's runtime ignores has to be reset.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        unblock_all_signals();
        if let Some(mark) = args.birthmark {
            let limit = libc::rlimit { rlim_cur: mark, rlim_max: mark };
            libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit);
        }
        prefer_for_oom();
        if libc::fchdir(args.cwd) != 0
            || !set_up_stdio(args.stdio)
            // A session leader without a terminal takes the terminal of no other session
            // (ioctl_tty(2)), so the argument that would take it by force is 0.
            || (args.controls_terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) != 0)
        {
            return exit_with_errno(&mut args.errno);
        }
        if let Some(confinement) = args.net_sandbox
            && let Err(failed) = confinement.enter()
        {
            args.sandbox_failure = Some(failed);
            libc::_exit(127);
        }
        for fd in &args.inherited_fds {
            libc::fcntl(*fd, libc::F_SETFD, 0);
        }
        args.has_called_exec = true;
        args.errno = execute(args);
        libc::_exit(127)
    }
}

/// Tries each candidate as execvp(3) does, and returns the most informative errno.
///
/// # Safety
///
/// Must be called only in a child that shares its parent's memory. All pointers in `args` must be
/// valid.
unsafe fn execute(args: &mut LeaderArgs<'_>) -> c_int {
    let mut best = libc::ENOENT;
    let is_searched = args.candidates.len() > 1;
    for candidate in &args.candidates {
        // SAFETY: the arrays end with a null pointer, and their strings live in the parent, which
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
            // This candidate is not executable, but a later directory may contain an executable
            // one.
            libc::EACCES => best = errno,
            _ => return errno,
        }
    }
    best
}

/// Makes the kernel kill this process rather than its shim when memory runs out. An ordinary user
/// may raise the value but not lower it (proc_pid_oom_score_adj(5)), so this function raises the
/// task's value instead of lowering the shim's.
///
/// # Safety
///
/// Must be called only in a child that shares its parent's memory.
unsafe fn prefer_for_oom() {
    // SAFETY: the strings are constants, and the descriptor is closed again. A failure only loses a
    // preference.
    unsafe {
        let fd = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::write(fd, c"300".as_ptr().cast(), 3);
            libc::close(fd);
        }
    }
}

/// Moves this process into a control group. If the kernel refuses, the process stays in its present
/// group.
///
/// # Safety
///
/// Must be called only in a child that shares its parent's memory.
unsafe fn enter_cgroup(group: RawFd) {
    // SAFETY: the strings are constants, and `write` reads one byte of the second. The descriptor is
    // closed again.
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
/// Must be called only in a child that shares its parent's memory.
unsafe fn set_up_stdio(stdio: [RawFd; 3]) -> bool {
    // SAFETY: this process is a child, as this function requires, so only the child's descriptors
    // change. The sources are above 2, so no duplicate overwrites a later source.
    unsafe { (0..).zip(stdio).all(|(number, fd)| libc::dup2(fd, number) >= 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_was_killed_before_its_exec_is_a_failed_start() {
        let mut args = LeaderArgs {
            candidates: Vec::new(),
            argv: Vec::new(),
            script_argv: Vec::new(),
            environment: Vec::new(),
            cwd: -1,
            stdio: [-1; 3],
            controls_terminal: false,
            inherited_fds: Vec::new(),
            birthmark: None,
            cgroup: None,
            net_sandbox: None,
            sandbox_failure: None,
            has_run: false,
            has_called_exec: false,
            errno: 0,
        };
        assert!(args.failure().expect("a failure").to_string().contains("killed before"));
        args.has_run = true;
        assert!(args.failure().is_some(), "it was killed while it prepared itself");
        args.has_called_exec = true;
        assert!(args.failure().is_none());
        args.errno = libc::ENOENT;
        assert_eq!(args.failure().and_then(|error| error.raw_os_error()), Some(libc::ENOENT));
    }
}
