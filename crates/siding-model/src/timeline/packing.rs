//! Rows of bars that do not overlap.

use crate::process::UnixMs;

use super::axis::ColumnScale;
use super::{BarPart, BarStatus, BarTask, MarkKind, TimelineBar, TimelineCounts, TimelineMark};
use super::{TimelineTask, TimelineWindow};

/// A bar whose texts have not been formatted yet.
#[derive(Debug, Clone)]
pub(super) struct BarDraft {
    pub(super) from: usize,
    pub(super) to: usize,
    is_narrow: bool,
    started_at: UnixMs,
    ended_at: UnixMs,
    status: BarStatus,
    counts: TimelineCounts,
    /// The task; `None` for several tasks.
    task: Option<TimelineTask>,
}

/// The scale of a timeline with the facts that bars need.
#[derive(Debug, Clone, Copy)]
pub(super) struct BarScale {
    pub(super) scale: ColumnScale,
    pub(super) window: TimelineWindow,
    pub(super) min_columns: usize,
}

impl BarScale {
    /// Places a task that is in the window.
    pub(super) fn draft(self, task: TimelineTask) -> BarDraft {
        let (started_at, ended_at) = (task.started_at, task.end_or(self.window.now));
        let columns = self.scale.columns;
        let min = self.min_columns.clamp(1, columns);
        let is_narrow = self.scale.is_narrower(started_at, ended_at, min);
        // Narrow bars begin at multiples of the minimum width. They then overlap only in the same
        // place, and not in a chain that would become one long bar.
        let first = self.scale.column(started_at);
        let from = if is_narrow { first / min * min } else { first }.min(columns - min);
        let last = if is_narrow { from } else { self.scale.column_after(ended_at) };
        let to = last.clamp(from + min, columns);
        let status = BarStatus::from_outcome(task.outcome.as_ref());
        let mut counts = TimelineCounts::default();
        counts.add(status);
        BarDraft { from, to, is_narrow, started_at, ended_at, status, counts, task: Some(task) }
    }

    pub(super) fn finish(self, draft: BarDraft) -> TimelineBar {
        let BarDraft { from, to, started_at, ended_at, status, counts, task, .. } = draft;
        let elapsed_ms = u64::try_from(ended_at.0.saturating_sub(started_at.0)).unwrap_or(0);
        let parts = task.as_ref().map_or_else(Vec::new, |task| self.parts(task, from, to));
        let marks = task.as_ref().map_or_else(Vec::new, |task| self.marks(task, from, to));
        let task = task.map(|task| BarTask {
            task_id: task.task_id,
            session_id: task.session_id,
            parent_task: task.parent_task,
            title: task.title,
            outcome: task.outcome,
        });
        let started_at = started_at.rfc3339();
        TimelineBar { from, to, started_at, elapsed_ms, status, counts, task, parts, marks }
    }

    /// Divides the columns of a bar among the states of its task. A state that begins and ends in
    /// one column has no part.
    fn parts(self, task: &TimelineTask, from: usize, to: usize) -> Vec<BarPart> {
        let mut parts: Vec<BarPart> = Vec::new();
        for (at, state) in &task.states {
            let start =
                if parts.is_empty() { from } else { self.scale.column(*at).clamp(from, to) };
            if let Some(last) = parts.last_mut() {
                last.to = start.max(last.from);
            }
            parts.push(BarPart { from: start, to, state: *state });
        }
        parts.retain(|part| part.from < part.to);
        parts
    }

    fn marks(self, task: &TimelineTask, from: usize, to: usize) -> Vec<TimelineMark> {
        let mut marks: Vec<TimelineMark> = Vec::new();
        for event in &task.events {
            if event.at < self.window.since || event.at > self.window.until {
                continue;
            }
            // The end of a task is in the last column of its bar, which may be wider than the task.
            let column = if event.kind == MarkKind::Ended {
                to - 1
            } else {
                self.scale.column(event.at).clamp(from, to - 1)
            };
            let same = |mark: &&mut TimelineMark| mark.column == column && mark.kind == event.kind;
            if let Some(mark) = marks.iter_mut().rev().take(MarkKind::ALL.len()).find(same) {
                mark.events += 1;
                continue;
            }
            marks.push(TimelineMark {
                column,
                at: event.at.rfc3339(),
                kind: event.kind,
                text: event.text.clone(),
                events: 1,
            });
        }
        marks.sort_by_key(|mark| mark.column);
        marks
    }
}

impl BarDraft {
    /// Extends this bar by another that does not begin before it.
    fn merge(&mut self, other: Self) {
        self.to = self.to.max(other.to);
        self.ended_at = self.ended_at.max(other.ended_at);
        self.status = self.status.max(other.status);
        self.counts.merge(other.counts);
        self.is_narrow = self.is_narrow && other.is_narrow;
        self.task = None;
    }
}

/// Distributes bars over at most `max_rows` rows. Bars that are narrower than the minimum width and
/// overlap are combined first. Bars for which no row has space are combined in the last row.
pub(super) fn pack(mut bars: Vec<BarDraft>, max_rows: usize) -> Vec<Vec<BarDraft>> {
    bars.sort_by_key(|bar| (bar.from, bar.started_at));
    let (narrow, wide): (Vec<_>, Vec<_>) = bars.into_iter().partition(|bar| bar.is_narrow);
    let mut bars = merge_overlapping(narrow);
    bars.extend(wide);
    bars.sort_by_key(|bar| (bar.from, bar.started_at));
    let max_rows = max_rows.max(1);
    let mut rows: Vec<Vec<BarDraft>> = Vec::new();
    let mut overflow = Vec::new();
    for bar in bars {
        let has_space = |row: &Vec<BarDraft>| row.last().is_none_or(|last| last.to <= bar.from);
        match rows.iter().position(has_space) {
            Some(place) => rows[place].push(bar),
            None if rows.len() < max_rows => rows.push(vec![bar]),
            None => overflow.push(bar),
        }
    }
    if let Some(last) = rows.last_mut().filter(|_| !overflow.is_empty()) {
        last.append(&mut overflow);
        last.sort_by_key(|bar| (bar.from, bar.started_at));
        *last = merge_overlapping(std::mem::take(last));
    }
    rows
}

/// Combines bars that overlap; the bars must be sorted.
fn merge_overlapping(bars: Vec<BarDraft>) -> Vec<BarDraft> {
    let mut merged: Vec<BarDraft> = Vec::new();
    for bar in bars {
        match merged.last_mut() {
            Some(last) if bar.from < last.to => last.merge(bar),
            Some(_) | None => merged.push(bar),
        }
    }
    merged
}
