//! The history against a state directory of its own, with journals as shims write them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rusqlite::Connection;
use siding_core::journal_file::JournalFile;
use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_model::history::{Quantile, Run};
use siding_model::id::{TaskId, TaskKind};
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::outcome::{LeaderEnd, Outcome, Placement};
use siding_model::process::{BootId, MonotonicMs, ProcRef, UnixMs};
use siding_model::record::{AcceptedTask, BASE_FORMAT, CloseSummary, Record};
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, StdinMode, TaskCommand, TaskSpec};

use super::*;

const GONE: ProcRef = ProcRef { pid: 1, start_ticks: u64::MAX };
const ALL: usize = usize::MAX;

struct Place {
    _temporary: tempfile::TempDir,
    root: StateDir,
}

impl Place {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        Self { _temporary: temporary, root }
    }

    fn file(&self) -> PathBuf {
        self.root.path().join(FILE)
    }

    /// Records a task with these events, each with its moment. The last one ends it, unless it is
    /// to stay alive.
    fn task(&self, command: &str, events: &[(u64, TaskEvent)]) -> TaskId {
        let id = self.root.new_id(TaskKind::LocalBash).unwrap();
        let accepted = AcceptedTask {
            format: BASE_FORMAT,
            boot: BootId("an earlier one".to_owned()),
            at: MonotonicMs(0),
            wall: clock::unix_now(),
            shim: GONE,
            cgroup: None,
            adopted: None,
            spec: spec(id, command),
        };
        let spawned =
            Record::Event { at: MonotonicMs(0), event: TaskEvent::Spawned { leader: GONE.into() } };
        let mut records = vec![Record::Accepted(Box::new(accepted)), spawned];
        let events = events.iter().cloned();
        records.extend(events.map(|(at, event)| Record::Event { at: MonotonicMs(at), event }));
        let dir = self.root.create_task(id).unwrap();
        JournalFile::create(&dir).unwrap().append(&records).unwrap();
        id
    }

    fn exited(&self, command: &str, ms: u64, code: u8) -> TaskId {
        self.task(command, &[(ms, leader_ended(code, TreeLiveness::Empty))])
    }

    fn with<T>(&self, work: impl Fn(&mut History) -> Result<T, HistoryError>) -> T {
        let done = with(&self.root, work).unwrap();
        assert!(done.set_aside.is_none(), "{:?}", done.set_aside);
        done.value
    }

    fn ingest(&self) -> usize {
        self.with(|history| history.ingest(&self.root, ALL))
    }

    fn median(&self, command: &str) -> Option<Quantile> {
        let found = self.with(|history| history.expectation(command, "/w"));
        found.map(|found| found.median)
    }

    fn runs(&self) -> Vec<Run> {
        self.with(|history| history.runs(&Filter::default(), ALL))
    }

    fn set_aside(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.root.path().join("aside")).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn leader_ended(code: u8, tree: TreeLiveness) -> TaskEvent {
    let end = LeaderEnd::Exited { code };
    TaskEvent::LeaderEnded { end, tree, final_cwd: None, pipeline: None }
}

fn spec(task_id: TaskId, text: &str) -> TaskSpec {
    TaskSpec {
        task_id,
        session_id: "cli".parse().unwrap(),
        parent_task: None,
        name: None,
        command: TaskCommand::Shell { text: text.to_owned(), shell: "bash".to_owned() },
        cwd: "/w".to_owned(),
        stdin: StdinMode::Null,
        placement: Placement::Foreground,
        deadline_ms: 1_000,
        cap_ms: 1_000,
        signal: Signal::TERM,
        grace_ms: 0,
        on_leader_exit: OnLeaderExit::Linger,
        keep: false,
        session_grace_ms: 0,
        keep_head: 0,
        keep_tail: 0,
        same_key: String::new(),
        duplicate_of: None,
        monitor: None,
        wait_for: Vec::new(),
        stall_after_ms: 45_000,
        deadline_notice_ms: 0,
        watch: siding_model::limits::Thresholds::default(),
        limits: siding_model::limits::Limits::default(),
        net: siding_model::net::NetPolicy::Unrestricted,
    }
}

#[test]
fn each_ended_task_is_taken_in_once() {
    let place = Place::new();
    for (ms, text) in [(10, "make  test"), (20, " make test"), (900, "make\ttest")] {
        place.exited(text, ms, 0);
    }
    place.task("make test", &[]);
    assert_eq!(place.ingest(), 3, "what runs is not taken in");
    assert_eq!(place.median("make test"), Some(Quantile::Exact(20)));
    assert_eq!(place.median("make"), None, "another command");
    assert_eq!(place.ingest(), 0);
    assert_eq!(place.runs().len(), 3);
    place.exited("make test", 30, 1);
    assert_eq!(place.ingest(), 1);
    assert_eq!(place.runs().len(), 4);
}

#[test]
fn many_at_once_take_each_task_in_once() {
    let place = Place::new();
    for ms in 0..40 {
        place.exited("make", ms, 0);
    }
    let root = &place.root;
    let taken = || with(root, |history| history.ingest(root, ALL)).unwrap().value;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(taken)).collect();
        assert!(all.into_iter().map(|one| one.join().unwrap()).max() <= Some(40));
    });
    assert_eq!(place.runs().len(), 40);
}

#[test]
fn only_an_exit_of_its_own_is_a_whole_length() {
    let place = Place::new();
    let stop = TaskEvent::StopAsked { by: "user".to_owned(), grace_ms: None, signal: None };
    let killed = LeaderEnd::Signaled { signal: Signal::KILL, by: None };
    let end = TaskEvent::LeaderEnded {
        end: killed,
        tree: TreeLiveness::Empty,
        final_cwd: None,
        pipeline: None,
    };
    let lingering = leader_ended(0, TreeLiveness::Alive);
    let over = TaskEvent::DeadlinePassed;
    let vanished = TaskEvent::Vanished { why: "nobody saw it".to_owned() };
    for (command, events) in [
        ("stopped", vec![(40, stop.clone()), (90, end.clone())]),
        ("late", vec![(1_000, over.clone()), (1_700, end)]),
        ("lingers", vec![(40, lingering), (1_000, over), (1_000, TaskEvent::TreeEmpty)]),
        ("lost", vec![(40, vanished)]),
    ] {
        place.task(command, &events);
    }
    place.ingest();
    let length = |command: &str| {
        let runs = place.runs();
        let run = runs.iter().find(|run| run.command == command).unwrap();
        (run.ran_ms, run.length(), run.outcome.clone())
    };
    use siding_model::history::RunLength;
    let by = "user".to_owned();
    // To the decision, not to the kill.
    assert_eq!(length("stopped"), (Some(40), RunLength::AtLeast(40), Outcome::Stopped { by }));
    let deadline = Outcome::Deadline { limit_ms: 1_000 };
    assert_eq!(length("late"), (Some(1_000), RunLength::AtLeast(1_000), deadline));
    // The call returned when the shell did; what lingered is not what a caller waits for.
    let exited = Outcome::Exited { code: 0 };
    assert_eq!(length("lingers"), (Some(40), RunLength::Complete(40), exited));
    assert_eq!(length("lost").1, RunLength::Unknown);
}

/// What retention removes stays remembered, and is not remembered twice.
#[test]
fn a_removed_task_stays_remembered() {
    let place = Place::new();
    let ids: Vec<_> = (0..300).map(|ms| place.exited("make", ms, 0)).collect();
    assert_eq!(place.ingest(), 300);
    assert_eq!(place.runs().len(), usize::try_from(RUNS_MAX).unwrap(), "the newest of one command");
    for id in &ids {
        let locked = place.root.task_dir(*id).unwrap().try_lock().unwrap().unwrap();
        place.root.remove_task(&locked).unwrap();
    }
    assert_eq!(place.ingest(), 0);
    assert!(place.median("make").is_some());
    let left: i64 = Connection::open(place.file())
        .unwrap()
        .query_row("SELECT count(*) FROM ingested", (), |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0, "tasks that are gone need not be known");
}

fn run(place: &Place, command: String, ended: UnixMs) -> Run {
    Run {
        task_id: place.root.new_id(TaskKind::LocalBash).unwrap(),
        command,
        cwd: "/w".to_owned(),
        ended,
        ran_ms: Some(1),
        outcome: Outcome::Exited { code: 0 },
        peak_memory: Some(7),
    }
}

#[test]
fn commands_that_run_no_more_are_forgotten() {
    let place = Place::new();
    let now = clock::unix_now();
    let many = i64::from(COMMANDS_MAX) + 10;
    let runs: Vec<_> =
        (0..many).map(|age| run(&place, format!("c{age}"), now.plus_ms(-age))).collect();
    place.with(|history| history.remember(&runs, &[]));
    let kept = place.runs();
    assert_eq!(kept.len(), usize::try_from(COMMANDS_MAX).unwrap());
    assert_eq!((kept[0].command.as_str(), kept[0].peak_memory), ("c0", Some(7)));
    assert!(!kept.iter().any(|run| run.command == format!("c{}", many - 1)), "the oldest went");
    let day = 24 * 60 * 60 * 1000;
    let old = [run(&place, "old".to_owned(), now.plus_ms(-181 * day))];
    place.with(|history| history.remember(&old, &[]));
    assert!(!place.runs().iter().any(|run| run.command == "old"));
}

#[test]
fn the_newest_come_first_when_not_all_are_wanted() {
    let place = Place::new();
    for ms in 0..5 {
        place.exited("make", ms, 0);
    }
    assert_eq!(place.with(|history| history.ingest(&place.root, 2)), 2);
    assert_eq!(place.with(|history| history.ingest(&place.root, 2)), 2);
    assert_eq!(place.with(|history| history.ingest(&place.root, 2)), 1);
}

#[test]
fn a_filter_takes_whole_words() {
    let place = Place::new();
    for text in ["make", "make test", "maker", "make\ntest"] {
        place.exited(text, 1, 0);
    }
    place.ingest();
    let found = |filter: Filter| {
        let mut found: Vec<_> = place
            .with(|history| history.runs(&filter, ALL))
            .into_iter()
            .map(|run| run.command)
            .collect();
        found.sort_unstable();
        found
    };
    assert_eq!(found(Filter::new(Some(" make "), None)), ["make", "make\ntest", "make test"]);
    assert_eq!(found(Filter::new(Some("make test"), Some("/w/"))), ["make test"]);
    assert_eq!(found(Filter::new(None, Some("/elsewhere"))), [""; 0]);
    assert_eq!(found(Filter::new(Some("m%"), None)), [""; 0]);
    let summaries = place.with(|history| history.summaries(&Filter::default()));
    assert_eq!(summaries.len(), 4);
}

#[test]
fn nobody_else_can_read_it() {
    let place = Place::new();
    place.exited("make", 1, 0);
    let modes = place.with(|history| {
        history.ingest(&place.root, ALL)?;
        let mode = |beside: &str| {
            let path = format!("{}{beside}", place.file().display());
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        Ok([mode(""), mode("-wal"), mode("-shm")])
    });
    assert_eq!(modes, [0o600; 3]);
}

/// A file that is not ours is moved away, not overwritten, and a new one takes its place.
#[test]
fn a_damaged_file_is_set_aside() {
    type Damage = fn(&Place);
    let damages: [(&str, Damage); 5] = [
        ("not a database", |place| std::fs::write(place.file(), "no database\n").unwrap()),
        ("zeros", |place| std::fs::write(place.file(), vec![0; 8192]).unwrap()),
        ("cut", |place| {
            let bytes = std::fs::read(place.file()).unwrap();
            std::fs::write(place.file(), &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("other tables", |place| {
            std::fs::remove_file(place.file()).unwrap();
            let other = Connection::open(place.file()).unwrap();
            other.execute_batch("CREATE TABLE mine (a)").unwrap();
        }),
        ("a table is missing", |place| {
            let own = Connection::open(place.file()).unwrap();
            own.execute_batch("DROP TABLE ingested").unwrap();
        }),
    ];
    for (what, damage) in damages {
        let place = Place::new();
        for ms in 0..3 {
            place.exited("make", ms, 0);
        }
        place.ingest();
        damage(&place);
        let before = std::fs::read(place.file()).unwrap();
        let done = with(&place.root, |history| history.ingest(&place.root, ALL)).unwrap();
        assert_eq!(done.value, 3, "{what}: all is in the journals");
        let (path, why) = done.set_aside.unwrap_or_else(|| panic!("{what}: nothing was said"));
        assert!(matches!(why, HistoryError::Damaged { .. }), "{what}: {why}");
        assert!(std::fs::read(path).unwrap() == before, "{what}: it was changed");
        assert!(place.median("make").is_some(), "{what}");
    }
}

#[test]
fn a_newer_file_is_left_alone() {
    let place = Place::new();
    place.ingest();
    let newer = Connection::open(place.file()).unwrap();
    newer.pragma_update(None, "user_version", FORMAT_AFTER).unwrap();
    drop(newer);
    let before = std::fs::read(place.file()).unwrap();
    let error = with(&place.root, |history| history.ingest(&place.root, ALL)).unwrap_err();
    assert!(matches!(error, HistoryError::TooNew { found: FORMAT_AFTER, .. }), "{error}");
    assert!(error.to_string().contains("upgrade siding"), "{error}");
    assert!(std::fs::read(place.file()).unwrap() == before, "it was changed");
    assert_eq!(place.set_aside(), [""; 0]);
}

const FORMAT_AFTER: i64 = super::FORMAT + 1;

#[test]
fn what_cannot_be_opened_is_said_and_left() {
    let place = Place::new();
    std::fs::create_dir(place.file()).unwrap();
    let error = with(&place.root, |history| history.ingest(&place.root, ALL)).unwrap_err();
    assert!(matches!(error, HistoryError::Unusable { .. }), "{error:?}");
    assert!(error.to_string().contains("history.db"), "{error}");
    let mut memory = History::in_memory().unwrap();
    place.exited("make", 1, 0);
    assert_eq!(memory.ingest(&place.root, ALL).unwrap(), 1);
}

/// A row that only a newer siding understands hides no other.
#[test]
fn a_row_that_says_nothing_is_passed_over() {
    let place = Place::new();
    let ids: Vec<_> = (0..2).map(|ms| place.exited("make", ms, 0)).collect();
    place.ingest();
    let other = Connection::open(place.file()).unwrap();
    let outcome = r#"{"kind":"dreamt"}"#;
    let sql = "UPDATE runs SET outcome = ?1 WHERE task = ?2";
    other.execute(sql, [outcome, &ids[0].to_string()]).unwrap();
    drop(other);
    assert_eq!(place.runs().len(), 1);
}

#[test]
fn the_end_on_the_wall_is_when_it_was_closed() {
    let place = Place::new();
    let id = place.root.new_id(TaskKind::LocalBash).unwrap();
    let accepted = AcceptedTask {
        format: BASE_FORMAT,
        boot: BootId("an earlier one".to_owned()),
        at: MonotonicMs(0),
        wall: UnixMs(clock::unix_now().0 - 5_000),
        shim: GONE,
        cgroup: None,
        adopted: None,
        spec: spec(id, "make"),
    };
    let closed =
        CloseSummary { wall: UnixMs(clock::unix_now().0 - 1_000), ..CloseSummary::default() };
    let wall = closed.wall;
    let dir = place.root.create_task(id).unwrap();
    JournalFile::create(&dir)
        .unwrap()
        .append(&[
            Record::Accepted(Box::new(accepted)),
            Record::Event { at: MonotonicMs(0), event: TaskEvent::Spawned { leader: GONE.into() } },
            Record::Event { at: MonotonicMs(9), event: leader_ended(0, TreeLiveness::Empty) },
            Record::Closed(Box::new(closed)),
        ])
        .unwrap();
    place.ingest();
    assert_eq!(place.runs()[0].ended, wall);
}
