//! Tests with journals of released formats, which every later build must load.
//!
//! A build of format N wrote `tests/fixtures/format-N/NAME/journal`, with an unknown field in every
//! object. A fixture is never rewritten: if it no longer loads, the code is wrong. A new format
//! gets a new directory.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use siding_model::id::{TaskId, TaskKind};
use siding_model::journal::{Replayed, TaskState, replay};
use siding_model::lifecycle::{Lifecycle, Phase, TaskEvent};
use siding_model::outcome::{BackgroundReason, LeaderEnd, LimitKind, Outcome, Placement};
use siding_model::process::{MonotonicMs, ProcRef, UnixMs};
use siding_model::record::{self, EndedProcess, OutputGap, OutputTotals, Record, Survivor};
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, StdinMode, TaskCommand};

use crate::fixture_records::fixture_records;
use crate::journal::with_unknown_fields;
use crate::sample_records::{self, LEADER, event_record};

/// Asserts the state that the fixture's task had when the journal was written.
type FixtureCheck = fn(&Replayed);

const FIXTURES: [(&str, FixtureCheck); 12] = [
    ("format-1/exited", check_exited),
    ("format-1/background-deadline", check_background_deadline),
    ("format-1/lingering-stopped", check_lingering_stopped),
    ("format-1/rescued", check_rescued),
    ("format-1/failed-to-start", check_failed_to_start),
    ("format-1/lost", check_lost),
    ("format-2/ready", check_ready),
    ("format-3/answered", check_answered),
    ("format-4/expiring", check_expiring),
    ("format-5/released", check_released),
    ("format-6/limit", check_limit),
    ("format-8/background-deadline", check_later_deadline),
];

#[test]
fn every_fixture_replays_to_its_expected_state() {
    for (name, check) in FIXTURES {
        let bytes = read_fixture(name);
        // cargo shows the output of a test only when the test fails.
        #[expect(clippy::disallowed_macros, reason = "a failing test names the fixture")]
        {
            println!("fixture {name}");
        }
        assert!(String::from_utf8_lossy(&bytes).contains("x_unknown"), "no unknown field");
        let folded = replay(&bytes).expect("an old journal loads");
        assert_eq!((folded.valid_bytes, folded.is_torn), (bytes.len(), false));
        assert!(!folded.state.is_live());
        check(&folded);
    }
}

#[test]
fn every_fixture_has_an_assertion() {
    let checked: BTreeSet<String> = FIXTURES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut stored = BTreeSet::new();
    for format in list_names("") {
        stored.extend(list_names(&format).into_iter().map(|name| format!("{format}/{name}")));
    }
    assert_eq!(stored, checked);
}

fn check_exited(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    assert_eq!(state.lifecycle.phase(), &ended_phase(Outcome::Exited { code: 3 }, leader_exit(3)));
    assert_eq!(state.lifecycle.placement(), Placement::Foreground);
    assert_eq!(state.final_cwd.as_deref(), Some("/srv/project/sub"));
    assert_eq!(state.pipeline, Some(vec![0, 3]));
    assert_eq!(state.leader, Some(LEADER));
    assert_eq!(state.elapsed_ms(MonotonicMs(u64::MAX)), 1_234);
    assert_eq!(state.spec.command.display_text(), "make test");
    assert_eq!(state.spec.name.as_deref(), Some("tests"));
    assert_eq!(state.spec.stdin, StdinMode::Null);
    assert_eq!((state.spec.keep_head, state.spec.keep_tail), (1 << 20, 63 << 20));
    assert_eq!((state.takeovers, state.next_seq), (0, 4));
    let closed = state.closed.as_ref().expect("a closed task");
    assert_eq!(closed.wall, UnixMs(1_763_764_873_579));
    assert_eq!(closed.report, None);
    assert_eq!(closed.output, OutputTotals { bytes: 42, gap: None, lost: 0 });
    assert_eq!(closed.proof, "ECHILD");
}

fn check_background_deadline(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    let killed = LeaderEnd::Signaled { signal: Signal::KILL, by: None };
    assert_eq!(
        state.lifecycle.phase(),
        &ended_phase(Outcome::Deadline { limit_ms: 90_000 }, Some(killed.clone()))
    );
    assert_eq!(
        state.lifecycle.placement(),
        Placement::Background { why: BackgroundReason::Budget }
    );
    assert_eq!(state.lifecycle.deadline(), Some(MonotonicMs(1_090_000)));
    assert_eq!(state.lifecycle.cap(), MonotonicMs(1_120_000));
    assert_eq!(state.leader_end, Some(killed));
    let closed = state.closed.as_ref().expect("a closed task");
    let report = closed.report.as_ref().expect("a stop report");
    assert_eq!(report.ended_total, 1);
    let node = EndedProcess {
        pid: 4250,
        command: "node server.js".to_owned(),
        signal: "SIGKILL".to_owned(),
    };
    assert_eq!(report.ended, [node]);
    let sudo = Survivor {
        pid: 4260,
        command: "sudo tail".to_owned(),
        uid: 0,
        why: "another user's".to_owned(),
    };
    assert_eq!(report.survivors, [sudo]);
    assert_eq!(report.ports_freed, [3000]);
    let gap = Some(OutputGap { from: 10, to: 20 });
    assert_eq!(closed.output, OutputTotals { bytes: 1 << 30, gap, lost: 7 });
}

fn check_lingering_stopped(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    // The shell ended before the stop, so the outcome is the shell's exit.
    assert_eq!(state.lifecycle.phase(), &ended_phase(Outcome::Exited { code: 0 }, leader_exit(0)));
    assert_eq!(state.lifecycle.placement(), Placement::Background { why: BackgroundReason::Asked });
    assert_eq!(state.spec.stdin, StdinMode::Pipe);
    assert!(state.spec.keep);
    assert_eq!(state.spec.session_id.as_str(), "0b7c-agent");
    assert_eq!(state.spec.parent_task, TaskId::new(TaskKind::LocalBash, 1 << 50));
    assert_eq!(state.spec.duplicate_of, TaskId::new(TaskKind::LocalBash, 1 << 51));
    assert_eq!(state.last_event_at, MonotonicMs(1_007_500));
}

fn check_rescued(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    assert_eq!(
        state.lifecycle.phase(),
        &ended_phase(Outcome::Stopped { by: "user".to_owned() }, leader_exit(143))
    );
    assert_eq!(state.takeovers, 1);
    assert_eq!(state.shim, ProcRef { pid: 5151, start_ticks: 100_900 });
    let lost = (4096, "No space left on device (os error 28)".to_owned());
    assert_eq!(state.output_lost, Some(lost));
    // The torn line and the record after it have the same sequence number, which is counted once.
    assert_eq!(state.next_seq, 7);
    assert_eq!(state.lifecycle.placement(), Placement::Foreground);
}

fn check_failed_to_start(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    let error = "`/usr/bin/nope`: No such file or directory (os error 2)".to_owned();
    assert_eq!(state.lifecycle.phase(), &ended_phase(Outcome::FailedToStart { error }, None));
    assert_eq!(state.spawn_errno, Some(2));
    assert_eq!(state.leader, None);
    let argv = vec!["/usr/bin/nope".to_owned(), "it's".to_owned()];
    assert_eq!(state.spec.command, TaskCommand::Argv { argv });
    assert_eq!(state.spec.on_leader_exit, OnLeaderExit::Reap);
    assert_eq!((state.spec.signal, state.spec.grace_ms), (Signal::INT, 0));
}

fn check_lost(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    let why = "the machine was restarted while it ran".to_owned();
    assert_eq!(state.lifecycle.phase(), &ended_phase(Outcome::Lost { why }, None));
    assert_eq!(state.leader, Some(LEADER));
    assert_eq!(state.leader_end, None);
    assert_eq!(state.closed, None, "a crash may precede the closing record");
}

fn check_ready(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    assert_eq!(
        state.spec.wait_for,
        [sample_records::port_condition(), "output:^up".parse().expect("a condition")]
    );
    let ready = state.ready.as_ref().expect("a ready task");
    assert_eq!(ready.at, MonotonicMs(1_002_100));
    let seen: Vec<String> = ready.by.iter().map(|met| met.detail.to_string()).collect();
    assert_eq!(seen, ["process 4243 listens", "up and running"]);
    assert!(!state.is_waiting_for_ready());
}

fn check_released(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    let by = "user".to_owned();
    assert_eq!(state.lifecycle.phase(), &ended_phase(Outcome::Released { by }, None));
    assert_eq!(
        state.lifecycle.placement(),
        Placement::Background { why: BackgroundReason::Timeout }
    );
    let adopted = state.adopted.as_ref().expect("an adopted task");
    assert_eq!(adopted.output.as_deref(), Some("/tmp/host/output"));
}

fn check_answered(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    assert_eq!((state.format, state.spec.stdin), (3, StdinMode::Pipe));
    assert_eq!(state.stall, None, "the answer ended the stall");
}

fn check_expiring(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    assert_eq!((state.format, state.spec.deadline_notice_ms), (4, 120_000));
    assert_eq!(state.announced_deadline, Some(MonotonicMs(1_900_000)));
}

/// Checks the fields that are equal in all fixtures.
fn check_common(state: &TaskState) {
    assert_eq!(state.spec.task_id.to_string(), "b-28t5cy4tqkff");
    assert_eq!(state.boot.0, "9f3a7c51-0d2e-4b88-a1f6-3c5d7e9b1a20");
    assert_eq!(state.started, MonotonicMs(1_000_000));
    assert_eq!(state.started_wall.rfc3339(), "2025-11-21T22:41:12.345Z");
    assert_eq!(state.spec.cwd, "/srv/project");
}

fn ended_phase(outcome: Outcome, leader: Option<LeaderEnd>) -> Phase {
    Phase::Ended { outcome, leader }
}

fn leader_exit(code: u8) -> Option<LeaderEnd> {
    Some(LeaderEnd::Exited { code })
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

#[expect(clippy::disallowed_methods, reason = "only the model itself must not open files")]
fn read_fixture(name: &str) -> Vec<u8> {
    std::fs::read(root().join(name).join("journal")).expect("the fixture exists")
}

#[expect(clippy::disallowed_methods, reason = "only the model itself must not open files")]
fn list_names(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(directory)).expect("the directory exists");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("a readable entry").file_name().into_string().expect("names are text")
    };
    entries.map(name).collect()
}

/// Writes the fixtures that do not exist, and does not change existing files. Run it once after a
/// fixture of a new format was added to `fixture_records`.
#[test]
#[ignore = "writes into the source tree; for a new format only"]
fn write_missing_fixtures() {
    for (name, records) in fixture_records() {
        let mut bytes = Vec::new();
        for (seq, record) in (0..).zip(&records) {
            if name == "format-1/rescued" && matches!(record, Record::Rescued { .. }) {
                // The torn record of the killed shim, and the newline that the takeover appended.
                record::write_line(
                    &mut bytes,
                    seq,
                    &event_record(2_000, TaskEvent::Placed { why: BackgroundReason::Budget }),
                );
                bytes.truncate(bytes.len() - 20);
                bytes.push(b'\n');
            }
            record::write_line(&mut bytes, seq, &with_unknown_fields(record));
        }
        let _best_effort = write_new(name, &bytes);
    }
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only the model itself must not open files"
)]
fn write_new(name: &str, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    std::fs::create_dir_all(root().join(name))?;
    let path = root().join(name).join("journal");
    std::fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
}

fn check_limit(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    let outcome = Outcome::Limit { limit_kind: LimitKind::Fds };
    assert_eq!(state.lifecycle.phase(), &ended_phase(outcome, leader_exit(143)));
    assert_eq!(state.breaches, [sample_records::breach(2_000)]);
}

fn check_later_deadline(folded: &Replayed) {
    let state = &folded.state;
    check_common(state);
    let outcome = Outcome::Deadline { limit_ms: 150_000 };
    assert_eq!(state.lifecycle.phase(), &ended_phase(outcome, leader_exit(143)));
    let placement = Placement::Background { why: BackgroundReason::User };
    assert_eq!(state.lifecycle.placement(), placement);
    assert_eq!(state.lifecycle.deadline(), Some(MonotonicMs(1_150_000)));
    assert_eq!(state.lifecycle.cap(), MonotonicMs(1_210_000));
}

/// The grace of a replayed stop comes from the recorded request, not from the current defaults.
#[test]
fn a_replayed_task_keeps_its_recorded_grace() {
    let bytes = read_fixture("format-1/lingering-stopped");
    // The lines up to the stop request, before any process has ended.
    let stopping: usize =
        bytes.split_inclusive(|byte| *byte == b'\n').take(4).map(<[u8]>::len).sum();
    let state = replay(&bytes[..stopping]).expect("complete lines").state;
    let Phase::Stopping { intent, kill_at, .. } = state.lifecycle.phase() else {
        panic!("{:?}", state.lifecycle.phase());
    };
    assert_eq!((intent.signal, intent.grace), (Signal::INT, Duration::from_secs(2)));
    assert_eq!(*kill_at, MonotonicMs(1_009_000));
    assert_eq!(state.lifecycle.wake_at(), Some(*kill_at));
    let new = Lifecycle::new(&state.spec, state.started);
    assert_eq!(new.deadline(), Some(MonotonicMs(1_060_000)));
}
