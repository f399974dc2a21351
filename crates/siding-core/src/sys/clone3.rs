//! clone3(2), for a child that starts in another control group.
//!
//! With `CLONE_INTO_CGROUP` the child is a member of the group before its first instruction. The C
//! library has no function for this call. The general function syscall(2) cannot be used either:
//! the child continues on another stack, which has no frame to return to. On an architecture that
//! this module does not know, the call fails with `ENOSYS`, and the child enters the group by
//! itself.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::vfork::VforkStack;

/// `CLONE_INTO_CGROUP` of linux/sched.h.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// The function that the child runs. The function must not return.
pub(super) type Child = extern "C" fn(*mut c_void) -> c_int;

/// `struct clone_args` of linux/sched.h, version 2 (88 bytes).
#[repr(C)]
#[derive(Debug, Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Runs `child` on `stack` in a new process that shares this process's memory and is created in the
/// control group `group`. Returns the process ID of the child once the child has called exec or has
/// exited.
///
/// # Safety
///
/// `child` may touch the memory behind `args`, and no other memory of this process. All signals
/// must be blocked.
pub(super) unsafe fn clone_into_cgroup(
    group: BorrowedFd<'_>,
    stack: &mut VforkStack,
    child: Child,
    args: *mut c_void,
) -> io::Result<i32> {
    let len = stack.len() & !15;
    let start = stack.as_mut_ptr();
    let how = CloneArgs {
        flags: CLONE_INTO_CGROUP | (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
        exit_signal: libc::SIGCHLD as u64,
        // The upper end must be aligned, because the stack grows down from there.
        stack: (start.map_addr(|address| (address + 15) & !15)).expose_provenance() as u64,
        stack_size: (len - 16) as u64,
        cgroup: group.as_raw_fd() as u64,
        ..CloneArgs::default()
    };
    // SAFETY: the kernel only reads `how`; CLONE_VFORK suspends this thread until the child no
    // longer uses `stack` or `args`; the caller is responsible for `child`.
    let result = unsafe { call(&how, child, args) };
    match i32::try_from(result) {
        Ok(pid) if pid > 0 => Ok(pid),
        Ok(negative) => Err(io::Error::from_raw_os_error(-negative)),
        Err(_) => Err(io::ErrorKind::Other.into()),
    }
}

/// Makes the system call. In the child, calls `child(args)` and never returns.
#[cfg(target_arch = "x86_64")]
unsafe fn call(how: &CloneArgs, child: Child, args: *mut c_void) -> isize {
    let result;
    // SAFETY: the parent's registers and stack are as the operands declare; the child starts on an
    // empty stack of its own, aligned as the calling convention requires, and ends inside `child`.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {args}",
            "call {child}",
            "ud2",
            "2:",
            args = in(reg) args,
            child = in(reg) child,
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") ptr::from_ref(how),
            in("rsi") size_of::<CloneArgs>(),
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

/// Makes the system call. In the child, calls `child(args)` and never returns.
#[cfg(target_arch = "aarch64")]
unsafe fn call(how: &CloneArgs, child: Child, args: *mut c_void) -> isize {
    let result;
    // SAFETY: the parent's registers and stack are as the operands declare; the child starts on an
    // empty stack of its own, aligned as the calling convention requires, and ends inside `child`.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {args}",
            "blr {child}",
            "brk #1",
            "2:",
            args = in(reg) args,
            child = in(reg) child,
            in("x8") libc::SYS_clone3,
            inlateout("x0") ptr::from_ref(how) => result,
            in("x1") size_of::<CloneArgs>(),
            out("x30") _,
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn call(_how: &CloneArgs, _child: Child, _args: *mut c_void) -> isize {
    -(libc::ENOSYS as isize)
}
