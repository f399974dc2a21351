//! The JSON form of a notice, on which hosts rely.
//!
//! `siding schema notice` prints the schema. Fields may be added; an existing field is never
//! renamed, removed or given another meaning.

use std::time::Duration;

use serde::Serialize;

use super::NoticeId;
use super::extract::{Notice, NoticeEvent, NoticeKind};
use super::priority::Priority;
use crate::duration::format_duration;
use crate::id::{self, SessionId, TaskId};
use crate::journal::TaskState;
use crate::monitor::Monitor;
use crate::outcome::{LeaderEnd, Outcome, has_masked_failure};
use crate::settings::Key;
use crate::text::{cut_head, cut_tail, make_visible};

/// Maximum length of a summary, in bytes.
pub const MAX_SUMMARY_BYTES: usize = 2 << 10;
/// Maximum length of the command, and of the name, in a notice, in bytes. The start of a command
/// suffices to recognize it; a whole command can have 2 MiB.
const MAX_COMMAND_BYTES: usize = 1 << 10;
const MAX_NAME_BYTES: usize = 128;
/// Maximum length of the headline before the output, in bytes. A headline with matched lines may be
/// longer by the text of one record.
const MAX_HEADLINE_BYTES: usize = 512;

/// One notice, as printed by `siding notices --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "notice"))]
pub struct NoticeView {
    /// Id by which a consumer acknowledges the notice.
    pub notice_id: NoticeId,
    /// Id of the task whose event is reported.
    pub task_id: TaskId,
    /// The session that owns the task.
    pub session_id: SessionId,
    /// The kind of the reported event.
    pub kind: NoticeKind,
    /// The task's status according to the event, in one word.
    pub status: NoticeStatus,
    /// The urgency of the notice: `next` notices are delivered before `later` ones.
    pub priority: Priority,
    /// Time of the event, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub at: String,
    /// Exit code of the shell or program; null unless the notice reports its exit.
    pub exit_code: Option<u8>,
    /// The signal that ended the shell or program; null unless the notice reports this end.
    pub signal: Option<String>,
    /// The exceeded deadline or limit; `net` for a refused host; null for other notices.
    pub limit: Option<String>,
    /// The name that the task was given at its start; null if none was given.
    pub name: Option<String>,
    /// The command as it was typed, at most 1 KiB of it.
    pub command: String,
    /// Awake time from the start to the event, in milliseconds.
    pub elapsed_ms: u64,
    /// Location and size of the task's output.
    pub output: NoticeOutput,
    /// A description of the event, and an excerpt of the output with errors first; at most 2 KiB.
    pub summary: String,
    /// The evidence that was found by siding's detectors; null for events without evidence.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")
    )]
    pub evidence: Option<serde_json::Map<String, serde_json::Value>>,
    /// Status of each stage of the shell's last pipeline, if a stage failed and the shell exited
    /// with 0; otherwise null.
    pub pipeline_statuses: Option<Vec<i32>>,
}

/// The location and size of a task's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoticeOutput {
    /// The file that holds the output.
    pub path: String,
    /// Bytes that the task has written.
    pub bytes: u64,
}

/// The status of a task, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NoticeStatus"))]
#[serde(rename_all = "snake_case")]
pub enum NoticeStatus {
    /// The task exited with code 0.
    Completed,
    /// The task exited with another code, died of a signal, or could not be started.
    Failed,
    /// The task was stopped on request.
    Stopped,
    /// The task's deadline passed.
    TimedOut,
    /// The task exceeded a limit or a watchdog's threshold, or was refused a host.
    Limit,
    /// The task is silent, and siding has recorded evidence of the cause.
    Stalled,
    /// The task's shell has ended, and descendants are alive.
    Lingering,
    /// The task was released: its processes continue without supervision.
    Released,
    /// The task's end was not observed.
    Lost,
    /// The task wrote lines that its monitor selects.
    Matched,
    /// The task's readiness condition holds.
    Ready,
    /// The task's deadline approaches.
    Expiring,
    /// A person types into the task's terminal.
    TerminalTaken,
    /// A person has given the task's terminal back.
    TerminalReturned,
}

impl NoticeStatus {
    /// Returns the name in JSON and text.
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
            Self::TerminalTaken => "terminal_taken",
            Self::TerminalReturned => "terminal_returned",
        }
    }
}

impl NoticeEvent {
    /// Returns the task's status according to the event.
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
            Self::Terminal { is_taken: true, .. } => NoticeStatus::TerminalTaken,
            Self::Terminal { is_taken: false, .. } => NoticeStatus::TerminalReturned,
        }
    }

    fn exit_code(&self) -> Option<u8> {
        match self {
            Self::Ended { outcome, .. } => outcome.exit_code(),
            Self::Lingering { leader: LeaderEnd::Exited { code } } => Some(*code),
            Self::Lingering { .. }
            | Self::Stalled { .. }
            | Self::Limit { .. }
            | Self::Denied { .. }
            | Self::Matched { .. }
            | Self::Ready { .. }
            | Self::Terminal { .. }
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
            | Self::Terminal { .. }
            | Self::Expiring { .. } => None,
        }
    }

    fn limit(&self) -> Option<String> {
        match self {
            Self::Ended { outcome: Outcome::Deadline { limit_ms }, .. } => {
                Some(format_duration(Duration::from_millis(*limit_ms)))
            }
            Self::Ended { outcome: Outcome::Limit { limit_kind }, .. }
            | Self::Limit { limit_kind, .. } => Some(limit_kind.as_str().to_owned()),
            Self::Denied { .. } => Some(Key::Net.name().to_owned()),
            Self::Ended { .. }
            | Self::Lingering { .. }
            | Self::Stalled { .. }
            | Self::Matched { .. }
            | Self::Ready { .. }
            | Self::Terminal { .. }
            | Self::Expiring { .. } => None,
        }
    }

    /// Returns the facts that no other field contains, as text; `None` if there are none.
    fn headline(&self) -> Option<String> {
        match self {
            Self::Ended { outcome, note } => {
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
                let sentences: Vec<String> = says.into_iter().chain(note.clone()).collect();
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
            | Self::Terminal { text: says, .. }
            | Self::Expiring { text: says, .. } => Some(says.clone()),
        }
    }
}

impl NoticeView {
    /// Builds the view of a notice. `summary` is an excerpt of the task's output as readable text.
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
                | NoticeEvent::Terminal { .. }
                | NoticeEvent::Matched { .. } => None,
            },
            pipeline_statuses: masked_pipeline_statuses(state, news),
        }
    }
}

impl NoticeView {
    /// Splits the summary into siding's own sentence, which ends with the next step, and the text of
    /// the task. A reader with little space shortens only the second part. The first part is empty
    /// if the whole summary is text of the task.
    #[must_use]
    pub fn split_summary(&self) -> (&str, &str) {
        match self.kind {
            NoticeKind::Stalled
            | NoticeKind::Lingering
            | NoticeKind::Limit
            | NoticeKind::Ready
            | NoticeKind::Expiring
            | NoticeKind::Terminal => self.summary.split_once('\n').unwrap_or((&self.summary, "")),
            NoticeKind::Ended | NoticeKind::Matched => ("", &self.summary),
        }
    }
}

/// Returns the statuses of the stages of a pipeline that exited with 0 although a stage failed.
fn masked_pipeline_statuses(state: &TaskState, news: &NoticeEvent) -> Option<Vec<i32>> {
    let stages = state.pipeline.as_ref()?;
    has_masked_failure(news.exit_code()?, stages).then(|| stages.clone())
}

fn build_summary(task: TaskId, news: &NoticeEvent, output: &str) -> String {
    let is_told = news.kind() == NoticeKind::Matched;
    let room = MAX_HEADLINE_BYTES + if is_told { Monitor::MAX_TEXT_BYTES } else { 0 };
    // The text of a `matched` notice is complete, and the output would add lines that the monitor
    // did not select. For a remote agent the output is added nevertheless, because it may hold the
    // context of the agent's question.
    let is_all = is_told && task.kind() != id::TaskKind::RemoteAgent;
    // Output that appears while a person types is not meant for the agent.
    let is_taken = matches!(news, NoticeEvent::Terminal { is_taken: true, .. });
    let output = if is_all || is_taken { "" } else { output };
    let mut text = news.headline().map(|head| shorten_text(&head, room)).unwrap_or_default();
    let output = make_visible(output.trim_end_matches('\n'));
    if !text.is_empty() && !output.is_empty() {
        text.push('\n');
    }
    // If the output is too long, its middle is cut out: the start contains the errors, and the end
    // shows the result.
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

/// Makes an untrusted text safe to show and cuts it to `max` bytes at a character boundary. The cut
/// may split the visible form of a control character.
fn shorten_text(text: &str, max: usize) -> String {
    let shown = make_visible(cut_head(text, max));
    if shown.len() <= max && text.len() <= max {
        return shown;
    }
    format!("{}…", cut_head(&shown, max - '…'.len_utf8()))
}
