//! Watches the files of a state directory for changes.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::store::journal_file::JOURNAL_FILE;
use siding_core::sys::inotify::{Inotify, InotifyEvent, WatchId};
use siding_core::sys::timer::PeriodicTimer;
use siding_model::id::{SessionId, TaskId};

/// Reports which tasks and sessions may have changed.
#[derive(Debug)]
pub(crate) enum StateWatch {
    /// The kernel reports the changes.
    Inotify(Box<InotifyWatch>),
    /// If inotify is not used, everything that may have changed is read again at the end of each
    /// period.
    Timer(PeriodicTimer),
}

/// The watches of one inotify instance.
#[derive(Debug)]
pub(crate) struct InotifyWatch {
    inotify: Inotify,
    /// The directory with the live markers.
    live_dir: WatchId,
    /// The directory that contains the directories of all tasks.
    tasks_dir: WatchId,
    /// The directory that contains the directories of all sessions.
    sessions_dir: WatchId,
    tasks: WatchTable<TaskId>,
    sessions: WatchTable<SessionId>,
}

/// The watches of tasks or sessions, with a map in each direction.
#[derive(Debug)]
struct WatchTable<K> {
    keys: HashMap<WatchId, K>,
    watches: HashMap<K, FileWatch>,
}

/// A watch of a task's journal or directory, or of a session's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileWatch {
    id: WatchId,
    /// Whether the watched file is the final one: the directory of a task is watched only until its
    /// journal exists.
    is_final: bool,
}

/// The tasks and sessions that may have changed since the last call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchEvents {
    pub(crate) tasks: BTreeSet<TaskId>,
    /// Tasks without a live marker, and tasks that could not be read. They are read, but not
    /// watched.
    pub(crate) ended_tasks: BTreeSet<TaskId>,
    pub(crate) sessions: BTreeSet<SessionId>,
    /// Whether events may be missing, so that everything must be compared with the files.
    pub(crate) must_rescan: bool,
}

impl StateWatch {
    /// Starts to watch the lists of tasks and sessions. Starts a timer of `poll_interval` instead
    /// with `always_poll`, if the kernel allows no watch, and on a network file system, where
    /// inotify reports only the changes of this machine.
    pub(crate) fn start(
        root: &StateDir,
        poll_interval: Duration,
        always_poll: bool,
    ) -> io::Result<Self> {
        if !always_poll
            && root.runtime_base().is_none()
            && let Ok(watch) = InotifyWatch::start(root)
        {
            return Ok(Self::Inotify(Box::new(watch)));
        }
        PeriodicTimer::start(poll_interval).map(Self::Timer)
    }

    /// Returns the descriptor that is readable when [`Self::read_events`] has something to report.
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        match self {
            Self::Inotify(watch) => watch.inotify.as_fd(),
            Self::Timer(timer) => timer.as_fd(),
        }
    }

    /// Returns the events since the last call, without blocking.
    pub(crate) fn read_events(&self) -> io::Result<WatchEvents> {
        match self {
            Self::Inotify(watch) => Ok(watch.collect_events(watch.inotify.read_events()?)),
            Self::Timer(timer) => {
                Ok(WatchEvents { must_rescan: timer.has_elapsed(), ..WatchEvents::default() })
            }
        }
    }

    /// Watches these tasks and sessions. If the kernel refuses a watch, the whole view is polled
    /// from then on.
    pub(crate) fn add<'a>(
        &mut self,
        root: &StateDir,
        tasks: impl IntoIterator<Item = &'a TaskId>,
        sessions: impl IntoIterator<Item = &'a SessionId>,
        poll_interval: Duration,
    ) -> io::Result<()> {
        let Self::Inotify(watch) = self else { return Ok(()) };
        let mut added = tasks.into_iter().try_for_each(|id| watch.watch_task(root, *id));
        added = added
            .and_then(|()| sessions.into_iter().try_for_each(|id| watch.watch_session(root, id)));
        if added.is_err() {
            *self = Self::Timer(PeriodicTimer::start(poll_interval)?);
        }
        Ok(())
    }

    /// Ends the watch of a task that will no longer change.
    pub(crate) fn remove_task(&mut self, id: TaskId) {
        if let Self::Inotify(watch) = self {
            watch.tasks.remove(&watch.inotify, &id);
        }
    }

    /// Ends the watch of a session that was removed.
    pub(crate) fn remove_session(&mut self, id: &SessionId) {
        if let Self::Inotify(watch) = self {
            watch.sessions.remove(&watch.inotify, id);
        }
    }
}

impl InotifyWatch {
    fn start(root: &StateDir) -> io::Result<Self> {
        let inotify = Inotify::new()?;
        Ok(Self {
            live_dir: inotify.watch_entries(&root.live_path())?,
            tasks_dir: inotify.watch_entries(&root.tasks_path())?,
            sessions_dir: inotify.watch_entries(&root.sessions_path())?,
            inotify,
            tasks: WatchTable::default(),
            sessions: WatchTable::default(),
        })
    }

    fn collect_events(&self, events: Vec<InotifyEvent>) -> WatchEvents {
        let mut found = WatchEvents::default();
        for event in events {
            match event {
                InotifyEvent::Entry { watch_id, name }
                    if watch_id == self.live_dir || watch_id == self.tasks_dir =>
                {
                    found.tasks.extend(name.parse::<TaskId>());
                }
                InotifyEvent::Entry { watch_id, name } if watch_id == self.sessions_dir => {
                    found.sessions.extend(name.parse::<SessionId>());
                }
                InotifyEvent::Entry { watch_id, .. } | InotifyEvent::Modified(watch_id) => {
                    found.tasks.extend(self.tasks.keys.get(&watch_id));
                    found.sessions.extend(self.sessions.keys.get(&watch_id).cloned());
                }
                InotifyEvent::Overflow => found.must_rescan = true,
            }
        }
        found
    }

    /// Watches the journal of a task, or its directory until the journal exists. Makes no system
    /// call if the journal is already watched.
    fn watch_task(&mut self, root: &StateDir, id: TaskId) -> io::Result<()> {
        if self.tasks.watches.get(&id).is_some_and(|watch| watch.is_final) {
            return Ok(());
        }
        let directory = root.tasks_path().join(id.to_string());
        if let Some(watch) = self.watch_journal(&directory)? {
            self.tasks.insert(&self.inotify, id, watch);
        }
        Ok(())
    }

    /// Adds a watch of the journal, or of the directory if there is no journal. Returns `None` if
    /// the task does not exist.
    fn watch_journal(&self, task_dir: &Path) -> io::Result<Option<FileWatch>> {
        let journal = task_dir.join(JOURNAL_FILE);
        let to_final = |id| FileWatch { id, is_final: true };
        if let Some(id) = if_exists(self.inotify.watch_writes(&journal))? {
            return Ok(Some(to_final(id)));
        }
        let Some(id) = if_exists(self.inotify.watch_entries(task_dir))? else { return Ok(None) };
        // The journal may have been created between the two calls.
        match if_exists(self.inotify.watch_writes(&journal))? {
            Some(journal) => {
                self.inotify.remove_watch(id);
                Ok(Some(to_final(journal)))
            }
            None => Ok(Some(FileWatch { id, is_final: false })),
        }
    }

    fn watch_session(&mut self, root: &StateDir, id: &SessionId) -> io::Result<()> {
        if self.sessions.watches.contains_key(id) {
            return Ok(());
        }
        let directory = root.sessions_path().join(id.as_str());
        if let Some(watch) = if_exists(self.inotify.watch_files(&directory))? {
            let watch = FileWatch { id: watch, is_final: true };
            self.sessions.insert(&self.inotify, id.clone(), watch);
        }
        Ok(())
    }
}

impl<K: Clone + Eq + Hash> WatchTable<K> {
    fn insert(&mut self, inotify: &Inotify, key: K, watch: FileWatch) {
        let before = self.watches.insert(key.clone(), watch);
        if let Some(before) = before.filter(|before| before.id != watch.id) {
            inotify.remove_watch(before.id);
            self.keys.remove(&before.id);
        }
        self.keys.insert(watch.id, key);
    }

    fn remove(&mut self, inotify: &Inotify, key: &K) {
        if let Some(watch) = self.watches.remove(key) {
            inotify.remove_watch(watch.id);
            self.keys.remove(&watch.id);
        }
    }
}

impl<K> Default for WatchTable<K> {
    fn default() -> Self {
        Self { keys: HashMap::new(), watches: HashMap::new() }
    }
}

/// Converts the error for a file that does not exist to `None`.
fn if_exists(watched: io::Result<WatchId>) -> io::Result<Option<WatchId>> {
    match watched {
        Ok(id) => Ok(Some(id)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
