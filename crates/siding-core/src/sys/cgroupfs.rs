//! The file system of control groups, version 2 (`cgroup2`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::{file, system_info};

/// `CGROUP2_SUPER_MAGIC` of linux/magic.h.
const CGROUP2_MAGIC: u64 = 0x6367_7270;
/// Maximum size of a list of members, in bytes. The line of a process has at most eight bytes.
const MAX_LIST_BYTES: usize = 64 << 20;
/// Maximum number of bytes read from a file with numbers. The longest, `memory.stat`, has about 60
/// lines of 30 bytes.
const MAX_SMALL_FILE_BYTES: usize = 16 << 10;

/// Returns whether a path is on the file system `cgroup2`.
#[must_use]
pub fn is_cgroup2(path: &Path) -> bool {
    system_info::file_system_magic_at(path).is_ok_and(|magic| magic == CGROUP2_MAGIC)
}

/// Opens the directory of a group.
///
/// # Errors
///
/// The I/O error of the system call; `Unsupported` for a directory of another file system.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let group = file::open_directory(path)?;
    if system_info::file_system_magic(&group)? != CGROUP2_MAGIC {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(group)
}

/// Returns the process IDs of a group's own members, without those of the groups below it. The
/// kernel does not list zombies, but lists a process whose main thread has exited while other
/// threads run.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn processes(group: impl AsFd) -> io::Result<Vec<i32>> {
    let list = file::open_at(group, "cgroup.procs", file::OpenMode::Read)?;
    let list = file::read_to_end(list.as_fd(), MAX_LIST_BYTES)?;
    let numbers = list.split(|&byte| byte == b'\n').filter_map(|line| {
        let number: i32 = std::str::from_utf8(line).ok()?.parse().ok()?;
        // A process of another PID namespace is listed with the number 0.
        (number > 0).then_some(number)
    });
    Ok(numbers.collect())
}

/// Returns whether any process lives in a group or below it.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn is_populated(group: impl AsFd) -> io::Result<bool> {
    const MAX_EVENTS_BYTES: usize = 4096;
    let events = file::open_at(group, "cgroup.events", file::OpenMode::Read)?;
    let events = file::read_to_end(events.as_fd(), MAX_EVENTS_BYTES)?;
    Ok(events.split(|&byte| byte == b'\n').any(|line| line == b"populated 1"))
}

/// Moves this process into a group.
///
/// # Errors
///
/// The I/O error of the system call: `EACCES` if this process may write to `group` but not to the
/// nearest common ancestor of `group` and the group that it would leave (cgroups(7)).
pub fn enter(group: impl AsFd) -> io::Result<()> {
    write_file(group, "cgroup.procs", b"0")
}

/// Sends SIGKILL to all members of a group and of the groups below it (Linux 5.14 and later),
/// including new forks and processes of other users. A process whose main thread has exited
/// survives, because the kernel sends the signal to that thread.
///
/// # Errors
///
/// The I/O error of the system call, `ENOENT` if the kernel has no `cgroup.kill`.
pub fn kill(group: impl AsFd) -> io::Result<()> {
    write_file(group, "cgroup.kill", b"1")
}

/// Returns the number in a group's file that contains only one number.
///
/// # Errors
///
/// The I/O error of the system call, `ENOENT` if the group lacks the controller; `InvalidData` if
/// the file contains something else, such as `max`.
pub fn read_number(group: impl AsFd, name: &str) -> io::Result<u64> {
    parse_number(read_small_file(group, name)?.trim_ascii())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the number after a key in a group's file, or `None` if no line has this key and a
/// number.
///
/// # Errors
///
/// The I/O error of the system call, `ENOENT` if the group lacks the controller.
pub fn read_keyed_number(group: impl AsFd, name: &str, key: &str) -> io::Result<Option<u64>> {
    let value = |line: &[u8]| parse_number(line.strip_prefix(key.as_bytes())?.strip_prefix(b" ")?);
    Ok(read_small_file(group, name)?.split(|&byte| byte == b'\n').find_map(value))
}

/// Reads a small file with one read(2), so that no number changes while it is read.
fn read_small_file(group: impl AsFd, name: &str) -> io::Result<Vec<u8>> {
    let file = file::open_at(group, name, file::OpenMode::Read)?;
    let mut text = vec![0; MAX_SMALL_FILE_BYTES];
    let count = file::read_at(file.as_fd(), &mut text, 0)?;
    text.truncate(count);
    Ok(text)
}

fn parse_number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Writes `bytes` to a file of a group in one write(2), which the kernel parses as one command.
///
/// # Errors
///
/// The I/O error of the system call, `ENOENT` if the group lacks the controller.
pub fn write_file(group: impl AsFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = file::open_at(group, name, file::OpenMode::Write)?;
    file::write(&file, bytes).map(drop)
}

/// Returns whether systemd, or another manager of the machine's groups, has delegated a group: the
/// extended attribute `user.delegate` or `trusted.delegate` is `1`.
#[must_use]
pub fn is_marked_delegated(path: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].into_iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(path, name, &mut value).is_ok_and(|len| value[..len] == *b"1")
    })
}
