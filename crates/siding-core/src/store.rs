//! The state directory: where it is, what is in it, and who may write.
//!
//! `docs/format.md` is the contract. Everything below the root is reached by descriptor, so a long
//! path, a link or a directory that moves meanwhile changes nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use siding_model::id::{BadTaskId, Kind, TaskId};
use siding_model::journal::{Folded, JournalError};
use siding_model::notice::Story;

use crate::journal_file::{self, ReadError};
use crate::place::{self, Away, NoPlace, Runtime};
use crate::sys::{file, limit, machine, process};

/// Directories below the root.
const DIRECTORIES: [&str; 5] = [TASKS, LIVE, SAME, SESSIONS, ASIDE];
pub(crate) const TASKS: &str = "tasks";
/// One empty file per task that has not ended, so that a look at what runs costs nothing for what
/// has ended.
pub(crate) const LIVE: &str = "live";
/// One link per command and directory that runs, to the id of the first task.
const SAME: &str = "same";
const SESSIONS: &str = "sessions";
/// Directory below the root for what could not be read.
pub const ASIDE: &str = "aside";

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Others may change what is in it.
    #[error(
        "the state directory `{path}` can be written by other users (mode {mode:o}); run `chmod 700 {path}` or set SIDING_STATE_DIR to another"
    )]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to another user.
    #[error(
        "the state directory `{path}` belongs to user {uid}; set SIDING_STATE_DIR to a directory of your own"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// It is on a network file system, and a task can have its FIFOs and its socket nowhere else.
    #[error(transparent)]
    NoPlace(#[from] NoPlace),
    /// A text that could name a task, and no task has it.
    #[error("no task `{text}`; `siding ps --all` lists what there is")]
    NoSuchTask {
        /// What was given.
        text: String,
    },
    /// A text that begins several ids.
    #[error("`{text}` begins {} ids: {}; give more characters", found.len(), list(found))]
    Ambiguous {
        /// What was given.
        text: String,
        /// The ids.
        found: Vec<TaskId>,
    },
}

fn list(ids: &[TaskId]) -> String {
    const SHOWN: usize = 4;
    let mut text: Vec<String> = ids.iter().take(SHOWN).map(ToString::to_string).collect();
    if ids.len() > SHOWN {
        text.push("…".to_owned());
    }
    text.join(", ")
}

/// The state directory.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    fd: OwnedFd,
    /// Where the places of tasks are, when they cannot be in here.
    runtime: Option<Runtime>,
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Root {
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
    /// [`StoreError::Io`], [`StoreError::Exposed`], [`StoreError::Foreign`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_on(path, |root| machine::file_system(root), place::candidates)
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
                make_root(path).map_err(|source| io("create", source))?;
                file::open_directory(path)
            }
            result => result,
        }
        .map_err(|source| io("open", source))?;
        let facts = file::facts(&fd).map_err(|source| io("look at", source))?;
        if facts.uid != process::effective_uid() {
            return Err(StoreError::Foreign { path: path.to_owned(), uid: facts.uid });
        }
        // Reading what is in the root tells nobody anything, the directories below are closed;
        // writing would let another user put a directory of his own in their place.
        if facts.mode & 0o022 != 0 {
            return Err(StoreError::Exposed { path: path.to_owned(), mode: facts.mode });
        }
        // One that does not say what it is, is taken for a usual one.
        let magic = file_system(fd.as_fd()).unwrap_or(0);
        let runtime = Runtime::needed(magic, candidates);
        let root = Self { path: path.to_owned(), fd, runtime };
        root.make_directories()?;
        Ok(root)
    }

    /// Takes over a root that another process opened. Only for whoever makes and recovers no task.
    #[must_use]
    pub const fn inherited(path: PathBuf, fd: OwnedFd) -> Self {
        Self { path, fd, runtime: None }
    }

    /// Returns where the places of tasks are, `None` when they are in the tasks' directories.
    #[must_use]
    pub const fn runtime(&self) -> Option<&Runtime> {
        self.runtime.as_ref()
    }

    /// Makes what is missing. Looks before: most often all is there, and looking also works where
    /// nothing can be written.
    fn make_directories(&self) -> Result<(), StoreError> {
        for name in DIRECTORIES {
            if file::facts_at(&self.fd, name).is_ok() {
                continue;
            }
            match file::make_directory(&self.fd, name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result.map_err(|source| self.io("create", name, source))?,
            }
        }
        Ok(())
    }

    fn io(&self, doing: &'static str, name: impl AsRef<Path>, source: io::Error) -> StoreError {
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
        let name = format!("{TASKS}/{id}");
        file::make_directory(&self.fd, &name).map_err(|error| self.io("create", &name, error))?;
        let made = self.settle_task(id);
        if made.is_err() {
            let _left_for_reap = file::remove(&self.fd, format!("{name}/{}", place::NAME));
            let _left_for_reap = file::remove_directory(&self.fd, &name);
        }
        made
    }

    /// Gives a new task its place, and takes its lock.
    fn settle_task(&self, id: TaskId) -> Result<TaskDir, StoreError> {
        let name = format!("{TASKS}/{id}");
        let fd = file::open_at(&self.fd, &name, file::Open::Directory)
            .map_err(|error| self.io("open", &name, error))?;
        let away = self.runtime.as_ref().map(|runtime| Away::create(runtime, &fd, id));
        let dir = TaskDir { id, path: self.path.join(&name), fd, away: away.transpose()? };
        match dir.try_lock() {
            Ok(Some(locked)) => Ok(locked.0),
            Ok(None) => Err(self.io("lock", &name, io::ErrorKind::WouldBlock.into())),
            Err(error) => Err(self.io("lock", &name, error)),
        }
    }

    /// Marks a task as not ended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn mark_live(&self, id: TaskId) -> Result<(), StoreError> {
        let name = format!("{LIVE}/{id}");
        file::open_at(&self.fd, &name, file::Open::CreateNew)
            .map(drop)
            .map_err(|error| self.io("create", &name, error))
    }

    /// Forgets that a task runs: its live mark, and its claim on its command.
    pub fn unmark_live(&self, id: TaskId, same_key: &str) {
        let _already_gone = file::remove(&self.fd, format!("{LIVE}/{id}"));
        let name = format!("{SAME}/{same_key}");
        if file::read_link(&self.fd, &name).is_ok_and(|first| first == id.to_string()) {
            let _already_gone = file::remove(&self.fd, &name);
        }
    }

    /// Whether the task has a live mark.
    #[must_use]
    pub fn is_marked_live(&self, id: TaskId) -> bool {
        file::facts_at(&self.fd, format!("{LIVE}/{id}")).is_ok()
    }

    /// Claims a command for a task. Returns the task that has claimed it before and, as
    /// `still_runs` finds, has not let go: a claim outlives its task's end by a moment, and by a
    /// crash for good.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn claim(
        &self,
        same_key: &str,
        id: TaskId,
        still_runs: impl Fn(TaskId) -> bool,
    ) -> Result<Option<TaskId>, StoreError> {
        let name = format!("{SAME}/{same_key}");
        loop {
            match file::make_link(&id.to_string(), &self.fd, &name) {
                Ok(()) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.io("create", &name, error)),
            }
            let first = file::read_link(&self.fd, &name).ok().and_then(|text| text.parse().ok());
            match first {
                Some(first) if self.is_marked_live(first) && still_runs(first) => {
                    return Ok(Some(first));
                }
                Some(_) | None => self.clear_claim(&name)?,
            }
        }
    }

    /// Takes a claim away that nobody holds any more. What stands there and is no claim goes aside:
    /// it is not siding's, and no command must fail or hang for it.
    fn clear_claim(&self, name: &str) -> Result<(), StoreError> {
        match file::remove(&self.fd, name) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                let wall = crate::sys::clock::wall().0;
                let to = format!("{ASIDE}/{}.{wall}", name.replace('/', "-"));
                match file::move_new(&self.fd, name, &self.fd, &to) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    result => result.map_err(|error| self.io("set aside", name, error)),
                }
            }
            // Another was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|error| self.io("remove", name, error)),
        }
    }

    /// Opens the directory of a task.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchTask`], [`StoreError::Io`].
    pub fn task(&self, id: TaskId) -> Result<TaskDir, StoreError> {
        let name = format!("{TASKS}/{id}");
        match file::open_at(&self.fd, &name, file::Open::Directory) {
            Ok(fd) => {
                let away = self.runtime.as_ref().map(|runtime| Away::find(runtime, &fd, id));
                let away =
                    away.transpose().map_err(|error| self.io("find the place of", &name, error))?;
                Ok(TaskDir { id, path: self.path.join(&name), fd, away })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::NoSuchTask { text: id.to_string() })
            }
            Err(error) => Err(self.io("open", &name, error)),
        }
    }

    /// Returns the ids of all tasks that are marked live, in no order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn live_tasks(&self) -> Result<Vec<TaskId>, StoreError> {
        self.ids_in(LIVE)
    }

    /// Returns the ids of all tasks, in no order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn all_tasks(&self) -> Result<Vec<TaskId>, StoreError> {
        self.ids_in(TASKS)
    }

    fn ids_in(&self, directory: &str) -> Result<Vec<TaskId>, StoreError> {
        let names = self.names_in(directory)?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn names_in(&self, directory: &str) -> Result<Vec<String>, StoreError> {
        file::open_at(&self.fd, directory, file::Open::Directory)
            .and_then(file::names)
            .map_err(|error| self.io("list", directory, error))
    }

    /// Returns the task that a whole id or a unique beginning of one names. The kind's letter and
    /// dash may be left out.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchTask`], [`StoreError::Ambiguous`], [`StoreError::Io`].
    pub fn resolve(&self, text: &str) -> Result<TaskId, StoreError> {
        let no_such = || StoreError::NoSuchTask { text: text.to_owned() };
        let whole: Result<TaskId, BadTaskId> = text.parse();
        if let Ok(id) = whole {
            return self.task(id).map(|_| id).map_err(|_| no_such());
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
            _ => Err(StoreError::Ambiguous { text: text.to_owned(), found }),
        }
    }

    /// Moves the directory of a task that cannot be read out of the way, and says where to.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn set_aside(&self, id: TaskId) -> Result<PathBuf, StoreError> {
        let from = format!("{TASKS}/{id}");
        let wall = crate::sys::clock::wall().0;
        let to = format!("{ASIDE}/{id}.{wall}");
        file::move_new(&self.fd, &from, &self.fd, &to)
            .map_err(|error| self.io("set aside", &from, error))?;
        let _already_gone = file::remove(&self.fd, format!("{LIVE}/{id}"));
        Ok(self.path.join(to))
    }

    /// Removes a task with all its files. Only after its end, and with its lock in hand.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn remove_task(&self, dir: &LockedTask) -> Result<(), StoreError> {
        let name = format!("{TASKS}/{}", dir.0.id);
        let io = |error| self.io("remove", &name, error);
        let _already_gone = file::remove(&self.fd, format!("{LIVE}/{}", dir.0.id));
        dir.0.clear_place();
        match file::remove_directory(&self.fd, &name) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            // Whoever has no descriptor left to list it can still take back an empty one.
            result => return result.map_err(io),
        }
        empty(dir.0.fd.as_fd()).map_err(io)?;
        match file::remove_directory(&self.fd, &name) {
            // What a leaving shim has open keeps another name there until it is closed (`.nfs…`,
            // `.fuse_hidden…`). Without a record the directory is removed by a later reap.
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty && self.runtime.is_some() =>
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
    pub fn new_id(&self, kind: Kind) -> io::Result<TaskId> {
        let most = limit::birthmark().map_or(TaskId::MAX_BITS, |mark| mark.0);
        TaskId::draw(kind, crate::sys::random()?, most).ok_or_else(|| {
            let why = "tasks are nested too deep for another birthmark";
            io::Error::new(io::ErrorKind::Unsupported, why)
        })
    }

    /// Takes the lock under which a session is written, waiting for it. The lock is let go with
    /// what is returned and `dir`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPlace`]; [`StoreError::Io`].
    pub fn lock_session(&self, dir: impl AsFd) -> Result<Option<OwnedFd>, StoreError> {
        let locked = |fd: BorrowedFd<'_>| {
            file::lock(fd).map_err(|error| self.io("lock a session in", SESSIONS, error))
        };
        match &self.runtime {
            None => locked(dir.as_fd()).map(|()| None),
            Some(runtime) => {
                let (_, base) = runtime.choose()?;
                locked(base.as_fd()).map(|()| Some(base))
            }
        }
    }

    /// Opens the directory of a session, making it when asked.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn session_dir(&self, name: &str, make: bool) -> Result<OwnedFd, StoreError> {
        let name = format!("{SESSIONS}/{name}");
        let open = || file::open_at(&self.fd, &name, file::Open::Directory);
        let opened = match open() {
            Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                match file::make_directory(&self.fd, &name) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    result => result.map_err(|source| self.io("create", &name, source))?,
                }
                open()
            }
            result => result,
        };
        opened.map_err(|error| self.io("open", &name, error))
    }

    /// Removes what is kept about a session of which `still` is true under its lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPlace`]; [`StoreError::Io`].
    pub fn remove_session(
        &self,
        name: &str,
        still: impl FnOnce() -> bool,
    ) -> Result<bool, StoreError> {
        let dir = self.session_dir(name, false)?;
        let _lock = self.lock_session(&dir)?;
        if !still() {
            return Ok(false);
        }
        let name = format!("{SESSIONS}/{name}");
        empty(dir.as_fd())
            .and_then(|()| file::remove_directory(&self.fd, &name))
            .map_err(|error| self.io("remove", &name, error))?;
        Ok(true)
    }

    /// Removes something that was set aside, by its name there.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn remove_aside(&self, name: &str) -> Result<(), StoreError> {
        let path = format!("{ASIDE}/{name}");
        let removed = match file::remove(&self.fd, &path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                file::open_at(&self.fd, &path, file::Open::Directory)
                    .and_then(|dir| empty(dir.as_fd()))
                    .and_then(|()| file::remove_directory(&self.fd, &path))
            }
            result => result,
        };
        removed.map_err(|error| self.io("remove", &path, error))
    }

    /// Returns the names of all sessions that were ever opened, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn sessions(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.names_in(SESSIONS)?;
        names.sort_unstable();
        Ok(names)
    }
}

/// Removes everything in a directory, without following a link. A task may have put directories
/// into its own, and files of any name.
fn empty(dir: BorrowedFd<'_>) -> io::Result<()> {
    for name in file::entries(dir)? {
        match file::remove(dir, &name) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                empty(file::open_at(dir, &name, file::Open::Directory)?.as_fd())?;
                file::remove_directory(dir, &name)?;
            }
            result => result?,
        }
    }
    Ok(())
}

/// Makes the root and the directories above it, the root itself closed to others.
fn make_root(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The directory of one task.
#[derive(Debug)]
pub struct TaskDir {
    id: TaskId,
    path: PathBuf,
    fd: OwnedFd,
    /// Where its FIFOs, its socket and its lock are, when not in the directory itself.
    away: Option<Away>,
}

impl AsFd for TaskDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl TaskDir {
    /// Takes over a directory that another process opened, and the task's place when that is
    /// outside. Its path is not known.
    #[must_use]
    pub fn inherited(id: TaskId, fd: OwnedFd, away: Option<OwnedFd>) -> Self {
        Self { id, path: PathBuf::new(), fd, away: away.map(Away::inherited) }
    }

    /// Returns whose it is.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory in which its FIFOs and its socket are.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none any more, or it is on another machine.
    pub fn place(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.away {
            None => Ok(self.fd.as_fd()),
            Some(away) => {
                away.meeting(self.fd.as_fd()).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }

    /// Returns the task's place when that is outside its directory. It carries the lock then.
    #[must_use]
    pub fn away(&self) -> Option<BorrowedFd<'_>> {
        self.away.as_ref().and_then(Away::held)
    }

    /// Returns the machine that keeps the task, when it is not this one: nothing of the task can
    /// be seen from here but its files.
    #[must_use]
    pub fn elsewhere(&self) -> Option<&str> {
        self.away.as_ref().and_then(Away::elsewhere)
    }

    /// Removes what exists only while a shim keeps the task.
    pub fn clear_place(&self) {
        place::clear(self.fd.as_fd(), self.away.as_ref());
    }

    /// Reads the task's journal.
    ///
    /// # Errors
    ///
    /// [`ReadError`].
    pub fn read(&self) -> Result<Folded, ReadError> {
        journal_file::read(&self.fd)
    }

    /// Reads the task's journal and what it has to tell.
    ///
    /// # Errors
    ///
    /// [`ReadError`].
    pub fn story(&self) -> Result<Story, ReadError> {
        journal_file::story(&self.fd)
    }

    /// Takes the task's lock, `None` while its shim has it, or when it is another machine's.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn try_lock(mut self) -> io::Result<Option<LockedTask>> {
        let locked = match &mut self.away {
            None => file::try_lock(&self.fd)?,
            Some(away) => away.try_lock(&self.fd, self.id)?,
        };
        Ok(locked.then_some(LockedTask(self)))
    }

    /// Whether nothing was ever recorded for the task, so nothing was ever started.
    #[must_use]
    pub fn is_unborn(&self) -> bool {
        matches!(self.read(), Err(ReadError::Content(JournalError::Empty)))
    }
}

/// A task whose lock this process holds: its shim is dead, and nobody else may write.
#[derive(Debug)]
pub struct LockedTask(TaskDir);

impl LockedTask {
    /// Returns the directory.
    #[must_use]
    pub const fn dir(&self) -> &TaskDir {
        &self.0
    }
}
