//! What is on record of a host.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use siding_model::host::{BellByte, HostRecord};
use siding_model::id::{Birthmark, HostMark, SessionId, TaskId};

use crate::adopt::Terms;
use crate::store::{Root, StoreError};
use crate::sys::file::{self, Open};
use crate::sys::{limit, procfs};

const RECORD: &str = "record";
const CURRENT: &str = "current";
const BELL: &str = "bell";
const LOCK: &str = "lock";
/// What the name of a claim begins with; the task's id follows.
const CLAIM: &str = "claim.";
/// Ending of a file that is being written.
const NEW: &str = ".new";
/// Longest file, in bytes.
const FILE_MAX: usize = 1 << 20;

/// What a host does now, as its hooks say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Current {
    /// Session of its conversation: who owns what is taken on.
    pub session: SessionId,
    /// What the settings say of whatever is taken on.
    pub terms: Terms,
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
    pub fn open(root: &Root, mark: HostMark) -> Result<Self, StoreError> {
        Ok(Self { mark, dir: root.host_dir(mark)? })
    }

    /// Makes it, with its record and its bell.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub(super) fn create(root: &Root, record: &HostRecord) -> io::Result<Self> {
        let dir = root.create_host(record.mark).map_err(io::Error::other)?;
        let files = Self { mark: record.mark, dir };
        file::make_fifo(&files.dir, BELL)?;
        files.write(RECORD, record)?;
        Ok(files)
    }

    /// Returns who the host is.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when it is no record.
    pub fn record(&self) -> io::Result<HostRecord> {
        self.read(RECORD)
    }

    /// Returns what the host does now.
    ///
    /// # Errors
    ///
    /// As [`Self::record`].
    pub fn current(&self) -> io::Result<Current> {
        self.read(CURRENT)
    }

    /// Notes what the host does now.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn set_current(&self, current: &Current) -> io::Result<()> {
        self.write(CURRENT, current)
    }

    /// Takes the supervisor's lock, `None` while a supervisor has it.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn try_lock(&self) -> io::Result<Option<OwnedFd>> {
        let lock = file::open_or_make(&self.dir, LOCK)?;
        Ok(file::try_lock(&lock)?.then_some(lock))
    }

    /// Rings the bell. A bell that is full will be answered anyhow.
    ///
    /// # Errors
    ///
    /// `ENXIO` when no supervisor listens; else the operating system's.
    pub fn ring(&self, ring: BellByte) -> io::Result<()> {
        let bell = file::open_at(&self.dir, BELL, Open::FifoWrite)?;
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
    pub fn bell(&self) -> io::Result<OwnedFd> {
        file::open_at(&self.dir, BELL, Open::FifoBoth)
    }

    /// Notes that processes are about to be given a task's mark.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub(super) fn note_claim(&self, task: TaskId) -> io::Result<()> {
        file::open_or_make(&self.dir, format!("{CLAIM}{task}")).map(drop)
    }

    /// Notes that a shim keeps the task, or that nothing was marked.
    pub fn forget_claim(&self, task: TaskId) {
        let _looked_at_again = file::remove(&self.dir, format!("{CLAIM}{task}"));
    }

    /// Returns the tasks whose mark processes may carry although no shim keeps them.
    #[must_use]
    pub fn claims(&self) -> Vec<TaskId> {
        let names = file::open_at(&self.dir, ".", Open::Directory).and_then(file::names);
        let names = names.unwrap_or_default().into_iter();
        names.filter_map(|name| name.strip_prefix(CLAIM)?.parse().ok()).collect()
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        let file = file::open_at(&self.dir, name, Open::Read)?;
        Ok(serde_json::from_slice(&file::read_whole(file.as_fd(), FILE_MAX)?)?)
    }

    /// Writes a file whole: who reads it meanwhile reads the one before.
    fn write(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let new = format!("{name}{NEW}");
        let bytes = serde_json::to_vec(content)?;
        let _left_by_a_crash = file::remove(&self.dir, &new);
        let file = file::open_at(&self.dir, &new, Open::CreateNew)?;
        file::write_all_at(&file, &bytes, 0)?;
        file::replace(&self.dir, &new, name)
    }
}

/// Whether a process is in another PID namespace than its host's supervisor, or sees the processes
/// of another than its own: the numbers that it reads mean other processes then.
#[must_use]
pub fn is_beyond_this_namespace(record: Option<&HostRecord>) -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let is_seen_otherwise = procfs::own().is_some_and(|shown| shown.pid != own)
        || procfs::self_link().is_some_and(|shown| shown != own);
    let hosts = record.and_then(|record| record.pid_namespace);
    is_seen_otherwise || hosts.is_some_and(|hosts| procfs::pid_namespace() != Some(hosts))
}

/// Who can take on a process that carries a host's mark.
#[derive(Debug)]
pub enum Reach {
    /// This process: it sees what the host's supervisor sees.
    Here,
    /// The host's supervisor, whose bell is within reach.
    Bell(HostFiles),
    /// The host's supervisor, and from here it cannot be told, or need not be.
    Nowhere,
}

/// Returns who can take on a shell that has started this process. `root` is the state directory, where
/// it could be opened.
#[must_use]
pub fn reach(root: Option<&Root>) -> Reach {
    let mark = limit::birthmark();
    let Some(mark) = mark.and_then(Birthmark::host_mark) else {
        let is_task = mark.is_some_and(|mark| mark.task_id().is_some());
        // The supervisor was faster.
        let is_taken = is_task && is_beyond_this_namespace(None);
        return if is_taken { Reach::Nowhere } else { Reach::Here };
    };
    let is_writable = root.is_some_and(file::is_writable);
    match root.and_then(|root| HostFiles::open(root, mark).ok()) {
        Some(files) => {
            let record = files.record().ok();
            let is_beyond = !is_writable || is_beyond_this_namespace(record.as_ref());
            if is_beyond { Reach::Bell(files) } else { Reach::Here }
        }
        // The mark of a host of another state directory.
        None if is_writable && !is_beyond_this_namespace(None) => Reach::Here,
        None => Reach::Nowhere,
    }
}
