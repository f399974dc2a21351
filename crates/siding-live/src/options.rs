//! The options of a view.

use std::time::Duration;

use siding_model::notice::Consumer;

/// Options of a [`LiveView`](crate::LiveView).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOptions {
    /// The ended tasks that the view contains when it is opened. Tasks that end later stay in it.
    pub ended: EndedTasks,
    /// A task whose deadline is at most this far away needs a person; the setting
    /// `deadline_notice`.
    pub deadline_notice: Duration,
    /// The consumers whose acknowledgement makes a notice read. By default a person at a terminal
    /// and the session's agent, as for `siding notices` at a terminal.
    pub readers: Vec<Consumer>,
    /// The interval at which the state directory is read again if it is not watched: with
    /// `always_poll`, on a network file system, and if the user has no inotify instance or watch
    /// left.
    pub poll_interval: Duration,
    /// Whether to read at `poll_interval` even if the kernel could report changes.
    pub always_poll: bool,
}

/// The tasks that had ended when a view was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedTasks {
    /// Every ended task of the state directory.
    All,
    /// About this many tasks, those whose journals were written last.
    Newest(usize),
    /// No task that had ended before.
    None,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            ended: EndedTasks::All,
            deadline_notice: Duration::from_secs(120),
            readers: vec![Consumer::terminal(), Consumer::agent()],
            poll_interval: Duration::from_secs(1),
            always_poll: false,
        }
    }
}
