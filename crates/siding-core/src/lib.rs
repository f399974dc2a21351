//! Synchronous input and output on top of `siding-model`.
//!
//! This crate owns the state directory, the start of tasks, the client side of the shim protocol,
//! waiting, sessions, crash recovery and, in [`sys`], the operating system interface. The crate is
//! synchronous, parses no arguments and prints nothing.
//!
//! # Embedding
//!
//! A host embeds siding by calling this crate. `siding-model` defines the types of ids, requests
//! and results. Three values occur in most calls:
//!
//! - the *state directory*, a [`StateDir`](store::StateDir), which all processes of a user share,
//!   and through which they find each other;
//! - the *program* that becomes a shim: a path to an installed `siding` of the same version. A
//!   program that calls `siding_shim::main` when its first argument is `__shim` can use
//!   [`SELF_EXE`](processes::siding_process::SELF_EXE), its own executable. Most functions take the
//!   program because they start a new shim for a task whose shim was killed;
//! - the *session* that owns the tasks. The owners of a session are processes: when the last owner
//!   has exited and `session_grace` has passed, the shims stop the tasks of the session, except
//!   those that are kept (`--keep`).
//!
//! Every function blocks until it is done. A caller with its own event loop can drive a wait
//! ([`Waiter`](task::wait::Waiter)), and can follow a started task with
//! [`recv_event`](task::run::recv_event).
//!
//! ## Starting a task
//!
//! [`start`](task::run::PreparedTask::start) returns once the shim has received the task, which is
//! before the command runs. A start can still fail until
//! [`wait_until_started`](task::run::wait_until_started) has returned. A foreground task whose
//! starter drops the connection moves to the background. A caller that shows output or has a budget
//! waits with [`wait_in_foreground`](task::run::wait_in_foreground).
//!
//! ```no_run
//! use siding_core::session;
//! use siding_core::settings::{self, Environment};
//! use siding_core::store::StateDir;
//! use siding_core::task::launch::IdleShim;
//! use siding_core::task::run::request::{TaskRequest, WorkingDirectory};
//! use siding_core::task::run::{self, LaunchResult};
//! use siding_model::id::SessionId;
//! use siding_model::spec::TaskCommand;
//!
//! let program = c"/usr/local/bin/siding";
//! let root = StateDir::open(&StateDir::default_path().ok_or("HOME is not set")?)?;
//! let settings = settings::load(&Environment::from_process())?;
//! let session_id: SessionId = "my-agent-7".parse()?;
//! session::open(&root, &session_id, i32::try_from(std::process::id())?)?;
//!
//! let command = TaskCommand::Shell { text: "make test".to_owned(), shell: settings.shell.clone() };
//! let cwd = WorkingDirectory::resolve(None)?;
//! let task = TaskRequest::in_background(command, cwd, session_id).prepare(&root, &settings)?;
//! match task.start_unless_duplicate(&root, IdleShim::start(program))? {
//!     LaunchResult::Duplicate(first) => println!("{first} already runs the same command"),
//!     LaunchResult::Started(connection) => {
//!         run::wait_until_started(&root, program, &task, connection)?;
//!         println!("started {}", task.id());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Waiting for a task
//!
//! A [`Waiter`](task::wait::Waiter) waits for conditions of one or several tasks, and for at most
//! the given time. The end of a wait does not affect the tasks. A program with its own event loop
//! polls [`sources`](task::wait::Waiter::sources) until [`wake_at`](task::wait::Waiter::wake_at),
//! and then calls [`poll_once`](task::wait::Waiter::poll_once).
//!
//! ```no_run
//! use siding_core::store::StateDir;
//! use siding_core::task::listing;
//! use siding_core::task::wait::Waiter;
//! use siding_model::wait::{Condition, Quantifier, WaitVerdict};
//!
//! let program = c"/usr/local/bin/siding";
//! let root = StateDir::open(&StateDir::default_path().ok_or("HOME is not set")?)?;
//! let id = listing::resolve_id(&root, "b-4k7q")?;
//! // `"port:3000".parse()?` returns the condition that a server listens on this port.
//! let conditions = vec![Condition::Exit];
//! let result = Waiter::new(&root, program, &[id], conditions, Quantifier::All, 60_000)?.run()?;
//! if result.verdict == WaitVerdict::Timeout {
//!     println!("{id} still runs after a minute");
//! }
//! let state = root.task_dir(id)?.read()?.state;
//! if let Some(outcome) = state.lifecycle.outcome() {
//!     println!("{id} {outcome}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Stopping a task
//!
//! [`stop`](task::stop::stop) terminates the whole process tree. The function returns when the end
//! is recorded. The report in the task's last record names the survivors.
//!
//! ```no_run
//! use siding_core::store::StateDir;
//! use siding_core::task::listing;
//! use siding_core::task::stop::{self, StopOptions};
//!
//! let program = c"/usr/local/bin/siding";
//! let root = StateDir::open(&StateDir::default_path().ok_or("HOME is not set")?)?;
//! let id = listing::resolve_id(&root, "b-4k7q")?;
//! // `None` selects the task's own grace and signal.
//! let options = StopOptions { requested_by: "my-agent", grace: None, signal: None };
//! stop::stop(&root, program, id, options)?;
//! let closed = root.task_dir(id)?.read()?.state.closed;
//! if let Some(report) = closed.and_then(|closed| closed.report) {
//!     println!("ended: {}, survivors: {:?}", report.ended_total, report.survivors);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Reading output
//!
//! [`output::read`] passes rendered text to a callback: without escape sequences, progress lines
//! reduced to their last state, and invalid UTF-8 replaced. [`output::copy`] passes the exact
//! bytes. Offsets count the bytes that the task has written. Offsets stay valid when siding
//! releases the disk space of the middle of a long output.
//!
//! ```no_run
//! use siding_core::output::{self, LineFilter, OutputQuery, StreamState, TextLimit};
//! use siding_core::store::StateDir;
//! use siding_core::task::listing;
//!
//! let root = StateDir::open(&StateDir::default_path().ok_or("HOME is not set")?)?;
//! let dir = root.task_dir(listing::resolve_id(&root, "b-4k7q")?)?;
//! let state = dir.read()?.state;
//! let stream = if state.is_live() { StreamState::Growing } else { StreamState::Finished };
//! let query = OutputQuery {
//!     from: 0,
//!     filter: LineFilter::Everything,
//!     last_lines: None,
//!     limit: TextLimit::Page(32 << 10),
//! };
//! let summary = output::read(&dir, state.spec.keep_head, stream, &query, |text| {
//!     print!("{text}");
//!     Ok(())
//! })?;
//! println!("the next page starts at byte {}", summary.next);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Receiving notices
//!
//! An [`Outbox`](notices::Outbox) holds the notices of a session that a consumer has not
//! acknowledged. A consumer that is killed between reading and acknowledging notices receives these
//! notices again. The example runs a recovery first, because a killed shim cannot record the end of
//! its task. A host that has reported the end of a task in another way acknowledges the task's
//! notices with [`ack_shown`](notices::ack_shown).
//!
//! ```no_run
//! use std::os::fd::AsFd as _;
//!
//! use siding_core::notices::{FollowEvent, Outbox, OutboxFollower};
//! use siding_core::store::StateDir;
//! use siding_core::task::recover::Recovery;
//! use siding_model::notice::{Consumer, NoticeId};
//!
//! let program = c"/usr/local/bin/siding";
//! let root = StateDir::open(&StateDir::default_path().ok_or("HOME is not set")?)?;
//! Recovery::new(&root, program)?.recover_all(|id, result| {
//!     if let Err(error) = result {
//!         eprintln!("{id}: {error}");
//!     }
//! })?;
//! let outbox = Outbox::new(&root, "my-agent-7".parse()?, Consumer::agent())?;
//! let mut follower = OutboxFollower::new(&outbox, program)?;
//! let stdout = std::io::stdout();
//! loop {
//!     // While the lock is held, no other process delivers to this consumer.
//!     let lock = outbox.lock_delivery()?;
//!     let pending = outbox.pending()?;
//!     for notice in &pending.notices {
//!         println!("{}: {}", notice.task_id, notice.summary);
//!     }
//!     let ids: Vec<NoticeId> = pending.notices.iter().map(|notice| notice.notice_id).collect();
//!     outbox.acknowledge(&ids)?;
//!     drop(lock);
//!     follower.schedule_later(&pending);
//!     // Sleeps until a task changes, or until the reader of standard output has exited.
//!     if let FollowEvent::ReaderClosed = follower.next_event(stdout.as_fd())? {
//!         break;
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! ARCHITECTURE.md describes what each module owns. The modules have no dependency cycles, which
//! `cargo xtask check rooms` verifies.

#![deny(unsafe_code)]

pub mod host;
pub mod net;
pub mod notices;
pub mod output;
pub mod parallel;
pub mod processes;
pub mod remote;
pub mod session;
pub mod settings;
pub mod store;
pub mod task;
pub mod upkeep;

#[expect(unsafe_code, reason = "the only place for system calls that rustix does not wrap")]
pub mod sys;
