//! The tasks and sessions of a state directory, kept up to date.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::BorrowedFd;

use siding_core::notices::Acks;
use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::{clock, procfs};
use siding_core::task::listing;
use siding_core::task::view::{self, ViewDetail};
use siding_model::history::Expectation;
use siding_model::id::{SessionId, TaskId};
use siding_model::process::BootId;
use siding_model::session_host::SessionHost;
use siding_model::task_view::TaskView;

use crate::changes::Changes;
use crate::error::LiveError;
use crate::options::{EndedTasks, LiveOptions};
use crate::read::{self, TaskReading};
use crate::sample::Sampler;
use crate::session::LiveSession;
use crate::task::{LiveTask, Moment};
use crate::watch::{StateWatch, WatchEvents};

/// The tasks and sessions of a state directory as they were at the last refresh.
#[derive(Debug)]
pub struct LiveView {
    root: StateDir,
    options: LiveOptions,
    boot: BootId,
    watch: StateWatch,
    tasks: HashMap<TaskId, LiveTask>,
    /// The ids of `tasks`, in the order of [`Self::tasks`].
    order: Vec<TaskId>,
    /// Tasks that had ended when the view was opened, and that the options exclude.
    excluded: HashSet<TaskId>,
    unreadable: BTreeMap<TaskId, String>,
    sessions: BTreeMap<SessionId, LiveSession>,
    acks: HashMap<SessionId, Acks>,
    /// Whether the last refresh failed. The events that it read are lost.
    has_failed: bool,
}

impl LiveView {
    /// Reads the state directory and starts to watch it. Changes after this call are reported by
    /// [`Self::refresh`].
    ///
    /// # Errors
    ///
    /// [`LiveError`].
    pub fn open(root: StateDir, options: LiveOptions) -> Result<Self, LiveError> {
        let io = |doing| move |source| LiveError::Io { doing, source };
        let boot = procfs::boot_id().map_err(io("read the boot id"))?;
        let watch = StateWatch::start(&root, options.poll_interval, options.always_poll)
            .map_err(io("create a timer for reading the state directory"))?;
        let mut view = Self {
            root,
            options,
            boot,
            watch,
            tasks: HashMap::new(),
            order: Vec::new(),
            excluded: HashSet::new(),
            unreadable: BTreeMap::new(),
            sessions: BTreeMap::new(),
            acks: HashMap::new(),
            has_failed: false,
        };
        let mut events = WatchEvents::default();
        let mut ended = view.root.all_tasks()?;
        events.tasks.extend(view.root.live_tasks()?);
        ended.retain(|id| !events.tasks.contains(id));
        view.excluded.extend(&ended);
        events.ended_tasks.extend(match view.options.ended {
            EndedTasks::All => ended,
            EndedTasks::Newest(count) => listing::most_recent(&view.root, ended, count),
            EndedTasks::None => Vec::new(),
        });
        view.excluded.retain(|id| !events.ended_tasks.contains(id));
        events.sessions = view.listed_sessions()?;
        let _all_new = view.apply(events)?;
        Ok(view)
    }

    /// Returns the descriptor that becomes readable when something may have changed, for poll(2). A
    /// call of [`Self::refresh`] may replace the descriptor.
    #[must_use]
    pub fn source(&self) -> BorrowedFd<'_> {
        self.watch.source()
    }

    /// Returns the interval at which the state directory is polled, and the descriptor of
    /// [`Self::source`] becomes readable without a change; `None` if the kernel reports the
    /// changes.
    #[must_use]
    pub fn poll_interval(&self) -> Option<std::time::Duration> {
        match self.watch {
            StateWatch::Inotify(_) => None,
            StateWatch::Timer(_) => Some(self.options.poll_interval),
        }
    }

    /// Reads the changes since the last call without waiting for any, and sets the times of running
    /// tasks to the present. With inotify, only the journals and acknowledgements that were written
    /// to are read; without it, and after lost events, those of all running tasks and all sessions.
    ///
    /// # Errors
    ///
    /// [`LiveError`]. The view keeps its content. If a later call succeeds, it also reports the
    /// changes that this call has not reported.
    pub fn refresh(&mut self) -> Result<Changes, LiveError> {
        let has_lost_events = std::mem::replace(&mut self.has_failed, true);
        let mut events = self.watch.read_events().map_err(|source| LiveError::Io {
            doing: "read the changes of the state directory",
            source,
        })?;
        if events.must_rescan || has_lost_events {
            self.add_listed(&mut events)?;
        }
        let changes = self.apply(events)?;
        self.has_failed = false;
        Ok(changes)
    }

    /// Measures these tasks, except those that have ended or run on another machine, and checks the
    /// live sessions again. A sample reads `/proc` for each process of these tasks, so callers ask
    /// only for the tasks that they show. The rates cover the time since the last sample of the
    /// same task.
    pub fn sample(&mut self, ids: &[TaskId]) {
        let sampler = Sampler::new(&self.root);
        let now = now();
        for id in ids {
            let Some(task) = self.tasks.get_mut(id) else { continue };
            sampler.sample(task);
            task.update_need(now.wall, self.options.deadline_notice);
        }
        for session in self.sessions.values_mut().filter(|session| session.is_live) {
            session.is_live = is_live_session(session, &self.boot);
        }
    }

    /// Returns the tasks in a stable order: first running tasks, the newest first, then ended ones,
    /// the last to end first.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = &LiveTask> + DoubleEndedIterator {
        self.order.iter().map(|id| &self.tasks[id])
    }

    /// Returns a task; `None` if the view does not contain it.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&LiveTask> {
        self.tasks.get(&id)
    }

    /// Returns the sessions that have a directory, ordered by name.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = &LiveSession> + DoubleEndedIterator {
        self.sessions.values()
    }

    /// Returns the program to which a session belongs. For the session of a subagent, this is the
    /// program of its parent session. `None` for a session with another name, such as `cli` or one
    /// that a person chose.
    #[must_use]
    pub fn session_host(&self, id: &SessionId) -> Option<SessionHost> {
        /// Bounds the search, because damaged records could name parents that form a cycle.
        const MAX_ANCESTORS: usize = 16;
        std::iter::successors(Some(id), |id| {
            self.sessions.get(*id)?.record.as_ref()?.parent.as_ref()
        })
        .take(MAX_ANCESTORS)
        .find_map(SessionHost::from_session)
    }

    /// Returns the tasks whose journals could not be read, each with the reason.
    #[must_use]
    pub const fn unreadable(&self) -> &BTreeMap<TaskId, String> {
        &self.unreadable
    }

    /// Returns the state directory.
    #[must_use]
    pub const fn root(&self) -> &StateDir {
        &self.root
    }

    /// Reads a task with its processes, ports and control group, for a page about one task. `None`
    /// if the view does not contain the task, or if the task can no longer be read.
    #[must_use]
    pub fn full_view(&self, id: TaskId) -> Option<TaskView> {
        let known = self.tasks.get(&id)?;
        let dir = self.root.task_dir(id).ok()?;
        let state = dir.read().ok()?.state;
        let mut view = view::task_view(&self.root, &dir, &state, ViewDetail::Full);
        if let Some(expectation) = &known.expectation {
            view.set_expectation(expectation);
        }
        Some(view)
    }

    /// Sets the usual duration of a task, which comes from the history. The view keeps it when the
    /// task's journal is read again.
    pub fn set_expectation(&mut self, id: TaskId, usual: Expectation) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.expectation = Some(usual);
            task.view.set_expectation(&usual);
        }
    }

    /// Adds all tasks and sessions that may differ from the view.
    fn add_listed(&self, events: &mut WatchEvents) -> Result<(), LiveError> {
        let is_known = |id: &TaskId| {
            let has_ended = self.tasks.get(id).is_some_and(|task| !task.is_live());
            has_ended || self.excluded.contains(id)
        };
        let all: HashSet<TaskId> = self.root.all_tasks()?.into_iter().collect();
        events.tasks.extend(self.root.live_tasks()?);
        events.tasks.extend(self.tasks.values().filter(|task| task.is_live()).map(LiveTask::id));
        events.ended_tasks.extend(all.iter().filter(|id| !is_known(id)));
        events.ended_tasks.extend(self.tasks.keys().filter(|id| !all.contains(id)));
        events.ended_tasks.extend(self.unreadable.keys());
        events.sessions.extend(self.listed_sessions()?);
        events.sessions.extend(self.sessions.keys().cloned());
        Ok(())
    }

    /// Returns the sessions that have a directory.
    fn listed_sessions(&self) -> Result<BTreeSet<SessionId>, LiveError> {
        // siding creates only entries with valid names.
        let names = self.root.session_names()?;
        Ok(names.into_iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Reads the tasks and sessions that may have changed.
    fn apply(&mut self, events: WatchEvents) -> Result<Changes, LiveError> {
        let mut changes = Changes::default();
        let is_closed = |id: &TaskId| self.tasks.get(id).is_some_and(LiveTask::is_closed);
        // The watch precedes the reading, so that no later change is missed.
        let watched = events.tasks.iter().filter(|id| !is_closed(id));
        self.watch
            .add(&self.root, watched, &events.sessions, self.options.poll_interval)
            .map_err(|source| LiveError::Io { doing: "create a timer", source })?;
        self.read_sessions(&events.sessions, &mut changes);
        let now = now();
        let ids: Vec<TaskId> = events.tasks.union(&events.ended_tasks).copied().collect();
        for (id, reading) in read::read_tasks(&self.root, &ids, &self.boot, now.awake) {
            self.apply_reading(id, reading, now, &mut changes);
        }
        self.update_times(now, &mut changes);
        changes.retain_exclusive();
        if !changes.appeared.is_empty() || !changes.ended.is_empty() || !changes.removed.is_empty()
        {
            self.sort();
        }
        Ok(changes)
    }

    fn apply_reading(
        &mut self,
        id: TaskId,
        reading: TaskReading,
        now: Moment,
        changes: &mut Changes,
    ) {
        self.unreadable.remove(&id);
        let mut task = match reading {
            TaskReading::Task(task) => *task,
            TaskReading::Unrecorded => return,
            TaskReading::Removed => {
                self.watch.remove_task(id);
                self.excluded.remove(&id);
                return self.forget_task(id, changes);
            }
            TaskReading::Unreadable(why) => {
                self.unreadable.insert(id, why);
                return self.forget_task(id, changes);
            }
        };
        let acks = self.acks.get(&task.view.session_id);
        task.update_unread(acks, &self.options.readers, now.awake);
        let before = self.tasks.get_mut(&id);
        if let Some(before) = &before {
            task.expectation = before.expectation;
            task.meter = before.meter;
            task.usage = before.usage.clone().filter(|_| task.is_live());
            task.last_output = before.last_output;
        }
        if let Some(usual) = &task.expectation {
            task.view.set_expectation(usual);
        }
        task.update_need(now.wall, self.options.deadline_notice);
        match before {
            None => {
                changes.appeared.insert(id);
            }
            Some(before) if before.is_live() && !task.is_live() => {
                changes.ended.insert(id);
            }
            Some(before) => {
                before.update_times(now);
                task.keep_deadline_text(before);
                if before.view != task.view || before.notices != task.notices {
                    changes.changed.insert(id);
                }
            }
        }
        if task.is_closed() {
            self.watch.remove_task(id);
        }
        self.tasks.insert(id, task);
    }

    fn forget_task(&mut self, id: TaskId, changes: &mut Changes) {
        if self.tasks.remove(&id).is_some() {
            changes.removed.insert(id);
        }
    }

    /// Reads sessions and their acknowledgements, and counts the unread notices of their tasks.
    fn read_sessions(&mut self, ids: &BTreeSet<SessionId>, changes: &mut Changes) {
        if ids.is_empty() {
            return;
        }
        for id in ids {
            if self.root.session_dir(id.as_str(), false).is_err() {
                self.watch.remove_session(id);
                self.acks.remove(id);
                if self.sessions.remove(id).is_some() {
                    changes.sessions.insert(id.clone());
                }
                continue;
            }
            // If the acknowledgements cannot be read, the notices count as unread.
            let acks = Acks::read(&self.root, id).unwrap_or_default();
            let mut session = LiveSession {
                id: id.clone(),
                record: session::read(&self.root, id).ok().flatten(),
                is_live: false,
            };
            session.is_live = is_live_session(&session, &self.boot);
            let is_same = self.sessions.get(id) == Some(&session)
                && self.acks.get(id).is_some_and(|before| *before == acks);
            if !is_same {
                changes.sessions.insert(id.clone());
                self.sessions.insert(id.clone(), session);
                self.acks.insert(id.clone(), acks);
            }
        }
        let now = now();
        for (id, task) in &mut self.tasks {
            let session = &task.view.session_id;
            if changes.sessions.contains(session) {
                let acks = self.acks.get(session);
                if task.update_unread(acks, &self.options.readers, now.awake) {
                    task.update_need(now.wall, self.options.deadline_notice);
                    changes.changed.insert(*id);
                }
            }
        }
    }

    /// Updates the times of running tasks, and the needs and unread notices that depend on the
    /// time. Makes no system call for a task.
    fn update_times(&mut self, now: Moment, changes: &mut Changes) {
        for (id, task) in &mut self.tasks {
            let is_due = task.has_due_notice(now.awake);
            if !task.is_live() && !is_due {
                continue;
            }
            let mut has_changed = false;
            if is_due {
                let acks = self.acks.get(&task.view.session_id);
                has_changed = task.update_unread(acks, &self.options.readers, now.awake);
            }
            task.update_times(now);
            has_changed |= task.update_need(now.wall, self.options.deadline_notice);
            if has_changed {
                changes.changed.insert(*id);
            }
        }
    }

    fn sort(&mut self) {
        let mut order: Vec<TaskId> = self.tasks.keys().copied().collect();
        order.sort_unstable_by_key(|id| {
            let view = &self.tasks[id].view;
            let moment = view.ended_at.as_deref().unwrap_or(&view.started_at);
            (view.outcome.is_some(), Reverse(moment), *id)
        });
        self.order = order;
    }
}

fn now() -> Moment {
    Moment { awake: clock::monotonic_now(), wall: clock::unix_now() }
}

fn is_live_session(session: &LiveSession, boot: &BootId) -> bool {
    match &session.record {
        Some(record) => record.is_live(boot),
        None => session.id.is_implicit(),
    }
}
