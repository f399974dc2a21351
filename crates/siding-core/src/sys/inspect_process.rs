//! Inspects other processes: their memory, their descriptors, their sockets and their terminals.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, CWD, FileType, Stat};
use rustix::net::SocketAddrAny;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

/// Reads the memory of a process (process_vm_readv(2)). Returns the number of bytes read, which may
/// be smaller than requested.
///
/// # Errors
///
/// `EPERM` if this process may not inspect the other, `EFAULT` if the address is not mapped there.
pub fn read_memory(pid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let base = usize::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
    let remote =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(base), iov_len: into.len() };
    // SAFETY: `local` describes `into`, which is borrowed for the call; `remote` is an address of
    // the other process, which the kernel checks.
    let count =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The identity of the object that a descriptor refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdTarget {
    /// The kind of the object.
    pub kind: TargetKind,
    /// The device number of the file system that contains the inode.
    pub device: u64,
    /// The inode number, unique on that file system.
    pub inode: u64,
    /// The major and minor number, if the object is a device.
    pub device_numbers: (u32, u32),
}

impl FdTarget {
    /// Returns whether the object is a terminal: a virtual console or serial line (4), `/dev/tty` or
    /// `/dev/console` (5), or the slave side of a pseudoterminal (136 to 143), but not its master
    /// side, `/dev/ptmx` (5:2) (Documentation/admin-guide/devices.txt).
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self.kind, TargetKind::Device)
            && matches!(self.device_numbers, (4, _) | (5, 0 | 1) | (136..=143, _))
    }
}

/// The kinds of objects that a descriptor can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// A FIFO or a pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Device,
    /// A regular file, a directory or a block device.
    File,
    /// An object of the kernel without a file, such as an eventfd.
    AnonymousInode,
}

/// Returns the object that a path below a directory refers to, following links.
fn resolve_target(dir: impl AsFd, path: &str) -> Option<FdTarget> {
    rustix::fs::statat(dir, path, AtFlags::empty()).ok().map(target_from_stat)
}

fn target_from_stat(facts: Stat) -> FdTarget {
    let kind = match FileType::from_raw_mode(facts.st_mode) {
        FileType::Fifo => TargetKind::Fifo,
        FileType::Socket => TargetKind::Socket,
        FileType::CharacterDevice => TargetKind::Device,
        FileType::RegularFile | FileType::Directory | FileType::BlockDevice => TargetKind::File,
        FileType::Symlink | FileType::Unknown => TargetKind::AnonymousInode,
    };
    let special = (rustix::fs::major(facts.st_rdev), rustix::fs::minor(facts.st_rdev));
    FdTarget { kind, device: facts.st_dev, inode: facts.st_ino, device_numbers: special }
}

/// Returns the object that an open descriptor of this process refers to; `None` if fstat(2) fails.
#[must_use]
pub fn open_target(fd: impl AsFd) -> Option<FdTarget> {
    rustix::fs::fstat(fd).ok().map(target_from_stat)
}

/// Returns the object that a descriptor of a process refers to; `None` if there is no such
/// descriptor, or if this process may not inspect the other.
#[must_use]
pub fn fd_target(pid: i32, fd: i32) -> Option<FdTarget> {
    resolve_target(CWD, &format!("/proc/{pid}/fd/{fd}"))
}

/// Returns the object that a name below a directory refers to; `None` if stat(2) fails.
#[must_use]
pub fn target_at(dir: impl AsFd, name: &str) -> Option<FdTarget> {
    resolve_target(dir, name)
}

/// Returns the name of the object that a descriptor refers to: a path, or a text such as
/// `pipe:[123]`. `None` as for [`fd_target`].
#[must_use]
pub fn fd_path(pid: i32, fd: i32) -> Option<String> {
    let target = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    Some(target.to_string_lossy().into_owned())
}

/// Returns the descriptors of a process; the flags of each tell whether it is open for reading, and
/// whether it is open for writing. Returns none if this process may not inspect the other.
#[must_use]
pub fn open_fds(pid: i32) -> Vec<(i32, bool, bool)> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let fd = entry.file_name().to_str()?.parse().ok()?;
            // The permissions of the link show how the file is open (proc_pid_fd(5)).
            let mode = entry.metadata().ok()?.mode();
            Some((fd, mode & 0o400 != 0, mode & 0o200 != 0))
        })
        .collect()
}

/// The addresses of a socket, and whether it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketInfo {
    /// Whether the socket listens for connections.
    pub is_listening: bool,
    /// The local address as text; `None` for a Unix socket without a name, and for a socket that
    /// is neither an IP nor a Unix socket.
    pub local: Option<String>,
    /// The address of the peer as text; `None` if there is no peer, or if it has no name.
    pub remote: Option<String>,
}

/// Duplicates the descriptor of a socket from another process into this one (pidfd_getfd(2)). The
/// socket does not change.
///
/// # Errors
///
/// `EPERM` if this process may not inspect the other, `EBADF` if there is no such descriptor,
/// `ENOSYS` before Linux 5.6.
fn borrow_socket(pid: i32, fd: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok(rustix::process::pidfd_getfd(process, fd, PidfdGetfdFlags::empty())?)
}

/// Returns whether a socket of a process listens for connections.
///
/// # Errors
///
/// See [`socket_info`].
pub fn is_listening(pid: i32, fd: i32) -> io::Result<bool> {
    Ok(rustix::net::sockopt::socket_acceptconn(borrow_socket(pid, fd)?)?)
}

/// Returns the addresses of a socket of a process, and whether it listens.
///
/// # Errors
///
/// `EPERM` if this process may not inspect the other, `EBADF` if there is no such descriptor,
/// `ENOSYS` before Linux 5.6.
pub fn socket_info(pid: i32, fd: i32) -> io::Result<SocketInfo> {
    let socket = borrow_socket(pid, fd)?;
    Ok(SocketInfo {
        is_listening: rustix::net::sockopt::socket_acceptconn(&socket)?,
        local: rustix::net::getsockname(&socket).ok().and_then(format_address),
        remote: rustix::net::getpeername(&socket).ok().flatten().and_then(format_address),
    })
}

fn format_address(any: SocketAddrAny) -> Option<String> {
    if let Ok(address) = std::net::SocketAddr::try_from(any.clone()) {
        return Some(address.to_string());
    }
    let unix = rustix::net::SocketAddrUnix::try_from(any).ok()?;
    let path = unix.path().map(|path| path.to_string_lossy().into_owned());
    let name = unix.abstract_name().map(|name| format!("@{}", String::from_utf8_lossy(name)));
    path.or(name).filter(|name| !name.is_empty())
}

/// Returns the major and the minor number of a terminal from its device number in `/proc/PID/stat`
/// (`tty_nr`). `None` for a negative number.
#[must_use]
pub fn terminal_numbers(number: i32) -> Option<(u32, u32)> {
    let number = u32::try_from(number).ok()?;
    // Bits 31 to 20 and 7 to 0 are the minor number, 15 to 8 the major one (proc_pid_stat(5)).
    Some(((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00)))
}

/// Returns the path of a pseudoterminal from its device number in `/proc/PID/stat` (`tty_nr`).
/// `None` for any other terminal.
fn terminal_path(number: i32) -> Option<String> {
    let (major, minor) = terminal_numbers(number)?;
    // Pseudoterminals have majors 136 to 143 (Documentation/admin-guide/devices.txt).
    (136..=143).contains(&major).then(|| format!("/dev/pts/{}", (major - 136) * 256 + minor))
}

/// Returns whether the terminal with this device number echoes typed characters. `None` if it
/// is not a pseudoterminal or cannot be opened.
#[must_use]
pub fn terminal_echoes(terminal: i32) -> Option<bool> {
    use rustix::fs::{Mode, OFlags};
    let path = terminal_path(terminal)?;
    // The terminal must not become this process's controlling terminal, and opening it must not
    // block.
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let settings = rustix::termios::tcgetattr(opened).ok()?;
    Some(settings.local_modes.contains(rustix::termios::LocalModes::ECHO))
}
