//! Decides what the client does after each response of a server and after each failed request.
//! Pure.

#[cfg(test)]
mod tests;

use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::text::one_line;

use super::exit;
use super::output::{OutputWriter, parts_text};
use crate::wire::{A2aState, RpcError, Status, Update, code};

/// Maximum number of consecutive failed requests. After one more, three to six minutes after the
/// first, the client reports the task as lost.
const MAX_FAILURES: u32 = 12;
/// Pauses before the next request, in milliseconds. Each request without a new result selects the
/// next longer pause.
const BACKOFF_MS: [u64; 7] = [500, 1000, 2000, 4000, 8000, 15_000, 30_000];
/// Maximum columns of a server's text within a line of the client.
const LINE_COLUMNS: usize = 300;
/// Maximum columns of the reason of a failure.
const REASON_COLUMNS: usize = 300;
/// Maximum bytes of a server's id that is shown without backticks for the user to type.
const MAX_TYPED_NAME_BYTES: usize = 128;

/// An input of [`ClientState`]. Each request ends with one of the last five variants.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// The server sent an update.
    Received(Box<Update>),
    /// The server sent an update that cannot be parsed.
    Malformed(String),
    /// The user cancels the task.
    Cancel,
    /// The response ended without an error.
    Closed,
    /// A stream was silent for too long.
    Silent,
    /// The request failed, or the response ended early.
    Disconnected {
        why: String,
        /// Whether the server may have received the request.
        reached: bool,
    },
    /// The server answered with an error.
    Refused(RpcError),
    /// The request failed, and a retry would fail in the same way.
    Fatal(String),
}

/// A request that the driver must send to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientRequest {
    /// Sends the message; with `stream` the response is a stream of updates.
    Send {
        /// True only if the server supports streaming.
        stream: bool,
    },
    /// Subscribes to the updates of the task.
    Subscribe,
    /// Reads the state of the task.
    Get,
    /// Cancels the task.
    Cancel,
}

/// The next step of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Write this text to standard output.
    Write(String),
    /// Abandon the current request, and send this one after a pause.
    Request(ClientRequest, Duration),
    /// Exit with this code.
    Exit(u8),
}

/// The client's knowledge about the task, and the request that it waits for.
#[derive(Debug)]
pub(super) struct ClientState {
    /// The agent's address as the user typed it, for the command that sends an answer.
    answer_to: String,
    supports_streaming: bool,
    current_request: ClientRequest,
    task: Option<String>,
    status: Option<(A2aState, String)>,
    output: OutputWriter,
    /// Number of consecutive failed requests.
    failures: u32,
    /// Number of consecutive requests without a new result.
    idle_requests: usize,
    /// Whether the current request had a new result.
    has_progress: bool,
    is_canceling: bool,
    end: Option<u8>,
}

impl ClientState {
    /// Returns the initial state and the first step, which sends the message. `url` is the address
    /// as a user would type it to answer.
    pub(super) fn start(url: &str, streams: bool) -> (Self, Step) {
        let current_request = ClientRequest::Send { stream: streams };
        let state = Self {
            answer_to: url.to_owned(),
            supports_streaming: streams,
            current_request,
            task: None,
            status: None,
            output: OutputWriter::default(),
            failures: 0,
            idle_requests: 0,
            has_progress: false,
            is_canceling: false,
            end: None,
        };
        (state, Step::Request(current_request, Duration::ZERO))
    }

    /// Returns the task's id once the server has named it.
    pub(super) fn task_id(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Handles an event, and returns the steps to perform. No steps follow [`Step::Exit`].
    pub(super) fn handle_event(&mut self, event: Event) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.end.is_some() {
            return steps;
        }
        match event {
            Event::Received(update) => {
                self.failures = 0;
                self.on_update(*update, &mut steps);
            }
            Event::Malformed(why) => {
                self.push_line(
                    &format!("not understood: {}", one_line(&why, REASON_COLUMNS)),
                    &mut steps,
                );
            }
            Event::Cancel => self.on_cancel(&mut steps),
            Event::Closed => {
                self.failures = 0;
                self.on_closed(&mut steps);
            }
            Event::Silent => self.on_silence(&mut steps),
            Event::Disconnected { why, reached } => self.on_disconnected(&why, reached, &mut steps),
            Event::Refused(error) => self.on_refused(&error, &mut steps),
            Event::Fatal(why) => {
                let lost = if self.task.is_some() { exit::LOST } else { exit::FAILED };
                self.push_line(&format!("gave up: {}", one_line(&why, REASON_COLUMNS)), &mut steps);
                self.end = Some(lost);
            }
        }
        steps.extend(self.end.map(Step::Exit));
        steps
    }

    fn on_update(&mut self, update: Update, steps: &mut Vec<Step>) {
        match update {
            Update::Message(message) => {
                self.push_line("answer:", steps);
                let text = self.output.server_text(&parts_text(&message.parts));
                steps.push(Step::Write(text));
                if self.task.is_none() {
                    self.end = Some(exit::DONE);
                }
            }
            Update::Task(task) => {
                if self.accept_task_id(&task.id, &task.context_id, steps) {
                    for artifact in &task.artifacts {
                        let text = self.output.full_artifact(artifact);
                        self.has_progress |= !text.is_empty();
                        push_text(text, steps);
                    }
                    self.on_status(&task.status, steps);
                }
            }
            Update::StatusUpdate(update) => {
                if self.accept_task_id(&update.task_id, &update.context_id, steps) {
                    self.on_status(&update.status, steps);
                }
            }
            Update::ArtifactUpdate(update) => {
                if self.accept_task_id(&update.task_id, &update.context_id, steps) {
                    let text = match update.append {
                        true => self.output.artifact_chunk(&update.artifact),
                        false => self.output.full_artifact(&update.artifact),
                    };
                    self.has_progress |= !text.is_empty();
                    push_text(text, steps);
                }
            }
        }
    }

    /// Records the task's id from the first update. Returns false for an update of another task, or
    /// of a task without an id.
    fn accept_task_id(&mut self, id: &str, context: &str, steps: &mut Vec<Step>) -> bool {
        if let Some(known) = &self.task {
            return known == id;
        }
        if id.is_empty() {
            self.push_line("not understood: a task without a name", steps);
            return false;
        }
        self.task = Some(id.to_owned());
        let mut line = format!("task {}", quote_name(id));
        if !context.is_empty() {
            line.push_str(&format!(", context {}", quote_name(context)));
        }
        self.has_progress = true;
        self.push_line(&line, steps);
        true
    }

    /// Writes a status that differs from the last one, and ends the client if the task has ended.
    fn on_status(&mut self, status: &Status, steps: &mut Vec<Step>) {
        let text = status.message.as_ref().map(|message| parts_text(&message.parts));
        let now = (status.state.clone(), text.unwrap_or_default());
        // After a broken stream the server repeats the status, which must not be written twice.
        if self.status.as_ref() != Some(&now) {
            self.has_progress = true;
            self.push_status(&now.0, now.1.trim_end(), steps);
            self.status = Some(now);
        }
        self.end = match status.state {
            A2aState::Completed => Some(exit::DONE),
            A2aState::Failed | A2aState::Rejected => Some(exit::FAILED),
            A2aState::Canceled => Some(exit::CANCELED),
            A2aState::Unspecified
            | A2aState::Submitted
            | A2aState::Working
            | A2aState::InputRequired
            | A2aState::AuthRequired
            | A2aState::Unknown(_) => None,
        };
    }

    fn push_status(&mut self, state: &A2aState, text: &str, steps: &mut Vec<Step>) {
        let mut line = match (state, state.label()) {
            (_, Some(word)) => word.to_owned(),
            (A2aState::Unknown(name), None) => {
                format!("unknown state {}", one_line(name, LINE_COLUMNS))
            }
            (_, None) => String::new(),
        };
        let is_short = !text.contains('\n') && text.chars().count() <= LINE_COLUMNS;
        let asks = state.waits_for_user();
        if !text.is_empty() && (is_short || asks) {
            line.push_str(&format!(": {}", one_line(text, LINE_COLUMNS)));
        } else if !text.is_empty() {
            line.push(':');
        }
        if asks {
            // The command that sends an answer is added to this line, because a notice shows only
            // one line.
            let task = quote_name(self.task.as_deref().unwrap_or_default());
            line.push_str(&format!(" [siding a2a send {} --task {task} TEXT]", self.answer_to));
        }
        self.push_line(&line, steps);
        if !text.is_empty() && !is_short {
            let text = self.output.server_text(text);
            push_text(text, steps);
        }
    }

    fn on_cancel(&mut self, steps: &mut Vec<Step>) {
        if self.is_canceling {
            return;
        }
        self.is_canceling = true;
        if self.task.is_none() {
            let why = "canceled before the server had named a task; the server may nevertheless \
                       have received the message";
            self.push_line(why, steps);
            self.end = Some(exit::LOST);
            return;
        }
        self.push_line("asks the server to cancel it", steps);
        self.push_request(ClientRequest::Cancel, Duration::ZERO, steps);
    }

    fn on_closed(&mut self, steps: &mut Vec<Step>) {
        if self.task.is_none() {
            self.push_line("the server has answered without a task and without a message", steps);
            self.end = Some(exit::FAILED);
        } else if self.is_canceling {
            let state = self.status.as_ref().and_then(|(state, _)| state.label());
            let state = state.unwrap_or("in an unknown state");
            self.push_line(&format!("asked to cancel; the server says it is {state}"), steps);
            self.end = Some(exit::CANCELED);
        } else {
            self.retry(steps);
        }
    }

    fn on_silence(&mut self, steps: &mut Vec<Step>) {
        if self.task.is_none() {
            // The peer may have vanished after it received the message.
            self.on_disconnected("the server sends nothing", true, steps);
        } else {
            self.failures = 0;
            self.on_closed(steps);
        }
    }

    fn on_disconnected(&mut self, why: &str, reached: bool, steps: &mut Vec<Step>) {
        let why = one_line(why, REASON_COLUMNS);
        self.failures += 1;
        if self.is_canceling {
            self.push_line(&format!("could not ask the server to cancel it: {why}"), steps);
            self.end = Some(exit::LOST);
        } else if self.task.is_none() && reached {
            self.push_line(
                &format!("it is not known whether the message has arrived: {why}"),
                steps,
            );
            self.end = Some(exit::LOST);
        } else if self.failures > MAX_FAILURES {
            let tries = self.failures;
            self.push_line(&format!("lost: {tries} attempts in a row have failed: {why}"), steps);
            self.end = Some(exit::LOST);
        } else {
            self.retry(steps);
            // An outage is reported once, at its first failure.
            if self.failures == 1 {
                let pause = format_duration(backoff(self.idle_requests));
                self.push_line(&format!("no connection, again in {pause}: {why}"), steps);
            }
        }
    }

    fn on_refused(&mut self, error: &RpcError, steps: &mut Vec<Step>) {
        let why = format!("{} ({})", one_line(&error.message, REASON_COLUMNS), error.code);
        match (self.current_request, error.code) {
            // Either the server does not stream, or the task is finished, or the server has no
            // stream for a task that waits for the user.
            (
                ClientRequest::Subscribe,
                code::UNSUPPORTED_OPERATION | code::METHOD_NOT_FOUND | code::TASK_NOT_FOUND,
            ) => {
                self.supports_streaming = false;
                self.push_request(ClientRequest::Get, Duration::ZERO, steps);
            }
            (ClientRequest::Send { .. }, _) => {
                self.push_line(&format!("refused: {why}"), steps);
                self.end = Some(exit::FAILED);
            }
            (ClientRequest::Cancel, _) => {
                self.push_line(&format!("could not be canceled: {why}"), steps);
                self.end = Some(exit::FAILED);
            }
            (ClientRequest::Get, code::TASK_NOT_FOUND) => {
                self.push_line(&format!("the server no longer knows the task: {why}"), steps);
                self.end = Some(exit::LOST);
            }
            (ClientRequest::Subscribe | ClientRequest::Get, _) => {
                self.on_disconnected(&why, true, steps)
            }
        }
    }

    /// Requests the state of the task again, or sends the message again if there is no task yet.
    /// The pauses grow while nothing changes.
    fn retry(&mut self, steps: &mut Vec<Step>) {
        self.idle_requests =
            if std::mem::take(&mut self.has_progress) { 0 } else { self.idle_requests + 1 };
        let ask = match (&self.task, self.supports_streaming) {
            // Without a task, a retry follows only a request that did not reach the server, so the
            // message is sent again.
            (None, stream) => ClientRequest::Send { stream },
            (Some(_), true) => ClientRequest::Subscribe,
            (Some(_), false) => ClientRequest::Get,
        };
        self.push_request(ask, backoff(self.idle_requests), steps);
    }

    fn push_request(&mut self, ask: ClientRequest, after: Duration, steps: &mut Vec<Step>) {
        self.current_request = ask;
        steps.push(Step::Request(ask, after));
    }

    fn push_line(&mut self, line: &str, steps: &mut Vec<Step>) {
        let text = self.output.siding_line(line);
        push_text(text, steps);
    }
}

/// Adds a step that writes the text, unless it is empty.
fn push_text(text: String, steps: &mut Vec<Step>) {
    if !text.is_empty() {
        steps.push(Step::Write(text));
    }
}

/// Returns the pause after this number of requests without progress.
fn backoff(quiet: usize) -> Duration {
    Duration::from_millis(BACKOFF_MS[quiet.min(BACKOFF_MS.len() - 1)])
}

/// Formats a server's id for the user to type. An unusual id is enclosed in backticks, so that the
/// user checks it first.
fn quote_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if name.len() <= MAX_TYPED_NAME_BYTES && !name.starts_with('-') && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("`{}`", one_line(name, MAX_TYPED_NAME_BYTES))
}
