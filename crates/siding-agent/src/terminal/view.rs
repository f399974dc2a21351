//! The view: what the terminal shows of an agent, and the actions that keys trigger.

mod on_event;
mod on_key;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use siding_model::process::MonotonicMs;

use super::frame::{Row, TextStyle};
use super::input::InputLine;
use crate::message::{CallId, Usage};

/// Maximum bytes of output that are kept until the terminal accepts them.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// The state that determines what the terminal shows.
#[derive(Debug)]
pub struct View {
    /// The model's name, as given by the user.
    pub(super) model: String,
    pub(super) now: MonotonicMs,
    /// Output that has not been printed yet.
    pending_output: VecDeque<OutputBlock>,
    pending_output_bytes: usize,
    /// Number of blocks that were discarded from `pending_output` since the last output was
    /// printed.
    dropped_blocks: usize,
    pub(super) input: InputLine,
    /// Submitted prompts that have not been recorded for the model.
    pub(super) queued_prompts: VecDeque<String>,
    /// The part of the current answer received so far.
    pub(super) partial_response: String,
    pub(super) activity: Activity,
    /// The running calls, in the order of their start.
    pub(super) running_calls: Vec<RunningCall>,
    pub(super) pending_questions: VecDeque<PendingQuestion>,
    pub(super) tasks: Vec<TaskRow>,
    pub(super) total_usage: Usage,
    exit_confirmation: ExitConfirmation,
    /// A note that is shown instead of the status until the next key press.
    pub(super) status_note: Option<String>,
}

/// A running task in the task panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The task's id, such as `b-4k7q0n2m8x5t`.
    pub id: String,
    /// The task's command, or the name that was given to the task.
    pub command: String,
    /// Milliseconds since the task's start.
    pub elapsed_ms: u64,
    /// The task's usual duration in milliseconds, if known from earlier runs.
    pub expected_ms: Option<u64>,
    /// The task's last line of output, if it was read.
    pub last_line: Option<String>,
    /// Whether a call waits for the task.
    pub is_foreground: bool,
    /// The task's phase; `None` while the task is starting or running.
    pub phase: Option<&'static str>,
}

/// An action that a person has requested with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAction {
    /// Send this prompt to the model.
    Submit(String),
    /// Interrupt the work in the foreground.
    Interrupt,
    /// Move the running foreground command to the background.
    MoveToBackground,
    /// Answer the question of whether a command may run.
    AnswerQuestion {
        /// The call that waits for the answer.
        call: CallId,
        /// Whether the command may run.
        yes: bool,
    },
    /// End the agent and everything that it has started.
    Quit,
    /// Suspend the process, as Ctrl-Z does for any program.
    Suspend,
    /// Clear the screen and draw it again.
    Redraw,
}

/// The agent's current activity, for the status row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// No turn is in progress.
    Idle,
    /// A request to the model is in flight.
    WaitingForModel { since: MonotonicMs },
    /// The model is reasoning.
    Thinking { since: MonotonicMs },
    /// The model is summarizing the conversation.
    Summarizing { since: MonotonicMs },
    /// The calls of an answer are running.
    RunningCalls,
}

#[derive(Debug)]
pub(super) struct RunningCall {
    pub(super) id: CallId,
    pub(super) tool: String,
    pub(super) since: MonotonicMs,
}

/// A command that waits for the person's approval.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    pub(super) call: CallId,
    pub(super) command: String,
    pub(super) reason: String,
}

/// The progress of the confirmation before the agent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitConfirmation {
    NotRequested,
    /// Ctrl-C was pressed once; the next one requests the exit.
    KeyPressedOnce,
    /// The tasks that would end were listed.
    Warned,
}

/// Output that is printed once and then scrolls away.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OutputBlock {
    /// A single row, cut to the width of the terminal.
    Line(TextStyle, String),
    /// A text wrapped to as many rows as needed, with a prefix for the first.
    Text(TextStyle, &'static str, String),
}

impl OutputBlock {
    const fn bytes(&self) -> usize {
        match self {
            Self::Line(_, text) | Self::Text(_, _, text) => text.len(),
        }
    }
}

impl View {
    /// Creates an empty view.
    #[must_use]
    pub fn new(model: &str, now: MonotonicMs) -> Self {
        Self {
            model: model.to_owned(),
            now,
            pending_output: VecDeque::new(),
            pending_output_bytes: 0,
            dropped_blocks: 0,
            input: InputLine::default(),
            queued_prompts: VecDeque::new(),
            partial_response: String::new(),
            activity: Activity::Idle,
            running_calls: Vec::new(),
            pending_questions: VecDeque::new(),
            tasks: Vec::new(),
            total_usage: Usage::default(),
            exit_confirmation: ExitConfirmation::NotRequested,
            status_note: None,
        }
    }

    /// Sets the current time. The durations on the screen are measured up to this time.
    pub fn set_now(&mut self, now: MonotonicMs) {
        self.now = now;
    }

    /// Replaces the tasks of the task panel.
    pub fn set_tasks(&mut self, tasks: Vec<TaskRow>) {
        self.tasks = tasks;
    }

    /// Returns whether the screen changes with time alone.
    #[must_use]
    pub fn needs_refresh(&self) -> bool {
        self.is_busy() || !self.tasks.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.activity != Activity::Idle || !self.running_calls.is_empty()
    }

    /// Returns the output to print permanently, in rows of at most `columns`, and clears it.
    pub fn take_output(&mut self, columns: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let left_out = std::mem::take(&mut self.dropped_blocks);
        self.pending_output_bytes = 0;
        if left_out > 0 {
            let text = format!("… {left_out} earlier parts are only in the transcript");
            rows.push(Row::truncated(TextStyle::Faint, &text, columns));
        }
        for block in self.pending_output.drain(..) {
            match block {
                OutputBlock::Line(paint, text) => rows.push(Row::truncated(paint, &text, columns)),
                OutputBlock::Text(paint, head, text) => {
                    rows.extend(Row::wrapped(paint, head, &text, columns));
                }
            }
        }
        rows
    }

    fn push_line(&mut self, paint: TextStyle, text: impl Into<String>) {
        self.push_output(OutputBlock::Line(paint, text.into()));
    }

    fn push_text(&mut self, paint: TextStyle, head: &'static str, text: &str) {
        self.push_output(OutputBlock::Text(paint, head, text.trim_end().to_owned()));
    }

    /// Queues output. Above the limit the oldest output is discarded, so that a terminal that
    /// accepts nothing for days does not exhaust the memory.
    fn push_output(&mut self, block: OutputBlock) {
        self.pending_output_bytes += block.bytes();
        self.pending_output.push_back(block);
        while self.pending_output_bytes > MAX_OUTPUT_BYTES && self.pending_output.len() > 1 {
            let first = self.pending_output.pop_front();
            self.pending_output_bytes -= first.map_or(0, |block| block.bytes());
            self.dropped_blocks += 1;
        }
    }
}
