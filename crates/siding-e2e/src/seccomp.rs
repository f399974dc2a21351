//! Simulates kernels that lack system calls.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Makes these system calls fail with `ENOSYS` for the command and all its descendants, as on a
/// kernel that lacks them.
pub(crate) fn deny_syscalls(command: &mut Command, calls: &[libc::c_long]) {
    let filter = filter_program(calls);
    let install = move || {
        let program = libc::sock_fprog {
            len: u16::try_from(filter.len()).expect("a short list"),
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: the calls take numbers and a filter program, which lives until they return and
        // which the kernel only reads.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec the closure makes only two system calls, and allocates nothing,
    // because the filter was built before the fork.
    unsafe { command.pre_exec(install) };
}

/// Builds a filter that loads the number of the system call, returns `ENOSYS` if it is in `calls`,
/// and otherwise allows the call.
fn filter_program(calls: &[libc::c_long]) -> Vec<libc::sock_filter> {
    let step = |code: u32, jf, k| libc::sock_filter {
        code: u16::try_from(code).expect("a filter code fits a u16"),
        jt: 0,
        jf,
        k,
    };
    let answer = |value| step(libc::BPF_RET | libc::BPF_K, 0, value);
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for call in calls {
        let number = u32::try_from(*call).expect("a system call number fits a u32");
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number));
        program.push(answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}
