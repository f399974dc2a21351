//! Tests of the changes that a refresh reports, and of its cost.

use std::collections::BTreeSet;
use std::time::Duration;

use siding_core::sys::poll;
use siding_live::{Changes, EndedTasks, LiveOptions, LiveTask, LiveView};
use siding_model::id::{SessionId, TaskId};
use siding_model::notice::{Consumer, NoticeKind};
use siding_model::person_need::PersonNeed;
use siding_model::session_host::SessionHost;

use crate::fixture::StateFixture;

fn listed(view: &LiveView) -> Vec<TaskId> {
    view.tasks().map(LiveTask::id).collect()
}

fn only(id: TaskId) -> BTreeSet<TaskId> {
    BTreeSet::from([id])
}

#[test]
fn running_tasks_come_first_and_the_newest_of_each_at_the_top() {
    let mut state = StateFixture::new();
    let ids: Vec<TaskId> = (0..4).map(|_| state.start_task()).collect();
    state.end_task(ids[3], 0);
    state.end_task(ids[1], 0);
    let view = state.open_view();
    assert_eq!(listed(&view), [ids[2], ids[0], ids[1], ids[3]]);
    assert_eq!(view.task(ids[2]).map(LiveTask::is_live), Some(true));
    assert_eq!(view.task(ids[1]).map(LiveTask::is_live), Some(false));
}

#[test]
fn a_refresh_reports_what_appeared_changed_ended_and_was_removed() {
    let mut state = StateFixture::new();
    let first = state.start_task();
    let mut view = state.open_view();
    assert_eq!(view.poll_interval(), None);
    assert!(!poll::is_readable(view.source()));
    assert_eq!(view.refresh().expect("readable"), Changes::default());

    let second = state.start_task();
    assert!(poll::is_readable(view.source()));
    let changes = view.refresh().expect("readable");
    assert_eq!(changes, Changes { appeared: only(second), ..Changes::default() });
    assert!(!poll::is_readable(view.source()));

    state.extend_task(first, 60_000);
    assert!(poll::is_readable(view.source()));
    let changes = view.refresh().expect("readable");
    assert_eq!(changes, Changes { changed: only(first), ..Changes::default() });

    state.end_task(first, 1);
    let changes = view.refresh().expect("readable");
    assert_eq!(changes, Changes { ended: only(first), ..Changes::default() });
    assert_eq!(listed(&view), [second, first]);

    state.remove_task(first);
    let changes = view.refresh().expect("readable");
    assert_eq!(changes, Changes { removed: only(first), ..Changes::default() });
    assert_eq!(listed(&view), [second]);
    assert!(view.task(first).is_none());
}

#[test]
fn a_task_that_started_and_ended_between_two_refreshes_appears_with_its_end() {
    let mut state = StateFixture::new();
    let mut view = state.open_view();
    let id = state.start_task();
    state.end_task(id, 3);
    let changes = view.refresh().expect("readable");
    assert_eq!(changes, Changes { appeared: only(id), ..Changes::default() });
    let task = view.task(id).expect("it is listed");
    assert_eq!(task.need, Some(PersonNeed::UnreadFailure));
    assert_eq!(task.unread_notices, 1);
    let removed = state.start_task();
    state.end_task(removed, 0);
    state.remove_task(removed);
    assert!(view.refresh().expect("readable").is_empty());
}

#[test]
fn a_task_appears_once_its_first_record_is_written() {
    let state = StateFixture::new();
    let mut view = state.open_view();
    let id = state.root.new_id(siding_model::id::TaskKind::LocalBash).expect("an id");
    let _dir = state.root.create_task(id).expect("a new task");
    state.root.mark_live(id).expect("marked");
    assert!(view.refresh().expect("readable").is_empty());
    assert!(view.unreadable().is_empty());
    assert_eq!(listed(&view), []);
}

#[test]
fn an_acknowledgement_by_a_reader_makes_a_notice_read() {
    let mut state = StateFixture::new();
    let id = state.start_task();
    let agents = state.start_task_in("agent-7");
    state.end_task(id, 3);
    state.end_task(agents, 3);
    let mut view = state.open_view();
    let unread = |view: &LiveView, id| view.task(id).map(|task| task.unread_notices);
    assert_eq!((unread(&view, id), unread(&view, agents)), (Some(1), Some(1)));
    let task = view.task(agents).expect("it is listed");
    assert_eq!(task.need, None, "the agent receives the notice");
    let notice = view.task(id).expect("it is listed").notices[0].clone();
    assert_eq!(notice.kind, NoticeKind::Ended);

    let other: Consumer = "logger".parse().expect("a name");
    state.acknowledge_for(other, "cli", &[notice.id]);
    let changes = view.refresh().expect("readable");
    assert!(changes.changed.is_empty() && changes.sessions.len() == 1, "{changes:?}");
    assert_eq!(unread(&view, id), Some(1));

    state.acknowledge("cli", &[notice.id]);
    let changes = view.refresh().expect("readable");
    assert_eq!(changes.changed, only(id));
    let task = view.task(id).expect("it is listed");
    assert_eq!((task.unread_notices, task.need), (0, None));
    assert!(!task.notices[0].is_unread);

    let mut again = state.open_view();
    assert_eq!((unread(&again, id), unread(&again, agents)), (Some(0), Some(1)));
    let notice = again.task(agents).expect("it is listed").notices[0].id;
    state.acknowledge_for(Consumer::agent(), "agent-7", &[notice]);
    assert_eq!(again.refresh().expect("readable").changed, only(agents));
}

#[test]
fn a_stalled_task_needs_a_person() {
    let mut state = StateFixture::new();
    let id = state.start_task();
    let mut view = state.open_view();
    state.stall_task(id);
    assert_eq!(view.refresh().expect("readable").changed, only(id));
    let task = view.task(id).expect("it is listed");
    assert_eq!(task.need, Some(PersonNeed::Action));
    let silent = task.view.attention.as_ref().map(|attention| attention.silent_ms);
    assert!(silent > Some(2_000), "the silence lasts until now: {silent:?}");
}

#[test]
fn a_damaged_journal_does_not_hide_the_other_tasks() {
    let mut state = StateFixture::new();
    let (damaged, other) = (state.start_task(), state.start_task());
    let mut view = state.open_view();
    state.damage_task(damaged);
    assert_eq!(view.refresh().expect("readable").removed, only(damaged));
    assert_eq!(listed(&view), [other]);
    assert_eq!(view.unreadable().keys().copied().collect::<BTreeSet<_>>(), only(damaged));
    let mut again = state.open_view();
    assert_eq!(listed(&again), [other]);
    assert_eq!(again.unreadable().len(), 1);
    let _path = state.root.quarantine(damaged).expect("moved");
    assert!(again.refresh().expect("readable").is_empty());
    assert!(again.unreadable().is_empty());
}

#[test]
fn the_options_limit_the_ended_tasks_of_the_start_only() {
    let mut state = StateFixture::new();
    let ids: Vec<TaskId> = (0..4).map(|_| state.start_task()).collect();
    for id in &ids[..3] {
        state.end_task(*id, 0);
    }
    let with = |ended| state.open_view_with(LiveOptions { ended, ..LiveOptions::default() });
    assert_eq!(listed(&with(EndedTasks::Newest(1))).len(), 2);
    let mut view = with(EndedTasks::None);
    assert_eq!(listed(&view), [ids[3]]);
    state.remove_task(ids[0]);
    assert!(view.refresh().expect("readable").is_empty());
    state.end_task(ids[3], 0);
    assert_eq!(view.refresh().expect("readable").ended, only(ids[3]));
    assert_eq!(listed(&view), [ids[3]]);
}

#[test]
fn without_inotify_the_directory_is_read_at_intervals() {
    let mut state = StateFixture::new();
    let ended = state.start_task();
    state.end_task(ended, 0);
    let options = LiveOptions {
        always_poll: true,
        poll_interval: Duration::from_millis(1),
        ended: EndedTasks::None,
        ..LiveOptions::default()
    };
    let mut view = state.open_view_with(options);
    assert_eq!(view.poll_interval(), Some(Duration::from_millis(1)));
    let next = |view: &mut LiveView| -> Changes {
        poll::wait_readable(&[view.source()], None).expect("waits");
        view.refresh().expect("readable")
    };
    assert!(next(&mut view).is_empty(), "the ended task is left out");
    let id = state.start_task_in("agent-7");
    assert_eq!(next(&mut view).appeared, only(id));
    state.end_task(id, 1);
    assert_eq!(next(&mut view).ended, only(id));
    let notice = view.task(id).expect("it is listed").notices[0].id;
    state.acknowledge("agent-7", &[notice]);
    assert_eq!(next(&mut view).changed, only(id));
    state.remove_task(id);
    assert_eq!(next(&mut view).removed, only(id));
}

/// Makes the kernel drop further events. Its queue holds 16,384 events by default (inotify(7)), and
/// merges an event with an equal one before it.
fn overflow_event_queue(state: &StateFixture) {
    const MORE_EVENTS_THAN_FIT: u32 = 20_000;
    let (one, other) = (state.path().join("tasks/x"), state.path().join("tasks/y"));
    std::fs::write(&one, "").expect("written");
    for _ in 0..MORE_EVENTS_THAN_FIT / 2 {
        std::fs::rename(&one, &other).expect("renamed");
        std::fs::rename(&other, &one).expect("renamed");
    }
    std::fs::remove_file(&one).expect("removed");
}

#[test]
fn after_lost_events_everything_is_compared_with_the_files() {
    let mut state = StateFixture::new();
    let (busy, ends) = (state.start_task(), state.start_task());
    let removed = state.start_task();
    state.end_task(removed, 0);
    let mut view = state.open_view();
    overflow_event_queue(&state);
    // The kernel drops the events of these changes.
    state.extend_task(busy, 60_000);
    state.end_task(ends, 1);
    state.remove_task(removed);
    let appeared = state.start_task();
    let changes = view.refresh().expect("readable");
    let expected = Changes {
        appeared: only(appeared),
        ended: only(ends),
        changed: only(busy),
        removed: only(removed),
        ..Changes::default()
    };
    assert_eq!(changes, expected);
    // The new task is watched.
    state.end_task(appeared, 0);
    assert_eq!(view.refresh().expect("readable").ended, only(appeared));
}

/// The events that a failed refresh has read are lost, so the next refresh also compares
/// everything.
#[test]
fn after_a_failed_refresh_everything_is_compared_with_the_files() {
    let mut state = StateFixture::new();
    let ends = state.start_task();
    let mut view = state.open_view();
    overflow_event_queue(&state);
    state.end_task(ends, 1);
    let (tasks, away) = (state.path().join("tasks"), state.path().join("away"));
    std::fs::rename(&tasks, &away).expect("renamed");
    assert!(view.refresh().is_err());
    std::fs::rename(&away, &tasks).expect("renamed");
    assert_eq!(view.refresh().expect("readable").ended, only(ends));
}

#[test]
fn a_missing_state_directory_is_created_and_watched() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("not/there/yet");
    let root = siding_core::store::StateDir::open(&path).expect("is created");
    let mut view = LiveView::open(root, LiveOptions::default()).expect("is read");
    assert_eq!((view.tasks().len(), view.sessions().len()), (0, 0));
    assert!(view.refresh().expect("readable").is_empty());
}

/// Counts the read(2) calls of this thread (proc_pid_io(5)), because a view reads each file that it
/// opens.
#[test]
fn a_refresh_without_a_change_reads_no_file_of_a_task() {
    let mut state = StateFixture::new();
    for _ in 0..50 {
        let _running = state.start_task();
    }
    let mut view = state.open_view();
    let reads = || {
        let text = std::fs::read_to_string("/proc/thread-self/io").expect("readable");
        let line = text.lines().find_map(|line| line.strip_prefix("syscr: "));
        line.expect("it is counted").parse::<u64>().expect("a number")
    };
    let before = reads();
    for _ in 0..100 {
        assert!(view.refresh().expect("readable").is_empty());
    }
    let used = reads() - before;
    assert!(used <= 110, "{used} reads for 100 refreshes of 50 tasks");
}

#[test]
fn sessions_are_reported_when_they_open_and_close() {
    use siding_core::session;
    let state = StateFixture::new();
    let mut view = state.open_view();
    let id = "agent-7".parse().expect("a name");
    let pid = i32::try_from(std::process::id()).expect("a pid is small");
    let _opened = session::open(&state.root, &id, pid).expect("opens");
    assert!(view.refresh().expect("readable").sessions.contains(&id));
    let lives = |view: &LiveView| view.sessions().map(|one| one.is_live).collect::<Vec<_>>();
    assert_eq!(lives(&view), [true]);
    session::close(&state.root, &id).expect("closes");
    assert!(view.refresh().expect("readable").sessions.contains(&id));
    assert_eq!(lives(&view), [false]);
    assert!(state.root.remove_session("agent-7", || true).expect("removed"));
    assert!(view.refresh().expect("readable").sessions.contains(&id));
    assert_eq!(lives(&view), [false; 0]);
}

#[test]
fn the_session_of_a_subagent_has_the_host_of_its_parent() {
    use siding_core::session;
    let state = StateFixture::new();
    let pid = i32::try_from(std::process::id()).expect("a pid is small");
    let named = |name: &str| name.parse::<SessionId>().expect("a name");
    let (parent, subagent) = (named("claude-1"), named("a-4k7q0n2m8x5t"));
    let _opened = session::open(&state.root, &parent, pid).expect("opens");
    let _opened = session::open_child(&state.root, &subagent, pid, &parent).expect("opens");
    let view = state.open_view();
    for id in [&parent, &subagent] {
        assert_eq!(view.session_host(id), Some(SessionHost::ClaudeCode), "{id}");
    }
    assert_eq!(view.session_host(&SessionId::implicit()), None);
}
