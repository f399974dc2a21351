mod expired;
mod hosts;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant, SystemTime};

use siding_model::id::{Birthmark, TaskKind};
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::outcome::LeaderEnd;
use siding_model::process::MonotonicMs;
use siding_model::record::{AcceptedTask, BASE_FORMAT, CloseSummary, Record};
use siding_model::sample::sample_task_spec;
use siding_model::size::Bytes;
use siding_model::spec::TaskSpec;

use super::*;
use crate::store::journal_file::JournalFile;
use crate::sys::{birthmark, clock};
use crate::task::recover::{Recovery, RecoveryOutcome};

/// Never executed: no test here has a task that needs a new shim.
const UNUSED_PROGRAM: &CStr = c"/nonexistent";

struct ReapFixture {
    root: StateDir,
    _dir: tempfile::TempDir,
}

impl ReapFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&dir.path().join("state")).expect("opens");
        Self { root, _dir: dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join(name)
    }

    fn reap_all(&self) -> Vec<ReapStep> {
        reap_all(&self.root, UNUSED_PROGRAM, &RetentionLimits::default(), || ()).expect("works")
    }

    fn plan_all(&self) -> Vec<ReapStep> {
        plan_all(&self.root, &RetentionLimits::default()).expect("works")
    }

    /// Records a task with this shim: ended if `ended` is given, otherwise marked live.
    fn add_task(&self, shim: ProcRef, ended: Option<UnixMs>, session: &str) -> TaskId {
        let id = self.root.new_id(TaskKind::LocalBash).expect("an id");
        self.record_task(id, shim, ended, session);
        id
    }

    fn record_task(&self, id: TaskId, shim: ProcRef, ended: Option<UnixMs>, session: &str) {
        let dir = self.root.create_task(id).expect("a directory");
        let mut journal = JournalFile::create(&dir).expect("a journal");
        let mut records = vec![accepted_record(id, shim, session)];
        if let Some(wall) = ended {
            let event = TaskEvent::LeaderEnded {
                end: LeaderEnd::Exited { code: 0 },
                tree: TreeLiveness::Empty,
                final_cwd: None,
                pipeline: None,
            };
            records.push(Record::Event {
                at: MonotonicMs(1),
                event: TaskEvent::Spawned { leader: DEAD_PROCESS.into() },
            });
            records.push(Record::Event { at: MonotonicMs(2), event });
            records
                .push(Record::Closed(Box::new(CloseSummary { wall, ..CloseSummary::default() })));
        } else {
            self.root.mark_live(id).expect("marked");
        }
        journal.append(&records).expect("written");
        std::fs::write(dir.path().join("output"), "output\n").expect("written");
    }
}

/// A process that has exited: the process ID of init, with a start time that init cannot have.
const DEAD_PROCESS: ProcRef = ProcRef { pid: 1, start_ticks: u64::MAX };

fn accepted_record(id: TaskId, shim: ProcRef, session: &str) -> Record {
    let session_id = session.parse().expect("a name");
    Record::Accepted(Box::new(AcceptedTask {
        format: BASE_FORMAT,
        boot: procfs::boot_id().expect("is there"),
        at: MonotonicMs(0),
        wall: clock::unix_now(),
        shim,
        cgroup: None,
        adopted: None,
        spec: TaskSpec { session_id, ..sample_task_spec(id) },
    }))
}

fn step_kinds(steps: &[ReapStep]) -> Vec<&'static str> {
    let mut kinds: Vec<_> = steps.iter().map(ReapStep::kind).collect();
    kinds.sort_unstable();
    kinds
}

/// Returns all paths below a directory, each with the content if it is a file.
fn directory_contents(path: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).expect("is there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            found.extend(directory_contents(&path));
        } else {
            let content = std::fs::read(&path).unwrap_or_default();
            found.push((path, content));
        }
    }
    found.sort_unstable();
    found
}

fn make_old(path: &Path) {
    let then = SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::open(path).and_then(|dir| dir.set_modified(then)).expect("is ours");
}

#[test]
fn the_end_of_a_task_without_processes_is_recorded_once() {
    let place = ReapFixture::new();
    let ids: Vec<_> = (0..40).map(|_| place.add_task(DEAD_PROCESS, None, "cli")).collect();
    assert_eq!(count_by_kind(&place.plan_all()), BTreeMap::from([("closed", 40)]));
    let steps = place.reap_all();
    assert_eq!(count_by_kind(&steps), BTreeMap::from([("closed", 40)]));
    let lost = |step: &ReapStep| {
        matches!(step, ReapStep::Closed { outcome: Some(Outcome::Lost { .. }), .. })
    };
    assert!(steps.iter().all(lost), "{steps:?}");
    for id in ids {
        assert!(!place.root.is_marked_live(id));
        let state = place.root.task_dir(id).expect("is there").read().expect("reads").state;
        assert_eq!(state.closed.expect("closed").output.bytes, 7);
    }
    assert_eq!(place.reap_all(), []);
}

#[test]
fn a_dry_run_changes_nothing() {
    let place = ReapFixture::new();
    place.add_task(DEAD_PROCESS, None, "cli");
    place.add_task(DEAD_PROCESS, Some(UnixMs(0)), "cli");
    let damaged = place.add_task(DEAD_PROCESS, None, "cli");
    std::fs::write(place.path(&format!("tasks/{damaged}/journal")), "nonsense\n").expect("written");
    let unborn = place.root.new_id(TaskKind::LocalBash).expect("an id");
    drop(place.root.create_task(unborn));
    make_old(&place.path(&format!("tasks/{unborn}")));
    std::os::unix::fs::symlink(unborn.to_string(), place.path("dedup/abc")).expect("linked");
    let before = directory_contents(place.root.path());
    let foreseen = place.plan_all();
    assert_eq!(directory_contents(place.root.path()), before);
    assert_eq!(
        step_kinds(&foreseen),
        ["closed", "expired", "never_started", "quarantined", "unclaimed"]
    );
    assert_eq!(step_kinds(&place.reap_all()), step_kinds(&foreseen));
    assert_eq!(place.plan_all(), []);
}

#[test]
fn a_task_that_is_being_created_is_not_touched() {
    let place = ReapFixture::new();
    let young = place.root.new_id(TaskKind::LocalBash).expect("an id");
    drop(place.root.create_task(young));
    // A concurrent recovery does not remove the task either, although the creator of the task has
    // not locked it yet.
    let recovery = Recovery::new(&place.root, c"/nonexistent").expect("works");
    let found = recovery.recover_task(young).expect("works");
    assert!(matches!(found, RecoveryOutcome::Busy), "{found:?}");
    let locked = place.root.new_id(TaskKind::LocalBash).expect("an id");
    let _keeps_alive = place.root.create_task(locked).expect("a directory");
    make_old(&place.path(&format!("tasks/{locked}")));
    assert_eq!(place.reap_all(), []);
    assert_eq!(place.root.all_tasks().expect("lists").len(), 2);
    make_old(&place.path(&format!("tasks/{young}")));
    let found = recovery.recover_task(young).expect("works");
    assert!(matches!(found, RecoveryOutcome::NeverRecorded), "{found:?}");
    assert_eq!(place.root.all_tasks().expect("lists"), [locked]);
}

#[test]
fn retention_removes_the_oldest_tasks_and_no_locked_one() {
    let place = ReapFixture::new();
    let now = clock::unix_now();
    let ids: Vec<_> =
        (0..5).map(|age| place.add_task(DEAD_PROCESS, Some(now.plus_ms(-age)), "cli")).collect();
    for id in &ids {
        let (session, news) = crate::notices::caller_notices(&place.root, *id).expect("readable");
        crate::notices::ack_returned(&place.root, &session, &news).expect("noted");
    }
    let _keeps_alive = place.root.task_dir(ids[4]).expect("is there").try_lock().expect("works");
    let limits = RetentionLimits { tasks: 2, ..RetentionLimits::default() };
    let mut before = None;
    let steps =
        reap_all(&place.root, UNUSED_PROGRAM, &limits, || before = place.root.all_tasks().ok());
    let steps = steps.expect("works");
    let gone: Vec<_> = steps
        .iter()
        .map(|step| {
            let ReapStep::Expired { task_id, bytes, .. } = step else { panic!("{step:?}") };
            assert!(*bytes >= 4096, "{bytes}");
            *task_id
        })
        .collect();
    assert_eq!(gone, [ids[3], ids[2]]);
    assert_eq!(
        before.map(|ids| ids.len()),
        Some(5),
        "`before_removal` runs before the first removal"
    );
    assert_eq!(place.root.all_tasks().expect("lists").len(), 3);
}

/// A task may create files with any name in its directory. None of them may prevent the removal of
/// the task or of its session.
#[test]
fn a_task_directory_with_names_that_are_not_utf8_is_removed() {
    let place = ReapFixture::new();
    let id = place.add_task(DEAD_PROCESS, Some(clock::unix_now()), "cli");
    let dir = place.path(&format!("tasks/{id}"));
    let odd = OsStr::from_bytes(b"\xff");
    std::fs::create_dir(dir.join(odd)).expect("made");
    std::fs::write(dir.join(odd).join(odd), "x").expect("written");
    let (session, news) = crate::notices::caller_notices(&place.root, id).expect("readable");
    crate::notices::ack_returned(&place.root, &session, &news).expect("noted");
    let limits = RetentionLimits { tasks: 0, ..RetentionLimits::default() };
    let steps = reap_all(&place.root, UNUSED_PROGRAM, &limits, || ()).expect("works");
    assert!(matches!(&steps[..], [ReapStep::Expired { .. }]), "{steps:?}");
    assert!(!dir.exists());
}

#[test]
fn retention_counts_the_bytes_in_subdirectories_of_a_task() {
    let place = ReapFixture::new();
    let id = place.add_task(DEAD_PROCESS, Some(clock::unix_now()), "cli");
    let dir = place.path(&format!("tasks/{id}/cache"));
    std::fs::create_dir(&dir).expect("made");
    std::fs::write(dir.join("large"), vec![7; 1 << 20]).expect("written");
    let (session, news) = crate::notices::caller_notices(&place.root, id).expect("readable");
    crate::notices::ack_returned(&place.root, &session, &news).expect("noted");
    let limits = RetentionLimits { bytes: Bytes(1 << 20), ..RetentionLimits::default() };
    let steps = reap_all(&place.root, UNUSED_PROGRAM, &limits, || ()).expect("works");
    let [ReapStep::Expired { bytes, .. }] = &steps[..] else { panic!("{steps:?}") };
    assert!(*bytes > 1 << 20, "{bytes}");
}

#[test]
fn reap_removes_the_live_marker_of_an_ended_task() {
    let place = ReapFixture::new();
    let id = place.add_task(DEAD_PROCESS, Some(clock::unix_now()), "cli");
    place.root.mark_live(id).expect("marked");
    std::fs::write(place.path(&format!("tasks/{id}/ctl")), "").expect("written");
    assert_eq!(place.reap_all(), [ReapStep::Cleared { task_id: id }]);
    assert!(!place.path(&format!("tasks/{id}/ctl")).exists());
    assert!(place.path(&format!("tasks/{id}/output")).exists());
}

#[test]
fn tasks_of_an_ended_session_are_reported() {
    let place = ReapFixture::new();
    // This process stands in for a living shim.
    let shim = procfs::self_ref().expect("runs");
    let id = place.add_task(shim, None, "never-opened");
    place.add_task(shim, None, "cli");
    let session_id: SessionId = "never-opened".parse().expect("a name");
    assert_eq!(place.reap_all(), [ReapStep::Leaving { task_id: id, session_id, outcome: None }]);
}

/// A process that carries a mark, and is killed at the end of the test.
struct MarkedChild(Child);

impl Drop for MarkedChild {
    fn drop(&mut self) {
        let _already_ended = self.0.kill();
        let _already_ended = self.0.wait();
    }
}

impl MarkedChild {
    fn start(id: TaskId) -> Self {
        Self::start_program(id.birthmark(), &mut Self::program())
    }

    fn program() -> Program {
        let mut program = Program::new(std::env::current_exe().expect("is there"));
        program.args([
            "--exact",
            "upkeep::reap::tests::body_of_a_marked_process",
            "--ignored",
            "--nocapture",
        ]);
        program
    }

    fn start_program(mark: Birthmark, program: &mut Program) -> Self {
        let mut child =
            program.env("MARK", mark.0.to_string()).stdout(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let marked = Self(child);
        let ready = lines.map_while(Result::ok).any(|line| line.contains("marked"));
        assert!(ready, "the child has reported that it carries the mark");
        marked
    }

    fn process(&self) -> ProcRef {
        procfs::identify(i32::try_from(self.0.id()).expect("a pid")).expect("is there")
    }

    fn runs(&self) -> bool {
        procfs::is_running(self.process())
    }
}

#[test]
#[ignore = "not a test: the program of `MarkedChild`"]
fn body_of_a_marked_process() {
    let Ok(mark) = std::env::var("MARK") else { return };
    birthmark::set_birthmark(Birthmark(mark.parse().expect("a number")))
        .expect("the mark is below the current limit");
    let socket = std::env::var_os("SOCKET");
    let _keeps_alive = socket.map(|path| UnixListener::bind(path).expect("own directory"));
    println!("marked");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn only_orphans_of_tasks_that_ended_here_are_ended() {
    let place = ReapFixture::new();
    let ended = place.add_task(DEAD_PROCESS, Some(clock::unix_now()), "cli");
    let stray = MarkedChild::start(ended);
    let elsewhere = MarkedChild::start(place.root.new_id(TaskKind::LocalBash).expect("an id"));
    let lives = place.root.new_id(TaskKind::LocalBash).expect("an id");
    let shim = MarkedChild::start(lives);
    place.record_task(lives, shim.process(), None, "cli");
    let member = MarkedChild::start(lives);
    assert_eq!(step_kinds(&place.plan_all()), ["stray_ended"]);
    assert!(stray.runs());
    let pid = stray.process().pid;
    let steps = place.reap_all();
    let [ReapStep::StrayEnded { task_id, pid: found, command, signal }] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!((*task_id, *found, signal.as_deref()), (ended, pid, Some("SIGTERM")));
    assert!(command.contains("body_of_a_marked_process"), "{command}");
    assert!(!stray.runs() && elsewhere.runs() && member.runs() && shim.runs());
    assert_eq!(place.reap_all(), []);
}

/// A process that could not be read may be a stray of any ended task.
#[test]
fn an_incomplete_scan_is_reported_and_no_task_is_removed() {
    let place = ReapFixture::new();
    let (ended, aside) =
        (place.add_task(DEAD_PROCESS, Some(UnixMs(1)), "cli"), TaskId::MIN_BITS + 9);
    let aside = TaskId::new(TaskKind::LocalBash, aside).expect("small");
    std::fs::create_dir_all(place.path(&format!("quarantine/{aside}.1"))).expect("own directory");
    let survey = survey_all(&place.root).expect("works");
    let unseen = orphan_processes::OrphanScan {
        is_complete: false,
        ..orphan_processes::OrphanScan::default()
    };
    let (steps, kept) = orphan_processes::end_found_orphans(&place.root, &survey, unseen);
    assert_eq!(step_kinds(&steps), ["strays_unseen"]);
    assert!(steps[0].is_failure());
    assert!(kept.contains(&ended) && kept.contains(&aside), "{kept:?}");
    let whole = orphan_processes::OrphanScan {
        is_complete: true,
        ..orphan_processes::OrphanScan::default()
    };
    let (steps, kept) = orphan_processes::end_found_orphans(&place.root, &survey, whole);
    assert!(steps.is_empty() && kept.is_empty());
}

#[test]
fn a_shim_that_is_about_to_exit_is_no_orphan() {
    let place = ReapFixture::new();
    let id = place.root.new_id(TaskKind::LocalBash).expect("an id");
    let shim = MarkedChild::start(id);
    let dir = place.root.create_task(id).expect("a directory");
    let mut journal = JournalFile::create(&dir).expect("a journal");
    let event = TaskEvent::SpawnFailed { error: "no".to_owned(), errno: 2 };
    let records =
        [accepted_record(id, shim.process(), "cli"), Record::Event { at: MonotonicMs(1), event }];
    journal.append(&records).expect("written");
    assert_eq!(place.reap_all(), [], "the task is locked, and the process is its shim");
    drop(dir);
    assert_eq!(place.reap_all(), [], "the process is the task's shim");
    assert!(shim.runs());
}

#[test]
fn orphans_of_a_task_set_aside_are_ended_and_its_files_kept() {
    let place = ReapFixture::new();
    let id = place.add_task(DEAD_PROCESS, None, "cli");
    let stray = MarkedChild::start(id);
    std::fs::write(place.path(&format!("tasks/{id}/journal")), "nonsense\n").expect("written");
    assert_eq!(step_kinds(&place.reap_all()), ["quarantined", "stray_ended"]);
    assert!(!stray.runs());
    let aside = std::fs::read_dir(place.path("quarantine")).expect("is there").count();
    assert_eq!(aside, 1);
}

/// Measures the promised speed: 1,000 tasks that lost their shim are recovered in two seconds. The
/// promise holds for a release build.
#[test]
#[ignore = "a measurement; run with --release --ignored --nocapture"]
fn a_thousand_shimless_tasks_are_reaped_in_two_seconds() {
    let place = ReapFixture::new();
    for _ in 0..1_000 {
        place.add_task(DEAD_PROCESS, None, "cli");
    }
    let started = Instant::now();
    let steps = place.reap_all();
    let took = started.elapsed();
    println!("1,000 orphans: {took:?}");
    assert_eq!(count_by_kind(&steps), BTreeMap::from([("closed", 1_000)]));
    assert!(took < Duration::from_secs(2), "{took:?}");
}
