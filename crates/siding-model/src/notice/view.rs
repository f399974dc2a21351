//! A notice as it is shown: the contract with hosts.
//!
//! The committed schema is `docs/schema/notice.schema.json`. Fields may be added, never renamed,
//! removed or given another meaning.

use std::time::Duration;

use serde::Serialize;

use super::NoticeId;
use super::extract::{Notice, NoticeEvent, NoticeKind};
use super::priority::Priority;
use crate::duration::format_duration;
use crate::id::{self, SessionId, TaskId};
use crate::journal::TaskState;
use crate::monitor::Monitor;
use crate::outcome::{LeaderEnd, Outcome};
use crate::settings::Key;
use crate::text::{cut_head, cut_tail, make_visible};

/// Longest summary, in bytes.
pub const MAX_SUMMARY_BYTES: usize = 2 << 10;
/// Longest command and name, in bytes. A command may have two megabytes; what it was is known.
const MAX_COMMAND_BYTES: usize = 1 << 10;
const MAX_NAME_BYTES: usize = 128;
/// Longest line of siding's own before the output, in bytes. What somebody wanted to know of a
/// task's output comes on top.
const MAX_HEADLINE_BYTES: usize = 512;

/// One notice, as `siding notices --json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "notice"))]
pub struct NoticeView {
    /// Name of the notice.
    pub notice_id: NoticeId,
    /// Name of the task.
    pub task_id: TaskId,
    /// Session that owns it.
    pub session_id: SessionId,
    /// What kind of news.
    pub kind: NoticeKind,
    /// How the task stands, in one word.
    pub status: NoticeStatus,
    /// How soon it is wanted.
    pub priority: Priority,
    /// When it happened, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub at: String,
    /// What its shell or program exited with, where it did.
    pub exit_code: Option<u8>,
    /// The signal that ended it, where one did.
    pub signal: Option<String>,
    /// The deadline or limit that was passed, where one was; `net` where a host was refused.
    pub limit: Option<String>,
    /// A person's name for the task.
    pub name: Option<String>,
    /// The command as it was typed, at most 1 KiB of it.
    pub command: String,
    /// Awake time from the start to the news.
    pub elapsed_ms: u64,
    /// What it wrote.
    pub output: NoticeOutput,
    /// Errors first, then the last lines, at most 2 KiB.
    pub summary: String,
    /// What a watchdog found.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")
    )]
    pub evidence: Option<serde_json::Map<String, serde_json::Value>>,
    /// Status of each stage of the shell's last pipeline, where one failed and the last did not.
    pub pipeline_statuses: Option<Vec<i32>>,
}

/// Where the output is, and how much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoticeOutput {
    /// The file that holds it.
    pub path: String,
    /// Bytes written by the task.
    pub bytes: u64,
}

/// How a task stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NoticeStatus"))]
#[serde(rename_all = "snake_case")]
pub enum NoticeStatus {
    /// It exited with 0.
    Completed,
    /// It exited with another code, died of a signal, or could not be started.
    Failed,
    /// Somebody ended it.
    Stopped,
    /// Its deadline passed.
    TimedOut,
    /// It passed a limit.
    Limit,
    /// It writes nothing.
    Stalled,
    /// Its shell has ended, descendants live.
    Lingering,
    /// It was given back: it goes on, and siding does not keep it.
    Released,
    /// Its end was not seen.
    Lost,
    /// It wrote what somebody wanted to know of.
    Matched,
    /// What somebody waited for is there.
    Ready,
    /// Its deadline is near.
    Expiring,
}

impl NoticeStatus {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::TimedOut => "timed_out",
            Self::Limit => "limit",
            Self::Stalled => "stalled",
            Self::Lingering => "lingering",
            Self::Released => "released",
            Self::Lost => "lost",
            Self::Matched => "matched",
            Self::Ready => "ready",
            Self::Expiring => "expiring",
        }
    }
}

impl NoticeEvent {
    /// Returns how the task stands, in one word.
    #[must_use]
    pub const fn status(&self) -> NoticeStatus {
        match self {
            Self::Ended { outcome, .. } => match outcome {
                Outcome::Exited { code: 0 } => NoticeStatus::Completed,
                Outcome::Exited { .. }
                | Outcome::Signaled { .. }
                | Outcome::FailedToStart { .. } => NoticeStatus::Failed,
                Outcome::Deadline { .. } => NoticeStatus::TimedOut,
                Outcome::Stopped { .. } => NoticeStatus::Stopped,
                Outcome::Limit { .. } => NoticeStatus::Limit,
                Outcome::Released { .. } => NoticeStatus::Released,
                Outcome::Lost { .. } => NoticeStatus::Lost,
            },
            Self::Lingering { .. } => NoticeStatus::Lingering,
            Self::Stalled { .. } => NoticeStatus::Stalled,
            Self::Limit { .. } | Self::Denied { .. } => NoticeStatus::Limit,
            Self::Matched { .. } => NoticeStatus::Matched,
            Self::Ready { .. } => NoticeStatus::Ready,
            Self::Expiring { .. } => NoticeStatus::Expiring,
        }
    }

    fn exit_code(&self) -> Option<u8> {
        match self {
            Self::Ended { outcome: Outcome::Exited { code }, .. }
            | Self::Lingering { leader: LeaderEnd::Exited { code } } => Some(*code),
            Self::Ended { .. }
            | Self::Lingering { .. }
            | Self::Stalled { .. }
            | Self::Limit { .. }
            | Self::Denied { .. }
            | Self::Matched { .. }
            | Self::Ready { .. }
            | Self::Expiring { .. } => None,
        }
    }

    fn signal(&self) -> Option<String> {
        match self {
            Self::Ended { outcome: Outcome::Signaled { signal, .. }, .. }
            | Self::Lingering { leader: LeaderEnd::Signaled { signal, .. } } => {
                Some(signal.to_string())
            }
            Self::Ended { .. }
            | Self::Lingering { .. }
            | Self::Stalled { .. }
            | Self::Limit { .. }
            | Self::Denied { .. }
            | Self::Matched { .. }
            | Self::Ready { .. }
            | Self::Expiring { .. } => None,
        }
    }

    fn limit(&self) -> Option<String> {
        match self {
            Self::Ended { outcome: Outcome::Deadline { limit_ms }, .. } => {
                Some(format_duration(Duration::from_millis(*limit_ms)))
            }
            Self::Ended { outcome: Outcome::Limit { which }, .. } | Self::Limit { which, .. } => {
                Some(which.as_str().to_owned())
            }
            Self::Denied { .. } => Some(Key::Net.name().to_owned()),
            Self::Ended { .. }
            | Self::Lingering { .. }
            | Self::Stalled { .. }
            | Self::Matched { .. }
            | Self::Ready { .. }
            | Self::Expiring { .. } => None,
        }
    }

    /// Returns a line of siding's own that the other fields do not say.
    fn headline(&self) -> Option<String> {
        match self {
            Self::Ended { outcome, readiness_note: unready } => {
                let says = match outcome {
                    Outcome::FailedToStart { .. }
                    | Outcome::Released { .. }
                    | Outcome::Lost { .. }
                    | Outcome::Stopped { .. } => Some(outcome.to_string()),
                    Outcome::Exited { .. }
                    | Outcome::Signaled { .. }
                    | Outcome::Deadline { .. }
                    | Outcome::Limit { .. } => None,
                };
                let sentences: Vec<String> = says.into_iter().chain(unready.clone()).collect();
                (!sentences.is_empty()).then(|| sentences.join("; "))
            }
            Self::Lingering { .. } => {
                Some("its shell has ended; processes that it started still run".to_owned())
            }
            Self::Stalled { text: says, .. }
            | Self::Limit { text: says, .. }
            | Self::Denied { text: says }
            | Self::Matched { text: says }
            | Self::Ready { text: says, .. }
            | Self::Expiring { text: says, .. } => Some(says.clone()),
        }
    }
}

impl NoticeView {
    /// Returns how a notice is shown. `summary` is readable text of the task's output.
    #[must_use]
    pub fn new(state: &TaskState, notice: &Notice, output: NoticeOutput, summary: &str) -> Self {
        let spec = &state.spec;
        let news = &notice.event;
        Self {
            notice_id: notice.id,
            task_id: spec.task_id,
            session_id: spec.session_id.clone(),
            kind: news.kind(),
            status: news.status(),
            priority: news.priority(),
            at: notice.wall.rfc3339(),
            exit_code: news.exit_code(),
            signal: news.signal(),
            limit: news.limit(),
            name: spec.name.as_deref().map(|name| shorten_text(name, MAX_NAME_BYTES)),
            command: shorten_text(&spec.command_text(), MAX_COMMAND_BYTES),
            elapsed_ms: notice.elapsed_ms,
            output,
            summary: self::build_summary(spec.task_id, news, summary),
            evidence: match news {
                NoticeEvent::Stalled { evidence, .. }
                | NoticeEvent::Ready { evidence, .. }
                | NoticeEvent::Expiring { evidence, .. } => Some(evidence.clone()),
                NoticeEvent::Ended { .. }
                | NoticeEvent::Lingering { .. }
                | NoticeEvent::Limit { .. }
                | NoticeEvent::Denied { .. }
                | NoticeEvent::Matched { .. } => None,
            },
            pipeline_statuses: masked_pipeline_statuses(state, news),
        }
    }
}

/// Returns the stages of a pipeline of which the exit code hides a failure.
fn masked_pipeline_statuses(state: &TaskState, news: &NoticeEvent) -> Option<Vec<i32>> {
    let stages = state.pipeline.as_ref()?;
    let hides = news.exit_code() == Some(0) && stages.iter().any(|status| *status != 0);
    hides.then(|| stages.clone())
}

fn build_summary(task: TaskId, news: &NoticeEvent, output: &str) -> String {
    let is_told = news.kind() == NoticeKind::Matched;
    let room = MAX_HEADLINE_BYTES + if is_told { Monitor::MAX_TEXT_BYTES } else { 0 };
    // A monitor tells the lines that were asked for, and no others. What an agent elsewhere asks for may
    // stand in what it has said before.
    let is_all = is_told && task.kind() != id::TaskKind::RemoteAgent;
    let output = if is_all { "" } else { output };
    let mut text = news.headline().map(|head| shorten_text(&head, room)).unwrap_or_default();
    let output = make_visible(output.trim_end_matches('\n'));
    if !text.is_empty() && !output.is_empty() {
        text.push('\n');
    }
    // The head of it has the errors, the end says how it went.
    let room = MAX_SUMMARY_BYTES - text.len();
    if output.len() <= room {
        text.push_str(&output);
    } else {
        let half = room / 2 - 2;
        text.push_str(cut_head(&output, half));
        text.push_str("…\n");
        text.push_str(cut_tail(&output, half));
    }
    text
}

/// Returns a foreign text, safe to show, cut to a size. An escape may be cut, a character is not.
fn shorten_text(text: &str, max: usize) -> String {
    let shown = make_visible(cut_head(text, max));
    if shown.len() <= max && text.len() <= max {
        return shown;
    }
    format!("{}…", cut_head(&shown, max - '…'.len_utf8()))
}
