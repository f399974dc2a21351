//! Children that share this process's memory, as with vfork(2): nothing is copied, and this thread
//! waits until the child has called exec or has exited.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The size of a child's stack until its exec, in bytes. The child makes a few system calls and
/// does not nest function calls deeply.
const STACK_BYTES: usize = 32 << 10;

/// The memory of a child's stack.
pub(super) type VforkStack = [MaybeUninit<u8>];

/// Runs `child` in a new process that shares this one's memory. Returns the ID of the new process
/// once that process has called exec or has exited. All signals of this thread are blocked until
/// then: a handler in the child would run on the parent's memory.
pub(super) fn vfork_and_run(
    child: extern "C" fn(*mut c_void) -> c_int,
    args: *mut c_void,
    exit_signal: c_int,
) -> io::Result<i32> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | exit_signal;
    with_vfork_stack(|stack| {
        // SAFETY: `stack_top` is the end of `stack`, from which the child's stack grows down.
        // CLONE_VFORK suspends this thread until the child no longer uses `stack`, `args` or any
        // other memory of this process. No signal handler runs in the child, because all signals
        // are blocked.
        let pid = unsafe { libc::clone(child, stack_top(stack), flags, args) };
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
    })
}

/// Calls `clone` with a stack for the child, and blocks all signals until the call returns.
pub(super) fn with_vfork_stack(
    clone: impl FnOnce(&mut VforkStack) -> io::Result<i32>,
) -> io::Result<i32> {
    let mut stack = new_stack();
    let _keeps_alive = BlockedSignals::block_all();
    clone(&mut stack)
}

/// Blocks all signals of this thread until the value is dropped.
pub(super) struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    pub(super) fn block_all() -> Self {
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
        // SAFETY: the set was filled by the call that blocked the signals.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// Returns a stack for a child. The memory is not cleared, because that would touch all of its
/// pages.
pub(super) fn new_stack() -> Box<VforkStack> {
    Box::new_uninit_slice(STACK_BYTES)
}

/// Returns the aligned upper end of a stack, which grows down.
pub(super) fn stack_top(stack: &mut VforkStack) -> *mut c_void {
    let end = stack.as_mut_ptr_range().end;
    end.map_addr(|address| address & !15).cast()
}

/// Waits for a child, whatever its exit signal, and returns its wait status; 0 if this process has
/// no such child.
pub(super) fn wait_for_child(pid: i32) -> c_int {
    let mut status = 0;
    // SAFETY: `status` is valid storage for one int for the whole call.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } < 0
        && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    {}
    status
}

/// Stores the current errno for the parent and ends the child.
///
/// # Safety
///
/// Must be called only in a child that shares its parent's memory.
pub(super) unsafe fn exit_with_errno(errno: &mut c_int) -> c_int {
    // SAFETY: errno is in the memory of the parent's thread, which waits until this child has
    // called exec or _exit.
    unsafe {
        *errno = *libc::__errno_location();
        libc::_exit(127)
    }
}

/// # Safety
///
/// Must be called only in a child: every process has its own signal mask, so the parent's mask does
/// not change.
pub(super) unsafe fn unblock_all_signals() {
    // SAFETY: the set is initialized by the first call.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}
