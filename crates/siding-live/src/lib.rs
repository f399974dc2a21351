//! The read model of the viewers: `siding ps --watch`, `siding top` and the web page.
//!
//! A [`LiveView`] reads the tasks and sessions of a state directory once, and afterwards only those
//! that may have changed. It takes no lock, sends no request to a shim and writes nothing, so that
//! a task does not notice its viewers. It therefore repairs nothing either: a task whose shim was
//! killed stays as the journal shows it, and [`is_supervised`](TaskUsage::is_supervised) is false
//! after a sample.
//!
//! A caller polls [`LiveView::source`] together with its other descriptors, and calls
//! [`LiveView::refresh`] when the descriptor is readable, and once a second if it shows times. A
//! caller that shows CPU or memory also calls [`LiveView::sample`] for the tasks on its screen.
//!
//! ```no_run
//! use siding_core::store::StateDir;
//! use siding_core::sys::poll;
//! use siding_live::{LiveOptions, LiveView};
//!
//! let root = StateDir::open(&StateDir::default_path().ok_or("HOME is not set")?)?;
//! let mut view = LiveView::open(root, LiveOptions::default())?;
//! loop {
//!     for task in view.tasks() {
//!         println!("{} {}", task.view.task_id, task.view.phase.as_str());
//!     }
//!     while view.refresh()?.is_empty() {
//!         poll::wait_readable(&[view.source()], None)?;
//!     }
//! }
//! # #[expect(unreachable_code, reason = "gives the type of the errors")]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`read_history`], [`read_receipts`], [`read_process_tree`] and [`explain_waits`] read more about
//! one task, for a page about it.
//!
//! [`arrange`] groups, sorts and filters tasks for display.

#![forbid(unsafe_code)]

pub mod arrange;
mod changes;
mod cpu_meter;
mod error;
mod journal_event;
mod options;
mod process_tree;
mod read;
mod receipt;
mod sample;
mod session;
mod task;
mod usage;
mod view;
mod watch;

pub use changes::Changes;
pub use error::LiveError;
pub use journal_event::{EventTone, JournalEvent, JournalHistory, read_history};
pub use options::{EndedTasks, LiveOptions};
pub use process_tree::{TreeProcess, describe_wait, explain_waits, read_process_tree};
pub use receipt::{NoticeReceipt, read_receipts};
pub use session::LiveSession;
pub use task::{LiveNotice, LiveTask};
pub use usage::TaskUsage;
pub use view::LiveView;
