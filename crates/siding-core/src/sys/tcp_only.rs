//! A filter of system calls that leaves a process no way to a network but a TCP connection whose
//! start the kernel is asked about.
//!
//! Landlock knows `connect` and `bind` of TCP sockets alone. So sockets of other kinds, and the ways
//! of TCP that go past `connect`, are refused here:
//!
//! | call | refused | why |
//! |---|---|---|
//! | `socket` | all but `AF_UNIX`, `AF_NETLINK`, and TCP of `AF_INET` and `AF_INET6` | UDP and QUIC, raw and packet sockets, SCTP, MPTCP, vsock |
//! | `sendto`, `sendmsg`, `sendmmsg` | with `MSG_FASTOPEN` | they connect by themselves |
//! | `setsockopt` | `TCP_ULP` | it can make another protocol of a TCP socket |
//! | `io_uring_*` | all | it does all of this without a system call to look at |
//! | of another machine (32 bit, x32) | all | its numbers mean other calls |

use std::mem::offset_of;

/// `MSG_FASTOPEN` and `TCP_ULP` of the kernel, `IPPROTO_MPTCP` is no TCP.
const MSG_FASTOPEN: u32 = 0x2000_0000;
const TCP_ULP: u32 = 31;

/// What the kernel calls this machine (linux/audit.h).
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const AUDIT_ARCH: Option<u32> = None;

/// Numbers from here on are those of x32, another way to call the same kernel.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// A filter that is ready to be installed.
#[derive(Debug)]
pub(super) struct Filter(Vec<libc::sock_filter>);

impl Filter {
    /// Makes it, `None` for a machine whose numbers are not known here.
    pub(super) fn new() -> Option<Self> {
        let mut program = Program::default();
        program.load(offset_of!(libc::seccomp_data, arch));
        program.unless(AUDIT_ARCH?, &[KILL]);
        program.load(offset_of!(libc::seccomp_data, nr));
        #[cfg(target_arch = "x86_64")]
        program.from(X32, &[KILL]);
        for call in
            [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]
        {
            program.when(number(call), &[answer(libc::ENOSYS)]);
        }
        // The flags of each are in another argument.
        for (call, argument) in
            [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)]
        {
            let looks =
                [load(arg(argument)), any_bit(MSG_FASTOPEN), answer(libc::EOPNOTSUPP), ALLOW];
            program.when(number(call), &looks);
        }
        let is_ulp = [
            load(arg(1)),
            skip_unless(libc::IPPROTO_TCP.cast_unsigned(), 3),
            load(arg(2)),
            skip_unless(TCP_ULP, 1),
            answer(libc::ENOPROTOOPT),
            ALLOW,
        ];
        program.when(number(libc::SYS_setsockopt), &is_ulp);
        program.when(number(libc::SYS_socket), &socket());
        program.0.push(ALLOW);
        Some(Self(program.0))
    }

    /// Installs it.
    ///
    /// # Safety
    ///
    /// Only in a child: it cannot be taken back.
    pub(super) unsafe fn install(&self) -> libc::c_int {
        let program = libc::sock_fprog {
            len: self.0.len() as libc::c_ushort,
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel only reads the program, which outlives the call.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) }
    }
}

/// What `socket` is answered.
fn socket() -> [libc::sock_filter; 13] {
    let family = |family: i32| family.cast_unsigned();
    [
        load(arg(0)),
        equal_skip(family(libc::AF_UNIX), 10),
        equal_skip(family(libc::AF_NETLINK), 9),
        equal_skip(family(libc::AF_INET), 1),
        skip_unless(family(libc::AF_INET6), 6),
        load(arg(1)),
        // Flags stand beside the type (socket(2)).
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xf),
        skip_unless(libc::SOCK_STREAM.cast_unsigned(), 3),
        load(arg(2)),
        equal_skip(0, 2),
        equal_skip(libc::IPPROTO_TCP.cast_unsigned(), 1),
        answer(libc::EACCES),
        ALLOW,
    ]
}

const KILL: libc::sock_filter =
    libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_KILL_PROCESS };
const ALLOW: libc::sock_filter =
    libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// A program as it grows. The number of the call stays loaded from one piece to the next: a piece
/// that loads something else ends with an answer.
#[derive(Default)]
struct Program(Vec<libc::sock_filter>);

impl Program {
    fn load(&mut self, offset: usize) {
        self.0.push(load(offset));
    }

    /// Does this when what is loaded is the value.
    fn when(&mut self, value: u32, piece: &[libc::sock_filter]) {
        self.0.push(skip_unless(value, piece.len()));
        self.0.extend(piece);
    }

    /// Does this when what is loaded is another value.
    fn unless(&mut self, value: u32, piece: &[libc::sock_filter]) {
        self.0.push(equal_skip(value, piece.len()));
        self.0.extend(piece);
    }

    /// Does this when what is loaded is the value or more.
    #[cfg(target_arch = "x86_64")]
    fn from(&mut self, value: u32, piece: &[libc::sock_filter]) {
        self.0.push(step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, piece.len(), value));
        self.0.extend(piece);
    }
}

fn step(code: u32, jt: usize, jf: usize, k: u32) -> libc::sock_filter {
    // Codes and the length of a piece are below 256 in this file.
    libc::sock_filter { code: code as u16, jt: jt as u8, jf: jf as u8, k }
}

fn load(offset: usize) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset as u32)
}

/// Where the lower half of an argument stands: all that are looked at are 32 bits wide, and the
/// kernel takes no more of them.
fn arg(index: usize) -> usize {
    let low = if cfg!(target_endian = "little") { 0 } else { 4 };
    offset_of!(libc::seccomp_data, args) + 8 * index + low
}

fn answer(errno: i32) -> libc::sock_filter {
    libc::sock_filter { k: libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(), ..ALLOW }
}

/// Goes past so many steps when what is loaded is the value.
fn equal_skip(value: u32, steps: usize) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, steps, 0, value)
}

/// Goes past so many steps when what is loaded is another value.
fn skip_unless(value: u32, steps: usize) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, steps, value)
}

/// Goes past the next step unless one of these bits is set.
fn any_bit(bits: u32) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits)
}

fn number(call: libc::c_long) -> u32 {
    // Numbers of calls are small.
    call as u32
}
