//! Tells a person about an attachment: how to leave it, that keys have no effect, and that the
//! terminal of the task has another size.
//!
//! A line above the first screen and the title of the person's terminal say so. The title follows
//! the sizes, because a line would damage the screen of a full-screen program.

use std::io;

use siding_core::sys::tty;
use siding_model::terminal::TerminalSize;

use super::TerminalCaller;
use crate::failure::Failure;
use crate::render;

/// Assumed number of rows of a terminal that does not report its size.
const DEFAULT_ROWS: u16 = 24;
/// The note about the first key of a person who only watches.
const READ_ONLY_NOTE: &str = "this attachment is read-only, so your keys have no effect";

/// The facts that a person was told.
#[derive(Debug, Default)]
pub(super) struct AnnouncementState {
    /// The text about different sizes that the title shows.
    size_difference: Option<String>,
    /// Whether a size may have changed since the title was written.
    pub(super) must_update_title: bool,
    knows_size_difference: bool,
    knows_read_only: bool,
    /// The size that this call has requested for the task's terminal, until a record confirms it.
    pub(super) requested_size: Option<TerminalSize>,
}

impl TerminalCaller<'_> {
    /// Draws the first screen, as [`Self::show_present_screen`] does, below a line with the
    /// announcement of the attachment.
    pub(crate) fn show_first_screen(&mut self, scrollback_rows: usize) -> Result<(), Failure> {
        let replay = self.open_replay()?;
        if self.options.is_read_only {
            self.announced.size_difference = self.find_size_difference();
            self.announced.knows_size_difference = self.announced.size_difference.is_some();
        }
        if let Some(text) = self.announcement() {
            let rows = tty::size(io::stdout()).map_or(DEFAULT_ROWS, |(_, rows)| rows);
            // The task's main screen covers the rows of this terminal, so they are scrolled off.
            // The alternate screen leaves them in place: they are visible again when it ends.
            let lines = if replay.screen().is_alternate() { 1 } else { usize::from(rows) };
            let below = "\n".repeat(lines);
            // XTWINOPS 22 saves the title.
            let line = format!("siding: attached to {text}\r{below}\x1b[22;2t\x1b]2;{text}\x07");
            self.output.show_bytes(line.as_bytes())?;
        }
        self.draw_screen(&replay, scrollback_rows)
    }

    /// Updates the title after a change of a size. While the title cannot be written, the next call
    /// does so.
    pub(super) fn update_title(&mut self) {
        let difference = self.find_size_difference();
        if self.options.title.is_some() && difference != self.announced.size_difference {
            let shown = std::mem::replace(&mut self.announced.size_difference, difference);
            let is_possible = self.suspended.is_none();
            if !is_possible
                || self.announcement().is_some_and(|text| !self.output.show_title(&text))
            {
                self.announced.size_difference = shown;
                return;
            }
            self.print_size_difference();
        }
        self.announced.must_update_title = false;
    }

    /// Processes a recorded change of the size of the task's terminal.
    pub(super) fn on_resized(&mut self, size: TerminalSize) {
        self.task_size = Some(size);
        if self.announced.requested_size == Some(size) {
            self.announced.requested_size = None;
        }
        self.announced.must_update_title = true;
    }

    /// Informs a person who only watches, once, that a key had no effect. A full-screen program
    /// would not repair its screen after a line; the title says the same.
    pub(super) fn on_ignored_key(&mut self) {
        if !self.announced.knows_read_only && !self.output.is_full_screen() {
            self.announced.knows_read_only = true;
            render::print_note(READ_ONLY_NOTE);
        }
    }

    /// Returns the text of the title; `None` if this call does not change the title.
    fn announcement(&self) -> Option<String> {
        let title = self.options.title.as_ref()?;
        Some(match &self.announced.size_difference {
            Some(difference) => format!("{title}; {difference}"),
            None => title.clone(),
        })
    }

    /// Returns the sizes of both terminals if they differ, unless this call has requested that they
    /// become equal.
    fn find_size_difference(&self) -> Option<String> {
        let (task, own) = (self.task_size?, own_size()?);
        let is_requested = self.announced.requested_size.is_some();
        (task != own && !is_requested)
            .then(|| format!("the task's terminal is {task}, yours {own}"))
    }

    /// Prints the sizes of both terminals once, when they begin to differ, unless the line would
    /// damage the screen of a full-screen program.
    fn print_size_difference(&mut self) {
        let Some(difference) = &self.announced.size_difference else { return };
        if self.announced.knows_size_difference || self.output.is_full_screen() {
            return;
        }
        self.announced.knows_size_difference = true;
        let next_step = match self.options.is_read_only {
            true => format!("`siding screen {}` shows its screen", self.id),
            false => "your next key gives it the size of yours".to_owned(),
        };
        render::print_note(&format!("{difference}, so lines may be misplaced; {next_step}"));
    }
}

/// Returns the size of this terminal if a task's terminal can have it.
pub(super) fn own_size() -> Option<TerminalSize> {
    let (columns, rows) = tty::size(io::stdout())?;
    TerminalSize::new(columns, rows).ok()
}
