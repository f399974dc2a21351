//! `siding session`: opens, closes and lists sessions, which are named groups of tasks.

pub(super) mod close;
mod list;
mod open;

use std::process::ExitCode;

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;
use siding_core::session::Session;
use siding_core::store::StateDir;
use siding_core::upkeep::reap::ReapStep;
use siding_model::id::{SessionId, TaskId};
use siding_model::process::BootId;
use siding_model::spec::TaskSpec;

use crate::context::Task;
use crate::failure::Failure;

/// Opens, closes and lists sessions: named groups of tasks, such as those of one conversation.
///
/// A session ends with its owner, the process named when the session was opened, however that
/// process ends. A session with several owners ends with the last one. After a grace period
/// (session_grace) its tasks are stopped, except those started with --keep.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding session open chat-7 --owner-pid $PPID
  siding run --session chat-7 -- npm run dev
  siding session list
  siding session close chat-7

`siding run` uses the session of --session, otherwise that of SIDING_SESSION,
otherwise the implicit session `cli`, which always exists and never ends.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Open(open::Args),
    Close(close::Args),
    List(list::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Open(args) => args.run(),
            Command::Close(args) => args.run(),
            Command::List(args) => args.run(),
        }
    }
}

/// Returns the specifications of the tasks that have not ended. Unreadable tasks are omitted; the
/// preceding recovery has reported them.
pub(super) fn running_specs(root: &StateDir) -> Result<Vec<TaskSpec>, Failure> {
    let live = |id: TaskId| {
        let task = Task::read(root, id).ok()?;
        task.state.is_live().then_some(task.state.spec)
    };
    Ok(root.live_tasks()?.into_iter().filter_map(live).collect())
}

/// Whether a session is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SessionStatus {
    /// An owner of the session is running.
    Live,
    /// Every owner has ended without closing the session.
    Ended,
    /// An owner is on another system or in another PID namespace, and may be running.
    Elsewhere,
    /// The session was closed, and no owner has opened it again.
    Closed,
    /// The session's journal is corrupt, so its owners are unknown.
    Damaged,
}

impl SessionStatus {
    fn from_session(session: &Session, boot: &BootId) -> Self {
        match (session.is_closed, session.is_live(boot)) {
            (true, _) => Self::Closed,
            (false, true) => Self::Live,
            (false, false) if session.may_live_elsewhere(boot) => Self::Elsewhere,
            (false, false) => Self::Ended,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Ended => "ended",
            Self::Elsewhere => "elsewhere",
            Self::Closed => "closed",
            Self::Damaged => "damaged",
        }
    }
}

/// JSON output for one session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "session")]
pub(super) struct SessionView {
    /// Id of the session, chosen by the caller that opened it.
    session_id: SessionId,
    /// PID of the owner; of several owners, the newest running one, or the newest one if none runs.
    /// Null for the implicit session and for a session that cannot be read.
    owner_pid: Option<i32>,
    /// Whether the session is in use.
    state: SessionStatus,
    /// Time at which the session was last opened, RFC 3339; null if `owner_pid` is null.
    #[schemars(extend("format" = "date-time"))]
    opened_at: Option<String>,
    /// Ids of the session's tasks that have not ended.
    running: Vec<TaskId>,
    /// The parent session, which inherits the tasks of this one; present only for the session of a
    /// subagent.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session: Option<SessionId>,
    /// Steps that the reaper performed when the session was opened; present only in the output of
    /// `session open`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reaped: Option<Vec<ReapStep>>,
}

impl SessionView {
    fn new(session: &Session, boot: &BootId, running: Vec<TaskId>) -> Self {
        Self {
            session_id: session.id.clone(),
            owner_pid: Some(session.owner(boot).pid),
            state: SessionStatus::from_session(session, boot),
            opened_at: Some(session.opened_at.rfc3339()),
            running,
            parent_session: session.parent.clone(),
            reaped: None,
        }
    }

    /// Returns the view of a session without a readable record.
    const fn without_record(
        session_id: SessionId,
        state: SessionStatus,
        running: Vec<TaskId>,
    ) -> Self {
        let (owner_pid, opened_at, parent_session, reaped) = (None, None, None, None);
        Self { session_id, owner_pid, state, opened_at, running, parent_session, reaped }
    }
}

/// Parses a session id. The error says which ids are allowed.
fn parse_session_id(text: &str) -> Result<SessionId, String> {
    text.parse().map_err(|error: siding_model::id::BadSessionId| error.to_string())
}
