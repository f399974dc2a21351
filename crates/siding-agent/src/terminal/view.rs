//! What a person sees of an agent, and what follows from what they press.

mod on_event;
mod on_key;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use siding_model::process::MonotonicMs;

use super::frame::{Row, TextStyle};
use super::input::InputLine;
use crate::message::{CallId, Usage};

/// Bytes of what was not printed yet that are kept.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// What is shown.
#[derive(Debug)]
pub struct View {
    /// The model, as it was named.
    pub(super) model: String,
    pub(super) now: MonotonicMs,
    /// What has not been printed yet.
    pending_output: VecDeque<OutputBlock>,
    pending_output_bytes: usize,
    /// How many of the first of them were left out.
    dropped_blocks: usize,
    pub(super) input: InputLine,
    /// Prompts that the model has not been told.
    pub(super) queued_prompts: VecDeque<String>,
    /// What came so far of the answer that is on its way.
    pub(super) partial_response: String,
    pub(super) activity: Activity,
    /// Calls that run, in their order.
    pub(super) running_calls: Vec<RunningCall>,
    pub(super) pending_questions: VecDeque<PendingQuestion>,
    pub(super) tasks: Vec<TaskRow>,
    pub(super) total_usage: Usage,
    exit_confirmation: ExitConfirmation,
    /// What was said to the last key, if anything.
    pub(super) status_note: Option<String>,
}

/// A task that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// Its id.
    pub id: String,
    /// What it runs.
    pub command: String,
    /// How long it has run, in milliseconds.
    pub elapsed_ms: u64,
    /// How long it usually takes, in milliseconds, where that is known.
    pub expected_ms: Option<u64>,
    /// What it wrote last, where that was looked for.
    pub last_line: Option<String>,
    /// Whether a call waits for it.
    pub is_foreground: bool,
    /// What it does where it does not simply run.
    pub phase: Option<&'static str>,
}

/// What a person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAction {
    /// The model is to be told this.
    Submit(String),
    /// What goes on in the foreground is to end.
    Interrupt,
    /// What runs in the foreground is to go on in the background.
    MoveToBackground,
    /// Whether the command of this call is run.
    AnswerQuestion {
        /// The call.
        call: CallId,
        /// Whether it is.
        yes: bool,
    },
    /// Everything is to end.
    Quit,
    /// The process is to be suspended.
    Suspend,
    /// The screen is to be drawn anew.
    Redraw,
}

/// What the agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// Nothing before something happens.
    Idle,
    /// It has asked the model.
    WaitingForModel { since: MonotonicMs },
    /// It hears thoughts.
    Thinking { since: MonotonicMs },
    /// It has what was said put in short.
    Summarizing { since: MonotonicMs },
    /// It runs calls.
    RunningCalls,
}

/// A call that runs.
#[derive(Debug)]
pub(super) struct RunningCall {
    pub(super) id: CallId,
    pub(super) tool: String,
    pub(super) since: MonotonicMs,
}

/// What the guard has doubts about.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    pub(super) call: CallId,
    pub(super) command: String,
    pub(super) reason: String,
}

/// How close a person is to leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitConfirmation {
    NotRequested,
    /// The key was pressed once.
    KeyPressedOnce,
    /// It was said what would be ended.
    Warned,
}

/// What is printed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OutputBlock {
    /// One row, cut where it is too long.
    Line(TextStyle, String),
    /// As many rows as it takes, the first after this head.
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
    /// Begins with one in which nothing was said.
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

    /// Says which moment it is.
    pub fn set_now(&mut self, now: MonotonicMs) {
        self.now = now;
    }

    /// Says what runs.
    pub fn set_tasks(&mut self, tasks: Vec<TaskRow>) {
        self.tasks = tasks;
    }

    /// Whether it changes as time passes.
    #[must_use]
    pub fn needs_refresh(&self) -> bool {
        self.is_busy() || !self.tasks.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.activity != Activity::Idle || !self.running_calls.is_empty()
    }

    /// Takes what is to be printed for good, in rows of at most `columns`.
    pub fn take_output(&mut self, columns: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let left_out = std::mem::take(&mut self.dropped_blocks);
        self.pending_output_bytes = 0;
        if left_out > 0 {
            let text = format!("… {left_out} earlier parts are only in the transcript");
            rows.push(Row::truncated(TextStyle::Faint, &text, columns));
        }
        for said in self.pending_output.drain(..) {
            match said {
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

    /// Keeps what is to be printed. A terminal that takes nothing for days must not fill the memory.
    fn push_output(&mut self, said: OutputBlock) {
        self.pending_output_bytes += said.bytes();
        self.pending_output.push_back(said);
        while self.pending_output_bytes > MAX_OUTPUT_BYTES && self.pending_output.len() > 1 {
            let first = self.pending_output.pop_front();
            self.pending_output_bytes -= first.map_or(0, |said| said.bytes());
            self.dropped_blocks += 1;
        }
    }
}
