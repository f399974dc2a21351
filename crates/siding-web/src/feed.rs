//! Follows the state directory, and reports its changes to the connected clients.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::{self, clock, poll};
use siding_live::{Changes, LiveError, LiveOptions, LiveTask, LiveView};
use siding_model::history::Expectation;
use siding_model::id::TaskId;
use siding_model::process::MonotonicMs;
use tokio::sync::broadcast;

use crate::event_log::{EventLog, Resumption, SentEvent};

/// Maximum number of events that are queued for a slow client, which then has to start again.
const MAX_QUEUED_EVENTS: usize = 256;
/// Longest time between two refreshes while a client is connected, in milliseconds, because no file
/// changes when a deadline approaches.
const REFRESH_INTERVAL_MS: u64 = 1_000;
/// Pause after a failed wait or refresh.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Shortest time between two samples of a running task, in milliseconds, however many clients ask.
const SAMPLE_INTERVAL_MS: u64 = 1_000;
/// Maximum number of tasks that are sampled for a list.
const MAX_SAMPLED_TASKS: usize = 100;

/// The state of all tasks, and the events of their changes.
pub(crate) struct Feed {
    state: Mutex<FeedState>,
    log: Mutex<EventLog>,
    sender: broadcast::Sender<Arc<SentEvent>>,
}

struct FeedState {
    view: LiveView,
    /// The time at which each running task was last sampled.
    sampled: HashMap<TaskId, MonotonicMs>,
}

/// The events that a client has missed, and a receiver of the later ones.
pub(crate) struct Subscription {
    /// The events that the client must receive first.
    pub(crate) missed: Resumption,
    /// The number of the last event before `receiver`.
    pub(crate) last_number: u64,
    /// The events from now on.
    pub(crate) receiver: broadcast::Receiver<Arc<SentEvent>>,
}

impl Feed {
    /// Reads the state directory, and starts a thread that follows it until the process exits.
    pub(crate) fn start(root: StateDir, options: LiveOptions) -> Result<Arc<Self>, LiveError> {
        let io = |doing| move |source: io::Error| LiveError::Io { doing, source };
        let view = LiveView::open(root, options)?;
        let server = sys::random_u64().map_err(io("choose a random number"))?;
        let (sender, _receiver) = broadcast::channel(MAX_QUEUED_EVENTS);
        let feed = Arc::new(Self {
            state: Mutex::new(FeedState { view, sampled: HashMap::new() }),
            log: Mutex::new(EventLog::new(server)),
            sender,
        });
        feed.add_expectations(
            &feed.read(|view| view.tasks().map(|task| task.view.task_id).collect::<Vec<_>>()),
        );
        let follower = Arc::clone(&feed);
        std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || follower.follow())
            .map_err(io("start a thread"))?;
        Ok(feed)
    }

    /// Returns the result of `read` on the present state.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&LiveView) -> T) -> T {
        read(&self.lock_state().view)
    }

    /// Updates the view, and returns the result of `read` on it. If the state directory
    /// cannot be read at the moment, `read` gets the last state.
    pub(crate) fn read_fresh<T>(&self, read: impl FnOnce(&LiveView) -> T) -> T {
        let _best_effort = self.refresh();
        self.read(read)
    }

    /// Updates the view, and publishes the changes. Returns whether the state
    /// directory could be read.
    fn refresh(&self) -> bool {
        let refreshed = self.lock_state().view.refresh();
        let Ok(changes) = refreshed else { return false };
        // No other refresh reports these changes again.
        self.add_expectations(&changes.appeared);
        self.read(|view| self.publish(view, &changes));
        true
    }

    /// Measures the running tasks that `choose` selects, except those that were measured just now.
    pub(crate) fn sample(&self, choose: impl Fn(&LiveTask) -> bool) {
        let mut guard = self.lock_state();
        let FeedState { view, sampled } = &mut *guard;
        let now = clock::monotonic_now();
        let is_due = |task: &&LiveTask| {
            let last = sampled.get(&task.view.task_id);
            last.is_none_or(|last| now.ms_since(*last) >= SAMPLE_INTERVAL_MS)
        };
        let running = view.tasks().filter(|task| task.is_live() && choose(task)).filter(is_due);
        let ids: Vec<TaskId> =
            running.take(MAX_SAMPLED_TASKS).map(|task| task.view.task_id).collect();
        view.sample(&ids);
        sampled.retain(|id, _| view.task(*id).is_some_and(LiveTask::is_live));
        sampled.extend(ids.into_iter().map(|id| (id, now)));
    }

    /// Subscribes a client that has received the event with this id.
    pub(crate) fn subscribe(&self, last_id: Option<&str>) -> Subscription {
        // The lock prevents new events until the client is subscribed.
        let log = self.lock_log();
        let receiver = self.sender.subscribe();
        Subscription { missed: log.resume_after(last_id), last_number: log.last_number(), receiver }
    }

    /// Returns the id of an event.
    pub(crate) fn format_id(&self, number: u64) -> String {
        self.lock_log().format_id(number)
    }

    /// Returns the id of the last event.
    pub(crate) fn last_event_id(&self) -> String {
        let log = self.lock_log();
        log.format_id(log.last_number())
    }

    /// Publishes the changes of the state directory as they happen.
    fn follow(&self) {
        loop {
            // A refresh may replace the descriptor. With the copy, this thread can wait without the
            // lock.
            let source: io::Result<OwnedFd> = self.read(|view| view.source().try_clone_to_owned());
            let has_clients = self.sender.receiver_count() > 0;
            let timeout = has_clients.then_some(REFRESH_INTERVAL_MS);
            let waited = source.and_then(|source| {
                use std::os::fd::AsFd as _;
                poll::wait_readable(&[source.as_fd()], timeout)
            });
            // A failed wait, for example without a free descriptor, must not delay the refresh.
            let is_fresh = self.refresh();
            if waited.is_err() || !is_fresh {
                std::thread::sleep(RETRY_PAUSE);
            }
        }
    }

    /// Adds the usual durations of running tasks from the history.
    fn add_expectations<'i>(&self, ids: impl IntoIterator<Item = &'i TaskId>) {
        let running: Vec<(TaskId, String, String)> = self.read(|view| {
            let tasks = ids.into_iter().filter_map(|id| view.task(*id));
            tasks
                .map(|task| &task.view)
                .filter(|view| view.is_in_progress())
                .map(|view| (view.task_id, view.command.clone(), view.history_directory()))
                .collect()
        });
        if running.is_empty() {
            return;
        }
        let root = self.read(|view| view.root().path().to_owned());
        let Ok(root) = StateDir::open(&root) else { return };
        let found = siding_history::query_best_effort(&root, |history| {
            let usual = running.iter().map(|(_, command, cwd)| history.expectation(command, cwd));
            usual.collect::<Result<Vec<Option<Expectation>>, _>>()
        });
        let mut state = self.lock_state();
        for ((id, ..), usual) in running.iter().zip(found.map(|it| it.value).unwrap_or_default()) {
            if let Some(usual) = usual {
                state.view.set_expectation(*id, usual);
            }
        }
    }

    fn publish(&self, view: &LiveView, changes: &Changes) {
        if changes.is_empty() {
            return;
        }
        let mut log = self.lock_log();
        let mut send = |name, data| {
            // Without a connected client there is no receiver.
            let _receiver_dropped = self.sender.send(log.push(name, data));
        };
        let shown = changes.appeared.iter().chain(&changes.changed).chain(&changes.ended);
        for task in shown.filter_map(|id| view.task(*id)) {
            if let Ok(data) = serde_json::to_string(&task.view) {
                send("task", data);
            }
        }
        for id in &changes.removed {
            send("removed", serde_json::json!({ "task_id": id }).to_string());
        }
        for id in &changes.sessions {
            send("session", serde_json::json!({ "session_id": id }).to_string());
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_log(&self) -> MutexGuard<'_, EventLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
