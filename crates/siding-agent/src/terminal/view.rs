//! What a person sees of an agent, and what follows from what they press.

mod press;
mod sees;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use siding_model::process::MonotonicMs;

use super::frame::{Paint, Row};
use super::input::Input;
use crate::message::{CallId, Usage};

/// Bytes of what was not printed yet that are kept.
const SAID_BYTES_MAX: usize = 8 << 20;

/// What is shown.
#[derive(Debug)]
pub struct View {
    /// The model, as it was named.
    pub(super) model: String,
    pub(super) now: MonotonicMs,
    /// What has not been printed yet.
    said: VecDeque<Said>,
    said_bytes: usize,
    /// How many of the first of them were left out.
    left_out: usize,
    pub(super) input: Input,
    /// Prompts that the model has not been told.
    pub(super) queued: VecDeque<String>,
    /// What came so far of the answer that is on its way.
    pub(super) heard: String,
    pub(super) doing: Doing,
    /// Calls that run, in their order.
    pub(super) calls: Vec<Running>,
    pub(super) questions: VecDeque<Doubt>,
    pub(super) tasks: Vec<Task>,
    pub(super) spent: Usage,
    leaving: Leaving,
    /// What was said to the last key, if anything.
    pub(super) note: Option<String>,
}

/// A task that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// What it runs.
    pub command: String,
    /// How long it has run, in milliseconds.
    pub elapsed_ms: u64,
    /// How long it usually takes, in milliseconds, where that is known.
    pub usual_ms: Option<u64>,
    /// What it wrote last, where that was looked for.
    pub last_line: Option<String>,
    /// Whether a call waits for it.
    pub is_waited_for: bool,
    /// What it does where it does not simply run.
    pub state: Option<&'static str>,
}

/// What a person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// The model is to be told this.
    Say(String),
    /// What goes on in the foreground is to end.
    Interrupt,
    /// What runs in the foreground is to go on in the background.
    SendAway,
    /// Whether the command of this call is run.
    Answer {
        /// The call.
        call: CallId,
        /// Whether it is.
        yes: bool,
    },
    /// Everything is to end.
    Leave,
    /// The process is to be suspended.
    Suspend,
    /// The screen is to be drawn anew.
    Redraw,
}

/// What the agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing before something happens.
    Rests,
    /// It has asked the model.
    Asks { since: MonotonicMs },
    /// It hears thoughts.
    Thinks { since: MonotonicMs },
    /// It has what was said put in short.
    Summarises { since: MonotonicMs },
    /// It runs calls.
    Runs,
}

/// A call that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) id: CallId,
    pub(super) tool: String,
    pub(super) since: MonotonicMs,
}

/// What the guard has doubts about.
#[derive(Debug)]
pub(super) struct Doubt {
    pub(super) call: CallId,
    pub(super) command: String,
    pub(super) why: String,
}

/// How close a person is to leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The key was pressed once.
    Once,
    /// It was said what would be ended.
    Warned,
}

/// What is printed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    /// One row, cut where it is too long.
    Line(Paint, String),
    /// As many rows as it takes, the first after this head.
    Text(Paint, &'static str, String),
}

impl Said {
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
            said: VecDeque::new(),
            said_bytes: 0,
            left_out: 0,
            input: Input::default(),
            queued: VecDeque::new(),
            heard: String::new(),
            doing: Doing::Rests,
            calls: Vec::new(),
            questions: VecDeque::new(),
            tasks: Vec::new(),
            spent: Usage::default(),
            leaving: Leaving::No,
            note: None,
        }
    }

    /// Says which moment it is.
    pub fn at(&mut self, now: MonotonicMs) {
        self.now = now;
    }

    /// Says what runs.
    pub fn run(&mut self, tasks: Vec<Task>) {
        self.tasks = tasks;
    }

    /// Whether it changes as time passes.
    #[must_use]
    pub fn ticks(&self) -> bool {
        self.is_busy() || !self.tasks.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.doing != Doing::Rests || !self.calls.is_empty()
    }

    /// Takes what is to be printed for good, in rows of at most `columns`.
    pub fn take_said(&mut self, columns: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let left_out = std::mem::take(&mut self.left_out);
        self.said_bytes = 0;
        if left_out > 0 {
            let text = format!("… {left_out} earlier parts are only in the transcript");
            rows.push(Row::cut(Paint::Faint, &text, columns));
        }
        for said in self.said.drain(..) {
            match said {
                Said::Line(paint, text) => rows.push(Row::cut(paint, &text, columns)),
                Said::Text(paint, head, text) => {
                    rows.extend(Row::wrapped(paint, head, &text, columns));
                }
            }
        }
        rows
    }

    fn line(&mut self, paint: Paint, text: impl Into<String>) {
        self.say(Said::Line(paint, text.into()));
    }

    fn text(&mut self, paint: Paint, head: &'static str, text: &str) {
        self.say(Said::Text(paint, head, text.trim_end().to_owned()));
    }

    /// Keeps what is to be printed. A terminal that takes nothing for days must not fill the memory.
    fn say(&mut self, said: Said) {
        self.said_bytes += said.bytes();
        self.said.push_back(said);
        while self.said_bytes > SAID_BYTES_MAX && self.said.len() > 1 {
            let first = self.said.pop_front();
            self.said_bytes -= first.map_or(0, |said| said.bytes());
            self.left_out += 1;
        }
    }
}
