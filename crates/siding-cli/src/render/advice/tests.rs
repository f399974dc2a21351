//! The words that somebody gets.

use siding_model::outcome::{BackgroundReason, LimitKind, Outcome};
use siding_model::record::{EndedProcess, StopReport, Survivor};
use siding_model::signal::Signal;
use siding_model::task_view::{PhaseName, PlacementKind, PlacementView};
use siding_model::text::one_line;

use super::super::sample::{HOSTILE, ended, process, running};
use super::*;

/// 15.003 s after the sample's start.
const NOW: UnixMs = UnixMs(1_763_764_887_348);

fn said(view: &TaskView) -> String {
    at(view, NoticeChannel::PollOnly, NOW).expect("there is something to say")
}

#[test]
fn a_hand_over_says_what_to_do() {
    assert_eq!(
        said(&running()),
        "still running after 15s of 30m, in the background as b-4k7q0n2m8x5t, output in \
         /s/tasks/b-4k7q0n2m8x5t/output; `siding wait b-4k7q0n2m8x5t` waits for its end, \
         `siding output b-4k7q0n2m8x5t` shows what is new, `siding stop b-4k7q0n2m8x5t` ends it; \
         a command known to take this long can be started with --background, or be left to a \
         subagent"
    );
}

#[test]
fn a_hand_over_at_the_timeout_says_so() {
    let placement =
        PlacementView { kind: PlacementKind::Background, why: Some(BackgroundReason::Timeout) };
    let text = said(&TaskView { placement, ..running() });
    let begin = "still running after 15s of 30m, in the background since its timeout as b-4k7q0";
    assert!(text.starts_with(begin) && text.contains("--background"), "{text}");
}

#[test]
fn other_ways_to_the_background_say_less() {
    for why in [
        BackgroundReason::Asked,
        BackgroundReason::Known,
        BackgroundReason::Heuristic,
        BackgroundReason::User,
    ] {
        let placement = PlacementView { kind: PlacementKind::Background, why: Some(why) };
        let text = said(&TaskView { placement, ..running() });
        assert!(text.starts_with("running for 15s of 30m in the background as b-4k7q0n2m8x5t"));
        assert!(!text.contains("--background"), "{text}");
    }
    let placement = PlacementView { kind: PlacementKind::Foreground, why: None };
    let text = said(&TaskView { placement, ..running() });
    assert!(text.starts_with("running for 15s of 30m; `siding wait "), "{text}");
}

#[test]
fn a_notice_is_promised_only_for_the_background_and_only_where_a_channel_exists() {
    let said = |view: &TaskView, channel| at(view, channel, NOW).expect("there is advice");
    let promise =
        "output in /s/tasks/b-4k7q0n2m8x5t/output; you will be told when it ends; `siding wait";
    for why in [
        BackgroundReason::Budget,
        BackgroundReason::Asked,
        BackgroundReason::Known,
        BackgroundReason::Heuristic,
        BackgroundReason::User,
    ] {
        let placement = PlacementView { kind: PlacementKind::Background, why: Some(why) };
        let view = TaskView { placement, ..running() };
        let text = said(&view, NoticeChannel::Pushed);
        assert!(text.contains(promise), "{text}");
        let text = said(&view, NoticeChannel::WithToolResults);
        assert!(text.contains("you will be told when it ends, with a later answer"), "{text}");
        assert!(!said(&view, NoticeChannel::PollOnly).contains("told"));
    }
    let placement = PlacementView { kind: PlacementKind::Foreground, why: None };
    let text = said(&TaskView { placement, ..running() }, NoticeChannel::Pushed);
    assert!(!text.contains("told"), "{text}");
}

#[test]
fn what_lingers_is_named() {
    let view = TaskView {
        phase: PhaseName::Lingering,
        leader_outcome: Some(Outcome::Exited { code: 0 }),
        processes: vec![process(401, "node server.js")],
        listening: vec![3000, 3001],
        ..running()
    };
    assert_eq!(
        said(&view),
        "its shell has ended (exited 0), 1 process of it lives on: 401 (node server.js); \
         listening on 3000, 3001; what is left is ended in 29m 44s; \
         `siding stop b-4k7q0n2m8x5t` ends it now, \
         `siding output b-4k7q0n2m8x5t` shows what it still writes"
    );
    let processes = (1..=9).map(|pid| process(pid, "x")).collect();
    let text = said(&TaskView { processes, ..view });
    assert!(
        text.contains(
            ", 9 processes of it live on: 1 (x), 2 (x), 3 (x), 4 (x), 5 (x), and 4 more;"
        ),
        "{text}"
    );
}

#[test]
fn a_plain_end_needs_no_words() {
    assert_eq!(at(&ended(Outcome::Exited { code: 0 }), NoticeChannel::PollOnly, NOW), None);
    assert_eq!(at(&ended(Outcome::Exited { code: 7 }), NoticeChannel::PollOnly, NOW), None);
    let pipeline = |code, statuses: &[i32]| TaskView {
        pipeline_statuses: Some(statuses.to_vec()),
        ..ended(Outcome::Exited { code })
    };
    assert_eq!(at(&pipeline(0, &[0, 0]), NoticeChannel::PollOnly, NOW), None);
    assert_eq!(at(&pipeline(1, &[0, 1]), NoticeChannel::PollOnly, NOW), None);
    assert_eq!(
        at(&pipeline(0, &[141, 0]), NoticeChannel::PollOnly, NOW),
        None,
        "`| head` had enough"
    );
    assert_eq!(
        said(&pipeline(0, &[1, 0])),
        "a stage of its last pipeline failed behind the code 0 (statuses: 1 0)"
    );
}

#[test]
fn every_other_end_is_explained() {
    let stopped = Outcome::Stopped { by: "user".to_owned() };
    for (outcome, expected) in [
        (Outcome::Deadline { limit_ms: 1_800_000 }, "it ran into its deadline of 30m;"),
        (stopped, "stopped by user"),
        (Outcome::Limit { which: LimitKind::Memory }, "stopped at its limit"),
        (
            Outcome::Signaled { signal: Signal::TERM, by: None },
            "SIGTERM ended it, and siding did not send that",
        ),
        (Outcome::Signaled { signal: Signal::KILL, by: None }, "when memory runs out"),
        (
            Outcome::FailedToStart { error: "no such file".to_owned() },
            "failed to start: no such file",
        ),
        (
            Outcome::Lost { why: "the power went".to_owned() },
            "how it ended is not known: the power went;",
        ),
    ] {
        let text = said(&ended(outcome));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn what_a_stop_did_is_told() {
    let survivor =
        Survivor { pid: 9, command: "sudo x".to_owned(), uid: 0, why: "another user's".to_owned() };
    let ended_process =
        EndedProcess { pid: 8, command: "x".to_owned(), signal: "SIGKILL".to_owned() };
    let report = StopReport {
        ended: vec![ended_process],
        ended_total: 300,
        survivors: vec![survivor],
        ports_freed: vec![8080],
        unproven: Some("/proc\nwas empty".to_owned()),
    };
    let mut view = ended(Outcome::Stopped { by: "user".to_owned() });
    view.stop_report = Some(report);
    view.output.lost_bytes = 12;
    assert_eq!(
        said(&view),
        "stopped by user; 300 processes were ended; ports freed: 8080; \
         STILL ALIVE, could not be ended: 9 (sudo x): another user's; \
         NOT PROVEN that nothing is left: /proc\\nwas empty; \
         12 bytes of its output could not be stored, most likely for want of disk space"
    );
}

#[test]
fn nothing_foreign_reaches_the_reader_as_it_is() {
    let mut view = TaskView {
        phase: PhaseName::Lingering,
        leader_outcome: Some(Outcome::Lost { why: HOSTILE.to_owned() }),
        processes: vec![process(1, HOSTILE)],
        ..running()
    };
    view.output.path = HOSTILE.to_owned();
    let by = || Some(HOSTILE.to_owned());
    for view in [
        view.clone(),
        TaskView { phase: PhaseName::Running, ..view },
        ended(Outcome::Lost { why: HOSTILE.to_owned() }),
        ended(Outcome::Stopped { by: HOSTILE.to_owned() }),
        ended(Outcome::FailedToStart { error: HOSTILE.to_owned() }),
        ended(Outcome::Signaled { signal: Signal::TERM, by: by() }),
    ] {
        let text = said(&view);
        assert_eq!(text, one_line(&text, usize::MAX));
    }
}
