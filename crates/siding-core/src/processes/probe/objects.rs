//! Determines which descriptors a blocked thread waits for, and which objects they refer to.

use std::os::fd::AsFd;

use siding_model::evidence::{BlockedOn, FdObject};

use crate::store::task_files::{INPUT_FIFO, OUTPUT_FIFO, STDERR_FIFO};
use crate::sys::blocking_syscalls::ArgumentLayout;
use crate::sys::inspect_process::{self, FdTarget, TargetKind};

/// Maximum number of descriptors to inspect for one wait. A program that waits for a person's input
/// polls far fewer.
const MAX_WAIT_DESCRIPTORS: usize = 128;
/// `POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND`, which are the same bits in epoll (poll(2),
/// epoll_ctl(2)).
const READ_EVENTS: u32 = 0x1 | 0x2 | 0x40 | 0x80;
/// `POLLOUT | POLLWRNORM | POLLWRBAND`.
const WRITE_EVENTS: u32 = 0x4 | 0x100 | 0x200;
/// The device numbers of `/dev/tty` (tty(4)).
const DEV_TTY: (u32, u32) = (5, 0);
/// `F_SETLKW` and `F_OFD_SETLKW` (fcntl(2)): the commands that wait for a lock.
const BLOCKING_LOCK_COMMANDS: [u64; 2] = [7, 38];

/// The FIFOs that are a task's standard input, output and error, and its terminal. A process that
/// reads the input FIFO waits for input. Only the identity of the FIFO distinguishes this process
/// from one that waits in a pipeline, because both sleep in the same kernel function. Likewise,
/// only the identity distinguishes the task's terminal from other terminals that the task has
/// opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownFds {
    input: Option<FdTarget>,
    output: Option<FdTarget>,
    /// `None` if the task has no separate standard error.
    stderr: Option<FdTarget>,
    /// `None` if the task has no terminal, or if its terminal is unknown.
    terminal: Option<FdTarget>,
}

impl KnownFds {
    /// Reads the identities of the FIFOs in the directory that contains them, which
    /// [`TaskDir::endpoint_dir`](crate::store::TaskDir::endpoint_dir) returns.
    #[must_use]
    pub fn from_endpoint_dir(dir: impl AsFd) -> Self {
        Self {
            input: inspect_process::target_at(&dir, INPUT_FIFO),
            output: inspect_process::target_at(&dir, OUTPUT_FIFO),
            stderr: inspect_process::target_at(&dir, STDERR_FIFO),
            terminal: None,
        }
    }

    /// Adds the terminal of the task.
    #[must_use]
    pub const fn with_terminal(self, terminal: Option<FdTarget>) -> Self {
        Self { terminal, ..self }
    }

    /// Returns whether a device number of a controlling terminal, as in `/proc/PID/stat`
    /// (`tty_nr`), is that of the task's terminal.
    pub(super) fn is_task_terminal(&self, number: i32) -> bool {
        let numbers = inspect_process::terminal_numbers(number);
        self.terminal.is_some_and(|own| numbers == Some(own.device_numbers))
    }

    /// Returns the kind of object that a descriptor of a process refers to, [`FdObject::Other`] if
    /// the descriptor cannot be inspected.
    pub(super) fn classify(&self, pid: i32, fd: i32) -> FdObject {
        let Some(target) = inspect_process::fd_target(pid, fd) else { return FdObject::Other };
        let is = |known: Option<FdTarget>| {
            known.is_some_and(|given| (given.device, given.inode) == (target.device, target.inode))
        };
        match target.kind {
            TargetKind::Fifo if is(self.input) => FdObject::TaskStdin,
            TargetKind::Fifo if is(self.output) || is(self.stderr) => FdObject::OutputPipe,
            // An anonymous pipe is shown as `pipe:[INODE]`, a FIFO with its path (proc_pid_fd(5)).
            TargetKind::Fifo
                if inspect_process::fd_path(pid, fd)
                    .is_some_and(|name| name.starts_with("pipe:")) =>
            {
                FdObject::Pipe(target.inode)
            }
            TargetKind::Fifo => FdObject::Fifo,
            TargetKind::Socket if inspect_process::is_listening(pid, fd).unwrap_or(false) => {
                FdObject::Listener
            }
            TargetKind::Socket => FdObject::Socket,
            // A descriptor of `/dev/tty` refers to the controlling terminal, which the sample
            // compares itself.
            TargetKind::Device if target.is_terminal() => match self.terminal {
                Some(_) if !is(self.terminal) && target.device_numbers != DEV_TTY => {
                    FdObject::OtherTerminal
                }
                Some(_) | None => FdObject::Terminal,
            },
            TargetKind::Device => FdObject::Other,
            TargetKind::File => FdObject::File,
            TargetKind::AnonymousInode => {
                anonymous_object(&inspect_process::fd_path(pid, fd).unwrap_or_default())
            }
        }
    }
}

fn anonymous_object(name: &str) -> FdObject {
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

/// The descriptors and the timeout of a wait, decoded from the arguments of the system call.
#[derive(Debug, Default)]
pub(super) struct WaitSet {
    pub(super) objects: Vec<BlockedOn>,
    /// Whether no timeout was decoded from the arguments. The call may still have one that no
    /// argument of its layout describes, such as that of nanosleep(2).
    pub(super) is_endless: bool,
    /// Whether the call is `fcntl` with a command that waits for a file lock.
    pub(super) is_lock: bool,
}

/// Decodes the arguments of the system call in which a thread of a process sleeps.
pub(super) fn read_wait_set(
    known_fds: &KnownFds,
    pid: i32,
    shape: ArgumentLayout,
    arguments: &[u64; 6],
) -> WaitSet {
    let waited =
        |(fd, to_read)| BlockedOn { fd, object: known_fds.classify(pid, fd), for_reading: to_read };
    let of = |fds: Vec<(i32, bool)>, is_endless| WaitSet {
        objects: fds.into_iter().take(MAX_WAIT_DESCRIPTORS).map(waited).collect(),
        is_endless,
        is_lock: false,
    };
    // The argument is an `int`, which is in the lower half of its register.
    let int = |at: usize| i32::from_ne_bytes((arguments[at] as u32).to_ne_bytes());
    let limit = |by_pointer, at: usize| if by_pointer { arguments[at] == 0 } else { int(at) < 0 };
    match shape {
        ArgumentLayout::Plain | ArgumentLayout::Restart => of(Vec::new(), true),
        ArgumentLayout::Descriptor { at, to_read } => of(vec![(int(at), to_read)], true),
        ArgumentLayout::PollArray { by_pointer } => {
            of(read_pollfds(pid, arguments[0], arguments[1]), limit(by_pointer, 2))
        }
        ArgumentLayout::FdSets => {
            let mut fds = read_fd_set(pid, arguments[1], arguments[0], true);
            fds.extend(read_fd_set(pid, arguments[2], arguments[0], false));
            of(fds, arguments[4] == 0)
        }
        ArgumentLayout::Epoll { by_pointer } => {
            of(read_epoll_interests(pid, int(0)), limit(by_pointer, 3))
        }
        ArgumentLayout::Timeout(at) => of(Vec::new(), arguments[at] == 0),
        ArgumentLayout::Fcntl if BLOCKING_LOCK_COMMANDS.contains(&arguments[1]) => {
            WaitSet { is_lock: true, ..of(vec![(int(0), true)], true) }
        }
        ArgumentLayout::Fcntl => of(Vec::new(), true),
    }
}

/// Reads an array of `struct pollfd` (poll(2)) from a process's memory. Each entry has 8 bytes: a
/// descriptor, the requested events and the returned events.
fn read_pollfds(pid: i32, address: u64, count: u64) -> Vec<(i32, bool)> {
    let mut bytes = [0; MAX_WAIT_DESCRIPTORS * 8];
    let wanted =
        usize::try_from(count).unwrap_or(MAX_WAIT_DESCRIPTORS).min(MAX_WAIT_DESCRIPTORS) * 8;
    let read = inspect_process::read_memory(pid, address, &mut bytes[..wanted]).unwrap_or(0);
    let mut fds = Vec::new();
    for entry in bytes[..read].chunks_exact(8) {
        let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let events = u32::from(u16::from_ne_bytes([entry[4], entry[5]]));
        if fd >= 0 {
            push_interests(&mut fds, fd, events);
        }
    }
    fds
}

/// Reads an `fd_set` (select(2)) from a process's memory: one bit for each descriptor, in machine
/// words.
fn read_fd_set(pid: i32, address: u64, count: u64, to_read: bool) -> Vec<(i32, bool)> {
    const MAX_FD_SET_BITS: usize = 1024;
    let mut bytes = [0; MAX_FD_SET_BITS / 8];
    let bits = usize::try_from(count).unwrap_or(MAX_FD_SET_BITS).min(MAX_FD_SET_BITS);
    if address == 0 {
        return Vec::new();
    }
    let wanted = bits.div_ceil(64) * 8;
    let read = inspect_process::read_memory(pid, address, &mut bytes[..wanted]).unwrap_or(0);
    // All machines that siding runs on are little-endian, so bit n is in byte n / 8.
    let is_set =
        |bit: &usize| bytes[..read].get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0);
    let fds = (0..bits).filter(is_set).filter_map(|bit| i32::try_from(bit).ok());
    fds.map(|fd| (fd, to_read)).collect()
}

/// Reads the descriptors that are registered with an epoll descriptor (proc_pid_fdinfo(5)).
fn read_epoll_interests(pid: i32, epoll: i32) -> Vec<(i32, bool)> {
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
            push_interests(&mut fds, fd, events);
        }
        if fds.len() >= MAX_WAIT_DESCRIPTORS {
            break;
        }
    }
    fds
}

fn push_interests(fds: &mut Vec<(i32, bool)>, fd: i32, events: u32) {
    if events & READ_EVENTS != 0 {
        fds.push((fd, true));
    }
    if events & WRITE_EVENTS != 0 {
        fds.push((fd, false));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use siding_model::terminal::TerminalSize;

    use super::*;
    use crate::sys::pty::Pty;
    use crate::sys::{file, procfs};

    #[test]
    fn the_terminal_of_a_task_is_distinguished_from_others() {
        let [own, other] =
            [(); 2].map(|()| Pty::open(TerminalSize::DEFAULT).expect("a pseudoterminal"));
        let pid = procfs::self_ref().expect("this process").pid;
        let known = KnownFds::default().with_terminal(inspect_process::open_target(&own.slave));
        let classify =
            |known: KnownFds| [&own, &other].map(|pty| known.classify(pid, pty.slave.as_raw_fd()));
        assert_eq!(classify(known), [FdObject::Terminal, FdObject::OtherTerminal]);
        assert_eq!(classify(KnownFds::default()), [FdObject::Terminal; 2]);
        let numbers = |pty: &Pty| {
            let (major, minor) =
                inspect_process::open_target(&pty.slave).expect("it is open").device_numbers;
            i32::try_from((major << 8) | (minor & 0xff) | ((minor & 0xfff00) << 12)).expect("small")
        };
        assert!(known.is_task_terminal(numbers(&own)));
        assert!(!known.is_task_terminal(numbers(&other)) && !known.is_task_terminal(0));
        assert!(!KnownFds::default().is_task_terminal(0), "a process without a terminal");
    }

    #[test]
    fn the_fifos_of_a_task_are_distinguished_from_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let opened = std::fs::File::open(dir.path()).expect("it is there");
        let names = [INPUT_FIFO, OUTPUT_FIFO, STDERR_FIFO, "other.fifo"];
        for name in names {
            file::create_fifo(&opened, name).expect("created");
        }
        let known = KnownFds::from_endpoint_dir(&opened);
        let own = procfs::self_ref().expect("this process").pid;
        let classify = |name: &str| {
            let fifo = file::open_at(&opened, name, file::OpenMode::FifoReadWrite);
            known.classify(own, fifo.expect("opened").as_raw_fd())
        };
        assert_eq!(
            names.map(classify),
            [FdObject::TaskStdin, FdObject::OutputPipe, FdObject::OutputPipe, FdObject::Fifo]
        );
    }
}
