//! The page about one task: its tabs, and the visible lines of the selected one.

use siding_model::id::TaskId;

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
    /// The notices, and the readers who have received them.
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

/// A line of a tab other than the output. The text is shown on one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneLine {
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

impl PaneLine {
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { tone, text: text.into() }
    }

    pub(crate) fn normal(text: impl Into<String>) -> Self {
        Self::new(Tone::Normal, text)
    }
}

/// The state of the page about one task.
#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) id: TaskId,
    pub(crate) tab: DetailTab,
    pub(crate) output: OutputPane,
    /// The lines of the tab; none for the output.
    lines: Vec<PaneLine>,
    /// The answer of the task's shim to `w`, and the tab that shows the answer.
    answer: Option<(DetailTab, Vec<PaneLine>)>,
    /// The first visible line of the tab.
    top: usize,
}

impl Detail {
    pub(crate) fn new(id: TaskId) -> Self {
        Self {
            id,
            tab: DetailTab::Output,
            output: OutputPane::new(),
            lines: Vec::new(),
            answer: None,
            top: 0,
        }
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
        self.top = self.top.min(self.lines().count().saturating_sub(1));
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

    /// Returns the visible lines of the tab.
    pub(crate) fn visible_lines(&self, height: usize) -> impl Iterator<Item = &PaneLine> {
        self.lines().skip(self.top).take(height)
    }

    /// Scrolls the tab by a number of lines.
    pub(crate) fn scroll(&mut self, by: isize, height: usize) {
        let last_top = self.lines().count().saturating_sub(height);
        self.top = self.top.saturating_add_signed(by).min(last_top);
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
        detail.scroll(100, 4);
        let visible = |detail: &Detail| {
            detail.visible_lines(4).map(|line| line.text.clone()).collect::<String>()
        };
        assert_eq!(visible(&detail), "6789");
        detail.scroll(-1, 4);
        assert_eq!(visible(&detail), "5678");
        detail.select_tab(detail.tab.cycle(true));
        assert_eq!(visible(&detail), "");
        detail.select_tab(detail.tab.cycle(false));
        detail.set_lines(numbers(0..10));
        assert_eq!(visible(&detail), "0123");
        detail.scroll(5, 4);
        detail.set_lines(numbers(0..3));
        assert_eq!(visible(&detail), "2", "the tab has become shorter");
        detail.set_answer(DetailTab::Events, numbers(7..9));
        assert_eq!(visible(&detail), "278");
        detail.set_answer(DetailTab::Limits, numbers(7..9));
        assert_eq!(visible(&detail), "2", "the answer belongs to another tab");
    }
}
