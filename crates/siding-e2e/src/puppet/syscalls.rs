//! The system calls that have no safe form elsewhere, each as a safe function.
//!
//! Sound because a puppet has one thread: what must hold after a fork or for a changed
//! environment holds. The one exception, `leader-exits`, has two for an instant, of which the
//! first does nothing but end.

use std::ffi::CString;
use std::io;
use std::ptr;

/// On which side of a fork the caller is.
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

/// Makes a child that is a copy of this process.
pub(super) fn fork() -> io::Result<ForkSide> {
    // SAFETY: the process has one thread, so the child may go on as the parent could.
    check_result(unsafe { libc::fork() }.into()).map(fork_side)
}

/// Makes a child, and returns in the parent only when that has ended or called exec; until then
/// the parent is in state D. Unlike vfork(2) the child has its own memory.
pub(super) fn fork_and_block() -> io::Result<ForkSide> {
    let flags = libc::c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no new stack, this is fork as far as memory goes; the
    // process has one thread.
    check_result(unsafe { libc::syscall(libc::SYS_clone, flags, 0_u64, 0_u64, 0_u64, 0_u64) })
        .map(fork_side)
}

/// Ends the process at once, without any cleaning up.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: _exit is always sound.
    unsafe { libc::_exit(code) }
}

/// Ends the calling thread alone, as pthread_exit does, but without unwinding.
pub(super) fn exit_thread() -> ! {
    loop {
        // SAFETY: the thread never returns to Rust, and nothing joins it.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Replaces the program by itself, with the present environment.
pub(super) fn exec_self(words: &[String]) -> io::Error {
    let words: Vec<CString> =
        words.iter().filter_map(|word| CString::new(word.as_bytes()).ok()).collect();
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(ptr::null());
    // SAFETY: path and words are ended by NUL, the list by a null pointer, and all of them
    // outlive the call.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Milliseconds of the clock that does not count suspend and is the same in all processes.
pub(super) fn monotonic_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Lets the kernel send SIGKILL to this process at that moment. Unlike an alarm it also ends a
/// stopped process, and nothing the process does to itself short of exec takes it back.
pub(super) fn set_kill_timer(monotonic_ms: u64) -> io::Result<()> {
    // SAFETY: all fields of these are numbers and pointers, for which zero is a value.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGKILL;
    let mut timer = ptr::null_mut();
    // SAFETY: both pointers lead to live values of the asked types.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
    check_result(made.into())?;
    // SAFETY: as above.
    let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
    when.it_value.tv_sec = (monotonic_ms / 1000) as libc::time_t;
    when.it_value.tv_nsec = (monotonic_ms % 1000 * 1_000_000) as libc::c_long;
    // SAFETY: the timer was just made, `when` is alive, and no old value is asked for.
    let set = unsafe { libc::timer_settime(timer, libc::TIMER_ABSTIME, &when, ptr::null_mut()) };
    check_result(set.into()).map(drop)
}

/// Sets a signal to its default action or to be ignored.
pub(super) fn set_disposition(signal: i32, ignore: bool) -> io::Result<()> {
    let action = if ignore { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither constant is code of ours that could run at a bad moment.
    if unsafe { libc::signal(signal, action) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Unblocks a signal and sends it to this very process.
pub(super) fn signal_self(signal: i32) {
    // SAFETY: the set is initialised by sigemptyset before it is read; kill with our own number
    // reaches nobody else.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
}

/// Whether a process number is in use, zombies included.
pub(super) fn is_pid_in_use(pid: i32) -> bool {
    // SAFETY: signal 0 is only a question.
    let answer = unsafe { libc::kill(pid, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Closes every descriptor.
pub(super) fn close_all_fds() -> io::Result<()> {
    // SAFETY: puppet holds no descriptor in a Rust value across steps, so none is closed twice
    // or used after this.
    check_result(unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) }).map(drop)
}

/// Empties the environment, for this program and for readers of `/proc/PID/environ`.
pub(super) fn wipe_environment() {
    // SAFETY: there is one thread, and no reference into the environment is kept anywhere.
    unsafe { libc::clearenv() };
    let _best_effort = overwrite_area(50, &[]);
}

/// Shows `text` as the command line in `/proc/PID/cmdline`.
pub(super) fn overwrite_command_line(text: &str) {
    let _best_effort = overwrite_area(48, text.as_bytes());
}

/// Overwrites the stretch of the first stack page whose two ends are in `/proc/self/stat` from
/// field `first` on: 48 for the arguments, 50 for the environment (proc_pid_stat(5)).
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
    // SAFETY: the kernel put the strings there, on our own writable stack. The arguments were
    // copied before the first step, the environment was cleared before this call, so nothing
    // reads them any more.
    unsafe {
        ptr::write_bytes(area, 0, to - from);
        ptr::copy_nonoverlapping(text.as_ptr(), area, kept);
    }
    Some(())
}

/// Writes all bytes to a descriptor, and gives up silently where that is impossible.
pub(super) fn write_all(fd: i32, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: pointer and length describe the slice. A closed number only gives EBADF.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match check_result(written as libc::c_long) {
            Ok(count) => bytes = &bytes[count as usize..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Whoever shares the stream has made it non-blocking; the bytes still have to go.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_writable(fd),
            Err(_) => return false,
        }
    }
    true
}

/// Writes all bytes like [`write_all`], but does not die of a pipe that nobody reads.
///
/// What a puppet announces must not change what it is: without this, a process that outlives the
/// reader of its stdout would be ended by its own announcement and not by who should end it.
pub(super) fn write_ignoring_sigpipe(fd: i32, bytes: &[u8]) {
    // SAFETY: both sets are initialised before they are read, and outlive the calls; the mask
    // of the one thread is put back as it was.
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
    // SAFETY: one entry, alive during the call.
    unsafe { libc::poll(&mut asked, 1, -1) };
}

/// Reads what is there, at most a buffer full; 0 is the end.
pub(super) fn read(fd: i32, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe the buffer.
    let count = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    check_result(count as libc::c_long).map(|count| count as usize)
}

/// Cuts the file behind a descriptor to nothing.
pub(super) fn truncate(fd: i32) -> io::Result<()> {
    // SAFETY: takes only numbers.
    check_result(unsafe { libc::ftruncate(fd, 0) }.into()).map(drop)
}

/// Seeks a descriptor to its beginning.
pub(super) fn rewind(fd: i32) -> io::Result<()> {
    // SAFETY: takes only numbers.
    check_result(unsafe { libc::lseek(fd, 0, libc::SEEK_SET) } as libc::c_long).map(drop)
}

/// Memory that this process and all its descendants share, all zero, kept for ever.
pub(super) fn shared_words(count: usize) -> io::Result<&'static [std::sync::atomic::AtomicI32]> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice aliases nothing.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), count * 4, rights, MapFlags::SHARED)? };
    // SAFETY: the mapping is page-aligned, zeroed, never unmapped, of this length, and only ever
    // used through atomics.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), count) })
}
