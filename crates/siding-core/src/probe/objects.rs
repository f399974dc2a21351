//! What descriptors refer to.

use std::os::fd::AsFd;

use siding_model::evidence::{BlockedOn, FdObject};

use crate::output;
use crate::sys::calls::Shape;
use crate::sys::foreign::{self, Kind, Target};

/// Descriptors of one wait that are looked at. More than a person could wait for.
const MOST: usize = 128;
/// `POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND`, and the same of epoll (poll(2), epoll_ctl(2)).
const TO_READ: u32 = 0x1 | 0x2 | 0x40 | 0x80;
/// `POLLOUT | POLLWRNORM | POLLWRBAND`.
const TO_WRITE: u32 = 0x4 | 0x100 | 0x200;
/// `F_SETLKW` and `F_OFD_SETLKW` (fcntl(2)): the commands that wait for a lock.
const LOCKING: [u64; 2] = [7, 38];

/// The objects that siding gave a task: who waits for exactly these waits for input. That, and no
/// name of a kernel function, tells a prompt from a pipeline.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    input: Option<Target>,
    capture: Option<Target>,
}

impl Given {
    /// Looks at the task's directory.
    #[must_use]
    pub fn of(dir: impl AsFd) -> Self {
        Self {
            input: foreign::below(&dir, output::INPUT_FIFO),
            capture: foreign::below(&dir, output::FIFO),
        }
    }

    /// Returns what a descriptor of a process is.
    pub(super) fn object(&self, pid: i32, fd: i32) -> FdObject {
        let Some(target) = foreign::descriptor(pid, fd) else { return FdObject::Other };
        let is = |given: Option<Target>| {
            given.is_some_and(|given| (given.device, given.inode) == (target.device, target.inode))
        };
        match target.kind {
            Kind::Fifo if is(self.input) => FdObject::TaskStdin,
            Kind::Fifo if is(self.capture) => FdObject::OutputPipe,
            // A pipe has no name, and so no name of its own in the file system.
            Kind::Fifo if foreign::name(pid, fd).is_some_and(|name| name.starts_with("pipe:")) => {
                FdObject::Pipe(target.inode)
            }
            Kind::Fifo => FdObject::Fifo,
            Kind::Socket if foreign::listens(pid, fd).unwrap_or(false) => FdObject::Listener,
            Kind::Socket => FdObject::Socket,
            Kind::Device if is_terminal(target) => FdObject::Terminal,
            Kind::Device => FdObject::Other,
            Kind::File => FdObject::File,
            Kind::Nameless => nameless(&foreign::name(pid, fd).unwrap_or_default()),
        }
    }
}

/// Virtual consoles and serial lines (4), `/dev/tty` and `/dev/console` (5), the ends of pseudo
/// terminals that programs sit at (136 to 143); not the other end, `/dev/ptmx` (5:2)
/// (Documentation/admin-guide/devices.txt).
const fn is_terminal(target: Target) -> bool {
    matches!(target.special, (4, _) | (5, 0 | 1) | (136..=143, _))
}

fn nameless(name: &str) -> FdObject {
    if name.contains("notify") {
        FdObject::FileWatch
    } else if name.contains("timerfd") {
        FdObject::Timer
    } else if ["eventfd", "signalfd", "pidfd", "eventpoll"].iter().any(|kind| name.contains(kind)) {
        FdObject::WakeupFd
    } else {
        FdObject::Other
    }
}

/// What a system call's arguments say.
#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) on: Vec<BlockedOn>,
    pub(super) is_endless: bool,
    /// Whether the call takes a lock: not every `fcntl` does.
    pub(super) is_lock: bool,
}

/// Returns what a thread of a process waits for.
pub(super) fn set(given: &Given, pid: i32, shape: Shape, arguments: &[u64; 6]) -> Set {
    let waited =
        |(fd, to_read)| BlockedOn { fd, object: given.object(pid, fd), for_reading: to_read };
    let of = |fds: Vec<(i32, bool)>, is_endless| Set {
        on: fds.into_iter().take(MOST).map(waited).collect(),
        is_endless,
        is_lock: false,
    };
    // An `int` is the lower half of its register.
    let int = |at: usize| i32::from_ne_bytes((arguments[at] as u32).to_ne_bytes());
    let limit = |by_pointer, at: usize| if by_pointer { arguments[at] == 0 } else { int(at) < 0 };
    match shape {
        Shape::Plain | Shape::Restart => of(Vec::new(), true),
        Shape::Descriptor { at, to_read } => of(vec![(int(at), to_read)], true),
        Shape::PollArray { by_pointer } => {
            of(polled(pid, arguments[0], arguments[1]), limit(by_pointer, 2))
        }
        Shape::Sets => {
            let mut fds = selected(pid, arguments[1], arguments[0], true);
            fds.extend(selected(pid, arguments[2], arguments[0], false));
            of(fds, arguments[4] == 0)
        }
        Shape::Epoll { by_pointer } => of(registered(pid, int(0)), limit(by_pointer, 3)),
        Shape::Timeout(at) => of(Vec::new(), arguments[at] == 0),
        Shape::Fcntl if LOCKING.contains(&arguments[1]) => {
            Set { is_lock: true, ..of(vec![(int(0), true)], true) }
        }
        Shape::Fcntl => of(Vec::new(), true),
    }
}

/// Reads an array of `struct pollfd` (poll(2)): a descriptor, then two halves of events.
fn polled(pid: i32, address: u64, count: u64) -> Vec<(i32, bool)> {
    let mut bytes = [0; MOST * 8];
    let wanted = usize::try_from(count).unwrap_or(MOST).min(MOST) * 8;
    let read = foreign::read_memory(pid, address, &mut bytes[..wanted]).unwrap_or(0);
    let mut fds = Vec::new();
    for entry in bytes[..read].chunks_exact(8) {
        let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let events = u32::from(u16::from_ne_bytes([entry[4], entry[5]]));
        if fd >= 0 {
            interests(&mut fds, fd, events);
        }
    }
    fds
}

/// Reads an `fd_set`: one bit a descriptor, in words of the machine (select(2)).
fn selected(pid: i32, address: u64, count: u64, to_read: bool) -> Vec<(i32, bool)> {
    const MOST_BITS: usize = 1024;
    let mut bytes = [0; MOST_BITS / 8];
    let bits = usize::try_from(count).unwrap_or(MOST_BITS).min(MOST_BITS);
    if address == 0 {
        return Vec::new();
    }
    let wanted = bits.div_ceil(64) * 8;
    let read = foreign::read_memory(pid, address, &mut bytes[..wanted]).unwrap_or(0);
    // Little endian, as are all machines that siding runs on: bit n is in byte n / 8.
    let is_set =
        |bit: &usize| bytes[..read].get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0);
    let fds = (0..bits).filter(is_set).filter_map(|bit| i32::try_from(bit).ok());
    fds.map(|fd| (fd, to_read)).collect()
}

/// Reads what is registered with an epoll descriptor (proc_pid_fdinfo(5)).
fn registered(pid: i32, epoll: i32) -> Vec<(i32, bool)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{epoll}")).unwrap_or_default();
    let mut fds = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("tfd:") {
            continue;
        }
        let fd = words.next().and_then(|word| word.parse().ok());
        let events = words.nth(1).and_then(|word| u32::from_str_radix(word, 16).ok());
        if let (Some(fd), Some(events)) = (fd, events) {
            interests(&mut fds, fd, events);
        }
        if fds.len() >= MOST {
            break;
        }
    }
    fds
}

fn interests(fds: &mut Vec<(i32, bool)>, fd: i32, events: u32) {
    if events & TO_READ != 0 {
        fds.push((fd, true));
    }
    if events & TO_WRITE != 0 {
        fds.push((fd, false));
    }
}
