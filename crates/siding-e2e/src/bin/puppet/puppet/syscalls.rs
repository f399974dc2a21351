//! System calls that have no safe wrapper elsewhere, each as a safe function. A puppet has one
//! thread, so it may call any function after a fork and may change its environment. The one
//! exception is the verb `leader-exits`, which briefly has two threads; the first of them only
//! exits.

use std::ffi::CString;
use std::io;
use std::ptr;

/// The process in which a fork has returned; `Parent` holds the child's pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForkSide {
    Child,
    Parent(i32),
}

fn check_result(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn fork_side(pid: libc::c_long) -> ForkSide {
    if pid == 0 { ForkSide::Child } else { ForkSide::Parent(pid as i32) }
}

/// Creates a child that is a copy of this process.
pub(super) fn fork() -> io::Result<ForkSide> {
    // SAFETY: the process has one thread, so the child may continue like the parent.
    check_result(unsafe { libc::fork() }.into()).map(fork_side)
}

/// Creates a child, and returns in the parent only when the child has ended or called exec; until
/// then the parent is in state D. Unlike with vfork(2), the child has its own memory.
pub(super) fn fork_and_block() -> io::Result<ForkSide> {
    let flags = libc::c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and without a new stack, this is a plain fork with regard to memory;
    // the process has one thread.
    check_result(unsafe { libc::syscall(libc::SYS_clone, flags, 0_u64, 0_u64, 0_u64, 0_u64) })
        .map(fork_side)
}

/// Ends the process immediately, without any cleanup.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: _exit takes a number, never returns, and runs no code of this program.
    unsafe { libc::_exit(code) }
}

/// Ends only the calling thread, as pthread_exit(3) does, but without unwinding.
pub(super) fn exit_thread() -> ! {
    loop {
        // SAFETY: the thread never returns to Rust, so it runs no destructor, and nothing joins it.
        // The kernel keeps its stack mapped, so references of other threads to it stay valid.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Executes this program again with the current environment; returns only if execv(3) fails.
pub(super) fn exec_self(words: &[String]) -> io::Error {
    let words: Vec<CString> =
        words.iter().filter_map(|word| CString::new(word.as_bytes()).ok()).collect();
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(ptr::null());
    // SAFETY: path and words end with NUL, the list ends with a null pointer, and all of them
    // outlive the call.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Returns the time of CLOCK_MONOTONIC in milliseconds, which is the same in all processes and does
/// not advance during a suspend.
pub(super) fn monotonic_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Sets a timer that sends SIGKILL to this process at a time of the monotonic clock. SIGKILL also
/// ends a stopped process, and only exec cancels the timer.
pub(super) fn set_kill_timer(monotonic_ms: u64) -> io::Result<()> {
    // SAFETY: all fields of these structures are numbers and pointers, for which zero is valid.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGKILL;
    let mut timer = ptr::null_mut();
    // SAFETY: both pointers point to live values of the required types.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
    check_result(made.into())?;
    // SAFETY: all fields of the structure are numbers, for which zero is valid.
    let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
    when.it_value.tv_sec = (monotonic_ms / 1000) as libc::time_t;
    when.it_value.tv_nsec = (monotonic_ms % 1000 * 1_000_000) as libc::c_long;
    // SAFETY: the timer was just created, `when` is alive, and no old value is requested.
    let set = unsafe { libc::timer_settime(timer, libc::TIMER_ABSTIME, &when, ptr::null_mut()) };
    check_result(set.into()).map(drop)
}

/// Sets the disposition of a signal to its default action or to ignore.
pub(super) fn set_disposition(signal: i32, ignore: bool) -> io::Result<()> {
    let action = if ignore { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: SIG_IGN and SIG_DFL install no handler, so no code of this program runs on a signal.
    if unsafe { libc::signal(signal, action) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Unblocks a signal and sends it to this process.
pub(super) fn signal_self(signal: i32) {
    // SAFETY: sigemptyset initializes the set before it is read; kill with this process's pid
    // reaches no other process.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
}

/// Returns whether a pid is in use, zombies included.
pub(super) fn is_pid_in_use(pid: i32) -> bool {
    // SAFETY: signal 0 only checks for existence (kill(2)).
    let answer = unsafe { libc::kill(pid, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Closes every descriptor of the process, including the standard streams.
pub(super) fn close_all_fds() -> io::Result<()> {
    // SAFETY: puppet keeps no descriptor in a Rust value across steps, so none is closed twice or
    // used after this.
    check_result(unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) }).map(drop)
}

/// Clears the environment, for this program and for readers of `/proc/PID/environ`.
pub(super) fn wipe_environment() {
    // SAFETY: there is one thread, and no reference into the environment exists.
    unsafe { libc::clearenv() };
    let _best_effort = overwrite_area(50, &[]);
}

/// Sets the command line that `/proc/PID/cmdline` shows to `text`.
pub(super) fn overwrite_command_line(text: &str) {
    let _best_effort = overwrite_area(48, text.as_bytes());
}

/// Overwrites a part of the initial stack with `text` and zeros. The fields `first` and `first + 1`
/// of `/proc/self/stat` are its bounds: 48 for the arguments, 50 for the environment
/// (proc_pid_stat(5)).
fn overwrite_area(first: usize, text: &[u8]) -> Option<()> {
    let line = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let end = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
    let (from, to) = (end(first)?, end(first + 1)?);
    if from == 0 || to <= from {
        return None;
    }
    let area = ptr::with_exposed_provenance_mut::<u8>(from);
    let kept = text.len().min(to - from - 1);
    // SAFETY: the kernel put the strings there, on this process's own writable stack. The arguments
    // were copied before the first step, and the environment was cleared before this call, so
    // neither is read again.
    unsafe {
        ptr::write_bytes(area, 0, to - from);
        ptr::copy_nonoverlapping(text.as_ptr(), area, kept);
    }
    Some(())
}

/// Writes all bytes to a descriptor; returns false if a write fails.
pub(super) fn write_all(fd: i32, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: pointer and length describe the slice. A closed descriptor only gives EBADF.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match check_result(written as libc::c_long) {
            Ok(count) => bytes = &bytes[count as usize..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Another process that shares the open file description has set O_NONBLOCK; this
            // function must still write all bytes.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_writable(fd),
            Err(_) => return false,
        }
    }
    true
}

/// Writes all bytes like [`write_all`], but SIGPIPE does not kill this process. An announcement
/// must not change the behavior of a puppet. With SIGPIPE, a process that outlives the reader of
/// its stdout would be killed by its own announcement and not by the program under test.
pub(super) fn write_ignoring_sigpipe(fd: i32, bytes: &[u8]) {
    // SAFETY: both sets are initialized before they are read and outlive the calls; the signal mask
    // of the only thread is restored.
    unsafe {
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before);
        if !write_all(fd, bytes) {
            let no_wait = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&pipe, ptr::null_mut(), &no_wait);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
    }
}

fn wait_writable(fd: i32) {
    let mut asked = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is to one entry, which lives until the call returns.
    unsafe { libc::poll(&mut asked, 1, -1) };
}

/// Reads available bytes into the buffer and returns their number; 0 means end of file.
pub(super) fn read(fd: i32, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe the buffer.
    let count = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    check_result(count as libc::c_long).map(|count| count as usize)
}

/// Truncates the file behind a descriptor to zero bytes.
pub(super) fn truncate(fd: i32) -> io::Result<()> {
    // SAFETY: the call takes only numbers.
    check_result(unsafe { libc::ftruncate(fd, 0) }.into()).map(drop)
}

/// Seeks to the beginning of the file behind a descriptor.
pub(super) fn rewind(fd: i32) -> io::Result<()> {
    // SAFETY: the call takes only numbers.
    check_result(unsafe { libc::lseek(fd, 0, libc::SEEK_SET) } as libc::c_long).map(drop)
}

/// Maps zeroed memory that this process and all its descendants share, and never unmaps it.
pub(super) fn shared_words(count: usize) -> io::Result<&'static [std::sync::atomic::AtomicI32]> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), count * 4, rights, MapFlags::SHARED)? };
    // SAFETY: the mapping is page-aligned, zeroed, never unmapped, of this length, and used only
    // through atomics.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), count) })
}
