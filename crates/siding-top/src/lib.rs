//! `siding top`: the screen on which a person watches tasks and acts on them.
//!
//! ```text
//! LiveView ── source ── rows ──┐                      ┌── draw ── Buffer ── Screen ── terminal
//!                              ├── App (pure) ────────┤
//! terminal ── KeyDecoder ──────┘                      └── Effect ── Acts, OutputFile, pager
//! ```
//!
//! `app` has the state of the screen and decides; `event_loop` acts. The texts of a task are
//! escaped, and its output is parsed into styled lines, so that no escape sequence of a task
//! reaches the terminal. The screen takes no lock and sends no request to a shim, except for an
//! action or a question of a person.

#![forbid(unsafe_code)]

mod acts;
mod app;
mod attach;
mod columns;
mod console;
mod detail;
mod draw;
mod event_loop;
mod geometry;
mod help;
mod list;
mod output_file;
mod output_pane;
mod output_style;
mod pager;
mod panes;
mod row;
mod screen;
mod source;
mod theme;

use std::ffi::CStr;
use std::io;
use std::sync::Arc;

use siding_core::store::StateDir;
use siding_live::{LiveError, LiveOptions};
use siding_model::history::Expectation;
use siding_model::id::TaskId;
use siding_model::task_view::TaskView;
use siding_model::terminal::TerminalUser;

pub use theme::Theme;

/// Returns the usual durations of tasks, as far as the history knows them. It is called in a thread
/// of its own.
pub type UsualDurations = Arc<dyn Fn(&[TaskView]) -> Vec<(TaskId, Expectation)> + Send + Sync>;

/// The content of the screen, and its appearance.
pub struct TopOptions {
    /// The state directory.
    pub root: StateDir,
    /// The program that runs shims, for tasks that must be repaired before an action.
    pub program: &'static CStr,
    /// The options of the read model.
    pub live: LiveOptions,
    /// The colors and characters that the terminal can show.
    pub theme: Theme,
    /// Whether actions on tasks are refused.
    pub is_read_only: bool,
    /// Looks up usual durations.
    pub usual_durations: UsualDurations,
    /// The shell text that starts the pager; `None` if the person wants none, or none is installed.
    pub pager: Option<String>,
    /// The relation of the caller to the leases of the terminals into which it types.
    pub user: TerminalUser,
    /// The filter at the start.
    pub filter: String,
}

/// The reason why the screen could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// A standard stream is not a terminal.
    #[error("{what} is not a terminal; `siding ps` prints the tasks")]
    NoTerminal {
        /// The stream that is not a terminal, as the message names it.
        what: &'static str,
    },
    /// The terminal cannot move its cursor.
    #[error(
        "the terminal cannot move its cursor (TERM={term}); `siding ps` prints the tasks, or set TERM"
    )]
    Dumb {
        /// The value of `TERM`.
        term: String,
    },
    /// A system call for the terminal or for the event loop failed.
    #[error("could not use the terminal: {0}")]
    Terminal(io::Error),
    /// The state directory could not be read.
    #[error(transparent)]
    Live(#[from] LiveError),
}

/// Shows the tasks until a person quits, a signal ends the program or the terminal is closed. The
/// terminal is restored in each case. Call this before the process starts any thread.
///
/// # Errors
///
/// [`TopError`]. The terminal is restored.
pub fn run(options: TopOptions) -> Result<(), TopError> {
    event_loop::EventLoop::start(options)?.run()
}
