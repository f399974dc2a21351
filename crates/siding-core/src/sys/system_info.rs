//! Facts about this machine, its file systems and its limits.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use siding_model::process::UnixMs;

/// Returns the time at which a file or directory was last modified, by the wall clock of its file
/// system.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn changed_at(fd: impl AsFd) -> io::Result<UnixMs> {
    let stat = rustix::fs::fstat(fd)?;
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Ok(UnixMs(stat.st_mtime.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)))
}

/// Returns the magic number of the file system that holds an open file (statfs(2)).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn file_system_magic(fd: impl AsFd) -> io::Result<u64> {
    Ok(magic_of(&rustix::fs::fstatfs(fd)?))
}

/// Returns the magic number of the file system that holds the file at a path.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn file_system_magic_at(path: &Path) -> io::Result<u64> {
    Ok(magic_of(&rustix::fs::statfs(path)?))
}

fn magic_of(stat: &rustix::fs::StatFs) -> u64 {
    // A magic number has 32 bits (statfs(2)). The field is wider on some architectures, and may be
    // sign-extended.
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a bit pattern")]
    u64::from(stat.f_type as u32)
}

/// Returns the hostname of this machine (uname(2)); invalid UTF-8 is replaced.
#[must_use]
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns a name that distinguishes this machine from others that share a file system with it: its
/// hostname and, if there is one, the id of its installation (machine-id(5)). The id alone is not
/// enough, because machines that were copied from one image have the same id.
#[must_use]
pub fn system_id() -> String {
    let host = hostname();
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match id.trim() {
        "" => host,
        id => format!("{host} {id}"),
    }
}

/// Returns the memory that is available without swapping, in bytes: `MemAvailable` of
/// proc_meminfo(5). Unlike `MemFree`, this value includes the cache that the kernel would drop.
/// `None` if the file cannot be read.
#[must_use]
pub fn available_memory() -> Option<u64> {
    parse_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Returns the memory of the machine, in bytes: `MemTotal` of proc_meminfo(5). `None` if the file
/// cannot be read.
#[must_use]
pub fn total_memory() -> Option<u64> {
    parse_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn parse_meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// A resource limit; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The limit that the kernel enforces.
    pub soft: Option<u64>,
    /// The value up to which the soft limit may be raised.
    pub hard: Option<u64>,
}

fn resource_limit(resource: Resource) -> ResourceLimit {
    let limit = getrlimit(resource);
    ResourceLimit { soft: limit.current, hard: limit.maximum }
}

/// Returns this process's limit on open descriptors.
#[must_use]
pub fn open_files_limit() -> ResourceLimit {
    resource_limit(Resource::Nofile)
}

/// Returns the limit on the number of this user's processes.
#[must_use]
pub fn process_limit() -> ResourceLimit {
    resource_limit(Resource::Nproc)
}

/// Returns the number of clock ticks per second in `/proc`.
#[must_use]
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// The size of the buffer for `/proc/vmstat`, in bytes. The file has about 200 lines of 25 bytes,
/// and one read returns all of it.
const VMSTAT_BYTES: usize = 32 << 10;

/// Returns the number of processes that the OOM killer has killed since boot, including those that
/// exceeded only the limit of their control group. `None` if the kernel does not report it. Takes
/// about 20 µs.
#[must_use]
pub fn oom_kills() -> Option<u64> {
    // The buffer is unmapped after the read, because an allocator would keep its pages in every
    // idle shim.
    let mut buffer = super::memory::MappedBuffer::new(VMSTAT_BYTES).ok()?;
    let count = std::fs::File::open("/proc/vmstat").ok()?.read(&mut buffer).ok()?;
    let text = std::str::from_utf8(&buffer[..count]).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    number.trim().parse().ok()
}

/// Returns whether this process may write to a file or directory.
#[must_use]
pub fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Returns whether this process may execute a file.
#[must_use]
pub fn may_execute(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

/// Returns the number of bytes that this user may still store on the file system of a file.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn free_bytes(fd: impl AsFd) -> io::Result<u64> {
    let stat = rustix::fs::fstatvfs(fd)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
