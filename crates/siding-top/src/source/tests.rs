use siding_core::store::StateDir;
use siding_live::LiveOptions;
use siding_model::evidence::{Certainty, WhyVerdict};
use siding_model::id::TaskKind;
use siding_model::limits::Breach;
use siding_model::outcome::{LimitKind, OutcomeGroup};
use siding_model::sample::sample_task_view;
use siding_model::task_view::UnreachableView;

use super::*;

fn running_task() -> LiveTask {
    LiveTask::from_view(sample_task_view())
}

fn ended_task(outcome: Outcome) -> LiveTask {
    let mut task = running_task();
    task.view.phase = PhaseName::Ended;
    task.view.outcome = Some(outcome);
    task
}

#[test]
fn the_end_of_a_task_is_shown_in_one_or_two_words() {
    let by = || "user".to_owned();
    for (outcome, text, group) in [
        (Outcome::Exited { code: 0 }, "exited 0", OutcomeGroup::Succeeded),
        (Outcome::Exited { code: 2 }, "exited 2", OutcomeGroup::Failed),
        (Outcome::Stopped { by: by() }, "stopped", OutcomeGroup::Stopped),
        (Outcome::Released { by: by() }, "released", OutcomeGroup::Stopped),
        (Outcome::Deadline { limit_ms: 1 }, "deadline", OutcomeGroup::Failed),
        (Outcome::Limit { limit_kind: LimitKind::Memory }, "limit", OutcomeGroup::Failed),
        (Outcome::FailedToStart { error: by() }, "not started", OutcomeGroup::Failed),
        (Outcome::Lost { why: by() }, "lost", OutcomeGroup::Failed),
    ] {
        let task = ended_task(outcome);
        let expected = (text, RowState::Ended(group));
        assert_eq!((state_text(&task).as_str(), row_state(&task)), expected);
    }
    let mut unread = ended_task(Outcome::Exited { code: 2 });
    unread.need = Some(PersonNeed::UnreadFailure);
    assert_eq!(
        (state_text(&unread).as_str(), row_state(&unread)),
        ("exited 2", RowState::NeedsPerson)
    );
}

#[test]
fn an_ended_task_that_needs_a_person_is_not_hidden() {
    let mut ended = ended_task(Outcome::Exited { code: 2 });
    assert!(is_shown(&ended, false) && is_shown(&running_task(), true));
    assert!(!is_shown(&ended, true));
    ended.need = Some(PersonNeed::UnreadFailure);
    assert!(is_shown(&ended, true));
}

#[test]
fn a_running_task_shows_its_phase_or_its_need() {
    let mut task = running_task();
    assert_eq!((state_text(&task).as_str(), row_state(&task)), ("running", RowState::Running));
    for (need, text) in [
        (PersonNeed::Action, "needs you"),
        (PersonNeed::Unsupervised, "no shim"),
        (PersonNeed::Deadline, "ends soon"),
        (PersonNeed::Limit, "over limit"),
    ] {
        task.need = Some(need);
        assert_eq!((state_text(&task).as_str(), row_state(&task)), (text, RowState::NeedsPerson));
    }
    task.need = None;
    for (phase, state) in [
        (PhaseName::Starting, RowState::Running),
        (PhaseName::Lingering, RowState::Lingering),
        (PhaseName::Stopping, RowState::Stopping),
    ] {
        task.view.phase = phase;
        assert_eq!(row_state(&task), state);
    }
}

#[test]
fn an_interrupted_connection_is_the_state_with_its_reason() {
    let mut task = running_task();
    let (since, why) = (task.view.started_at.clone(), "ssh: timed out".to_owned());
    task.view.unreachable = Some(UnreachableView { since, why, stop_pending: false });
    let state = (state_text(&task), row_state(&task), reason(&task));
    let expected = ("unreachable".to_owned(), RowState::Unreachable, "ssh: timed out".to_owned());
    assert_eq!(state, expected);
}

#[test]
fn the_most_important_reason_is_shown() {
    let mut task = running_task();
    assert_eq!(reason(&task), "");
    task.view.leader_outcome = Some(Outcome::Exited { code: 0 });
    task.view.phase = PhaseName::Lingering;
    assert_eq!(reason(&task), "its command exited 0, processes are left");
    task.view.breaches.push(Breach {
        at: MonotonicMs(1),
        limit_kind: LimitKind::Memory,
        value: 2,
        limit: 1,
        remote: None,
        detail: "uses much memory".to_owned(),
        watchdog: false,
    });
    assert_eq!(reason(&task), "uses much memory");
    task.view.attention = Some(AttentionView {
        verdict: WhyVerdict::InputWait,
        waiting_on: None,
        awaited_input: None,
        certainty: Certainty::Hard,
        silent_ms: 60_000,
        advice: String::new(),
    });
    assert_eq!(reason(&task), "waits for input");
    task.need = Some(PersonNeed::Unsupervised);
    assert!(reason(&task).starts_with("its shim was killed"), "{}", reason(&task));
    task.other_machine = Some("far".to_owned());
    assert_eq!(reason(&task), "runs on far");
    let lost = ended_task(Outcome::Lost { why: "rebooted".to_owned() });
    assert_eq!(reason(&lost), "lost: rebooted");
}

#[test]
fn the_title_of_a_task_that_runs_siding_is_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&dir.path().join("state")).expect("opens");
    let live = LiveView::open(root, LiveOptions::default()).expect("opens");
    let now = Present { awake: MonotonicMs(9_000), wall: UnixMs(0) };
    let texts = |task: &LiveTask| {
        let row = task_row(&live, task, now);
        (row.title, row.command)
    };
    let expected = |title: &str| (title.to_owned(), "make".to_owned());
    let mut task = running_task();
    assert_eq!(texts(&task), expected("make"));
    task.view.name = Some("build".to_owned());
    assert_eq!(texts(&task), expected("build: make"));
    task.view.kind = TaskKind::LocalAgent;
    assert_eq!(texts(&task), expected("build"));
}
