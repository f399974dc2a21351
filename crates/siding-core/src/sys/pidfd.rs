//! References to processes: a pidfd denotes the same process even if the process ID is reused.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use siding_model::outcome::LeaderEnd;
use siding_model::process::ProcRef;
use siding_model::signal::Signal;

use super::procfs;

/// A pidfd (pidfd_open(2)): it refers to one process, and never to a later process with the same
/// process ID.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
    /// The process ID and the start time.
    pub process: ProcRef,
}

impl AsFd for PidFd {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl PidFd {
    /// Opens exactly this process: opens the process ID first and then checks the start time. In
    /// the other order, the number could be reused between the two steps.
    ///
    /// # Errors
    ///
    /// `ESRCH` if the process no longer exists, even if another process has its number now.
    /// `EACCES` if a process with this number lives, but `/proc` does not show its start time.
    /// Otherwise the I/O error of the system call.
    pub fn open(process: ProcRef) -> io::Result<Self> {
        let fd = open_number(process.pid)?;
        match procfs::stat(process.pid) {
            Some(stat) if stat.start_ticks == process.start_ticks => Ok(Self { fd, process }),
            None if !super::poll::is_readable(fd.as_fd()) => {
                Err(io::Error::from_raw_os_error(libc::EACCES))
            }
            Some(_) | None => Err(not_found()),
        }
    }

    /// Opens this process, or returns `None` if it has ended.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, which says nothing about whether the process lives.
    pub fn open_if_alive(process: ProcRef) -> io::Result<Option<Self>> {
        Ok(Self::open_if_present(process)?.filter(|held| !held.is_dead()))
    }

    /// Opens this process, or returns `None` if it was reaped. The process may be a zombie, whose
    /// exit status can still be read.
    ///
    /// # Errors
    ///
    /// See [`Self::open_if_alive`].
    pub fn open_if_present(process: ProcRef) -> io::Result<Option<Self>> {
        match Self::open(process) {
            Ok(held) => Ok(Some(held)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the process that has this number now.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is no such process, even if a thread has the number; `EACCES` if the
    /// process lives and cannot be identified; otherwise the I/O error of the system call.
    pub fn open_pid(pid: i32) -> io::Result<Self> {
        let fd = open_number(pid)?;
        // The number is looked up after the pidfd was opened. If the process died in between,
        // `process` may describe another process, but `is_dead` returns true.
        match procfs::identify(pid) {
            Some(process) => Ok(Self { fd, process }),
            // The process lives, but `/proc` could not be read, for example because no descriptor
            // is left.
            None if !super::poll::is_readable(fd.as_fd()) => {
                Err(io::Error::from_raw_os_error(libc::EACCES))
            }
            None => Err(not_found()),
        }
    }

    /// Opens the process that has this number now, or returns `None` if there is none.
    ///
    /// # Errors
    ///
    /// See [`Self::open_if_alive`].
    pub fn open_pid_if_present(pid: i32) -> io::Result<Option<Self>> {
        match Self::open_pid(pid) {
            Ok(held) => Ok(Some(held)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Wraps a pidfd that another process has opened for `process` and handed over.
    #[must_use]
    pub const fn from_fd(fd: OwnedFd, process: ProcRef) -> Self {
        Self { fd, process }
    }

    /// Sends a signal (pidfd_send_signal(2)).
    ///
    /// # Errors
    ///
    /// `ESRCH` if the process no longer exists, `EPERM` if it belongs to another user.
    pub fn send_signal(&self, signal: Signal) -> io::Result<()> {
        super::signals::pidfd_send(self.fd.as_fd(), signal)
    }

    /// Returns whether the process has ended. State `Z` in `/proc` is no proof, because a process
    /// is in this state as soon as its main thread has exited, even if other threads run.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        super::poll::is_readable(self.fd.as_fd())
    }

    /// Returns the end of the process: its exit code or signal; `None` while it runs. The process
    /// need not be a child of this one.
    ///
    /// Reads `/proc/PID/stat` of a zombie; for a process that was reaped, requests the status from
    /// the kernel with `PIDFD_GET_INFO` (Linux 6.15 and later). Also returns `None` if neither
    /// source has the status.
    #[must_use]
    pub fn exit_status(&self) -> Option<LeaderEnd> {
        // To an ordinary user the kernel shows the status of another user's zombie as 0, whatever
        // it was.
        let own = super::process::effective_uid();
        let visible = own == 0 || procfs::uid(self.process.pid) == Some(own);
        let zombie = procfs::stat(self.process.pid)
            .filter(|_| visible)
            .filter(|stat| stat.start_ticks == self.process.start_ticks && stat.state == 'Z')
            .and_then(|stat| stat.exit_code);
        zombie.or_else(|| self.reaped_status()).and_then(super::process::parse_wait_status)
    }

    fn reaped_status(&self) -> Option<i32> {
        let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
        // SAFETY: the request number encodes the size of `PidfdInfo`, and the kernel writes at
        // most that many bytes to it.
        let result = unsafe {
            libc::ioctl(self.fd.as_raw_fd(), PIDFD_GET_INFO, std::ptr::from_mut(&mut info))
        };
        (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
    }
}

fn not_found() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// Opens the process that has this number now. Fails with `ESRCH` if there is no such process.
fn open_number(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or_else(not_found)?;
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        // A thread that is not the main thread of a process has the number now. Linux 6.1 also
        // fails like this for a reaped process whose group or session has another member (Linux
        // 6.18 returns `ESRCH`).
        Err(Errno::NOENT | Errno::INVAL) => Err(not_found()),
        opened => Ok(opened?),
    }
}

/// Checks whether the kernel supports pidfds and signals through them.
///
/// # Errors
///
/// `ENOSYS` before Linux 5.3, or the error of a sandbox.
pub fn probe() -> io::Result<()> {
    let fd = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    // Signal 0 is not delivered: the kernel only checks whether a signal could be sent (kill(2)).
    // SAFETY: the call takes an open descriptor, the signal, a null pointer (with which the call
    // does the same as kill(2)) and no flags.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), 0, 0, 0) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether this kernel reports the exit status of a process that is not a child of the
/// caller.
#[must_use]
pub fn reports_exit_of_non_children() -> bool {
    let Some(own) = procfs::self_ref() else { return false };
    let Ok(held) = PidFd::open(own) else { return false };
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request number encodes the size of `PidfdInfo`, and the kernel writes at most
    // that many bytes to `info`.
    let result =
        unsafe { libc::ioctl(held.fd.as_raw_fd(), PIDFD_GET_INFO, std::ptr::from_mut(&mut info)) };
    // Success alone proves nothing: Linux 6.13 and 6.14 accept the request without knowing the exit
    // field, which appeared in 6.15.
    result == 0 && kernel_at_least(6, 15)
}

fn kernel_at_least(major: u32, minor: u32) -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(a)), Some(Ok(b))) => (a, b) >= (major, minor),
        _ => false,
    }
}

/// `struct pidfd_info` of linux/pidfd.h, version 0 (64 bytes).
#[repr(C)]
#[derive(Debug, Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    ids: [u32; 8],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT` of linux/pidfd.h.
const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `PIDFD_GET_INFO` of linux/pidfd.h.
const PIDFD_GET_INFO: libc::Ioctl = libc::_IOWR::<PidfdInfo>(0xff, 11);
const _: () = assert!(size_of::<PidfdInfo>() == 64);

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;

    use super::*;

    fn is_not_found(process: ProcRef) -> bool {
        matches!(PidFd::open_if_alive(process), Ok(None))
    }

    #[test]
    fn a_reaped_process_is_gone_although_its_group_is_not_empty() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<&0; (read -r _ <&3) & echo $!"]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut leader = command.spawn().expect("a shell is installed");
        let end_of_member = leader.stdin.take();
        let mut line = String::new();
        let out = leader.stdout.take().expect("is piped");
        BufReader::new(out).read_line(&mut line).expect("text");
        let member = PidFd::open_pid(line.trim().parse().expect("a number")).expect("it lives");
        let process = procfs::identify(i32::try_from(leader.id()).expect("fits"));
        let process = process.expect("it was not reaped");
        let _already_ended = leader.wait().expect("an own child");
        assert!(!member.is_dead() && is_not_found(process));
        drop(end_of_member);
        let _best_effort =
            super::super::poll::wait_readable(&[member.as_fd()], Some(20_000)).expect("can wait");
        assert!(member.is_dead());
    }

    #[test]
    fn a_thread_id_is_not_opened_as_a_process() {
        let own = procfs::self_ref().expect("this process");
        let (sender, receiver) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("is received");
            let _peer_gone = ended.recv();
        });
        let thread_number = receiver.recv().expect("is sent");
        assert!(is_not_found(ProcRef { pid: thread_number, ..own }) && !is_not_found(own));
        assert!(matches!(PidFd::open_pid_if_present(thread_number), Ok(None)));
        assert!(matches!(PidFd::open_pid_if_present(own.pid), Ok(Some(_))));
        drop(end);
        thread.join().expect("ends");
    }
}
