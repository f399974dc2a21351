//! Tests of the timeline: the history of a task, the placement of bars, and the SVG.

use std::collections::HashSet;

use proptest::prelude::*;
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::outcome::Outcome;
use siding_model::process::UnixMs;
use siding_model::timeline::{
    BarState, BarStatus, MarkKind, SVG_GRID, SessionParents, SvgLinks, Timeline, TimelineEvent,
    TimelineGrid, TimelineRow, TimelineTask, TimelineWindow, render_svg, retain_sessions,
};

use crate::sample_records::{full_journal, journal_lines};

const NOW: UnixMs = UnixMs(1_763_764_800_000);
const HOUR_MS: i64 = 3_600_000;

fn id(kind: TaskKind, number: u64) -> TaskId {
    // The lowest bits encode the kind; a command has none of these values.
    let kind_bits = if kind == TaskKind::LocalAgent { 0x5d1 } else { 0 };
    let bits = 0x0123_4567_0000_0000 + (number << 16) + kind_bits;
    TaskId::new(kind, bits).expect("the bits encode the kind")
}

fn session(name: &str) -> SessionId {
    name.parse().expect("a session name")
}

/// Returns a task that started `start_ms` after the beginning of the last hour.
fn task(number: u64, name: &str, start_ms: i64, length_ms: Option<i64>) -> TimelineTask {
    let started_at = NOW.plus_ms(start_ms - HOUR_MS);
    let ended_at = length_ms.map(|length| started_at.plus_ms(length));
    let outcome = length_ms.map(|length| match length % 3 {
        0 => Outcome::Exited { code: 0 },
        1 => Outcome::Exited { code: 1 },
        _ => Outcome::Stopped { by: "user".to_owned() },
    });
    let placed_at = started_at.plus_ms(length_ms.unwrap_or(HOUR_MS) / 2);
    let event = |at, kind: MarkKind| TimelineEvent { at, kind, text: format!("{kind:?}") };
    let mut events = vec![event(placed_at, MarkKind::HandOver)];
    events.extend(ended_at.map(|at| event(at, MarkKind::Ended)));
    TimelineTask {
        task_id: id(TaskKind::LocalBash, number),
        session_id: session(name),
        parent_task: None,
        title: format!("task {number}"),
        started_at,
        ended_at,
        outcome,
        states: vec![(started_at, BarState::Foreground), (placed_at, BarState::Background)],
        events,
    }
}

fn build(tasks: Vec<TimelineTask>, grid: TimelineGrid) -> Timeline {
    let window = TimelineWindow::fit(&tasks, NOW, HOUR_MS);
    Timeline::new(window, grid, tasks, &SessionParents::new())
}

fn rows(timeline: &Timeline) -> impl Iterator<Item = &TimelineRow> {
    timeline.lanes.iter().flat_map(|lane| &lane.rows)
}

/// Returns the titles of the tasks in the order of their rows, indented by their depth.
fn outline(timeline: &Timeline) -> Vec<String> {
    let title = |row: &TimelineRow| {
        let bar = row.bars.first().and_then(|bar| bar.task.as_ref());
        bar.map(|task| format!("{}{}", "-".repeat(row.depth), task.title))
    };
    rows(timeline).filter_map(title).collect()
}

#[test]
fn a_journal_gives_the_states_and_events_of_its_task() {
    let journal = journal_lines(&full_journal()).concat();
    let task = TimelineTask::from_journal(&journal).expect("a readable journal");
    let start = task.started_at;
    assert_eq!(task.title, "tests: make test");
    assert_eq!(
        task.states,
        [
            (start, BarState::Foreground),
            (start.plus_ms(1_000), BarState::Background),
            (start.plus_ms(3_000), BarState::Lingering),
            (start.plus_ms(5_000), BarState::Stopping),
        ]
    );
    let kinds: Vec<MarkKind> = task.events.iter().map(|event| event.kind).collect();
    assert_eq!(
        kinds,
        [
            MarkKind::HandOver,
            MarkKind::OutputLost,
            MarkKind::Matched,
            MarkKind::Matched,
            MarkKind::Stalled,
            MarkKind::Limit,
            MarkKind::Ready,
            MarkKind::Lingering,
            MarkKind::Takeover,
            MarkKind::Stop,
            MarkKind::Kill,
            MarkKind::Ended,
        ]
    );
    let text = |kind| task.events.iter().find(|event| event.kind == kind).map(|event| &*event.text);
    assert_eq!(text(MarkKind::Stop), Some("stop by user"));
    assert_eq!(text(MarkKind::Stalled), Some("waits for input: Continue? [y/N]"));
    assert_eq!(task.ended_at, Some(start.plus_ms(10_100)));
    assert!(task.events.iter().all(|event| !event.text.contains('\n')));
}

/// The tasks of a subagent are below the subagent's task, and so are the steps of a workflow, even
/// though they have sessions of their own.
#[test]
fn tasks_are_below_the_task_that_started_them() {
    let mut agent = task(1, "chat", 0, None);
    agent.task_id = id(TaskKind::LocalAgent, 1);
    let mut build_step = task(3, "chat", 20, None);
    build_step.session_id = session(&agent.task_id.to_string());
    let mut inner = task(4, "elsewhere", 30, None);
    inner.parent_task = Some(build_step.task_id);
    let tasks =
        vec![inner, task(5, "chat", 40, None), build_step, agent, task(6, "other", 10, None)];
    let timeline = build(tasks.clone(), SVG_GRID);
    assert_eq!(outline(&timeline), ["task 1", "-task 3", "--task 4", "task 5", "task 6"]);
    let names: Vec<_> = timeline.lanes.iter().map(|lane| lane.session_id.clone()).collect();
    assert_eq!(names, [Some(session("chat")), Some(session("other"))]);

    let mut kept = tasks;
    retain_sessions(&mut kept, &HashSet::from([session("chat")]));
    assert_eq!(kept.len(), 4, "the task of the other session is left out");
}

#[test]
fn a_session_follows_its_parent_session() {
    let tasks = vec![task(1, "a", 0, None), task(2, "b", 10, None), task(3, "child", 20, None)];
    let window = TimelineWindow::fit(&tasks, NOW, HOUR_MS);
    let parents = SessionParents::from([
        (session("child"), session("between")),
        (session("between"), session("a")),
    ]);
    let timeline = Timeline::new(window, SVG_GRID, tasks.clone(), &parents);
    assert_eq!(outline(&timeline), ["task 1", "task 3", "task 2"]);
    let depths: Vec<usize> = timeline.lanes.iter().map(|lane| lane.depth).collect();
    assert_eq!(depths, [0, 1, 0]);

    let cycle = SessionParents::from([(session("a"), session("b")), (session("b"), session("a"))]);
    assert_eq!(Timeline::new(window, SVG_GRID, tasks, &cycle).counts.tasks, 3);
}

#[test]
fn many_short_tasks_share_bars_with_their_number() {
    let tasks: Vec<TimelineTask> = (0..1_000_u64)
        .map(|number| task(number, "chat", i64::try_from(number).unwrap_or(0) * 3_000, Some(600)))
        .collect();
    let grid = TimelineGrid { columns: 56, min_bar_columns: 1, char_columns: 1, ..SVG_GRID };
    let timeline = build(tasks.clone(), grid);
    assert_eq!(timeline.counts.tasks, 1_000);
    assert!(rows(&timeline).count() <= 2, "one row suffices for what is combined");
    assert!(rows(&timeline).flat_map(|row| &row.bars).any(|bar| bar.counts.tasks > 9));

    let whole = build(tasks, TimelineGrid { max_rows: usize::MAX, ..grid });
    assert_eq!(rows(&whole).count(), 1_000);
}

#[test]
fn the_axis_has_round_local_times() {
    let window = |minutes: i64| TimelineWindow {
        since: NOW.plus_ms(-minutes * 60_000),
        until: NOW,
        now: NOW,
    };
    let labels = |minutes: i64, utc_offset_ms| {
        let grid = TimelineGrid { columns: 56, char_columns: 1, utc_offset_ms, ..SVG_GRID };
        let timeline = Timeline::new(window(minutes), grid, Vec::new(), &SessionParents::new());
        timeline.ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(labels(1, 0), "22:39:00 22:39:15 22:39:30 22:39:45");
    assert_eq!(labels(60, 0), "21:40 21:50 22:00 22:10 22:20 22:30");
    assert_eq!(labels(60, 5_400_000), "23:10 23:20 23:30 23:40 23:50 Nov 22");
    assert_eq!(labels(3 * 24 * 60, 0), "Nov 19 12:00 Nov 20 12:00 Nov 21 12:00");
    assert_eq!(labels(60 * 24 * 60, 0), "2025-09-25 2025-10-09 2025-10-23 2025-11-06 2025-11-20");
}

#[test]
fn the_default_period_begins_with_the_oldest_running_task_of_the_last_day() {
    let recent = task(1, "s", 60_000, None);
    let ended = task(2, "s", -5 * HOUR_MS, Some(HOUR_MS));
    let tasks = [recent, ended];
    assert_eq!(TimelineWindow::default_back_ms(&tasks, NOW), HOUR_MS);
    let older = task(3, "s", -4 * HOUR_MS, None);
    let server = task(4, "s", -100 * HOUR_MS, None);
    assert_eq!(TimelineWindow::default_back_ms(&[older, server], NOW), 5 * HOUR_MS);
}

#[test]
fn the_window_begins_with_the_first_task_and_contains_the_present() {
    let tasks = vec![task(1, "a", HOUR_MS - 400_000, None)];
    let window = TimelineWindow::fit(&tasks, NOW, HOUR_MS);
    assert_eq!(window.since, tasks[0].started_at);
    assert_eq!(window.until, NOW.plus_ms(10_000));
    let older = vec![task(1, "a", -HOUR_MS, None)];
    assert_eq!(TimelineWindow::fit(&older, NOW, HOUR_MS).since, NOW.plus_ms(-HOUR_MS));
    let empty = TimelineWindow::fit(&[], NOW, 0);
    assert!(empty.since < empty.now && empty.now < empty.until);
}

/// A test can cut the SVG's text anywhere, so it must be valid XML with hostile titles.
#[test]
fn the_picture_is_valid_and_inert() {
    let mut hostile = task(1, "chat", 0, None);
    hostile.title = "<script>alert(1)</script> & \"'\u{202e}\u{fffe}]]>".to_owned();
    hostile.events[0].text.clone_from(&hostile.title);
    let failed = task(2, "chat", 600_000, Some(100_000));
    assert_eq!(failed.outcome, Some(Outcome::Exited { code: 1 }));
    let timeline = build(vec![hostile, failed], SVG_GRID);
    for links in [SvgLinks::None, SvgLinks::ToTasks("tasks/")] {
        let picture = render_svg(&timeline, links);
        assert_eq!(picture, render_svg(&timeline, links), "equal timelines give equal bytes");
        let document = roxmltree::Document::parse(&picture).expect("valid XML");
        let root = document.root_element();
        assert_eq!(root.attribute("role"), Some("group"), "screen readers see the titles");
        let has_child = |name: &str| {
            root.children().any(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name)))
        };
        assert!(has_child("title") && has_child("desc") && picture.contains("color-scheme:dark"));
        let mut targets = 0;
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            assert_ne!(node.tag_name().name(), "script");
            for attribute in node.attributes() {
                assert!(!attribute.name().starts_with("on"), "{picture}");
                if attribute.name() == "href" {
                    assert!(attribute.value().starts_with("tasks/b-"), "{picture}");
                    targets += 1;
                }
            }
        }
        assert_eq!(targets, if links == SvgLinks::None { 0 } else { 2 });
        assert!(picture.contains("exited 1"), "{picture}");
    }
}

#[derive(Debug, Clone)]
struct Case {
    tasks: Vec<TimelineTask>,
    grid: TimelineGrid,
    parents: SessionParents,
    window: TimelineWindow,
}

prop_compose! {
    fn any_task()(
        start_ms in -HOUR_MS..2 * HOUR_MS,
        length_ms in prop::option::of(0..HOUR_MS),
        name in 0..5_u8,
        parent in prop::option::of(0..30_u64),
    ) -> (TimelineTask, Option<u64>) {
        (task(0, &format!("s{name}"), start_ms, length_ms), parent)
    }
}

prop_compose! {
    fn any_case()(
        drafts in prop::collection::vec(any_task(), 0..40),
        columns in 1..200_usize,
        min_bar_columns in 0..5_usize,
        max_rows in prop_oneof![Just(usize::MAX), 0..30_usize],
        parents in prop::collection::vec((0..5_u8, 0..5_u8), 0..4),
        start_ms in -HOUR_MS..HOUR_MS,
        span_ms in 1..3 * HOUR_MS,
    ) -> Case {
        let tasks = (0..).zip(drafts).map(|(number, (mut task, parent))| {
            task.task_id = id(TaskKind::LocalBash, number);
            task.parent_task = parent.map(|parent| id(TaskKind::LocalBash, parent));
            task
        });
        let name = |number: u8| session(&format!("s{number}"));
        let since = NOW.plus_ms(start_ms - HOUR_MS);
        let char_columns = 1;
        Case {
            tasks: tasks.collect(),
            grid: TimelineGrid { columns, min_bar_columns, max_rows, char_columns, utc_offset_ms: 0 },
            parents: parents.into_iter().map(|(one, other)| (name(one), name(other))).collect(),
            window: TimelineWindow { since, until: since.plus_ms(span_ms), now: NOW },
        }
    }
}

proptest! {
    #[test]
    fn bars_of_a_row_do_not_overlap_and_have_the_minimum_width(case in any_case()) {
        let Case { tasks, grid, parents, window } = case;
        let timeline = Timeline::new(window, grid, tasks, &parents);
        let min = grid.min_bar_columns.clamp(1, grid.columns);
        for row in rows(&timeline) {
            prop_assert!(!row.bars.is_empty());
            prop_assert!(row.bars.windows(2).all(|pair| pair[0].to <= pair[1].from));
            for bar in &row.bars {
                prop_assert!(bar.to <= grid.columns && bar.to - bar.from >= min, "{bar:?}");
            }
        }
    }

    #[test]
    fn every_task_of_the_window_is_in_one_bar(case in any_case()) {
        let Case { tasks, grid, parents, window } = case;
        let in_window = |task: &&TimelineTask| {
            let end = task.ended_at.unwrap_or(NOW).max(task.started_at);
            task.started_at < window.until && end >= window.since
        };
        let expected = tasks.iter().filter(in_window).count();
        let timeline = Timeline::new(window, grid, tasks, &parents);
        let in_bars: usize =
            rows(&timeline).flat_map(|row| &row.bars).map(|bar| bar.counts.tasks).sum();
        prop_assert_eq!(timeline.counts.tasks, expected);
        prop_assert_eq!(in_bars, expected);
        let counts = timeline.counts;
        let states = counts.running + counts.succeeded + counts.failed + counts.stopped;
        prop_assert_eq!(counts.tasks, states);
        let lanes: usize = timeline.lanes.iter().map(|lane| lane.counts.tasks).sum();
        prop_assert_eq!(lanes, expected);
    }

    #[test]
    fn parts_and_marks_stay_in_their_bar(case in any_case()) {
        let Case { tasks, grid, parents, window } = case;
        let timeline = Timeline::new(window, grid, tasks, &parents);
        for bar in rows(&timeline).flat_map(|row| &row.bars) {
            prop_assert_eq!(bar.task.is_none(), bar.parts.is_empty());
            if let (Some(first), Some(last)) = (bar.parts.first(), bar.parts.last()) {
                prop_assert_eq!((first.from, last.to), (bar.from, bar.to));
                prop_assert!(bar.parts.windows(2).all(|pair| pair[0].to == pair[1].from));
                prop_assert!(bar.parts.iter().all(|part| part.from < part.to));
            }
            prop_assert!(bar.marks.iter().all(|mark| (bar.from..bar.to).contains(&mark.column)));
            prop_assert!(bar.marks.windows(2).all(|pair| pair[0].column <= pair[1].column));
            prop_assert!(bar.status == BarStatus::Running || bar.counts.running < bar.counts.tasks);
        }
    }

    #[test]
    fn the_number_of_rows_is_limited(case in any_case()) {
        let Case { tasks, grid, parents, window } = case;
        let timeline = Timeline::new(window, grid, tasks, &parents);
        let count = rows(&timeline).count();
        prop_assert!(count <= grid.max_rows.saturating_add(timeline.lanes.len()), "{count}");
        prop_assert!(timeline.lanes.len() <= (grid.max_rows / 2).max(1));
        if grid.max_rows == usize::MAX {
            prop_assert!(rows(&timeline).all(|row| row.bars.len() == 1));
        }
    }

    #[test]
    fn labels_of_the_axis_do_not_touch(case in any_case()) {
        let Case { grid, window, .. } = case;
        let timeline = Timeline::new(window, grid, Vec::new(), &SessionParents::new());
        for pair in timeline.ticks.windows(2) {
            prop_assert!(pair[0].column + pair[0].label.len() < pair[1].column, "{pair:?}");
        }
        prop_assert!(timeline.ticks.iter().all(|tick| tick.column < grid.columns));
    }
}
