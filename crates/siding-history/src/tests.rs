//! Tests of the history: each test writes journals, as shims do, to its own state directory, and
//! queries the history.

mod totals;

use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rusqlite::Connection;
use siding_core::store::StateDir;
use siding_core::store::journal_file::JournalFile;
use siding_core::sys::{clock, file};
use siding_model::executor::RemoteExecutor;
use siding_model::history::{Quantile, Run, history_directory};
use siding_model::id::{TaskId, TaskKind};
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::metrics::Tally;
use siding_model::outcome::{LeaderEnd, Outcome};
use siding_model::process::{BootId, MonotonicMs, ProcRef, UnixMs};
use siding_model::record::{AcceptedTask, BASE_FORMAT, CloseSummary, Record};
use siding_model::sample::sample_task_spec;
use siding_model::signal::Signal;
use siding_model::spec::{TaskCommand, TaskSpec};

use super::*;

const EXITED_PROCESS: ProcRef = ProcRef { pid: 1, start_ticks: u64::MAX };
const NO_LIMIT: usize = usize::MAX;

struct TestState {
    _temporary: tempfile::TempDir,
    root: StateDir,
}

impl TestState {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        Self { _temporary: temporary, root }
    }

    fn database_path(&self) -> PathBuf {
        self.root.path().join(DATABASE_FILE_NAME)
    }

    /// Writes the journal of a task with these events, each with its time in milliseconds. The last
    /// event must end the task, unless the test needs a running task.
    fn add_task(&self, command: &str, events: &[(u64, TaskEvent)]) -> TaskId {
        self.add_task_on(None, command, events)
    }

    /// Like [`Self::add_task`], for a task on an executor.
    fn add_task_on(
        &self,
        executor: Option<RemoteExecutor>,
        command: &str,
        events: &[(u64, TaskEvent)],
    ) -> TaskId {
        let id = self.root.new_id(TaskKind::LocalBash).unwrap();
        let accepted = AcceptedTask {
            format: BASE_FORMAT,
            boot: BootId("an earlier one".to_owned()),
            at: MonotonicMs(0),
            wall: clock::unix_now(),
            shim: EXITED_PROCESS,
            cgroup: None,
            adopted: None,
            spec: TaskSpec { executor: executor.map(Box::new), ..task_spec(id, command) },
        };
        let spawned = Record::Event {
            at: MonotonicMs(0),
            event: TaskEvent::Spawned { leader: EXITED_PROCESS.into() },
        };
        let mut records = vec![Record::Accepted(Box::new(accepted)), spawned];
        let events = events.iter().cloned();
        records.extend(events.map(|(at, event)| Record::Event { at: MonotonicMs(at), event }));
        let dir = self.root.create_task(id).unwrap();
        JournalFile::create(&dir).unwrap().append(&records).unwrap();
        id
    }

    fn add_exited_task(&self, command: &str, ms: u64, code: u8) -> TaskId {
        self.add_task(command, &[(ms, leader_ended(code, TreeLiveness::Empty))])
    }

    fn with_history<T>(&self, work: impl Fn(&mut History) -> Result<T, HistoryError>) -> T {
        let done = with_history(&self.root, work).unwrap();
        assert!(done.quarantined.is_none(), "{:?}", done.quarantined);
        done.value
    }

    fn ingest(&self) -> usize {
        self.with_history(|history| history.ingest(&self.root, NO_LIMIT))
    }

    fn median(&self, command: &str) -> Option<Quantile> {
        let found = self.with_history(|history| history.expectation(command, "/w"));
        found.map(|found| found.median)
    }

    fn runs(&self) -> Vec<Run> {
        self.with_history(|history| history.runs(&Filter::default(), NO_LIMIT))
    }

    fn quarantined_files(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.root.path().join("quarantine")).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn leader_ended(code: u8, tree: TreeLiveness) -> TaskEvent {
    let end = LeaderEnd::Exited { code };
    TaskEvent::LeaderEnded { end, tree, final_cwd: None, pipeline: None }
}

fn task_spec(task_id: TaskId, text: &str) -> TaskSpec {
    TaskSpec {
        command: TaskCommand::Shell { text: text.to_owned(), shell: "bash".to_owned() },
        cwd: "/w".to_owned(),
        deadline_ms: 1_000,
        ..sample_task_spec(task_id)
    }
}

#[test]
fn each_ended_task_is_ingested_once() {
    let state = TestState::new();
    for (ms, text) in [(10, "make  test"), (20, " make test"), (900, "make\ttest")] {
        state.add_exited_task(text, ms, 0);
    }
    state.add_task("make test", &[]);
    assert_eq!(state.ingest(), 3, "a running task is not ingested");
    assert_eq!(state.median("make test"), Some(Quantile::Exact(20)));
    assert_eq!(state.median("make"), None, "another command");
    assert_eq!(state.ingest(), 0);
    assert_eq!(state.runs().len(), 3);
    state.add_exited_task("make test", 30, 1);
    assert_eq!(state.ingest(), 1);
    assert_eq!(state.runs().len(), 4);
}

#[test]
fn concurrent_ingestion_records_each_task_once() {
    let state = TestState::new();
    for ms in 0..40 {
        state.add_exited_task("make", ms, 0);
    }
    let root = &state.root;
    let taken = || with_history(root, |history| history.ingest(root, NO_LIMIT)).unwrap().value;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(taken)).collect();
        assert!(all.into_iter().map(|one| one.join().unwrap()).max() <= Some(40));
    });
    assert_eq!(state.runs().len(), 40);
}

#[test]
fn only_an_exit_gives_a_complete_duration() {
    let state = TestState::new();
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
        state.add_task(command, &events);
    }
    state.ingest();
    let length = |command: &str| {
        let runs = state.runs();
        let run = runs.iter().find(|run| run.command == command).unwrap();
        (run.ran_ms, run.length(), run.outcome.clone())
    };
    use siding_model::history::RunLength;
    let by = "user".to_owned();
    // The length of a stopped run is the time up to the decision to stop, not up to the kill.
    assert_eq!(length("stopped"), (Some(40), RunLength::AtLeast(40), Outcome::Stopped { by }));
    let deadline = Outcome::Deadline { limit_ms: 1_000 };
    assert_eq!(length("late"), (Some(1_000), RunLength::AtLeast(1_000), deadline));
    // The length of a run with lingering processes is the time up to the shell's exit, because a
    // caller waits only for the shell.
    let exited = Outcome::Exited { code: 0 };
    assert_eq!(length("lingers"), (Some(40), RunLength::Complete(40), exited));
    assert_eq!(length("lost").1, RunLength::Unknown);
}

/// The history must outlive the tasks: retention removes tasks, while durations are learned over
/// months.
#[test]
fn runs_of_removed_tasks_are_kept() {
    let state = TestState::new();
    let ids: Vec<_> = (0..300).map(|ms| state.add_exited_task("make", ms, 0)).collect();
    assert_eq!(state.ingest(), 300);
    assert_eq!(
        state.runs().len(),
        usize::try_from(MAX_RUNS_PER_COMMAND).unwrap(),
        "only the newest runs of a command are stored"
    );
    for id in &ids {
        let locked = state.root.task_dir(*id).unwrap().try_lock().unwrap().unwrap();
        state.root.remove_task(&locked).unwrap();
    }
    assert_eq!(state.ingest(), 0);
    assert!(state.median("make").is_some());
    let left: i64 = Connection::open(state.database_path())
        .unwrap()
        .query_row("SELECT count(*) FROM ingested", (), |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0, "the ids of removed tasks are deleted");
}

fn make_run(state: &TestState, command: String, ended: UnixMs) -> Run {
    Run {
        task_id: state.root.new_id(TaskKind::LocalBash).unwrap(),
        command,
        cwd: "/w".to_owned(),
        ended,
        ran_ms: Some(1),
        outcome: Outcome::Exited { code: 0 },
        peak_memory: Some(7),
    }
}

#[test]
fn old_and_surplus_commands_are_forgotten() {
    let state = TestState::new();
    let now = clock::unix_now();
    let many = i64::from(MAX_COMMANDS) + 10;
    let runs: Vec<_> = (0..many)
        .map(|age| make_run(&state, format!("c{age}"), now.plus_ms(-age)))
        .map(|run| (run, Tally::default()))
        .collect();
    state.with_history(|history| history.record_runs(&runs, &[]));
    let kept = state.runs();
    assert_eq!(kept.len(), usize::try_from(MAX_COMMANDS).unwrap());
    assert_eq!((kept[0].command.as_str(), kept[0].peak_memory), ("c0", Some(7)));
    assert!(
        !kept.iter().any(|run| run.command == format!("c{}", many - 1)),
        "the oldest command is deleted"
    );
    let day = 24 * 60 * 60 * 1000;
    let old = [(make_run(&state, "old".to_owned(), now.plus_ms(-181 * day)), Tally::default())];
    state.with_history(|history| history.record_runs(&old, &[]));
    assert!(!state.runs().iter().any(|run| run.command == "old"));
}

#[test]
fn ingestion_stops_at_its_limit_and_resumes() {
    let state = TestState::new();
    for ms in 0..5 {
        state.add_exited_task("make", ms, 0);
    }
    assert_eq!(state.with_history(|history| history.ingest(&state.root, 2)), 2);
    assert_eq!(state.with_history(|history| history.ingest(&state.root, 2)), 2);
    assert_eq!(state.with_history(|history| history.ingest(&state.root, 2)), 1);
}

#[test]
fn runs_on_an_executor_are_another_command() {
    let state = TestState::new();
    let executor = RemoteExecutor {
        name: "build".to_owned(),
        destination: Some("build".to_owned()),
        slurm: None,
        program: None,
        ssh_variables: vec![],
    };
    for _ in 0..3 {
        state.add_exited_task("make", 10, 0);
        let ended = leader_ended(0, TreeLiveness::Empty);
        state.add_task_on(Some(executor.clone()), "make", &[(900, ended)]);
    }
    assert_eq!(state.ingest(), 6);
    assert_eq!(state.median("make"), Some(Quantile::Exact(10)));
    let directory = history_directory(Some("build"), "/w");
    let found = state.with_history(|history| history.expectation("make", &directory));
    assert_eq!(found.map(|found| found.median), Some(Quantile::Exact(900)));
    let filter = Filter::new(Some("make"), Some(&directory));
    let runs = state.with_history(|history| history.runs(&filter, NO_LIMIT));
    assert_eq!(runs.len(), 3, "{runs:?}");
}

#[test]
fn a_filter_matches_whole_words() {
    let state = TestState::new();
    for text in ["make", "make test", "maker", "make\ntest"] {
        state.add_exited_task(text, 1, 0);
    }
    state.ingest();
    let found = |filter: Filter| {
        let mut found: Vec<_> = state
            .with_history(|history| history.runs(&filter, NO_LIMIT))
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
    let summaries = state.with_history(|history| history.summaries(&Filter::default()));
    assert_eq!(summaries.len(), 4);
}

#[test]
fn the_database_is_readable_by_its_owner_only() {
    let state = TestState::new();
    state.add_exited_task("make", 1, 0);
    let modes = state.with_history(|history| {
        history.ingest(&state.root, NO_LIMIT)?;
        let mode = |beside: &str| {
            let path = format!("{}{beside}", state.database_path().display());
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        Ok([mode(""), mode("-wal"), mode("-shm")])
    });
    assert_eq!(modes, [0o600; 3]);
}

/// A file that siding did not write is moved away, not overwritten, and a new file replaces it.
#[test]
fn a_damaged_file_is_quarantined_and_rebuilt() {
    type Damage = fn(&TestState);
    let damages: [(&str, Damage); 5] = [
        ("not a database", |state| std::fs::write(state.database_path(), "no database\n").unwrap()),
        ("zeros", |state| std::fs::write(state.database_path(), vec![0; 8192]).unwrap()),
        ("cut", |state| {
            let bytes = std::fs::read(state.database_path()).unwrap();
            std::fs::write(state.database_path(), &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("other tables", |state| {
            std::fs::remove_file(state.database_path()).unwrap();
            let other = Connection::open(state.database_path()).unwrap();
            other.execute_batch("CREATE TABLE mine (a)").unwrap();
        }),
        ("a table is missing", |state| {
            let own = Connection::open(state.database_path()).unwrap();
            own.execute_batch("DROP TABLE ingested").unwrap();
        }),
    ];
    for (what, damage) in damages {
        let state = TestState::new();
        for ms in 0..3 {
            state.add_exited_task("make", ms, 0);
        }
        state.ingest();
        damage(&state);
        let before = std::fs::read(state.database_path()).unwrap();
        let done =
            with_history(&state.root, |history| history.ingest(&state.root, NO_LIMIT)).unwrap();
        assert_eq!(done.value, 3, "{what}: all tasks are ingested again");
        let (path, why) =
            done.quarantined.unwrap_or_else(|| panic!("{what}: no file was quarantined"));
        assert!(matches!(why, HistoryError::Damaged { .. }), "{what}: {why}");
        assert!(std::fs::read(path).unwrap() == before, "{what}: the damaged file was changed");
        assert!(state.median("make").is_some(), "{what}");
    }
}

/// Otherwise another process could replace the file between the check and the move, and its new file
/// would be moved.
#[test]
fn a_damaged_file_is_checked_again_and_moved_under_a_lock() {
    let state = TestState::new();
    let is_locked = || {
        let directory =
            file::open_at(&state.root, "quarantine", file::OpenMode::Directory).unwrap();
        !file::try_lock_exclusive(&directory).unwrap()
    };
    let locked_attempts = RefCell::new(Vec::new());
    let done = with_history(&state.root, |_| {
        locked_attempts.borrow_mut().push(is_locked());
        if locked_attempts.borrow().len() > 2 {
            return Ok(());
        }
        let path = state.database_path();
        Err(HistoryError::Damaged { path, why: "for the test".to_owned() })
    });
    assert!(done.unwrap().quarantined.is_some());
    assert_eq!(locked_attempts.into_inner(), [false, true, false]);
}

#[test]
fn a_newer_format_is_refused_and_left_unchanged() {
    let state = TestState::new();
    state.ingest();
    let newer = Connection::open(state.database_path()).unwrap();
    newer.pragma_update(None, "user_version", NEWER_FORMAT).unwrap();
    drop(newer);
    let before = std::fs::read(state.database_path()).unwrap();
    let error =
        with_history(&state.root, |history| history.ingest(&state.root, NO_LIMIT)).unwrap_err();
    assert!(matches!(error, HistoryError::TooNew { found: NEWER_FORMAT, .. }), "{error}");
    assert!(error.to_string().contains("upgrade siding"), "{error}");
    assert!(std::fs::read(state.database_path()).unwrap() == before, "the file was changed");
    assert_eq!(state.quarantined_files(), [""; 0]);
}

const NEWER_FORMAT: i64 = super::FORMAT + 1;

#[test]
fn an_unusable_file_is_reported() {
    let state = TestState::new();
    std::fs::create_dir(state.database_path()).unwrap();
    let error =
        with_history(&state.root, |history| history.ingest(&state.root, NO_LIMIT)).unwrap_err();
    assert!(matches!(error, HistoryError::Unusable { .. }), "{error:?}");
    assert!(error.to_string().contains("history.db"), "{error}");
    let mut memory = History::in_memory().unwrap();
    state.add_exited_task("make", 1, 0);
    assert_eq!(memory.ingest(&state.root, NO_LIMIT).unwrap(), 1);
}

/// A newer siding may write an outcome that this build cannot parse. Such a row must not hide the
/// others.
#[test]
fn an_unreadable_row_is_skipped() {
    let state = TestState::new();
    let ids: Vec<_> = (0..2).map(|ms| state.add_exited_task("make", ms, 0)).collect();
    state.ingest();
    let other = Connection::open(state.database_path()).unwrap();
    let outcome = r#"{"kind":"dreamt"}"#;
    let sql = "UPDATE runs SET outcome = ?1 WHERE task = ?2";
    other.execute(sql, [outcome, &ids[0].to_string()]).unwrap();
    drop(other);
    assert_eq!(state.runs().len(), 1);
}

#[test]
fn a_run_ends_at_the_time_of_its_closing_record() {
    let state = TestState::new();
    let id = state.root.new_id(TaskKind::LocalBash).unwrap();
    let accepted = AcceptedTask {
        format: BASE_FORMAT,
        boot: BootId("an earlier one".to_owned()),
        at: MonotonicMs(0),
        wall: UnixMs(clock::unix_now().0 - 5_000),
        shim: EXITED_PROCESS,
        cgroup: None,
        adopted: None,
        spec: task_spec(id, "make"),
    };
    let closed =
        CloseSummary { wall: UnixMs(clock::unix_now().0 - 1_000), ..CloseSummary::default() };
    let wall = closed.wall;
    let dir = state.root.create_task(id).unwrap();
    JournalFile::create(&dir)
        .unwrap()
        .append(&[
            Record::Accepted(Box::new(accepted)),
            Record::Event {
                at: MonotonicMs(0),
                event: TaskEvent::Spawned { leader: EXITED_PROCESS.into() },
            },
            Record::Event { at: MonotonicMs(9), event: leader_ended(0, TreeLiveness::Empty) },
            Record::Closed(Box::new(closed)),
        ])
        .unwrap();
    state.ingest();
    assert_eq!(state.runs()[0].ended, wall);
}
