//! The files in a host's directory, and the choice of the process that adopts a marked process.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use siding_model::host::{BellByte, HostRecord};
use siding_model::id::{Birthmark, HostMark, SessionId, TaskId};

use crate::processes::pid_namespace::is_in_other_pid_namespace;
use crate::store::{StateDir, StoreError};
use crate::sys::birthmark;
use crate::sys::file::{self, OpenMode};
use crate::task::adopt::AdoptionSettings;

const RECORD_FILE: &str = "record";
const CURRENT_FILE: &str = "current";
const BELL_FIFO: &str = "bell";
const LOCK_FILE: &str = "lock";
/// The prefix of the name of a claim; the task's id follows.
const CLAIM_PREFIX: &str = "claim.";
/// The suffix of a file that is being written.
const TEMP_SUFFIX: &str = ".new";
/// Maximum size of a record or a context, in bytes. Reading a larger file fails.
const MAX_FILE_BYTES: usize = 1 << 20;

/// The current session and settings of a host, as its hooks report them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostContext {
    /// The session of the host's conversation, which owns the adopted tasks.
    pub session: SessionId,
    /// The settings that apply to adopted tasks.
    pub terms: AdoptionSettings,
}

/// The open directory of one host.
#[derive(Debug)]
pub struct HostFiles {
    /// The mark of the host, which is also the name of the directory.
    pub mark: HostMark,
    dir: OwnedFd,
}

impl HostFiles {
    /// Opens the directory of a host.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn open(root: &StateDir, mark: HostMark) -> Result<Self, StoreError> {
        Ok(Self { mark, dir: root.host_dir(mark)? })
    }

    /// Creates the directory of a host, with its record and its bell.
    ///
    /// # Errors
    ///
    /// The I/O error of a system call; `Other` if the directory could not be created.
    pub(super) fn create(root: &StateDir, record: &HostRecord) -> io::Result<Self> {
        let dir = root.create_host(record.mark).map_err(io::Error::other)?;
        let files = Self { mark: record.mark, dir };
        file::create_fifo(&files.dir, BELL_FIFO)?;
        files.write_json(RECORD_FILE, record)?;
        Ok(files)
    }

    /// Returns the record that identifies the host.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `InvalidData` or `UnexpectedEof` if the file has no valid
    /// content.
    pub fn record(&self) -> io::Result<HostRecord> {
        self.read_json(RECORD_FILE)
    }

    /// Returns the current session and settings of the host.
    ///
    /// # Errors
    ///
    /// See [`Self::record`].
    pub fn context(&self) -> io::Result<HostContext> {
        self.read_json(CURRENT_FILE)
    }

    /// Stores the current session and settings of the host.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn set_context(&self, current: &HostContext) -> io::Result<()> {
        self.write_json(CURRENT_FILE, current)
    }

    /// Acquires the supervisor's lock, or returns `None` while a supervisor holds the lock.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn try_lock(&self) -> io::Result<Option<OwnedFd>> {
        let lock = file::open_or_create(&self.dir, LOCK_FILE)?;
        Ok(file::try_lock_exclusive(&lock)?.then_some(lock))
    }

    /// Wakes the supervisor by writing a byte to its bell. A full FIFO is not an error, because
    /// the bytes already in it wake the supervisor.
    ///
    /// # Errors
    ///
    /// `ENXIO` if no supervisor has the FIFO open (fifo(7)); otherwise the I/O error of the system
    /// call.
    pub fn ring_bell(&self, ring: BellByte) -> io::Result<()> {
        let bell = file::open_at(&self.dir, BELL_FIFO, OpenMode::FifoWrite)?;
        match file::write(&bell, &[ring.to_byte()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result.map(drop),
        }
    }

    /// Opens the bell for reading. The FIFO is opened for reading and writing, so that a read never
    /// returns end-of-file after the last writer has closed the FIFO (fifo(7)).
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn open_bell(&self) -> io::Result<OwnedFd> {
        file::open_at(&self.dir, BELL_FIFO, OpenMode::FifoReadWrite)
    }

    /// Records that processes are about to receive the mark of a task.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub(super) fn record_claim(&self, task: TaskId) -> io::Result<()> {
        file::open_or_create(&self.dir, format!("{CLAIM_PREFIX}{task}")).map(drop)
    }

    /// Removes a claim. Called when a shim supervises the task, and when no process carries the
    /// task's mark.
    pub fn remove_claim(&self, task: TaskId) {
        let _best_effort = file::remove(&self.dir, format!("{CLAIM_PREFIX}{task}"));
    }

    /// Returns the claimed tasks. Processes may carry the mark of such a task although no shim
    /// supervises the task.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn list_claims(&self) -> io::Result<Vec<TaskId>> {
        let names =
            file::open_at(&self.dir, ".", OpenMode::Directory).and_then(file::list_names)?;
        let claims = names.iter().filter_map(|name| name.strip_prefix(CLAIM_PREFIX)?.parse().ok());
        Ok(claims.collect())
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        let file = file::open_at(&self.dir, name, OpenMode::Read)?;
        Ok(serde_json::from_slice(&file::read_to_end(file.as_fd(), MAX_FILE_BYTES)?)?)
    }

    /// Replaces a file by rename(2), so that a concurrent reader reads either the old or the new
    /// content.
    fn write_json(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let new = format!("{name}{TEMP_SUFFIX}");
        let bytes = serde_json::to_vec(content)?;
        let _best_effort = file::remove(&self.dir, &new);
        let file = file::open_at(&self.dir, &new, OpenMode::CreateNew)?;
        file::write_all_at(&file, &bytes, 0)?;
        file::rename_over(&self.dir, &new, name)
    }
}

/// The process that can adopt a process with a host's mark.
#[derive(Debug)]
pub enum AdoptionRoute {
    /// This process: it sees the same processes as the host's supervisor, or is not known to be
    /// marked by a host of this state directory.
    ThisProcess,
    /// The host's supervisor, which is notified through its bell.
    Supervisor(HostFiles),
    /// No process: the host's supervisor cannot be notified from here, or has already adopted the
    /// process.
    Unreachable,
}

/// Returns the process that can adopt the shell that started this process. `root` is the state
/// directory, if it could be opened.
#[must_use]
pub fn adoption_route(root: Option<&StateDir>) -> AdoptionRoute {
    let mark = birthmark::own_birthmark();
    let Some(mark) = mark.and_then(Birthmark::host_mark) else {
        let is_task = mark.is_some_and(|mark| mark.task_id().is_some());
        // A sandboxed command has the mark of a task once the supervisor has adopted the command.
        let is_taken = is_task && is_in_other_pid_namespace(None);
        return if is_taken { AdoptionRoute::Unreachable } else { AdoptionRoute::ThisProcess };
    };
    let is_writable = root.is_some_and(file::is_writable);
    match root.and_then(|root| HostFiles::open(root, mark).ok()) {
        Some(files) => {
            let record = files.record().ok();
            let is_beyond = !is_writable || is_in_other_pid_namespace(record.as_ref());
            if is_beyond { AdoptionRoute::Supervisor(files) } else { AdoptionRoute::ThisProcess }
        }
        // The mark belongs to a host of another state directory, or the host's directory cannot be
        // opened.
        None if is_writable && !is_in_other_pid_namespace(None) => AdoptionRoute::ThisProcess,
        None => AdoptionRoute::Unreachable,
    }
}
