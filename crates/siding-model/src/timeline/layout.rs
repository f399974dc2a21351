//! The placement of tasks in lanes and rows.

use super::axis::{ColumnScale, MINUTE_MS, axis_ticks};
use super::nesting::{SessionTasks, nest_tasks};
use super::packing::{BarDraft, BarScale, pack};
use super::{BarStatus, SessionParents, Timeline, TimelineCounts, TimelineGrid, TimelineLane};
use super::{TimelineRow, TimelineTask, TimelineWindow};

/// Maximum number of rows of a session whose tasks share rows. A task that has no row of its own
/// has no label, so more rows would show little more.
const MAX_SHARED_ROWS: usize = 12;
/// Maximum depth that shared rows distinguish.
const MAX_SHARED_DEPTH: usize = 2;

impl Timeline {
    /// Places the tasks that were running in the window.
    ///
    /// Each task has a row of its own while `max_rows` suffices. Otherwise, the sessions with the
    /// most tasks show them in shared rows. If there are more sessions than half of the rows, the
    /// sessions that ended first share a lane.
    #[must_use]
    pub fn new(
        window: TimelineWindow,
        grid: TimelineGrid,
        mut tasks: Vec<TimelineTask>,
        parents: &SessionParents,
    ) -> Self {
        let scale = ColumnScale::new(window, grid.columns);
        let bars = BarScale { scale, window, min_columns: grid.min_bar_columns };
        tasks.retain(|task| {
            task.started_at < window.until && task.end_or(window.now) >= window.since
        });
        let sessions = limit_sessions(nest_tasks(tasks, parents), window, grid.max_rows);
        let rows = share_rows(&sessions, grid.max_rows);
        let lanes: Vec<TimelineLane> = sessions
            .into_iter()
            .zip(rows)
            .map(|(session, rows)| build_lane(session, rows, bars))
            .collect();
        let mut counts = TimelineCounts::default();
        lanes.iter().for_each(|lane| counts.merge(lane.counts));
        let is_now_inside = window.since <= window.now && window.now < window.until;
        Self {
            since: window.since.rfc3339(),
            until: window.until.rfc3339(),
            now: window.now.rfc3339(),
            utc_offset_minutes: grid.utc_offset_ms / MINUTE_MS,
            columns: scale.columns,
            now_column: is_now_inside.then(|| scale.column(window.now)),
            counts,
            ticks: axis_ticks(window, grid),
            lanes,
        }
    }
}

/// Combines the sessions that ended first, so that each remaining session can have two rows.
fn limit_sessions(
    sessions: Vec<SessionTasks>,
    window: TimelineWindow,
    max_rows: usize,
) -> Vec<SessionTasks> {
    let max_lanes = (max_rows / 2).max(1);
    if sessions.len() <= max_lanes {
        return sessions;
    }
    let last_end = |session: &SessionTasks| {
        session.tasks.iter().map(|(_, task)| task.end_or(window.now)).max()
    };
    let mut ends: Vec<_> = sessions.iter().map(last_end).zip(0..).collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    ends.truncate(max_lanes - 1);
    let kept: Vec<usize> = ends.into_iter().map(|(_, place)| place).collect();
    let mut others = SessionTasks { session_id: None, sessions: 0, depth: 0, tasks: Vec::new() };
    let mut shown = Vec::new();
    for (place, session) in sessions.into_iter().enumerate() {
        if kept.contains(&place) {
            shown.push(session);
        } else {
            others.sessions += session.sessions;
            others.tasks.extend(session.tasks);
        }
    }
    shown.insert(0, others);
    shown
}

/// Returns the number of rows for each session: its number of tasks where there are enough rows;
/// the other sessions share the remaining rows equally, and have at least one.
fn share_rows(sessions: &[SessionTasks], max_rows: usize) -> Vec<usize> {
    let mut by_tasks: Vec<usize> = (0..sessions.len()).collect();
    by_tasks.sort_by_key(|place| sessions[*place].tasks.len());
    let mut rows = vec![0; sessions.len()];
    let (mut left, mut waiting) = (max_rows, sessions.len());
    for place in by_tasks {
        let count = sessions[place].tasks.len().min((left / waiting).max(1));
        rows[place] = count;
        left = left.saturating_sub(count);
        waiting -= 1;
    }
    rows
}

fn build_lane(session: SessionTasks, max_rows: usize, scale: BarScale) -> TimelineLane {
    let SessionTasks { session_id, sessions, depth, tasks } = session;
    let mut counts = TimelineCounts::default();
    for (_, task) in &tasks {
        counts.add(BarStatus::from_outcome(task.outcome.as_ref()));
    }
    let rows = if tasks.len() <= max_rows {
        let row =
            |(depth, task)| TimelineRow { depth, bars: vec![scale.finish(scale.draft(task))] };
        tasks.into_iter().map(row).collect()
    } else {
        shared_rows(tasks, max_rows.min(MAX_SHARED_ROWS), scale)
    };
    TimelineLane { session_id, sessions, depth, counts, rows }
}

/// Packs the tasks of each depth into rows.
fn shared_rows(
    tasks: Vec<(usize, TimelineTask)>,
    max_rows: usize,
    scale: BarScale,
) -> Vec<TimelineRow> {
    let deepest = tasks.iter().map(|(depth, _)| *depth).max().unwrap_or(0);
    let levels = deepest.min(MAX_SHARED_DEPTH).min(max_rows.saturating_sub(1)) + 1;
    let mut by_level: Vec<Vec<BarDraft>> = vec![Vec::new(); levels];
    for (depth, task) in tasks {
        by_level[depth.min(levels - 1)].push(scale.draft(task));
    }
    let rows_per_level = max_rows / levels;
    let pack_level = |(depth, bars): (usize, Vec<BarDraft>)| {
        let rows = pack(bars, rows_per_level).into_iter();
        rows.map(move |bars| TimelineRow {
            depth,
            bars: bars.into_iter().map(|bar| scale.finish(bar)).collect(),
        })
    };
    by_level.into_iter().enumerate().flat_map(pack_level).collect()
}
