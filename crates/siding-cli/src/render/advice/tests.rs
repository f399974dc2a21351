//! Tests the advice for each state and outcome of a task.

use siding_model::limits::Breach;
use siding_model::mirror::InputLoss;
use siding_model::outcome::{BackgroundReason, LimitKind, Outcome};
use siding_model::process::UnixMs;
use siding_model::record::{EndedProcess, StopReport, Survivor};
use siding_model::signal::Signal;
use siding_model::task_view::{
    PhaseName, PlacementKind, PlacementView, QueuedView, TerminalView, UnreachableView,
};
use siding_model::terminal::TerminalSize;
use siding_model::text::one_line;

use super::super::sample::{HOSTILE_TEXT, ended_task, running_task, sample_breach, sample_process};
use super::*;

/// The present time in the tests: 15.003 s after the start of the task of [`running_task`].
const NOW: UnixMs = UnixMs(1_763_764_887_348);

/// Returns the advice for an agent on the command line.
fn advice_at(view: &TaskView, channel: NoticeChannel, now: UnixMs) -> Option<String> {
    advice::task_advice(view, Dialect::Commands, channel, now)
}

fn advice_text(view: &TaskView) -> String {
    advice_at(view, NoticeChannel::PollOnly, NOW).expect("there is something to say")
}

fn with_reason(why: Option<BackgroundReason>) -> TaskView {
    let kind = if why.is_some() { PlacementKind::Background } else { PlacementKind::Foreground };
    TaskView { placement: PlacementView { kind, why }, ..running_task() }
}

/// Promise P14: the text of a hand-over has the id, the output file, the deadline, the notice and
/// the next operations, each once. (The path of the output file contains the id.)
#[test]
fn hand_over_advice_is_short_in_every_dialect() {
    let output = "output in /s/tasks/b-4k7q0n2m8x5t/output";
    for (dialect, channel, expected) in [
        (
            Dialect::Commands,
            NoticeChannel::PollOnly,
            format!(
                "still running after 15s, in the background as b-4k7q0n2m8x5t, {output}; will be \
                 ended at 30m; `siding wait ID`, or output, extend, stop; next time start it with \
                 --background, or in a subagent"
            ),
        ),
        (
            Dialect::Tools,
            NoticeChannel::WithToolResults,
            format!(
                "still running, in the background, {output}; will be ended at 30m; you will be \
                 notified when it ends, in a later result of these tools; `wait`, `output`, `stop` take its \
                 id; next time start it with `background`, or in a subagent"
            ),
        ),
        (
            Dialect::Agent,
            NoticeChannel::Pushed,
            format!(
                "still running, in the background, {output}; will be ended at 30m; you will be \
                 notified when it ends; `task_wait`, `task_output`, `task_stop` take its id; next time \
                 start it with `run_in_background`, or in a subagent"
            ),
        ),
    ] {
        let text = advice::task_advice(&running_task(), dialect, channel, NOW);
        assert_eq!(text, Some(expected), "{dialect:?}");
    }
}

#[test]
fn hand_over_advice_for_a_person_is_two_lines_with_one_id() {
    let persons_text = |view: &TaskView| {
        advice::task_advice(view, Dialect::Terminal, NoticeChannel::Pushed, NOW).expect("advice")
    };
    assert_eq!(
        persons_text(&running_task()),
        "still running after 15s, in the background\n\
         siding wait, output, extend or stop b-4k7q0n2m8x5t (deadline in 29m 45s)"
    );
    let known = TaskView { expected_ms: Some(250_000), ..running_task() };
    let text = persons_text(&known);
    assert!(text.contains("in the background (usually takes 4m 10s)\n"), "{text}");
    let asked = persons_text(&with_reason(Some(BackgroundReason::Asked)));
    assert!(asked.starts_with("running in the background\nsiding wait, "), "{asked}");
}

#[test]
fn hand_over_advice_names_the_commands_for_a_terminal() {
    let terminal = TerminalView { size: TerminalSize::DEFAULT, taken_since: None, alternate: None };
    let view = TaskView { terminal: Some(terminal.clone()), ..running_task() };
    let text = advice_text(&view);
    assert!(text.contains("`siding wait ID`, or screen, keys, output, extend, stop"), "{text}");
    let text = advice::task_advice(&view, Dialect::Terminal, NoticeChannel::Pushed, NOW);
    let text = text.expect("there is something to say");
    assert!(text.contains("\nsiding attach, wait, output, extend or stop b-4k7q"), "{text}");
    // A line of a person's text has the id, not a placeholder for it.
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let foreground = TaskView { terminal: Some(terminal), ..with_reason(None) };
    let text = advice::task_advice(&foreground, Dialect::Terminal, NoticeChannel::PollOnly, NOW);
    let text = text.expect("there is something to say");
    let commands = "`siding wait b-4k7q0n2m8x5t`, or attach, output, extend, stop";
    assert!(text.ends_with(commands), "{text}");
}

/// Returns a task whose job waits in the queue of a cluster for this reason.
fn queued_task(reason: &str) -> TaskView {
    TaskView {
        phase: PhaseName::Starting,
        executor: Some("lab".to_owned()),
        queued: Some(QueuedView {
            job_id: Some("7".to_owned()),
            state: "PENDING".to_owned(),
            reason: Some(reason.to_owned()),
            expected_start: None,
        }),
        ..running_task()
    }
}

#[test]
fn the_place_in_a_queue_is_explained() {
    let text = advice_text(&queued_task("Resources\u{1b}[2J"));
    let begin = "it waits in the queue of lab (job 7, PENDING (Resources\\e[2J)), and its deadline";
    assert!(text.starts_with(begin), "{text}");
}

#[test]
fn a_job_that_never_starts_is_explained_with_the_remedy() {
    let text = advice_text(&queued_task("PartitionTimeLimit"));
    assert!(text.starts_with("it never starts in the queue of lab (job 7, PENDING"), "{text}");
    assert!(text.contains("--time") && text.contains("`siding stop "), "{text}");
}

#[test]
fn an_interrupted_connection_is_explained_first() {
    let unreachable = UnreachableView {
        since: "2025-11-21T22:41:20.000Z".to_owned(),
        why: "ssh: connect to host gpu: timed out\u{1b}[2J".to_owned(),
        stop_pending: false,
    };
    let mut view = TaskView { executor: Some("gpu".to_owned()), ..running_task() };
    view.unreachable = Some(unreachable);
    assert!(advice_text(&view).contains("); it may have been started there, and siding"));
    view.machine = Some("gpu3".to_owned());
    let text = advice_text(&view);
    let begin = "its executor gpu has been unreachable for 7s (ssh: connect to host gpu: timed \
                 out\\e[2J); it continues there, and siding tries to connect again; still running";
    assert!(text.starts_with(begin), "{text}");
    if let Some(unreachable) = &mut view.unreachable {
        unreachable.stop_pending = true;
    }
    let text = advice_text(&view);
    assert!(
        text.contains("; it is stopped there as soon as the connection is restored;"),
        "{text}"
    );
}

#[test]
fn usual_duration_is_part_of_the_advice() {
    let mut view =
        TaskView { expected_ms: Some(250_000), expected_p90_ms: Some(310_000), ..running_task() };
    assert!(advice_text(&view).contains("/output; usually takes 4m 10s; will be ended at "));
    view.expected_p90_ms = Some(10_000);
    let text = advice_text(&view);
    assert!(text.contains("usually takes 4m 10s, this run longer than nine of ten; "), "{text}");
}

#[test]
fn hand_over_advice_names_the_timeout() {
    let text = advice_text(&with_reason(Some(BackgroundReason::Timeout)));
    let begin = "still running after 15s, in the background since its timeout as b-4k7q0n2m8x5t,";
    assert!(text.starts_with(begin) && text.contains("--background"), "{text}");
}

#[test]
fn requested_background_tasks_get_shorter_advice() {
    for why in [
        BackgroundReason::Asked,
        BackgroundReason::Known,
        BackgroundReason::Heuristic,
        BackgroundReason::User,
    ] {
        let text = advice_text(&with_reason(Some(why)));
        assert!(text.starts_with("running in the background as b-4k7q0n2m8x5t, "), "{text}");
        assert!(!text.contains("--background"), "{text}");
    }
    assert_eq!(
        advice_text(&with_reason(None)),
        "running as b-4k7q0n2m8x5t; will be ended at 30m; `siding wait ID`, or output, extend, stop"
    );
}

#[test]
fn a_notice_is_promised_only_in_background_with_a_channel() {
    let advice_text =
        |view: &TaskView, channel| advice_at(view, channel, NOW).expect("there is advice");
    for why in [
        BackgroundReason::Budget,
        BackgroundReason::Asked,
        BackgroundReason::Known,
        BackgroundReason::Heuristic,
        BackgroundReason::User,
    ] {
        let view = with_reason(Some(why));
        let text = advice_text(&view, NoticeChannel::Pushed);
        assert!(text.contains("; you will be notified when it ends; `siding wait"), "{text}");
        let text = advice_text(&view, NoticeChannel::WithToolResults);
        assert!(text.contains("you will be notified when it ends, in a later result"), "{text}");
        assert!(!advice_text(&view, NoticeChannel::PollOnly).contains("notified"));
    }
    let text = advice_text(&with_reason(None), NoticeChannel::Pushed);
    assert!(!text.contains("notified"), "{text}");
}

#[test]
fn lingering_processes_are_named() {
    let view = TaskView {
        phase: PhaseName::Lingering,
        leader_outcome: Some(Outcome::Exited { code: 0 }),
        processes: vec![sample_process(401, "node server.js")],
        listening: vec![3000, 3001],
        ..running_task()
    };
    assert_eq!(
        advice_text(&view),
        "its shell has ended (exited 0), 1 process of it lives on: 401 (node server.js); \
         listening on 3000, 3001; the remaining processes will be ended in 29m 44s; \
         `siding stop b-4k7q0n2m8x5t` ends it now, \
         `siding output b-4k7q0n2m8x5t` shows what it still writes"
    );
    let processes = (1..=9).map(|pid| sample_process(pid, "x")).collect();
    let text = advice_text(&TaskView { processes, ..view });
    assert!(
        text.contains(
            ", 9 processes of it live on: 1 (x), 2 (x), 3 (x), 4 (x), 5 (x), and 4 more;"
        ),
        "{text}"
    );
}

#[test]
fn a_plain_exit_needs_no_advice() {
    assert_eq!(
        advice_at(&ended_task(Outcome::Exited { code: 0 }), NoticeChannel::PollOnly, NOW),
        None
    );
    assert_eq!(
        advice_at(&ended_task(Outcome::Exited { code: 7 }), NoticeChannel::PollOnly, NOW),
        None
    );
    let pipeline = |code, statuses: &[i32]| TaskView {
        pipeline_statuses: Some(statuses.to_vec()),
        ..ended_task(Outcome::Exited { code })
    };
    assert_eq!(advice_at(&pipeline(0, &[0, 0]), NoticeChannel::PollOnly, NOW), None);
    assert_eq!(advice_at(&pipeline(1, &[0, 1]), NoticeChannel::PollOnly, NOW), None);
    assert_eq!(
        advice_at(&pipeline(0, &[141, 0]), NoticeChannel::PollOnly, NOW),
        None,
        "a stage that SIGPIPE ended has not failed"
    );
    assert_eq!(
        advice_text(&pipeline(0, &[1, 0])),
        "an earlier stage of its last pipeline failed, although the exit code is 0 (statuses: 1 0)"
    );
}

#[test]
fn every_other_outcome_is_explained() {
    let stopped = Outcome::Stopped { by: "user".to_owned() };
    for (outcome, expected) in [
        (Outcome::Deadline { limit_ms: 1_800_000 }, "it reached its deadline of 30m;"),
        (stopped, "stopped by user"),
        (Outcome::Limit { limit_kind: LimitKind::Memory }, "stopped at its limit"),
        (
            Outcome::Signaled { signal: Signal::TERM, by: None },
            "SIGTERM ended it, and siding did not send this signal",
        ),
        (Outcome::Signaled { signal: Signal::KILL, by: None }, "when memory runs out"),
        (
            Outcome::Signaled { signal: Signal::INT, by: Some("a key typed by web".to_owned()) },
            "SIGINT from a key typed by web ended it",
        ),
        (
            Outcome::FailedToStart { error: "no such file".to_owned() },
            "failed to start: no such file",
        ),
        (
            Outcome::Lost { why: "the power went".to_owned() },
            "its end was not observed: the power went;",
        ),
    ] {
        let text = advice_text(&ended_task(outcome));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_watchdogs_report_is_not_the_limit_that_stopped_the_task() {
    let mut view = ended_task(Outcome::Limit { limit_kind: LimitKind::Fds });
    let watchdog =
        Breach { watchdog: true, detail: "512 descriptors".to_owned(), ..sample_breach() };
    view.breaches = vec![watchdog, sample_breach()];
    assert_eq!(
        advice_text(&view),
        "stopped at its limit max-fds: 4,096 open descriptors, limit 1,000"
    );
}

#[test]
fn the_advice_about_a_deadline_names_the_flag_that_set_it() {
    let view = ended_task(Outcome::Deadline { limit_ms: 5_000 });
    assert!(advice_text(&view).contains("a longer one is set with --timeout"));
    let text = advice::budget_stop_advice(&view, Dialect::Commands).expect("advice");
    assert!(text.contains("a longer one is set with --budget, or by"), "{text}");
    assert!(!text.contains("--timeout"), "{text}");
}

#[test]
fn the_stop_report_is_summarized() {
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
    let mut view = ended_task(Outcome::Stopped { by: "user".to_owned() });
    view.stop_report = Some(report);
    view.output.lost_bytes = 12;
    assert_eq!(
        advice_text(&view),
        "stopped by user; 300 processes were ended; ports freed: 8080; \
         STILL ALIVE, could not be ended: 9 (sudo x): another user's; \
         NOT PROVEN that nothing is left: /proc\\nwas empty; \
         12 bytes of its output could not be stored, most likely because the disk was full"
    );
}

#[test]
fn untrusted_text_is_escaped() {
    let mut view = TaskView {
        phase: PhaseName::Lingering,
        leader_outcome: Some(Outcome::Lost { why: HOSTILE_TEXT.to_owned() }),
        processes: vec![sample_process(1, HOSTILE_TEXT)],
        ..running_task()
    };
    view.output.path = HOSTILE_TEXT.to_owned();
    let by = || Some(HOSTILE_TEXT.to_owned());
    for view in [
        view.clone(),
        TaskView { phase: PhaseName::Running, ..view },
        ended_task(Outcome::Lost { why: HOSTILE_TEXT.to_owned() }),
        ended_task(Outcome::Stopped { by: HOSTILE_TEXT.to_owned() }),
        ended_task(Outcome::FailedToStart { error: HOSTILE_TEXT.to_owned() }),
        ended_task(Outcome::Signaled { signal: Signal::TERM, by: by() }),
    ] {
        let text = advice_text(&view);
        assert_eq!(text, one_line(&text, usize::MAX));
    }
}

#[test]
fn a_lost_input_is_reported_even_after_a_success() {
    let mut view = ended_task(Outcome::Exited { code: 0 });
    assert_eq!(advice_at(&view, NoticeChannel::PollOnly, NOW), None);
    view.input_loss = Some(InputLoss { arrived_bytes: Some(292) });
    let text = advice_text(&view);
    assert!(text.starts_with("INCOMPLETE INPUT: "), "{text}");
    assert!(text.contains("after at least 292 bytes, because the rest was lost"), "{text}");
    view.input_loss = Some(InputLoss { arrived_bytes: None });
    assert!(advice_text(&view).contains("was closed, because the rest was lost"));
}
