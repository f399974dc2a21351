//! What is on record of a host.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use siding_model::host::{BellByte, HostRecord};
use siding_model::id::{Birthmark, HostMark, SessionId, TaskId};

use crate::adopt::AdoptionSettings;
use crate::pid_namespace::is_in_other_pid_namespace;
use crate::store::{StateDir, StoreError};
use crate::sys::birthmark;
use crate::sys::file::{self, OpenMode};

const RECORD_FILE: &str = "record";
const CURRENT_FILE: &str = "current";
const BELL_FIFO: &str = "bell";
const LOCK_FILE: &str = "lock";
/// What the name of a claim begins with; the task's id follows.
const CLAIM_PREFIX: &str = "claim.";
/// Ending of a file that is being written.
const TEMP_SUFFIX: &str = ".new";
/// Longest file, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// What a host does now, as its hooks say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostContext {
    /// Session of its conversation: who owns what is taken on.
    pub session: SessionId,
    /// What the settings say of whatever is taken on.
    pub terms: AdoptionSettings,
}

/// The directory of a host.
#[derive(Debug)]
pub struct HostFiles {
    /// The host's mark.
    pub mark: HostMark,
    dir: OwnedFd,
}

impl HostFiles {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn open(root: &StateDir, mark: HostMark) -> Result<Self, StoreError> {
        Ok(Self { mark, dir: root.host_dir(mark)? })
    }

    /// Makes it, with its record and its bell.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub(super) fn create(root: &StateDir, record: &HostRecord) -> io::Result<Self> {
        let dir = root.create_host(record.mark).map_err(io::Error::other)?;
        let files = Self { mark: record.mark, dir };
        file::create_fifo(&files.dir, BELL_FIFO)?;
        files.write_json(RECORD_FILE, record)?;
        Ok(files)
    }

    /// Returns who the host is.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when it is no record.
    pub fn record(&self) -> io::Result<HostRecord> {
        self.read_json(RECORD_FILE)
    }

    /// Returns what the host does now.
    ///
    /// # Errors
    ///
    /// As [`Self::record`].
    pub fn context(&self) -> io::Result<HostContext> {
        self.read_json(CURRENT_FILE)
    }

    /// Notes what the host does now.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn set_context(&self, current: &HostContext) -> io::Result<()> {
        self.write_json(CURRENT_FILE, current)
    }

    /// Takes the supervisor's lock, `None` while a supervisor has it.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn try_lock(&self) -> io::Result<Option<OwnedFd>> {
        let lock = file::open_or_create(&self.dir, LOCK_FILE)?;
        Ok(file::try_lock_exclusive(&lock)?.then_some(lock))
    }

    /// Rings the bell. A bell that is full will be answered anyhow.
    ///
    /// # Errors
    ///
    /// `ENXIO` when no supervisor listens; else the operating system's.
    pub fn ring_bell(&self, ring: BellByte) -> io::Result<()> {
        let bell = file::open_at(&self.dir, BELL_FIFO, OpenMode::FifoWrite)?;
        match file::write(&bell, &[ring.to_byte()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result.map(drop),
        }
    }

    /// Opens the bell to listen to it. It never sees an end, whoever rings.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn open_bell(&self) -> io::Result<OwnedFd> {
        file::open_at(&self.dir, BELL_FIFO, OpenMode::FifoReadWrite)
    }

    /// Notes that processes are about to be given a task's mark.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub(super) fn record_claim(&self, task: TaskId) -> io::Result<()> {
        file::open_or_create(&self.dir, format!("{CLAIM_PREFIX}{task}")).map(drop)
    }

    /// Notes that a shim keeps the task, or that nothing was marked.
    pub fn remove_claim(&self, task: TaskId) {
        let _best_effort = file::remove(&self.dir, format!("{CLAIM_PREFIX}{task}"));
    }

    /// Returns the tasks whose mark processes may carry although no shim keeps them.
    #[must_use]
    pub fn list_claims(&self) -> Vec<TaskId> {
        let names = file::open_at(&self.dir, ".", OpenMode::Directory).and_then(file::list_names);
        let names = names.unwrap_or_default().into_iter();
        names.filter_map(|name| name.strip_prefix(CLAIM_PREFIX)?.parse().ok()).collect()
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        let file = file::open_at(&self.dir, name, OpenMode::Read)?;
        Ok(serde_json::from_slice(&file::read_to_end(file.as_fd(), MAX_FILE_BYTES)?)?)
    }

    /// Writes a file whole: who reads it meanwhile reads the one before.
    fn write_json(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let new = format!("{name}{TEMP_SUFFIX}");
        let bytes = serde_json::to_vec(content)?;
        let _best_effort = file::remove(&self.dir, &new);
        let file = file::open_at(&self.dir, &new, OpenMode::CreateNew)?;
        file::write_all_at(&file, &bytes, 0)?;
        file::rename_over(&self.dir, &new, name)
    }
}

/// Who can take on a process that carries a host's mark.
#[derive(Debug)]
pub enum AdoptionRoute {
    /// This process: it sees what the host's supervisor sees.
    ThisProcess,
    /// The host's supervisor, whose bell is within reach.
    Supervisor(HostFiles),
    /// The host's supervisor, and from here it cannot be told, or need not be.
    Unreachable,
}

/// Returns who can take on a shell that has started this process. `root` is the state directory, where
/// it could be opened.
#[must_use]
pub fn adoption_route(root: Option<&StateDir>) -> AdoptionRoute {
    let mark = birthmark::own_birthmark();
    let Some(mark) = mark.and_then(Birthmark::host_mark) else {
        let is_task = mark.is_some_and(|mark| mark.task_id().is_some());
        // The supervisor was faster.
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
        // The mark of a host of another state directory.
        None if is_writable && !is_in_other_pid_namespace(None) => AdoptionRoute::ThisProcess,
        None => AdoptionRoute::Unreachable,
    }
}
