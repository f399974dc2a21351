//! A system call filter that refuses all access to a network except through TCP sockets. Landlock
//! checks the connections that these open.
//!
//! Landlock controls only `connect` and `bind` of TCP sockets. Other kinds of sockets, and the
//! calls that open a TCP connection without `connect`, are therefore refused here:
//!
//! | call | refused | reason |
//! |---|---|---|
//! | `socket` | all except `AF_UNIX`, `AF_NETLINK`, and TCP of `AF_INET` and `AF_INET6` | UDP and QUIC, raw and packet sockets, SCTP, MPTCP, vsock |
//! | `sendto`, `sendmsg`, `sendmmsg` | with `MSG_FASTOPEN` | they connect without `connect` |
//! | `setsockopt` | `TCP_ULP` | it can turn a TCP socket into one of another protocol |
//! | `io_uring_*` | all | a ring makes all of these calls without a system call that the filter sees |
//! | calls of another ABI (32 bit, x32) | all; the process is killed | their numbers mean other calls |

use std::mem::offset_of;

/// `MSG_FASTOPEN` (linux/socket.h): the flag of a send that also opens the connection.
const MSG_FASTOPEN: u32 = 0x2000_0000;
/// `TCP_ULP` (linux/tcp.h): the socket option that puts another protocol on top of TCP.
const TCP_ULP: u32 = 31;

/// The kernel's identifier of this architecture (linux/audit.h).
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const AUDIT_ARCH: Option<u32> = None;

/// System call numbers from this value on are those of x32, another ABI of the same kernel.
#[cfg(target_arch = "x86_64")]
const X32_SYSCALL_BIT: u32 = 0x4000_0000;

/// A filter that is ready to be installed.
#[derive(Debug)]
pub(super) struct SeccompFilter(Vec<libc::sock_filter>);

impl SeccompFilter {
    /// Creates the filter, or returns `None` for an architecture whose system call numbers this
    /// module does not know.
    pub(super) fn new() -> Option<Self> {
        let mut program = BpfProgram::default();
        program.load(offset_of!(libc::seccomp_data, arch));
        program.if_not_equal(AUDIT_ARCH?, &[RET_KILL]);
        program.load(offset_of!(libc::seccomp_data, nr));
        #[cfg(target_arch = "x86_64")]
        program.if_at_least(X32_SYSCALL_BIT, &[RET_KILL]);
        for call in
            [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]
        {
            program.if_equal(syscall_number(call), &[return_errno(libc::ENOSYS)]);
        }
        // The flags are in a different argument of each call.
        for (call, argument) in
            [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)]
        {
            let checks = [
                load_instruction(argument_offset(argument)),
                skip_next_unless_any_bit(MSG_FASTOPEN),
                return_errno(libc::EOPNOTSUPP),
                RET_ALLOW,
            ];
            program.if_equal(syscall_number(call), &checks);
        }
        let is_ulp = [
            load_instruction(argument_offset(1)),
            skip_if_not_equal(libc::IPPROTO_TCP.cast_unsigned(), 3),
            load_instruction(argument_offset(2)),
            skip_if_not_equal(TCP_ULP, 1),
            return_errno(libc::ENOPROTOOPT),
            RET_ALLOW,
        ];
        program.if_equal(syscall_number(libc::SYS_setsockopt), &is_ulp);
        program.if_equal(syscall_number(libc::SYS_socket), &socket_rules());
        program.0.push(RET_ALLOW);
        Some(Self(program.0))
    }

    /// Installs the filter. Returns the result of prctl(2): 0, or -1 with `errno` set.
    ///
    /// # Safety
    ///
    /// Must be called only in a child, because the filter cannot be removed.
    pub(super) unsafe fn install(&self) -> libc::c_int {
        let program = libc::sock_fprog {
            len: self.0.len() as libc::c_ushort,
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel only reads the program, which outlives the call. The caller runs in a
        // child, as this function requires, so only the child is filtered.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) }
    }
}

/// Returns the instructions that check a call of `socket`. The instructions refuse `IPPROTO_MPTCP`,
/// which Landlock does not treat as TCP.
fn socket_rules() -> [libc::sock_filter; 13] {
    let family = |family: i32| family.cast_unsigned();
    [
        load_instruction(argument_offset(0)),
        skip_if_equal(family(libc::AF_UNIX), 10),
        skip_if_equal(family(libc::AF_NETLINK), 9),
        skip_if_equal(family(libc::AF_INET), 1),
        skip_if_not_equal(family(libc::AF_INET6), 6),
        load_instruction(argument_offset(1)),
        // The type argument also contains flags (socket(2)).
        instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xf),
        skip_if_not_equal(libc::SOCK_STREAM.cast_unsigned(), 3),
        load_instruction(argument_offset(2)),
        skip_if_equal(0, 2),
        skip_if_equal(libc::IPPROTO_TCP.cast_unsigned(), 1),
        return_errno(libc::EACCES),
        RET_ALLOW,
    ]
}

const RET_KILL: libc::sock_filter =
    libc::sock_filter { code: BPF_RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_KILL_PROCESS };
const RET_ALLOW: libc::sock_filter =
    libc::sock_filter { code: BPF_RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
const BPF_RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// A program under construction. Each piece relies on the value that was loaded before it, so a
/// piece that loads another value must end with a return.
#[derive(Default)]
struct BpfProgram(Vec<libc::sock_filter>);

impl BpfProgram {
    fn load(&mut self, offset: usize) {
        self.0.push(load_instruction(offset));
    }

    /// Adds a piece that runs if the loaded value equals `value`.
    fn if_equal(&mut self, value: u32, piece: &[libc::sock_filter]) {
        self.0.push(skip_if_not_equal(value, piece.len()));
        self.0.extend(piece);
    }

    /// Adds a piece that runs if the loaded value differs from `value`.
    fn if_not_equal(&mut self, value: u32, piece: &[libc::sock_filter]) {
        self.0.push(skip_if_equal(value, piece.len()));
        self.0.extend(piece);
    }

    /// Adds a piece that runs if the loaded value is at least `value`.
    #[cfg(target_arch = "x86_64")]
    fn if_at_least(&mut self, value: u32, piece: &[libc::sock_filter]) {
        self.0.push(instruction(
            libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
            0,
            piece.len(),
            value,
        ));
        self.0.extend(piece);
    }
}

fn instruction(code: u32, jt: usize, jf: usize, k: u32) -> libc::sock_filter {
    // The casts lose nothing: all codes and all lengths of pieces in this file are below 256.
    libc::sock_filter { code: code as u16, jt: jt as u8, jf: jf as u8, k }
}

fn load_instruction(offset: usize) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset as u32)
}

/// Returns the offset of the lower half of an argument. All arguments that are checked are 32 bits
/// wide, and the kernel ignores their upper half.
fn argument_offset(index: usize) -> usize {
    let low = if cfg!(target_endian = "little") { 0 } else { 4 };
    offset_of!(libc::seccomp_data, args) + 8 * index + low
}

fn return_errno(errno: i32) -> libc::sock_filter {
    libc::sock_filter { k: libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(), ..RET_ALLOW }
}

/// Skips `steps` instructions if the loaded value equals `value`.
fn skip_if_equal(value: u32, steps: usize) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, steps, 0, value)
}

/// Skips `steps` instructions if the loaded value differs from `value`.
fn skip_if_not_equal(value: u32, steps: usize) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, steps, value)
}

/// Skips the next instruction unless one of these bits is set.
fn skip_next_unless_any_bit(bits: u32) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits)
}

fn syscall_number(call: libc::c_long) -> u32 {
    // The cast loses nothing: system call numbers are below 2³².
    call as u32
}
