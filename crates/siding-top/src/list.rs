//! The lines of the list, its selection and its visible part.

use std::collections::HashMap;

use siding_live::arrange::{Grouping, SortKey};
use siding_model::id::TaskId;

use crate::columns::Column;
use crate::row::TaskRow;

/// The arrangement of the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ListOptions {
    pub(crate) sort: SortKey,
    pub(crate) grouping: Grouping,
    /// The text that a person entered to filter the list.
    pub(crate) filter: String,
    /// Whether ended tasks are left out, except those that need a person.
    pub(crate) hides_ended: bool,
}

impl ListOptions {
    /// Selects the next sort key, or the previous one, in a circle.
    pub(crate) fn cycle_sort(&mut self, is_forward: bool) {
        self.sort = cycle(&SortKey::ALL_KEYS, self.sort, is_forward);
    }

    /// Selects the next grouping, in a circle.
    pub(crate) fn cycle_grouping(&mut self) {
        self.grouping = cycle(&Grouping::ALL_GROUPINGS, self.grouping, true);
    }
}

fn cycle<T: Copy + PartialEq>(values: &[T], current: T, is_forward: bool) -> T {
    let index = values.iter().position(|value| *value == current).unwrap_or(0);
    let step = if is_forward { 1 } else { values.len() - 1 };
    values[(index + step) % values.len()]
}

/// Tasks in the order of the screen, below an optional heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListGroup {
    /// `None` for a list without groups.
    pub(crate) title: Option<String>,
    pub(crate) tasks: Vec<TaskId>,
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListEntry {
    /// The heading of a group, with the number of its tasks.
    Heading { title: String, tasks: usize },
    /// A task.
    Task(TaskId),
}

impl ListEntry {
    pub(crate) const fn task_id(&self) -> Option<TaskId> {
        match self {
            Self::Heading { .. } => None,
            Self::Task(id) => Some(*id),
        }
    }
}

/// A visible line of the list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct VisibleEntry<'l> {
    pub(crate) entry: &'l ListEntry,
    /// The row of a task; `None` for a heading, and for a task that was removed meanwhile.
    pub(crate) row: Option<&'l TaskRow>,
    pub(crate) is_selected: bool,
}

/// The numbers in the title of the screen. They count all tasks, including those that are filtered
/// out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TaskTotals {
    pub(crate) needing: usize,
    /// Number of tasks that have not ended, except those in a queue.
    pub(crate) running: usize,
    /// Number of tasks whose jobs wait in the queue of a cluster.
    pub(crate) queued: usize,
    pub(crate) ended: usize,
}

impl TaskTotals {
    /// Returns the number of all tasks.
    pub(crate) const fn task_count(self) -> usize {
        self.running + self.queued + self.ended
    }
}

/// The list of tasks. It has the ids of all listed tasks, and the rows of those on the screen:
/// building the rows of thousands of tasks at each change would be slow.
#[derive(Debug, Default)]
pub(crate) struct TaskList {
    entries: Vec<ListEntry>,
    /// The rows of the visible tasks, one of which is selected.
    rows: HashMap<TaskId, TaskRow>,
    pub(crate) totals: TaskTotals,
    /// Index of the selected entry, which is a task unless the list is empty.
    selected: usize,
    /// Whether a person has moved the selection. Until then the first task is selected.
    has_moved: bool,
    /// Index of the first visible entry.
    top: usize,
}

impl TaskList {
    /// Replaces the tasks. The task that a person has selected stays selected; if it is no longer
    /// listed, the task at its position becomes the selected one. Call [`Self::load_rows`] before
    /// the list is drawn.
    pub(crate) fn set_groups(&mut self, groups: Vec<ListGroup>, totals: TaskTotals) {
        let selected = self.selected_id().filter(|_| self.has_moved);
        self.entries.clear();
        for ListGroup { title, tasks } in groups {
            let heading = title.map(|title| ListEntry::Heading { title, tasks: tasks.len() });
            self.entries.extend(heading);
            self.entries.extend(tasks.into_iter().map(ListEntry::Task));
        }
        self.totals = totals;
        match selected.and_then(|id| self.position(id)) {
            Some(index) => self.selected = index,
            None if self.has_moved => self.select_nearest(self.selected),
            None => self.select_nearest(0),
        }
    }

    /// Scrolls as little as possible so that the selected task is visible, and builds the rows of
    /// the visible tasks.
    pub(crate) fn load_rows(&mut self, height: usize, build: impl Fn(TaskId) -> Option<TaskRow>) {
        let height = height.max(1);
        let last_top = self.entries.len().saturating_sub(height);
        let lowest_top = (self.selected + 1).saturating_sub(height);
        self.top = self.top.clamp(lowest_top, self.selected.max(lowest_top)).min(last_top);
        let visible = self.entries.iter().skip(self.top).take(height);
        let ids = visible.filter_map(ListEntry::task_id);
        self.rows = ids.filter_map(|id| Some((id, build(id)?))).collect();
    }

    fn position(&self, id: TaskId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.task_id() == Some(id))
    }

    /// Selects the task at an index. At a heading, selects the next task below it, or the next
    /// above it if there is none below.
    fn select_nearest(&mut self, index: usize) {
        let index = index.min(self.entries.len().saturating_sub(1));
        let is_task = |index: &usize| self.entries[*index].task_id().is_some();
        let below = (index..self.entries.len()).find(is_task);
        self.selected = below.or_else(|| (0..index).rev().find(is_task)).unwrap_or(0);
    }

    pub(crate) fn selected(&self) -> Option<&TaskRow> {
        self.rows.get(&self.selected_id()?)
    }

    pub(crate) fn selected_id(&self) -> Option<TaskId> {
        self.entries.get(self.selected).and_then(ListEntry::task_id)
    }

    /// Returns the number of listed tasks.
    pub(crate) fn task_count(&self) -> usize {
        self.entries.iter().filter(|entry| entry.task_id().is_some()).count()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Moves the selection by a number of tasks.
    pub(crate) fn move_selection(&mut self, by: isize) {
        self.has_moved = true;
        let is_task = |index: &usize| self.entries[*index].task_id().is_some();
        let tasks: Vec<usize> = (0..self.entries.len()).filter(is_task).collect();
        let current = tasks.partition_point(|index| *index < self.selected);
        let last = tasks.len().saturating_sub(1);
        if let Some(index) = tasks.get(current.saturating_add_signed(by).min(last)) {
            self.selected = *index;
        }
        if self.selected == tasks.first().copied().unwrap_or(0) {
            // The heading above the first task also becomes visible.
            self.top = 0;
        }
    }

    /// Selects the task in a row of the visible part. Returns false if there is no task.
    pub(crate) fn select_visible(&mut self, row: usize) -> bool {
        let index = self.top + row;
        let is_task = self.entries.get(index).is_some_and(|entry| entry.task_id().is_some());
        if is_task {
            (self.selected, self.has_moved) = (index, true);
        }
        is_task
    }

    /// Returns the visible entries. [`Self::load_rows`] determines the first of them.
    pub(crate) fn visible(&self, height: usize) -> impl Iterator<Item = VisibleEntry<'_>> {
        let entries = self.entries.iter().enumerate().skip(self.top).take(height);
        entries.map(move |(index, entry)| VisibleEntry {
            entry,
            row: entry.task_id().and_then(|id| self.rows.get(&id)),
            is_selected: index == self.selected,
        })
    }

    /// Returns those of the columns `Host` and `TimeBar` that are left out, because they are empty
    /// in each visible row.
    pub(crate) fn empty_columns(&self) -> Vec<Column> {
        let mut empty = Vec::new();
        if self.rows.values().all(|row| row.host.is_empty()) {
            empty.push(Column::Host);
        }
        if self.rows.values().all(|row| row.usual_ms().is_none()) {
            empty.push(Column::TimeBar);
        }
        empty
    }

    /// Returns the ids of the live tasks in the visible part.
    pub(crate) fn visible_live_ids(&self, height: usize) -> Vec<TaskId> {
        let rows = self.visible(height).filter_map(|visible| visible.row);
        rows.filter(|row| row.is_live()).map(|row| row.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::sample_row;

    fn group(title: Option<&str>, names: &[&str]) -> ListGroup {
        let id = |name: &&str| format!("b-{name}00000000000").parse().expect("an id");
        ListGroup { title: title.map(str::to_owned), tasks: names.iter().map(id).collect() }
    }

    fn sample_list(names: &[&str]) -> TaskList {
        let mut list = TaskList::default();
        list.set_groups(vec![group(None, names)], TaskTotals::default());
        list
    }

    /// Builds the row of a task of [`group`]. The name in the task's id becomes the command.
    fn build_row(id: TaskId) -> TaskRow {
        let text = id.to_string();
        sample_row(&text, &text[2..3])
    }

    fn selected(list: &mut TaskList) -> &str {
        list.load_rows(9, |id| Some(build_row(id)));
        list.selected().map_or("", |row| &row.command)
    }

    fn visible(list: &mut TaskList, height: usize) -> String {
        list.load_rows(height, |id| Some(build_row(id)));
        let text = |visible: VisibleEntry<'_>| {
            let text = match (visible.entry, visible.row) {
                (ListEntry::Heading { title, tasks }, _) => format!("[{title} {tasks}]"),
                (ListEntry::Task(_), Some(row)) => row.command.clone(),
                (ListEntry::Task(id), None) => format!("{id} is not loaded"),
            };
            if visible.is_selected { format!("<{text}>") } else { text }
        };
        list.visible(height).map(text).collect()
    }

    #[test]
    fn the_selection_stays_on_its_task() {
        let mut list = sample_list(&["a", "b", "c"]);
        list.set_groups(vec![group(None, &["7", "a", "b", "c"])], TaskTotals::default());
        assert_eq!(selected(&mut list), "7", "the first task is selected until a person moves");
        list.move_selection(2);
        list.set_groups(vec![group(None, &["d", "e", "7", "a", "b"])], TaskTotals::default());
        assert_eq!(selected(&mut list), "b");
        list.set_groups(vec![group(None, &["d", "e"])], TaskTotals::default());
        assert_eq!(selected(&mut list), "e", "the last task takes the place of the removed one");
        list.set_groups(Vec::new(), TaskTotals::default());
        assert_eq!(selected(&mut list), "");
        list.move_selection(1);
        assert_eq!(visible(&mut list, 3), "");
    }

    #[test]
    fn headings_are_skipped() {
        let mut list = TaskList::default();
        let groups = vec![group(Some("x"), &["a"]), group(Some("y"), &["b", "c"])];
        list.set_groups(groups, TaskTotals::default());
        assert_eq!(visible(&mut list, 9), "[x 1]<a>[y 2]bc");
        list.move_selection(1);
        assert_eq!(visible(&mut list, 2), "[y 2]<b>");
        list.move_selection(9);
        assert_eq!(visible(&mut list, 2), "b<c>");
        list.move_selection(-9);
        assert_eq!(visible(&mut list, 2), "[x 1]<a>");
        assert!(!list.select_visible(0));
        assert!(list.select_visible(1));
        assert!(!list.select_visible(50));
    }

    #[test]
    fn the_selected_task_is_visible() {
        let mut list = sample_list(&["a", "b", "c", "d", "e"]);
        list.move_selection(3);
        assert_eq!(visible(&mut list, 2), "c<d>");
        list.move_selection(-1);
        assert_eq!(visible(&mut list, 2), "<c>d");
        assert_eq!(visible(&mut list, 9), "ab<c>de");
        assert_eq!(visible(&mut list, 0), "");
    }

    #[test]
    fn only_rows_on_the_screen_are_built() {
        let mut list = sample_list(&["a", "b", "c", "d", "e"]);
        let built = std::cell::RefCell::new(String::new());
        list.load_rows(2, |id| {
            built.borrow_mut().push_str(&id.to_string()[2..3]);
            Some(build_row(id))
        });
        assert_eq!(built.into_inner(), "ab");
        assert_eq!(list.visible_live_ids(2).len(), 2);
        list.load_rows(2, |_| None);
        assert_eq!((list.selected(), list.visible_live_ids(2).len()), (None, 0));
    }

    #[test]
    fn a_column_without_a_value_on_the_screen_is_empty() {
        let mut list = sample_list(&["a", "b"]);
        let columns = |list: &mut TaskList, host: &'static str, expected_ms: Option<u64>| {
            let row = |id| TaskRow { host, expected_ms, ..build_row(id) };
            list.load_rows(2, |id| Some(row(id)));
            list.empty_columns()
        };
        assert_eq!(columns(&mut list, "claude", Some(9)), []);
        assert_eq!(columns(&mut list, "", None), [Column::Host, Column::TimeBar]);
        list.load_rows(2, |id| Some(TaskRow { final_elapsed_ms: Some(1), ..build_row(id) }));
        assert_eq!(list.empty_columns(), [Column::TimeBar], "an ended task has no bar");
    }

    #[test]
    fn options_are_cycled() {
        let mut options = ListOptions::default();
        for _ in SortKey::ALL_KEYS {
            options.cycle_sort(true);
        }
        options.cycle_sort(false);
        options.cycle_sort(true);
        for _ in Grouping::ALL_GROUPINGS {
            options.cycle_grouping();
        }
        assert_eq!(options, ListOptions::default());
    }
}
