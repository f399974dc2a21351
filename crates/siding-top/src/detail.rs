//! The page about one task: its tabs, and the visible lines of the selected one.

use siding_model::id::TaskId;
use siding_model::text::{display_width, one_line, wrap_text};
use siding_terminal::Screen;

use crate::output_pane::OutputPane;
use crate::theme::Tone;

/// A part of the page about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetailTab {
    /// The output.
    Output,
    /// The processes, and what they wait for.
    Processes,
    /// The limits, and the used part of each.
    Limits,
    /// The events of the journal.
    Events,
    /// The notices, and the consumers that have received them.
    Notices,
    /// Other facts about the task, such as its directory and its session.
    Facts,
}

impl DetailTab {
    pub(crate) const ALL_TABS: [Self; 6] =
        [Self::Output, Self::Processes, Self::Limits, Self::Events, Self::Notices, Self::Facts];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Processes => "processes",
            Self::Limits => "limits",
            Self::Events => "events",
            Self::Notices => "notices",
            Self::Facts => "facts",
        }
    }

    /// Returns the next tab, or the previous one, in a circle.
    pub(crate) fn cycle(self, is_forward: bool) -> Self {
        let count = Self::ALL_TABS.len();
        Self::ALL_TABS[(self as usize + if is_forward { 1 } else { count - 1 }) % count]
    }
}

/// Minimum width of a text next to its label. If less is left, the rows below the first one are not
/// indented.
const MIN_TEXT_COLUMNS: usize = 16;

/// A line of a tab other than the output, or of a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneLine {
    pub(crate) tone: Tone,
    /// The text in front of the first row. The rows below it are indented by its width. `None` for
    /// a text that is cut to one row.
    pub(crate) label: Option<String>,
    pub(crate) text: String,
}

impl PaneLine {
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { tone, label: Some(String::new()), text: text.into() }
    }

    pub(crate) fn normal(text: impl Into<String>) -> Self {
        Self::new(Tone::Normal, text)
    }

    /// Returns a line with a label, which ends in blanks, in front of its text.
    pub(crate) fn labeled(label: impl Into<String>, text: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..Self::normal(text) }
    }

    /// Returns a row of a table. The row is cut, not wrapped.
    pub(crate) fn table_row(text: impl Into<String>) -> Self {
        Self { label: None, ..Self::normal(text) }
    }

    /// Returns the rows of the line on a screen or in a box of this width.
    fn rows(&self, columns: usize) -> Vec<String> {
        let Some(label) = &self.label else { return vec![one_line(&self.text, columns)] };
        let indent = display_width(label);
        if columns < indent + MIN_TEXT_COLUMNS {
            return wrap_text(&format!("{label}{}", self.text), columns);
        }
        let mut rows = wrap_text(&self.text, columns - indent);
        for (number, row) in rows.iter_mut().enumerate() {
            let blanks = " ".repeat(indent);
            row.insert_str(0, if number == 0 { label } else { &blanks });
        }
        rows
    }
}

/// Returns the rows of lines on a screen or in a box of this width, each with its tone.
pub(crate) fn wrap_lines<'l>(
    lines: impl IntoIterator<Item = &'l PaneLine>,
    columns: usize,
) -> Vec<(Tone, String)> {
    let rows = |line: &'l PaneLine| {
        line.rows(columns).into_iter().map(|row| (line.tone, row)).collect::<Vec<_>>()
    };
    lines.into_iter().flat_map(rows).collect()
}

/// The state of the page about one task.
#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) id: TaskId,
    pub(crate) tab: DetailTab,
    pub(crate) output: OutputPane,
    /// The screen of a task with a terminal.
    pub(crate) screen: Option<Screen>,
    /// The lines of the tab; none for the output.
    lines: Vec<PaneLine>,
    /// The answer of the task's shim to `w`, and the tab that shows the answer.
    answer: Option<(DetailTab, Vec<PaneLine>)>,
    /// The first visible row of the tab, unless the tab has become shorter.
    top: usize,
}

impl Detail {
    pub(crate) fn new(id: TaskId) -> Self {
        Self {
            id,
            tab: DetailTab::Output,
            output: OutputPane::new(),
            screen: None,
            lines: Vec::new(),
            answer: None,
            top: 0,
        }
    }

    /// Returns the screen that the output tab shows; `None` for a task without a terminal, and
    /// while the output is paused: its lines are then shown, which can be scrolled and searched.
    pub(crate) fn shown_screen(&self) -> Option<&Screen> {
        self.screen.as_ref().filter(|_| self.output.is_following())
    }

    pub(crate) fn select_tab(&mut self, tab: DetailTab) {
        if self.tab != tab {
            (self.tab, self.top) = (tab, 0);
            self.lines.clear();
        }
    }

    /// Replaces the lines of the tab.
    pub(crate) fn set_lines(&mut self, lines: Vec<PaneLine>) {
        self.lines = lines;
    }

    /// Returns the lines of the tab; none for the output.
    fn lines(&self) -> impl Iterator<Item = &PaneLine> {
        let answer = self.answer.iter().filter(move |(tab, _)| *tab == self.tab);
        self.lines.iter().chain(answer.flat_map(|(_, lines)| lines))
    }

    /// Adds the answer of the task's shim to a tab, in place of an earlier answer.
    pub(crate) fn set_answer(&mut self, tab: DetailTab, lines: Vec<PaneLine>) {
        self.answer = Some((tab, lines));
    }

    /// Removes the answer of the task's shim, if there is one.
    pub(crate) fn remove_answer(&mut self) {
        self.answer = None;
    }

    /// Returns the visible rows of the tab on a screen of `size` columns and rows.
    pub(crate) fn visible_rows(&self, size: (usize, usize)) -> Vec<(Tone, String)> {
        let rows = wrap_lines(self.lines(), size.0);
        let top = self.top.min(rows.len().saturating_sub(1));
        rows.into_iter().skip(top).take(size.1).collect()
    }

    /// Scrolls the tab by a number of rows, on a screen of `size` columns and rows.
    pub(crate) fn scroll(&mut self, by: isize, size: (usize, usize)) {
        let count = wrap_lines(self.lines(), size.0).len();
        let top = self.top.min(count.saturating_sub(1));
        self.top = top.saturating_add_signed(by).min(count.saturating_sub(size.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_scroll_within_their_lines() {
        let mut detail = Detail::new("b-4k7q0n2m8x5t".parse().expect("an id"));
        let numbers = |range: std::ops::Range<i32>| {
            range.map(|number| PaneLine::normal(number.to_string())).collect::<Vec<_>>()
        };
        detail.select_tab(DetailTab::Events);
        detail.set_lines(numbers(0..10));
        let size = (80, 4);
        detail.scroll(100, size);
        let visible = |detail: &Detail| {
            detail.visible_rows(size).into_iter().map(|(_, row)| row).collect::<String>()
        };
        assert_eq!(visible(&detail), "6789");
        detail.scroll(-1, size);
        assert_eq!(visible(&detail), "5678");
        detail.select_tab(detail.tab.cycle(true));
        assert_eq!(visible(&detail), "");
        detail.select_tab(detail.tab.cycle(false));
        detail.set_lines(numbers(0..10));
        assert_eq!(visible(&detail), "0123");
        detail.scroll(5, size);
        detail.set_lines(numbers(0..3));
        assert_eq!(visible(&detail), "2", "the tab has become shorter");
        detail.set_answer(DetailTab::Events, numbers(7..9));
        assert_eq!(visible(&detail), "8");
        detail.scroll(-2, size);
        assert_eq!(visible(&detail), "1278");
        detail.scroll(1, size);
        assert_eq!(visible(&detail), "1278", "the last row stays at the bottom");
        detail.set_answer(DetailTab::Limits, numbers(7..9));
        assert_eq!(visible(&detail), "12", "the answer belongs to another tab");
    }

    #[test]
    fn a_text_is_wrapped_next_to_its_label() {
        let line = PaneLine::labeled("next  ", "`siding input b-4k7q` answers it");
        assert_eq!(line.rows(40), ["next  `siding input b-4k7q` answers it"]);
        assert_eq!(line.rows(26), ["next  `siding input", "      b-4k7q` answers it"]);
        assert_eq!(line.rows(20), ["next  `siding input", "b-4k7q` answers it"]);
        assert_eq!(PaneLine::normal("one two").rows(4), ["one", "two"]);
        assert_eq!(PaneLine::table_row("  1 S  make").rows(6), ["  1 S…"]);
    }

    #[test]
    fn a_tab_scrolls_by_rows() {
        let mut detail = Detail::new("b-4k7q0n2m8x5t".parse().expect("an id"));
        detail.select_tab(DetailTab::Facts);
        let text = "one two three four five six seven eight nine";
        detail.set_lines(vec![PaneLine::normal(text)]);
        let size = (10, 2);
        let first = |detail: &Detail| detail.visible_rows(size).swap_remove(0).1;
        assert_eq!(first(&detail), "one two");
        detail.scroll(1, size);
        assert_eq!(first(&detail), "three four");
        detail.set_lines(vec![PaneLine::normal(text)]);
        assert_eq!(first(&detail), "three four", "an update keeps the position");
        assert_eq!(detail.visible_rows((80, 2)), [(Tone::Normal, text.to_owned())]);
    }
}
