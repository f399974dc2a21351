//! Journals of released formats. They must load for ever.
//!
//! `tests/fixtures/format-N/NAME/journal` was written once, by a build of that format, with a field
//! in every object that no build has ever known. A fixture is never written again: when one does
//! not load any more, the code is wrong. A new format gets a new directory beside the old ones.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use siding_model::id::{Kind, TaskId};
use siding_model::journal::{Folded, TaskState, fold};
use siding_model::lifecycle::{Event, Life, Phase, Tree};
use siding_model::outcome::{LeaderEnd, Outcome, Placement, Why};
use siding_model::process::{Mono, ProcRef, Wall};
use siding_model::record::{
    self, Accepted, Adopted, Closed, EndedProcess, Gap, OutputTotals, Record, Survivor,
    WITH_EXPIRING, WITH_READY, WITH_RELEASED, WITH_RESUMED,
};
use siding_model::report::WaitDetail;
use siding_model::signal::Signal;
use siding_model::spec::{Command, OnLeaderExit, Stdin, TaskSpec};
use siding_model::wait::Met;

use crate::journal::with_unknown_fields;
use crate::sample::{self, LEADER, STARTED, event};

/// A look at what was read.
type Check = fn(&Folded);

/// Every fixture, and what must be read from it.
const FIXTURES: [(&str, Check); 10] = [
    ("format-1/exited", exited),
    ("format-1/background-deadline", background_deadline),
    ("format-1/lingering-stopped", lingering_stopped),
    ("format-1/rescued", rescued),
    ("format-1/failed-to-start", failed_to_start),
    ("format-1/lost", lost),
    ("format-2/ready", ready),
    ("format-3/answered", answered),
    ("format-4/expiring", expiring),
    ("format-5/released", released),
];

#[test]
fn every_fixture_loads_and_tells_what_it_always_told() {
    for (name, check) in FIXTURES {
        let bytes = read(name);
        // Shown only when the test fails.
        #[expect(clippy::disallowed_macros, reason = "a failing test says where it was")]
        {
            println!("fixture {name}");
        }
        assert!(String::from_utf8_lossy(&bytes).contains("x_unknown"), "no unknown field");
        let folded = fold(&bytes).expect("an old journal loads");
        assert_eq!((folded.whole, folded.torn), (bytes.len(), false));
        assert!(!folded.state.is_live());
        check(&folded);
    }
}

#[test]
fn no_fixture_is_without_its_assertion() {
    let checked: BTreeSet<String> = FIXTURES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut stored = BTreeSet::new();
    for format in names_in("") {
        stored.extend(names_in(&format).into_iter().map(|name| format!("{format}/{name}")));
    }
    assert_eq!(stored, checked);
}

fn exited(folded: &Folded) {
    let state = &folded.state;
    common(state);
    assert_eq!(state.life.phase(), &ended(Outcome::Exited { code: 3 }, exit(3)));
    assert_eq!(state.life.placement(), Placement::Foreground);
    assert_eq!(state.final_cwd.as_deref(), Some("/srv/project/sub"));
    assert_eq!(state.pipeline, Some(vec![0, 3]));
    assert_eq!(state.leader, Some(LEADER));
    assert_eq!(state.elapsed_ms(Mono(u64::MAX)), 1_234);
    assert_eq!(state.spec.command.display(), "make test");
    assert_eq!(state.spec.name.as_deref(), Some("tests"));
    assert_eq!(state.spec.stdin, Stdin::Null);
    assert_eq!((state.spec.keep_head, state.spec.keep_tail), (1 << 20, 63 << 20));
    assert_eq!((state.rescues, state.next_seq), (0, 4));
    let closed = state.closed.as_ref().expect("it was closed");
    assert_eq!(closed.wall, Wall(1_763_764_873_579));
    assert_eq!(closed.report, None);
    assert_eq!(closed.output, OutputTotals { bytes: 42, gap: None, lost: 0 });
    assert_eq!(closed.proof, "ECHILD");
}

fn background_deadline(folded: &Folded) {
    let state = &folded.state;
    common(state);
    let killed = LeaderEnd::Signaled { signal: Signal::KILL, by: None };
    assert_eq!(
        state.life.phase(),
        &ended(Outcome::Deadline { limit_ms: 90_000 }, Some(killed.clone()))
    );
    assert_eq!(state.life.placement(), Placement::Background { why: Why::Budget });
    assert_eq!(state.life.deadline(), Mono(1_090_000));
    assert_eq!(state.life.cap(), Mono(1_120_000));
    assert_eq!(state.leader_end, Some(killed));
    let closed = state.closed.as_ref().expect("it was closed");
    let report = closed.report.as_ref().expect("processes were ended");
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
    let gap = Some(Gap { from: 10, to: 20 });
    assert_eq!(closed.output, OutputTotals { bytes: 1 << 30, gap, lost: 7 });
}

fn lingering_stopped(folded: &Folded) {
    let state = &folded.state;
    common(state);
    // The shell's own end came first, so it stays the outcome.
    assert_eq!(state.life.phase(), &ended(Outcome::Exited { code: 0 }, exit(0)));
    assert_eq!(state.life.placement(), Placement::Background { why: Why::Asked });
    assert_eq!(state.spec.stdin, Stdin::Pipe);
    assert!(state.spec.keep);
    assert_eq!(state.spec.session_id.as_str(), "0b7c-agent");
    assert_eq!(state.spec.parent_task, TaskId::new(Kind::LocalBash, 1 << 50));
    assert_eq!(state.spec.duplicate_of, TaskId::new(Kind::LocalBash, 1 << 51));
    assert_eq!(state.last_at, Mono(1_007_500));
}

fn rescued(folded: &Folded) {
    let state = &folded.state;
    common(state);
    assert_eq!(state.life.phase(), &ended(Outcome::Stopped { by: "user".to_owned() }, exit(143)));
    assert_eq!(state.rescues, 1);
    assert_eq!(state.shim, ProcRef { pid: 5151, start_ticks: 100_900 });
    let lost = (4096, "No space left on device (os error 28)".to_owned());
    assert_eq!(state.output_lost, Some(lost));
    // Two records of this number were begun; the torn one counts for nothing.
    assert_eq!(state.next_seq, 7);
    assert_eq!(state.life.placement(), Placement::Foreground);
}

fn failed_to_start(folded: &Folded) {
    let state = &folded.state;
    common(state);
    let error = "`/usr/bin/nope`: No such file or directory (os error 2)".to_owned();
    assert_eq!(state.life.phase(), &ended(Outcome::FailedToStart { error }, None));
    assert_eq!(state.spawn_errno, Some(2));
    assert_eq!(state.leader, None);
    let argv = vec!["/usr/bin/nope".to_owned(), "it's".to_owned()];
    assert_eq!(state.spec.command, Command::Argv { argv });
    assert_eq!(state.spec.on_leader_exit, OnLeaderExit::Reap);
    assert_eq!((state.spec.signal, state.spec.grace_ms), (Signal::INT, 0));
}

fn lost(folded: &Folded) {
    let state = &folded.state;
    common(state);
    let why = "the machine was restarted while it ran".to_owned();
    assert_eq!(state.life.phase(), &ended(Outcome::Lost { why }, None));
    assert_eq!(state.leader, Some(LEADER));
    assert_eq!(state.leader_end, None);
    assert_eq!(state.closed, None, "a crash may come before the last record");
}

fn ready(folded: &Folded) {
    let state = &folded.state;
    common(state);
    assert_eq!(state.spec.wait_for, [sample::port(), "output:^up".parse().expect("a condition")]);
    let ready = state.ready.as_ref().expect("it was");
    assert_eq!(ready.at, Mono(1_002_100));
    let seen: Vec<String> = ready.by.iter().map(|met| met.detail.to_string()).collect();
    assert_eq!(seen, ["process 4243 listens", "up and running"]);
    assert!(!state.awaits_ready());
}

fn released(folded: &Folded) {
    let state = &folded.state;
    common(state);
    let by = "user".to_owned();
    assert_eq!(state.life.phase(), &ended(Outcome::Released { by }, None));
    assert_eq!(state.life.placement(), Placement::Background { why: Why::Timeout });
    let adopted = state.adopted.as_ref().expect("it was");
    assert_eq!(adopted.output.as_deref(), Some("/tmp/host/output"));
}

fn answered(folded: &Folded) {
    let state = &folded.state;
    common(state);
    assert_eq!((state.format, state.spec.stdin), (3, Stdin::Pipe));
    assert_eq!(state.stalled, None, "it was answered");
}

fn expiring(folded: &Folded) {
    let state = &folded.state;
    common(state);
    assert_eq!((state.format, state.spec.deadline_notice_ms), (4, 120_000));
    assert_eq!(state.expiring, Some(Mono(1_900_000)));
}

/// What all of them have in common.
fn common(state: &TaskState) {
    assert_eq!(state.spec.task_id.to_string(), "b-28t5cy4tqkff");
    assert_eq!(state.boot.0, "9f3a7c51-0d2e-4b88-a1f6-3c5d7e9b1a20");
    assert_eq!(state.started, Mono(1_000_000));
    assert_eq!(state.started_wall.rfc3339(), "2025-11-21T22:41:12.345Z");
    assert_eq!(state.spec.cwd, "/srv/project");
}

fn ended(outcome: Outcome, leader: Option<LeaderEnd>) -> Phase {
    Phase::Ended { outcome, leader }
}

fn exit(code: u8) -> Option<LeaderEnd> {
    Some(LeaderEnd::Exited { code })
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

#[expect(clippy::disallowed_methods, reason = "the model opens no file; its tests may")]
fn read(name: &str) -> Vec<u8> {
    std::fs::read(root().join(name).join("journal")).expect("the fixture is there")
}

#[expect(clippy::disallowed_methods, reason = "the model opens no file; its tests may")]
fn names_in(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(directory)).expect("the directory is there");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("the entry can be read").file_name().into_string().expect("names are text")
    };
    entries.map(name).collect()
}

/// Wrote the fixtures. Kept to show how to write those of the next format; it never
/// touches a file that exists.
#[test]
#[ignore = "writes into the source tree; for a new format only"]
fn write_missing_fixtures() {
    for (name, records) in written() {
        let mut bytes = Vec::new();
        for (seq, record) in (0..).zip(&records) {
            if name == "format-1/rescued" && matches!(record, Record::Rescued { .. }) {
                // What the killed shim was writing, and the newline of the one that took over.
                record::write_line(
                    &mut bytes,
                    seq,
                    &event(2_000, Event::Placed { why: Why::Budget }),
                );
                bytes.truncate(bytes.len() - 20);
                bytes.push(b'\n');
            }
            record::write_line(&mut bytes, seq, &with_unknown_fields(record));
        }
        let _exists_already = write_new(name, &bytes);
    }
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the model opens no file; its tests may"
)]
fn write_new(name: &str, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    std::fs::create_dir_all(root().join(name))?;
    let path = root().join(name).join("journal");
    std::fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
}

/// Returns the records of each fixture.
fn written() -> Vec<(&'static str, Vec<Record>)> {
    let spawned = || event(3, Event::Spawned { leader: LEADER });
    let stop = Event::StopAsked {
        by: "user".to_owned(),
        grace_ms: Some(2_000),
        signal: Some(Signal::INT),
    };
    let why = "the machine was restarted while it ran".to_owned();
    vec![
        (
            "format-1/exited",
            vec![
                accepted(sample::spec()),
                spawned(),
                event(1_234, sample::exited(3, Tree::Empty)),
                plainly_closed(1_234),
            ],
        ),
        (
            "format-1/background-deadline",
            vec![
                accepted(sample::spec()),
                spawned(),
                event(1_000, Event::Placed { why: Why::Budget }),
                event(2_000, Event::Extended { deadline: STARTED.plus_ms(90_000) }),
                event(90_001, Event::DeadlinePassed),
                event(95_002, Event::GraceOver),
                event(95_010, leader_killed()),
                event(95_020, Event::Swept { survivors: 1 }),
                sample::closed(95_020),
            ],
        ),
        (
            "format-1/lingering-stopped",
            vec![
                accepted(nested()),
                spawned(),
                event(500, sample::exited(0, Tree::Alive)),
                event(7_000, stop.clone()),
                event(7_500, Event::TreeEmpty),
                plainly_closed(7_500),
            ],
        ),
        (
            "format-1/rescued",
            vec![
                accepted(sample::spec()),
                spawned(),
                sample::rescued(4_000),
                Record::OutputLost {
                    at: STARTED.plus_ms(4_500),
                    from: 4096,
                    error: "No space left on device (os error 28)".to_owned(),
                },
                event(5_000, stop),
                event(5_100, sample::exited(143, Tree::Empty)),
                plainly_closed(5_100),
            ],
        ),
        (
            "format-1/failed-to-start",
            vec![accepted(direct()), event(2, not_found()), plainly_closed(2)],
        ),
        (
            "format-1/lost",
            vec![accepted(sample::spec()), spawned(), event(9_000, Event::Vanished { why })],
        ),
        (
            "format-2/ready",
            vec![
                awaited(),
                spawned(),
                was_ready(2_100),
                event(5_000, sample::exited(0, Tree::Empty)),
                plainly_closed(5_000),
            ],
        ),
        (
            "format-3/answered",
            vec![
                with_a_pipe(),
                spawned(),
                Record::Stalled(Box::new(sample::stalled(4_000))),
                sample::resumed(7_000),
                event(9_000, sample::exited(0, Tree::Empty)),
                plainly_closed(9_000),
            ],
        ),
        (
            "format-4/expiring",
            vec![
                with_a_long_life(),
                spawned(),
                Record::Expiring { at: STARTED.plus_ms(780_000), deadline: Mono(1_900_000) },
                event(790_000, sample::exited(0, Tree::Empty)),
                plainly_closed(790_000),
            ],
        ),
        (
            "format-5/released",
            vec![
                adopted(),
                spawned(),
                event(2_000, Event::Placed { why: Why::Timeout }),
                event(6_000, Event::Released { by: "user".to_owned() }),
                plainly_closed(6_000),
            ],
        ),
    ]
}

fn adopted() -> Record {
    let output = Some("/tmp/host/output".to_owned());
    let adopted = Some(Adopted { output, ..Adopted::default() });
    let first = sample::accepted(sample::spec());
    Record::Accepted(Box::new(Accepted { format: WITH_RELEASED, adopted, ..first }))
}

fn awaited() -> Record {
    let output = "output:^up".parse().expect("a condition");
    let spec = TaskSpec { wait_for: vec![sample::port(), output], ..sample::spec() };
    Record::Accepted(Box::new(Accepted { format: WITH_READY, ..sample::accepted(spec) }))
}

fn with_a_pipe() -> Record {
    let spec = TaskSpec { stdin: Stdin::Pipe, ..sample::spec() };
    Record::Accepted(Box::new(Accepted { format: WITH_RESUMED, ..sample::accepted(spec) }))
}

fn with_a_long_life() -> Record {
    let spec = TaskSpec {
        placement: Placement::Background { why: Why::Asked },
        deadline_ms: 900_000,
        cap_ms: 3_600_000,
        deadline_notice_ms: 120_000,
        ..sample::spec()
    };
    Record::Accepted(Box::new(Accepted { format: WITH_EXPIRING, ..sample::accepted(spec) }))
}

fn was_ready(after_ms: u64) -> Record {
    let Record::Ready(mut ready) = sample::ready(after_ms) else { panic!("it is one") };
    let detail = WaitDetail::Line { offset: 7, line: "up and running".to_owned() };
    ready.by.push(Met { condition: "output:^up".parse().expect("a condition"), detail });
    Record::Ready(ready)
}

fn accepted(spec: TaskSpec) -> Record {
    Record::Accepted(Box::new(sample::accepted(spec)))
}

fn leader_killed() -> Event {
    let end = LeaderEnd::Signaled { signal: Signal::KILL, by: None };
    Event::LeaderEnded { end, tree: Tree::Alive, final_cwd: None, pipeline: None }
}

fn not_found() -> Event {
    let error = "`/usr/bin/nope`: No such file or directory (os error 2)".to_owned();
    Event::SpawnFailed { error, errno: 2 }
}

/// Returns the specification of a task inside another, with everything unusual.
fn nested() -> TaskSpec {
    TaskSpec {
        session_id: "0b7c-agent".parse().expect("a session's name"),
        parent_task: TaskId::new(Kind::LocalBash, 1 << 50),
        duplicate_of: TaskId::new(Kind::LocalBash, 1 << 51),
        name: None,
        stdin: Stdin::Pipe,
        placement: Placement::Background { why: Why::Asked },
        keep: true,
        ..sample::spec()
    }
}

/// Returns the specification of a program without a shell.
fn direct() -> TaskSpec {
    let argv = vec!["/usr/bin/nope".to_owned(), "it's".to_owned()];
    TaskSpec {
        command: Command::Argv { argv },
        signal: Signal::INT,
        grace_ms: 0,
        on_leader_exit: OnLeaderExit::Reap,
        ..sample::spec()
    }
}

fn plainly_closed(after_ms: i64) -> Record {
    Record::Closed(Box::new(Closed {
        wall: Wall(1_763_764_872_345).plus_ms(after_ms),
        at: STARTED.plus_ms(after_ms.unsigned_abs()),
        report: None,
        output: OutputTotals { bytes: 42, gap: None, lost: 0 },
        peaks: None,
        proof: "ECHILD".to_owned(),
    }))
}

/// The grace in a fixture's journal is that of its specification, whatever the defaults become.
#[test]
fn a_loaded_life_keeps_its_own_limits() {
    let bytes = read("format-1/lingering-stopped");
    // The first five lines: the stop has been asked for, nothing has ended.
    let stopping: usize =
        bytes.split_inclusive(|byte| *byte == b'\n').take(4).map(<[u8]>::len).sum();
    let state = fold(&bytes[..stopping]).expect("whole lines").state;
    let Phase::Stopping { intent, kill_at, .. } = state.life.phase() else {
        panic!("{:?}", state.life.phase());
    };
    assert_eq!((intent.signal, intent.grace), (Signal::INT, Duration::from_secs(2)));
    assert_eq!(*kill_at, Mono(1_009_000));
    assert_eq!(state.life.wake_at(), Some(*kill_at));
    assert_eq!(Life::new(&state.spec, state.started).deadline(), Mono(1_060_000));
}
