//! The state directory: its location, its content and its locks.
//!
//! `docs/format.md` specifies the content. Files below the root are opened relative to a
//! descriptor, so long paths, symbolic links and renamed parent directories have no effect.

mod ambiguous;
mod claim;
mod error;
mod host_dir;
pub mod journal_file;
pub mod runtime_dir;
mod session_dir;
mod task_dir;
pub mod task_files;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use siding_model::id::{BadTaskId, TaskId, TaskKind};

use self::runtime_dir::{RuntimeBase, TaskRuntimeDir};
use crate::sys::{birthmark, file, process, system_info};

pub use ambiguous::AmbiguousId;
pub use error::StoreError;
pub use task_dir::{LockedTask, TaskDir};

/// The directories that [`StateDir::open`] creates below the root. `hosts` is created later, with
/// the first host record.
const DIRECTORIES: [&str; 5] = [TASKS_DIR, LIVE_DIR, DEDUP_DIR, SESSIONS_DIR, QUARANTINE_DIR];
pub(crate) const TASKS_DIR: &str = "tasks";
/// Contains an empty file for each task that has not ended, so that listing running tasks does not
/// read ended ones.
pub(crate) const LIVE_DIR: &str = "live";
/// Contains a symbolic link for each pair of a running command and its working directory. The link
/// names the first task that runs the command there.
pub(crate) const DEDUP_DIR: &str = "dedup";
/// Name of [`DEDUP_DIR`] in earlier versions. A link in the old directory is still a claim, and is
/// removed when its task ends.
pub(crate) const OLD_DEDUP_DIR: &str = "same";
const SESSIONS_DIR: &str = "sessions";
/// Directory below the root to which unreadable entries are moved.
pub const QUARANTINE_DIR: &str = "quarantine";
/// Name of [`QUARANTINE_DIR`] in earlier versions. Entries in the old directory are still listed
/// and removed.
pub(crate) const OLD_QUARANTINE_DIR: &str = "aside";

/// An open state directory, which all siding processes of a user share.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    fd: OwnedFd,
    /// The base of the tasks' runtime directories, if the state directory is on a network file
    /// system.
    runtime_base: Option<RuntimeBase>,
}

impl AsFd for StateDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl StateDir {
    /// Returns the path of the state directory: `SIDING_STATE_DIR`, otherwise `siding` in
    /// `XDG_STATE_HOME`, otherwise in `~/.local/state`. A relative `SIDING_STATE_DIR` is resolved
    /// against the working directory. `None` if `HOME` is unset too, or if there is no working
    /// directory to resolve against.
    #[must_use]
    pub fn default_path() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(dir) = set("SIDING_STATE_DIR") {
            return std::path::absolute(PathBuf::from(dir)).ok();
        }
        // The XDG base directory specification requires relative paths to be ignored.
        if let Some(dir) = set("XDG_STATE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute())
        {
            return Some(dir.join("siding"));
        }
        set("HOME").map(|home| PathBuf::from(home).join(".local/state/siding"))
    }

    /// Opens the state directory and creates missing directories.
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

    /// Opens the state directory; `file_system` returns the magic number of its file system. On a
    /// network file system the first usable directory of `candidates` contains the runtime
    /// directories of tasks.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::open`].
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
        let facts =
            file::metadata(&fd).map_err(|source| io("get the owner and mode of", source))?;
        if facts.uid != process::effective_uid() {
            return Err(StoreError::OtherUser { path: path.to_owned(), uid: facts.uid });
        }
        // Read access to the root is harmless, because the directories below have mode 0700. Write
        // access would let another user replace one of them.
        if facts.mode & 0o022 != 0 {
            return Err(StoreError::Exposed { path: path.to_owned(), mode: facts.mode });
        }
        let magic = match file_system(fd.as_fd()) {
            // If statfs(2) is not permitted, the file system is assumed to be local.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
                ) =>
            {
                0
            }
            // Other errors are returned, because a network file system that does not respond must
            // not be treated as a local one.
            result => result.map_err(|source| io("determine the file system of", source))?,
        };
        let runtime = RuntimeBase::for_file_system(magic, candidates);
        let root = Self { path: path.to_owned(), fd, runtime_base: runtime };
        root.create_missing_directories()?;
        Ok(root)
    }

    /// Wraps a root that another process opened. The result must not be used to create or recover
    /// tasks, because the runtime base is unknown.
    #[must_use]
    pub const fn from_fd(path: PathBuf, fd: OwnedFd) -> Self {
        Self { path, fd, runtime_base: None }
    }

    /// Returns the base of the tasks' runtime directories. `None` if the state directory is on a
    /// local file system, where the directory of each task also contains its FIFOs, socket and
    /// lock. Also `None` after [`Self::from_fd`].
    #[must_use]
    pub const fn runtime_base(&self) -> Option<&RuntimeBase> {
        self.runtime_base.as_ref()
    }

    /// Creates missing directories. Existence is checked first, because usually all directories
    /// exist, and the check also works on a read-only file system.
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

    /// Returns the path with which the state directory was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the directory that contains the directories of all tasks.
    #[must_use]
    pub fn tasks_path(&self) -> PathBuf {
        self.path.join(TASKS_DIR)
    }

    /// Returns the path of the directory with the live markers.
    #[must_use]
    pub fn live_path(&self) -> PathBuf {
        self.path.join(LIVE_DIR)
    }

    /// Returns the path of the directory that contains the directories of all sessions.
    #[must_use]
    pub fn sessions_path(&self) -> PathBuf {
        self.path.join(SESSIONS_DIR)
    }

    /// Creates the directory of a new task and acquires the task's lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]; contains `EEXIST` if the id is in use. [`StoreError::RuntimeDir`].
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

    /// Creates the runtime directory of a new task, if the task needs one, and acquires the task's
    /// lock.
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

    /// Creates a task's live marker: an empty file in `live`, which exists until the task has
    /// ended.
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

    /// Removes a task's live marker and the task's claim on its command.
    pub fn unmark_live(&self, id: TaskId, same_key: &str) {
        let _already_removed = file::remove(&self.fd, format!("{LIVE_DIR}/{id}"));
        for directory in [DEDUP_DIR, OLD_DEDUP_DIR] {
            let _already_removed =
                self.remove_claim(&format!("{directory}/{same_key}"), &id.to_string());
        }
    }

    /// Returns whether the task has a live marker.
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
                let away = away.transpose().map_err(|error| {
                    self.io_error("find the runtime directory of", &name, error)
                })?;
                Ok(TaskDir::new(id, self.path.join(&name), fd, away))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::NoSuchTask { text: id.to_string() })
            }
            Err(error) => Err(self.io_error("open", &name, error)),
        }
    }

    /// Returns the ids of all tasks with a live marker, in no particular order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn live_tasks(&self) -> Result<Vec<TaskId>, StoreError> {
        self.ids_in(LIVE_DIR)
    }

    /// Returns the ids of all tasks, in no particular order.
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

    /// Returns the task with the id `text`, or with the only id that starts with `text`. The letter
    /// of the kind and its dash may be omitted.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchTask`], [`StoreError::Io`]; [`StoreError::Ambiguous`] if several ids
    /// start with the text.
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

    /// Moves the directory of an unreadable task to [`QUARANTINE_DIR`], removes the task's live
    /// marker, and returns the new path.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn quarantine(&self, id: TaskId) -> Result<PathBuf, StoreError> {
        let from = format!("{TASKS_DIR}/{id}");
        let wall = crate::sys::clock::unix_now().0;
        let to = format!("{QUARANTINE_DIR}/{id}.{wall}");
        file::rename_noreplace(&self.fd, &from, &self.fd, &to)
            .map_err(|error| self.io_error("set aside", &from, error))?;
        let _already_removed = file::remove(&self.fd, format!("{LIVE_DIR}/{id}"));
        Ok(self.path.join(to))
    }

    /// Removes a task with all its files. Requires the lock of the task, which must have ended or
    /// have no record.
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
            // Listing needs a descriptor; removing an empty directory works even under `EMFILE`.
            result => return result.map_err(io),
        }
        remove_contents(dir.as_fd()).map_err(io)?;
        match file::remove_directory(&self.fd, &name) {
            // On a network file system, a removed file that an exiting shim has open keeps another
            // name (`.nfs…`, `.fuse_hidden…`) until the file is closed. The directory has no record
            // left, so a later reap removes the directory.
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty
                    && self.runtime_base.is_some() =>
            {
                Ok(())
            }
            result => result.map_err(io),
        }
    }

    /// Returns a new random id that is smaller than this process's birthmark. The id becomes the
    /// birthmark of the task, and a process can only lower this hard resource limit (setrlimit(2)).
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `Unsupported` if tasks are nested so deep that no smaller
    /// birthmark is left (about 20 levels).
    pub fn new_id(&self, kind: TaskKind) -> io::Result<TaskId> {
        let most = birthmark::own_birthmark().map_or(TaskId::MAX_BITS, |mark| mark.0);
        TaskId::from_random(kind, crate::sys::random_u64()?, most).ok_or_else(|| {
            let why = "tasks are nested too deep for another birthmark";
            io::Error::new(io::ErrorKind::Unsupported, why)
        })
    }

    /// Removes a quarantined entry by its path below the root.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub(crate) fn remove_quarantined(&self, path: &str) -> Result<(), StoreError> {
        let removed = match file::remove(&self.fd, path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                file::open_at(&self.fd, path, file::OpenMode::Directory)
                    .and_then(|dir| remove_contents(dir.as_fd()))
                    .and_then(|()| file::remove_directory(&self.fd, path))
            }
            result => result,
        };
        removed.map_err(|error| self.io_error("remove", path, error))
    }
}

/// Removes everything in a directory without following symbolic links. A task may have created
/// files with any name and subdirectories in its directory.
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

/// Creates the root with mode 0700, and its missing parents.
fn create_root(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
