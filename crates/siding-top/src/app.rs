//! The state of the screen. It is pure: keys and data change it, and it returns the [`Effect`]s
//! that the caller has to carry out.

mod on_key;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::process::MonotonicMs;

use crate::detail::{Detail, DetailTab, PaneLine};
use crate::geometry::{DETAIL_FRAME_ROWS, LIST_FRAME_ROWS};
use crate::list::{ListGroup, ListOptions, TaskList, TaskTotals};
use crate::output_pane::Direction;
use crate::row::TaskRow;
use crate::theme::Theme;

/// The duration that an empty input line adds to a deadline.
pub(crate) const DEFAULT_EXTENSION: &str = "30m";

/// An action that a person requests for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskAction {
    /// Stop the task with everything that it started.
    Stop,
    /// Add this duration to the deadline.
    Extend(Duration),
    /// Write these lines, the last of which has its newline, to the standard input or terminal.
    Input(String),
    /// End the supervision of an adopted process.
    Release,
    /// Acknowledge the notices so far for the person at this terminal.
    Acknowledge,
    /// Determine the wait of each process. `may_repair` allows the replacement of a killed shim.
    Explain { may_repair: bool },
    /// Ask for the peak usage of the task so far.
    MeasurePeaks,
}

/// A movement in the output, or a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputMove {
    /// Scroll by rows.
    Scroll(Direction, usize),
    /// Show the first line.
    Start,
    /// Show the last line, and follow the output.
    End,
    /// Pause or follow.
    ToggleFollowing,
    /// Find a text; an empty one repeats the last search.
    Search(String, Direction),
    /// Show the first line that looks like an error.
    FirstError,
}

/// An operation that the caller has to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// End the program.
    Quit,
    /// Stop the process until its shell continues it.
    Suspend,
    /// Draw the whole screen again.
    Repaint,
    /// The options of the list have changed, so that its tasks must be arranged again.
    Arrange,
    /// Load the content of a task's page, which was opened.
    OpenDetail(TaskId),
    /// Carry out an action on a task.
    Act(TaskId, TaskAction),
    /// Move in the output of the open task.
    Output(OutputMove),
    /// End the search that is running.
    CancelSearch,
    /// Copy a text to the clipboard of the terminal.
    Copy(String),
    /// Show the output of a task in the pager.
    OpenPager(TaskId),
    /// Connect this terminal with the terminal of a task.
    Attach(TaskId),
}

/// The kind of text that a person enters in the last line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptKind {
    /// The filter of the list.
    Filter,
    /// A text to find in the output.
    Search,
    /// A line, or several pasted ones, for the standard input of a task.
    Input(TaskId),
    /// The duration to add to the deadline of a task.
    Extend(TaskId),
}

/// A box, a question or an input line over the list or the page of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// The list of keys, scrolled by this number of rows.
    Help(usize),
    /// A question about an action, which `y` confirms.
    Confirmation { id: TaskId, action: TaskAction, question: String },
    /// An input line with its text.
    Prompt { kind: PromptKind, text: String },
    /// The result of an action, for example the processes that a stop has ended.
    Report { title: String, lines: Vec<PaneLine>, top: usize },
}

/// A message in the last line, until the next key. A message about the text of an input line is
/// above the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) list: TaskList,
    pub(crate) options: ListOptions,
    pub(crate) detail: Option<Detail>,
    /// The row of the task in `detail`, which may be filtered out of the list.
    pub(crate) detail_row: Option<TaskRow>,
    pub(crate) overlay: Option<Overlay>,
    /// Reports that are shown once no other box or input line is open.
    waiting_reports: VecDeque<Overlay>,
    pub(crate) message: Option<Message>,
    /// Messages that arrived while an input line or a question was in the last line. The first one
    /// is shown in place of `message` once the line is free, and each key removes one.
    waiting_messages: VecDeque<Message>,
    /// The note that an action is being carried out, until its result arrives or a key is pressed.
    /// It is visible while there is no other message.
    progress: Option<Message>,
    /// The message about the search that is running in the output of the open task. It is visible
    /// while there is no other message.
    searching: Option<Message>,
    pub(crate) is_read_only: bool,
    pub(crate) theme: Theme,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// The present on the monotonic clock, as the screen shows it.
    pub(crate) now: MonotonicMs,
}

impl App {
    pub(crate) fn new(theme: Theme, is_read_only: bool) -> Self {
        Self {
            list: TaskList::default(),
            options: ListOptions::default(),
            detail: None,
            detail_row: None,
            overlay: None,
            waiting_reports: VecDeque::new(),
            message: None,
            waiting_messages: VecDeque::new(),
            progress: None,
            searching: None,
            is_read_only,
            theme,
            columns: 80,
            rows: 24,
            now: MonotonicMs(0),
        }
    }

    /// Replaces the tasks of the list.
    pub(crate) fn set_groups(&mut self, groups: Vec<ListGroup>, totals: TaskTotals) {
        self.list.set_groups(groups, totals);
    }

    /// Returns the number of rows for tasks.
    pub(crate) const fn list_height(&self) -> usize {
        self.rows.saturating_sub(LIST_FRAME_ROWS)
    }

    /// Returns the number of rows for the content of a tab.
    pub(crate) const fn pane_height(&self) -> usize {
        self.rows.saturating_sub(DETAIL_FRAME_ROWS)
    }

    /// Returns the size of the output in columns and rows.
    pub(crate) const fn output_size(&self) -> (usize, usize) {
        (self.columns, self.pane_height())
    }

    /// Returns the task to which the keys apply.
    pub(crate) fn current(&self) -> Option<&TaskRow> {
        match &self.detail {
            Some(_) => self.detail_row.as_ref(),
            None => self.list.selected(),
        }
    }

    /// Replaces the values of the task whose page is open. After the end of the task, an answer of
    /// its shim describes processes that no longer exist, so it is removed.
    pub(crate) fn set_detail_row(&mut self, row: TaskRow) {
        if let Some(detail) = self.detail.as_mut().filter(|_| !row.is_live()) {
            detail.remove_answer();
        }
        self.detail_row = Some(row);
    }

    /// Shows the answer of a task's shim on the task's page, if the page is open and the task has
    /// not ended meanwhile.
    pub(crate) fn set_answer(&mut self, id: TaskId, tab: DetailTab, lines: Vec<PaneLine>) {
        let Some(detail) = self.detail.as_mut().filter(|detail| detail.id == id) else { return };
        if self.detail_row.as_ref().is_some_and(TaskRow::is_live) {
            detail.set_answer(tab, lines);
        }
        self.progress = None;
    }

    /// Shows a message. If an input line, a question or a waiting message is in the last line, the
    /// message waits for its turn, so that none is lost.
    pub(crate) fn show_message(&mut self, text: impl Into<String>) {
        self.add_message(Message { text: text.into(), is_error: false });
    }

    /// Shows a message about a failure, as [`Self::show_message`] does.
    pub(crate) fn show_error(&mut self, text: impl Into<String>) {
        self.add_message(Message { text: text.into(), is_error: true });
    }

    /// Shows that an action has started, unless there is a message. The result of the action
    /// replaces this note, which therefore never waits.
    pub(crate) fn show_progress(&mut self, text: impl Into<String>) {
        self.progress = Some(Message { text: text.into(), is_error: false });
    }

    fn add_message(&mut self, message: Message) {
        self.progress = None;
        if !self.has_input_line() && self.waiting_messages.is_empty() {
            self.message = Some(message);
        } else if !self.waiting_messages.contains(&message) {
            self.waiting_messages.push_back(message);
        }
    }

    /// Returns the message that is visible.
    pub(crate) fn visible_message(&self) -> Option<&Message> {
        let waiting = self.waiting_messages.front().filter(|_| !self.has_input_line());
        let message = waiting.or(self.message.as_ref());
        message.or(self.progress.as_ref()).or(self.searching.as_ref())
    }

    /// Shows that a search is running, until [`Self::end_search`].
    pub(crate) fn show_search(&mut self) {
        let text = "searching… Esc cancels".to_owned();
        self.searching = Some(Message { text, is_error: false });
    }

    /// Removes the message about the running search. Returns whether a search was running.
    pub(crate) fn end_search(&mut self) -> bool {
        self.searching.take().is_some()
    }

    /// Removes the visible message.
    fn remove_message(&mut self) {
        (self.message, self.progress) = (None, None);
        if !self.has_input_line() {
            self.waiting_messages.pop_front();
        }
    }

    /// Returns whether an input line or a question is in the last line.
    const fn has_input_line(&self) -> bool {
        matches!(self.overlay, Some(Overlay::Prompt { .. } | Overlay::Confirmation { .. }))
    }

    /// Shows the result of an action in a box. A person who is typing, answers a question or reads
    /// another report is not interrupted: the box appears afterwards.
    pub(crate) fn show_report(&mut self, title: impl Into<String>, lines: Vec<PaneLine>) {
        self.progress = None;
        self.waiting_reports.push_back(Overlay::Report { title: title.into(), lines, top: 0 });
        self.open_waiting_report();
    }

    /// Opens the first waiting report, unless it would replace an input line, a question or a
    /// report.
    fn open_waiting_report(&mut self) {
        if matches!(self.overlay, None | Some(Overlay::Help(_)))
            && let Some(report) = self.waiting_reports.pop_front()
        {
            self.overlay = Some(report);
        }
    }
}
