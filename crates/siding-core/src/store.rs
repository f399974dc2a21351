//! The state directory: where it is, what is in it, and who may write.
//!
//! `docs/format.md` is the contract. Everything below the root is reached by descriptor, so a long
//! path, a link or a directory that moves meanwhile changes nothing.

mod ambiguous;
mod claim;
mod error;
mod host_dir;
mod session_dir;
mod task_dir;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use siding_model::id::{BadTaskId, TaskId, TaskKind};

use crate::runtime_dir::{self, RuntimeBase, TaskRuntimeDir};
use crate::sys::{birthmark, file, process, system_info};

pub use ambiguous::AmbiguousId;
pub use error::StoreError;
pub use task_dir::{LockedTask, TaskDir};

/// Directories below the root.
const DIRECTORIES: [&str; 5] = [TASKS_DIR, LIVE_DIR, SAME_DIR, SESSIONS_DIR, ASIDE_DIR];
pub(crate) const TASKS_DIR: &str = "tasks";
/// One empty file per task that has not ended, so that a look at what runs costs nothing for what
/// has ended.
pub(crate) const LIVE_DIR: &str = "live";
/// One link per command and directory that runs, to the id of the first task.
const SAME_DIR: &str = "same";
const SESSIONS_DIR: &str = "sessions";
/// Directory below the root for what could not be read.
pub const ASIDE_DIR: &str = "aside";

/// The state directory.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    fd: OwnedFd,
    /// Where the places of tasks are, when they cannot be in here.
    runtime_base: Option<RuntimeBase>,
}

impl AsFd for StateDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl StateDir {
    /// Returns where the state directory is: `SIDING_STATE_DIR`, else `siding` in
    /// `XDG_STATE_HOME`, else in `~/.local/state`. A relative `SIDING_STATE_DIR` counts from the
    /// working directory. `None` when there is not even a home.
    #[must_use]
    pub fn default_path() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(dir) = set("SIDING_STATE_DIR") {
            return std::path::absolute(PathBuf::from(dir)).ok();
        }
        // The specification tells to ignore a relative one.
        if let Some(dir) = set("XDG_STATE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute())
        {
            return Some(dir.join("siding"));
        }
        set("HOME").map(|home| PathBuf::from(home).join(".local/state/siding"))
    }

    /// Opens the state directory, making what is missing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], [`StoreError::Exposed`], [`StoreError::OtherUser`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_on(
            path,
            |root| system_info::file_system_magic(root),
            runtime_dir::base_candidates,
        )
    }

    /// Opens the state directory on a file system whose magic number `file_system` tells. Where
    /// that is one of the network, the places of tasks are in the first of `candidates` that will
    /// do.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(crate) fn open_on(
        path: &Path,
        file_system: impl FnOnce(BorrowedFd<'_>) -> io::Result<u64>,
        candidates: impl FnOnce() -> Vec<PathBuf>,
    ) -> Result<Self, StoreError> {
        let io = |doing, source| StoreError::Io { doing, path: path.to_owned(), source };
        let fd = match file::open_directory(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_root(path).map_err(|source| io("create", source))?;
                file::open_directory(path)
            }
            result => result,
        }
        .map_err(|source| io("open", source))?;
        let facts = file::metadata(&fd).map_err(|source| io("look at", source))?;
        if facts.uid != process::effective_uid() {
            return Err(StoreError::OtherUser { path: path.to_owned(), uid: facts.uid });
        }
        // Reading what is in the root tells nobody anything, the directories below are closed;
        // writing would let another user put a directory of his own in their place.
        if facts.mode & 0o022 != 0 {
            return Err(StoreError::Exposed { path: path.to_owned(), mode: facts.mode });
        }
        let magic = match file_system(fd.as_fd()) {
            // One that may not be asked what it is, is taken for a usual one.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
                ) =>
            {
                0
            }
            // One of the network that does not answer now must not be.
            result => result.map_err(|source| io("ask for the file system of", source))?,
        };
        let runtime = RuntimeBase::for_file_system(magic, candidates);
        let root = Self { path: path.to_owned(), fd, runtime_base: runtime };
        root.create_missing_directories()?;
        Ok(root)
    }

    /// Takes over a root that another process opened. Only for whoever makes and recovers no task.
    #[must_use]
    pub const fn from_fd(path: PathBuf, fd: OwnedFd) -> Self {
        Self { path, fd, runtime_base: None }
    }

    /// Returns where the places of tasks are, `None` when they are in the tasks' directories.
    #[must_use]
    pub const fn runtime_base(&self) -> Option<&RuntimeBase> {
        self.runtime_base.as_ref()
    }

    /// Makes what is missing. Looks before: most often all is there, and looking also works where
    /// nothing can be written.
    fn create_missing_directories(&self) -> Result<(), StoreError> {
        for name in DIRECTORIES {
            if file::metadata_at(&self.fd, name).is_ok() {
                continue;
            }
            match file::create_directory(&self.fd, name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result.map_err(|source| self.io_error("create", name, source))?,
            }
        }
        Ok(())
    }

    fn io_error(
        &self,
        doing: &'static str,
        name: impl AsRef<Path>,
        source: io::Error,
    ) -> StoreError {
        StoreError::Io { doing, path: self.path.join(name), source }
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory of a new task and takes its lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]; `EEXIST` in it when the id is taken.
    pub fn create_task(&self, id: TaskId) -> Result<TaskDir, StoreError> {
        let name = format!("{TASKS_DIR}/{id}");
        file::create_directory(&self.fd, &name)
            .map_err(|error| self.io_error("create", &name, error))?;
        let made = self.lock_new_task(id);
        if made.is_err() {
            let _best_effort =
                file::remove(&self.fd, format!("{name}/{}", runtime_dir::RECORD_FILE));
            let _best_effort = file::remove_directory(&self.fd, &name);
        }
        made
    }

    /// Gives a new task its place, and takes its lock.
    fn lock_new_task(&self, id: TaskId) -> Result<TaskDir, StoreError> {
        let name = format!("{TASKS_DIR}/{id}");
        let fd = file::open_at(&self.fd, &name, file::OpenMode::Directory)
            .map_err(|error| self.io_error("open", &name, error))?;
        let away =
            self.runtime_base.as_ref().map(|runtime| TaskRuntimeDir::create(runtime, &fd, id));
        let dir = TaskDir::new(id, self.path.join(&name), fd, away.transpose()?);
        match dir.try_lock() {
            Ok(Some(locked)) => Ok(locked.into_dir()),
            Ok(None) => Err(self.io_error("lock", &name, io::ErrorKind::WouldBlock.into())),
            Err(error) => Err(self.io_error("lock", &name, error)),
        }
    }

    /// Marks a task as not ended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn mark_live(&self, id: TaskId) -> Result<(), StoreError> {
        let name = format!("{LIVE_DIR}/{id}");
        file::open_at(&self.fd, &name, file::OpenMode::CreateNew)
            .map(drop)
            .map_err(|error| self.io_error("create", &name, error))
    }

    /// Forgets that a task runs: its live mark, and its claim on its command.
    pub fn unmark_live(&self, id: TaskId, same_key: &str) {
        let _already_removed = file::remove(&self.fd, format!("{LIVE_DIR}/{id}"));
        let name = format!("{SAME_DIR}/{same_key}");
        if file::read_link(&self.fd, &name).is_ok_and(|first| first == id.to_string()) {
            let _already_removed = file::remove(&self.fd, &name);
        }
    }

    /// Whether the task has a live mark.
    #[must_use]
    pub fn is_marked_live(&self, id: TaskId) -> bool {
        file::metadata_at(&self.fd, format!("{LIVE_DIR}/{id}")).is_ok()
    }

    /// Opens the directory of a task.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchTask`], [`StoreError::Io`].
    pub fn task_dir(&self, id: TaskId) -> Result<TaskDir, StoreError> {
        let name = format!("{TASKS_DIR}/{id}");
        match file::open_at(&self.fd, &name, file::OpenMode::Directory) {
            Ok(fd) => {
                let away = self
                    .runtime_base
                    .as_ref()
                    .map(|runtime| TaskRuntimeDir::find(runtime, &fd, id));
                let away = away
                    .transpose()
                    .map_err(|error| self.io_error("find the place of", &name, error))?;
                Ok(TaskDir::new(id, self.path.join(&name), fd, away))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::NoSuchTask { text: id.to_string() })
            }
            Err(error) => Err(self.io_error("open", &name, error)),
        }
    }

    /// Returns the ids of all tasks that are marked live, in no order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn live_tasks(&self) -> Result<Vec<TaskId>, StoreError> {
        self.ids_in(LIVE_DIR)
    }

    /// Returns the ids of all tasks, in no order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn all_tasks(&self) -> Result<Vec<TaskId>, StoreError> {
        self.ids_in(TASKS_DIR)
    }

    fn ids_in(&self, directory: &str) -> Result<Vec<TaskId>, StoreError> {
        let names = self.names_in(directory)?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn names_in(&self, directory: &str) -> Result<Vec<String>, StoreError> {
        file::open_at(&self.fd, directory, file::OpenMode::Directory)
            .and_then(file::list_names)
            .map_err(|error| self.io_error("list", directory, error))
    }

    /// Returns the task that a whole id or a unique beginning of one names. The kind's letter and
    /// dash may be left out.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchTask`], [`StoreError::Io`]; [`StoreError::Ambiguous`] with the tasks that
    /// the text could name.
    pub fn resolve(&self, text: &str) -> Result<TaskId, StoreError> {
        let no_such = || StoreError::NoSuchTask { text: text.to_owned() };
        let whole: Result<TaskId, BadTaskId> = text.parse();
        if let Ok(id) = whole {
            return match self.task_dir(id) {
                Err(StoreError::NoSuchTask { .. }) => Err(no_such()),
                result => result.map(|_| id),
            };
        }
        if text.is_empty() {
            return Err(no_such());
        }
        let mut found: Vec<TaskId> = self.all_tasks()?;
        found.retain(|id| {
            let name = id.to_string();
            name.starts_with(text) || name[2..].starts_with(text)
        });
        found.sort_unstable();
        match found.as_slice() {
            [] => Err(no_such()),
            [one] => Ok(*one),
            _ => Err(StoreError::Ambiguous(AmbiguousId {
                text: text.to_owned(),
                ids: found,
                choices: Vec::new(),
            })),
        }
    }

    /// Moves the directory of a task that cannot be read out of the way, and says where to.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn set_aside(&self, id: TaskId) -> Result<PathBuf, StoreError> {
        let from = format!("{TASKS_DIR}/{id}");
        let wall = crate::sys::clock::unix_now().0;
        let to = format!("{ASIDE_DIR}/{id}.{wall}");
        file::rename_noreplace(&self.fd, &from, &self.fd, &to)
            .map_err(|error| self.io_error("set aside", &from, error))?;
        let _already_removed = file::remove(&self.fd, format!("{LIVE_DIR}/{id}"));
        Ok(self.path.join(to))
    }

    /// Removes a task with all its files. Only after its end, and with its lock in hand.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn remove_task(&self, task: &LockedTask) -> Result<(), StoreError> {
        let dir = task.dir();
        let name = format!("{TASKS_DIR}/{}", dir.id());
        let io = |error| self.io_error("remove", &name, error);
        let _already_removed = file::remove(&self.fd, format!("{LIVE_DIR}/{}", dir.id()));
        dir.remove_transient();
        match file::remove_directory(&self.fd, &name) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            // Whoever has no descriptor left to list it can still take back an empty one.
            result => return result.map_err(io),
        }
        remove_contents(dir.as_fd()).map_err(io)?;
        match file::remove_directory(&self.fd, &name) {
            // What a leaving shim has open keeps another name there until it is closed (`.nfs…`,
            // `.fuse_hidden…`). Without a record the directory is removed by a later reap.
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty
                    && self.runtime_base.is_some() =>
            {
                Ok(())
            }
            result => result.map_err(io),
        }
    }

    /// Returns a new id that this process may give: random, and small enough to be the birthmark
    /// of something that this process starts.
    ///
    /// # Errors
    ///
    /// The operating system's, or `Unsupported` when tasks are nested so deep that no smaller
    /// birthmark is left (about 20 levels).
    pub fn new_id(&self, kind: TaskKind) -> io::Result<TaskId> {
        let most = birthmark::own_birthmark().map_or(TaskId::MAX_BITS, |mark| mark.0);
        TaskId::from_random(kind, crate::sys::random_u64()?, most).ok_or_else(|| {
            let why = "tasks are nested too deep for another birthmark";
            io::Error::new(io::ErrorKind::Unsupported, why)
        })
    }

    /// Removes something that was set aside, by its name there.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn remove_aside(&self, name: &str) -> Result<(), StoreError> {
        let path = format!("{ASIDE_DIR}/{name}");
        let removed = match file::remove(&self.fd, &path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                file::open_at(&self.fd, &path, file::OpenMode::Directory)
                    .and_then(|dir| remove_contents(dir.as_fd()))
                    .and_then(|()| file::remove_directory(&self.fd, &path))
            }
            result => result,
        };
        removed.map_err(|error| self.io_error("remove", &path, error))
    }
}

/// Removes everything in a directory, without following a link. A task may have put directories
/// into its own, and files of any name.
fn remove_contents(dir: BorrowedFd<'_>) -> io::Result<()> {
    for name in file::list_entries(dir)? {
        match file::remove(dir, &name) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                remove_contents(file::open_at(dir, &name, file::OpenMode::Directory)?.as_fd())?;
                file::remove_directory(dir, &name)?;
            }
            result => result?,
        }
    }
    Ok(())
}

/// Makes the root and the directories above it, the root itself closed to others.
fn create_root(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
