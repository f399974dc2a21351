//! The directory of a task's FIFOs, socket and lock.
//!
//! On a local file system, the task's own directory contains them. Network file systems often lack
//! FIFOs, sockets and reliable locks. On such a file system, each task has a second directory below
//! a local base directory of the user, and the file [`RECORD_FILE`] in the task's own directory
//! names this second directory. For a new task, the record is written before the runtime directory
//! is created, and it is removed after that directory, so that recovery finds a directory that a
//! crash has left behind (`docs/format.md`).

mod base;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::process::BootId;

use crate::store::task_files::{
    FETCH_LOCK_FILE, INPUT_FIFO, INPUT_POSITION_FILE, OLD_SPLICE_MARKER_FILE, OUTPUT_FIFO,
    SOCKET_NAME, SPLICE_MARKER_FILE, STDERR_FIFO, TERMINAL_SOCKET,
};
use crate::sys::{file, procfs, system_info};

pub(crate) use base::base_candidates;
pub use base::{RuntimeBase, RuntimeDirError, network_file_system_name};

/// The file in a task's directory that names the directory of the task's FIFOs and socket.
pub const RECORD_FILE: &str = "runtime_dir";
/// Name of the record in tasks of earlier versions. A record with this name keeps the name, so that
/// the earlier versions find it.
const OLD_RECORD_FILE: &str = "place";
/// Files that are needed only while a shim supervises the task.
const TRANSIENT_FILES: [&str; 9] = [
    SOCKET_NAME,
    FETCH_LOCK_FILE,
    OUTPUT_FIFO,
    STDERR_FIFO,
    INPUT_FIFO,
    INPUT_POSITION_FILE,
    TERMINAL_SOCKET,
    SPLICE_MARKER_FILE,
    OLD_SPLICE_MARKER_FILE,
];

/// The format of the record that this build writes, which is also the newest that it can read.
const RECORD_FORMAT: u32 = 1;
/// A newer version of siding wrote the record. This build cannot determine the task's runtime
/// directory, and must not create another one.
#[derive(Debug, thiserror::Error)]
#[error(
    "its record `{RECORD_FILE}` has format {format}, but this build reads only formats up to {RECORD_FORMAT}; upgrade siding"
)]
struct NewerRecordError {
    format: u32,
}

/// The part of a record that all formats have.
#[derive(Debug, Deserialize)]
struct RecordFormat {
    format: u32,
}

/// Maximum size of a record, in bytes: twice `PATH_MAX`, the limit on the length of a path.
const MAX_RECORD_BYTES: usize = 8 << 10;

/// The content of [`RECORD_FILE`]: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RuntimeDirRecord {
    format: u32,
    /// The absolute path of the directory. The last component of the path is the task's id.
    directory: String,
    /// The machine on which the directory is; `boot` is the boot id of that machine when the record
    /// was written.
    machine: String,
    boot: BootId,
    /// Whether the record is in [`OLD_RECORD_FILE`].
    #[serde(skip)]
    has_old_name: bool,
}

impl RuntimeDirRecord {
    const fn file_name(&self) -> &'static str {
        if self.has_old_name { OLD_RECORD_FILE } else { RECORD_FILE }
    }
}

/// The runtime directory of one task, outside the state directory.
#[derive(Debug)]
pub(crate) struct TaskRuntimeDir {
    base: RuntimeBase,
    record: Option<RuntimeDirRecord>,
    /// The open runtime directory. `None` if the task has no such directory, if it could not be
    /// opened, for example because it was removed, or if it is on another machine.
    dir: Option<OwnedFd>,
    /// The machine that supervises the task; `None` for this machine.
    other_machine: Option<String>,
}

impl TaskRuntimeDir {
    /// Chooses a directory for a new task, records it in the task's directory, and creates it.
    pub(crate) fn create(
        runtime: &RuntimeBase,
        dir: impl AsFd,
        id: TaskId,
    ) -> Result<Self, RuntimeDirError> {
        let (base, fd) = runtime.open_first_usable()?;
        let path = base.join(id.to_string());
        let io = |source| RuntimeDirError::Io { path: path.clone(), source };
        let record = write_record(dir, &path, false).map_err(io)?;
        file::create_directory(&fd, id.to_string()).map_err(io)?;
        let open_dir = file::open_at(&fd, id.to_string(), file::OpenMode::Directory).map_err(io)?;
        Ok(Self {
            base: runtime.clone(),
            record: Some(record),
            dir: Some(open_dir),
            other_machine: None,
        })
    }

    /// Finds the runtime directory of an existing task.
    pub(crate) fn find(runtime: &RuntimeBase, dir: impl AsFd, id: TaskId) -> io::Result<Self> {
        let record = read_record(dir)?;
        let elsewhere = match &record {
            Some(record) => record.other_machine()?,
            None => None,
        };
        let open_dir = record.as_ref().filter(|_| elsewhere.is_none()).and_then(|record| {
            let base = base::open_base(record.base_dir()?, false).ok()?;
            file::open_at(base, id.to_string(), file::OpenMode::Directory).ok()
        });
        Ok(Self { base: runtime.clone(), record, dir: open_dir, other_machine: elsewhere })
    }

    /// Wraps a directory that another process opened.
    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        let runtime = RuntimeBase::default();
        Self { base: runtime, record: None, dir: Some(fd), other_machine: None }
    }

    /// Returns the open runtime directory; `None` if it could not be opened on this machine.
    pub(crate) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.dir.as_ref().map(AsFd::as_fd)
    }

    /// Returns the directory of the FIFOs and the socket if it is reachable. For a task without a
    /// record, returns `dir`, the task's own directory.
    pub(crate) fn endpoint_dir<'d>(&'d self, dir: BorrowedFd<'d>) -> Option<BorrowedFd<'d>> {
        self.dir().or_else(|| self.record.is_none().then_some(dir))
    }

    /// Returns the machine that supervises the task, or `None` if it is this machine.
    pub(crate) fn other_machine(&self) -> Option<&str> {
        self.other_machine.as_deref()
    }

    /// Acquires the lock of the runtime directory without waiting; returns false if another process
    /// holds the lock, or if another machine supervises the task. Creates a missing directory
    /// first: after a logout or the end of the task it no longer exists, but repairing or removing
    /// the task requires the lock.
    pub(crate) fn try_lock(&mut self, dir: impl AsFd, id: TaskId) -> io::Result<bool> {
        if self.other_machine.is_some() {
            return Ok(false);
        }
        if let Some(held) = &self.dir
            && self.is_current(held)
        {
            if !file::try_lock_exclusive(held)? {
                return Ok(false);
            }
            // Another process may have removed the directory between the check and the lock.
            if self.is_current(held) {
                return Ok(true);
            }
        }
        self.recreate_and_lock(dir, id)
    }

    fn is_current(&self, held: &OwnedFd) -> bool {
        self.record.as_ref().is_none_or(|record| is_same_dir(held, &record.directory))
    }

    fn recreate_and_lock(&mut self, dir: impl AsFd, id: TaskId) -> io::Result<bool> {
        let recorded =
            self.record.as_ref().and_then(RuntimeDirRecord::base_dir).map(Path::to_owned);
        let known = recorded.and_then(|base| Some((base::open_base(&base, true).ok()?, base)));
        let (base, fd) = match known {
            Some((fd, base)) => (base, fd),
            None => self.base.open_first_usable().map_err(io::Error::other)?,
        };
        let path = base.join(id.to_string());
        loop {
            match file::create_directory(&fd, id.to_string()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result?,
            }
            let open_dir = match file::open_at(&fd, id.to_string(), file::OpenMode::Directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                result => result?,
            };
            if !file::try_lock_exclusive(&open_dir)? {
                return Ok(false);
            }
            if is_same_dir(&open_dir, &path) {
                self.dir = Some(open_dir);
                break;
            }
        }
        if self.record.as_ref().is_none_or(|record| Path::new(&record.directory) != path) {
            let has_old_name = self.record.as_ref().is_some_and(|record| record.has_old_name);
            remove_record(&dir);
            self.record = Some(write_record(dir, &path, has_old_name)?);
        }
        Ok(true)
    }

    /// Removes the task's runtime directory if it is empty, and the record that names it.
    fn remove(&self, dir: impl AsFd) {
        // A record that cannot be read is kept, because its directory cannot be removed.
        let Ok(record) = read_record(&dir) else { return };
        if let Some(directory) = record.map(|record| record.directory) {
            // rmdir(2) removes only an empty directory, so files that the task created there are
            // kept.
            let _already_removed = std::fs::remove_dir(directory);
        }
        remove_record(dir);
    }
}

/// Removes the files that are needed only while a shim supervises the task, such as the FIFOs and
/// the socket, and then the runtime directory if it is empty, and its record.
pub(crate) fn remove_transient(dir: BorrowedFd<'_>, away: Option<&TaskRuntimeDir>) {
    let there = away.map_or(Some(dir), |away| away.endpoint_dir(dir));
    if let Some(there) = there {
        for name in TRANSIENT_FILES {
            let _already_removed = file::remove(there, name);
        }
    }
    if let Some(away) = away.filter(|away| away.other_machine.is_none()) {
        away.remove(dir);
    }
}

impl RuntimeDirRecord {
    /// Returns the directory that contains the runtime directories of all tasks.
    fn base_dir(&self) -> Option<&Path> {
        Path::new(&self.directory).parent()
    }

    /// Returns the recorded machine, or `None` if it is this machine. An equal boot id proves that
    /// the machine is the same, even if its hostname has changed.
    fn other_machine(&self) -> io::Result<Option<String>> {
        let same = self.boot == procfs::boot_id()? || self.machine == system_info::system_id();
        Ok((!same).then(|| self.machine.clone()))
    }
}

fn write_record(dir: impl AsFd, path: &Path, has_old_name: bool) -> io::Result<RuntimeDirRecord> {
    let directory = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
    let machine = system_info::system_id();
    let boot = procfs::boot_id()?;
    let record = RuntimeDirRecord { format: RECORD_FORMAT, directory, machine, boot, has_old_name };
    let mut line = serde_json::to_vec(&record).map_err(io::Error::other)?;
    line.push(b'\n');
    let fd = file::open_at(dir, record.file_name(), file::OpenMode::CreateNew)?;
    file::write_all_at(fd, &line, 0)?;
    Ok(record)
}

/// Reads the record; `None` if the task has none. A torn record counts as none, because the
/// directory that it names was never created. A record of a newer format is an error.
fn read_record(dir: impl AsFd) -> io::Result<Option<RuntimeDirRecord>> {
    for (file_name, has_old_name) in [(RECORD_FILE, false), (OLD_RECORD_FILE, true)] {
        let fd = match file::open_at(&dir, file_name, file::OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            result => result?,
        };
        let bytes = file::read_to_end(fd.as_fd(), MAX_RECORD_BYTES)?;
        if let Ok(RecordFormat { format }) = serde_json::from_slice(&bytes)
            && format > RECORD_FORMAT
        {
            return Err(io::Error::other(NewerRecordError { format }));
        }
        let record: Option<RuntimeDirRecord> = serde_json::from_slice(&bytes).ok();
        return Ok(record.map(|record| RuntimeDirRecord { has_old_name, ..record }));
    }
    Ok(None)
}

fn remove_record(dir: impl AsFd) {
    for file_name in [RECORD_FILE, OLD_RECORD_FILE] {
        let _already_removed = file::remove(&dir, file_name);
    }
}

/// Returns whether an open directory is still the one at this path.
fn is_same_dir(held: &OwnedFd, path: impl AsRef<Path>) -> bool {
    match (file::metadata(held), file::open_directory(path.as_ref()).and_then(file::metadata)) {
        (Ok(held), Ok(named)) => held.identity == named.identity,
        _ => false,
    }
}
