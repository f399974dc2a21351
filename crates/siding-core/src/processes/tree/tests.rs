//! Tests that scans find and hold exactly the processes of a task, even while they fork quickly.

use std::process::{Child, Command, Stdio};

use siding_model::id::TaskKind;
use siding_model::process::UnixMs;
use siding_model::record::{AcceptedTask, BASE_FORMAT, Record};
use siding_model::sample::sample_task_spec;

use super::*;
use crate::processes::siding_process::SHIM_NAME;
use crate::store::journal_file::JournalFile;

/// A process with a task's birthmark, which is killed on drop.
struct MarkedChild(Child);

impl MarkedChild {
    /// Starts a shell and returns after `line` has printed a byte.
    fn new(id: TaskId, line: &str) -> Self {
        let line = format!("ulimit -R {}; {line}", id.birthmark().0);
        let mut command = Command::new("bash");
        command.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("there is a bash");
        let mut told = [0];
        let out = child.stdout.as_mut().expect("is piped");
        std::io::Read::read_exact(out, &mut told).expect("it is marked");
        Self(child)
    }

    fn process(&self) -> ProcRef {
        let pid = i32::try_from(self.0.id()).expect("fits");
        procfs::identify(pid).expect("not waited for")
    }
}

impl Drop for MarkedChild {
    fn drop(&mut self) {
        let _already_ended = self.0.kill();
        let _already_ended = self.0.wait();
    }
}

/// Returns an id that no other test process on this machine uses, because a scan finds the marked
/// processes of all of them.
fn id(number: u64) -> TaskId {
    let own = u64::from(std::process::id()) << 12;
    TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS + own + number).expect("small")
}

fn empty_state_dir() -> (tempfile::TempDir, StateDir) {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&temporary.path().join("state")).expect("is made");
    (temporary, root)
}

#[test]
fn only_the_same_and_marked_process_is_held() {
    let marked = MarkedChild::new(id(77), "echo; read -r _");
    let process = marked.process();
    let (_temporary, root) = empty_state_dir();
    let held = |id: TaskId, known: ProcRef| -> Vec<ProcRef> {
        hold_processes(&root, id, None, &[known]).iter().map(|held| held.process).collect()
    };
    assert_eq!(held(id(77), process), [process]);
    let earlier = ProcRef { start_ticks: process.start_ticks - 1, ..process };
    assert_eq!(held(id(77), earlier), [], "the pid was reused");
    assert_eq!(held(id(78), process), [], "the process belongs to another task");
    assert_eq!(BirthmarkScan::scan_for(&root, id(77), 0).processes_of(id(77)), [process]);
    assert_eq!(BirthmarkScan::scan_for(&root, id(77), process.pid).processes_of(id(77)), []);
    drop(marked);
    assert_eq!(held(id(77), process), [], "it has ended");
}

/// An incomplete scan must not prove that a task has no processes.
#[test]
fn a_scan_is_incomplete_if_each_round_finds_new_processes() {
    let mut newest = 5;
    let next_pid = || {
        newest += 1;
        Some(newest)
    };
    let mut rounds = 0;
    assert!(!follow_new_pids(5, next_pid, |_| rounds += 1));
    assert!(rounds > 1, "the scan ends in spite of new processes");
    let follow = |newest: &[i32]| {
        let (mut newest, mut seen) = (newest.iter().copied(), Vec::new());
        let is_complete = follow_new_pids(5, || newest.next(), |pids| seen.push(pids));
        (is_complete, seen)
    };
    assert_eq!(follow(&[5]), (true, vec![]));
    assert_eq!(follow(&[7, 9, 9]), (true, vec![Some(6..=7), Some(8..=9)]));
    assert_eq!(follow(&[7, 2, 2]), (true, vec![Some(6..=7), None]), "the ids wrapped around");
    assert_eq!(follow(&[7]), (false, vec![Some(6..=7)]), "the newest id is unknown");
}

/// Starts a chain of short-lived processes, each of which starts the next. Returns the shell that
/// started the chain and stays alive.
fn start_respawning_chain(root: &StateDir, id: TaskId) -> MarkedChild {
    let hop = "hop() { [ -e /proc/$$ ] && (hop &) }; hop";
    let shell = MarkedChild::new(id, &format!("{hop}; echo; read -r _"));
    let pid = shell.process().pid;
    while BirthmarkScan::scan_for(root, id, pid).processes_of(id).is_empty() {
        assert!(is_alive(shell.process()), "the shell has not started the first");
    }
    shell
}

#[test]
fn a_respawning_process_is_found_by_every_scan() {
    const SCANS: usize = 100;
    let (_temporary, root) = empty_state_dir();
    let shell = start_respawning_chain(&root, id(79));
    let pid = shell.process().pid;
    for look in 0..SCANS {
        assert!(
            !BirthmarkScan::scan_for(&root, id(79), pid).processes_of(id(79)).is_empty(),
            "look {look}"
        );
    }
}

#[test]
fn a_respawning_process_is_found_by_shared_scans() {
    const SCANS: usize = 100;
    let (_temporary, root) = empty_state_dir();
    let (shell, gone) = (start_respawning_chain(&root, id(80)), id(81));
    let looks = RateLimitedScan::default();
    [id(80), gone].into_iter().for_each(|id| looks.add_task(id));
    let pid = shell.process().pid;
    for look in 0..SCANS {
        match looks.hold_marked(&root, id(80), pid, 4) {
            Ok(grip) => assert!(!grip.is_empty(), "look {look}"),
            Err(at) => while clock::monotonic_now() < at {},
        }
        assert!(looks.hold_marked(&root, gone, pid, 4).is_ok_and(|grip| grip.is_empty()));
    }
}

#[test]
fn processes_of_a_shared_scan_are_held_and_dead_ones_rescanned() {
    let (_temporary, root) = empty_state_dir();
    let (stays, goes) =
        (MarkedChild::new(id(82), "echo; read -r _"), MarkedChild::new(id(83), "echo; read -r _"));
    let looks = RateLimitedScan::default();
    [id(82), id(83)].into_iter().for_each(|id| looks.add_task(id));
    let held = |id: TaskId| -> Result<Vec<ProcRef>, MonotonicMs> {
        Ok(looks.hold_marked(&root, id, 0, 4)?.pidfds.iter().map(|held| held.process).collect())
    };
    assert_eq!(held(id(82)), Ok(vec![stays.process()]));
    assert_eq!(held(id(83)), Ok(vec![goes.process()]));
    drop(goes);
    while let Err(at) = held(id(83)) {
        while clock::monotonic_now() < at {}
    }
    assert_eq!(held(id(83)), Ok(vec![]));
    assert_eq!(held(id(82)), Ok(vec![stays.process()]));
}

/// Records a task that this process supervises, but does not mark it live: the task has ended, or
/// its record is about to be written.
fn record_unmarked_task(root: &StateDir, id: TaskId, shim: ProcRef) {
    let accepted = AcceptedTask {
        format: BASE_FORMAT,
        boot: procfs::boot_id().expect("is there"),
        at: MonotonicMs(0),
        wall: UnixMs(0),
        shim,
        cgroup: None,
        adopted: None,
        spec: sample_task_spec(id),
    };
    let dir = root.create_task(id).expect("a directory");
    let mut journal = JournalFile::create(&dir).expect("a journal");
    journal.append(&[Record::Accepted(Box::new(accepted))]).expect("written");
}

/// A shim without a command line: it has freed its memory, and its caller already knows the end.
#[test]
fn an_exiting_shim_of_a_nested_task_is_not_of_the_outer_task() {
    let (_temporary, root) = empty_state_dir();
    let (outer, nested) = (id(85), id(84));
    let name = SHIM_NAME.to_str().expect("ASCII");
    let set_name = format!("printf {name} > /proc/$$/comm; echo; read -r _");
    let mut shim = MarkedChild::new(nested, &set_name);
    let mut impostor = MarkedChild::new(nested, &set_name);
    record_unmarked_task(&root, nested, shim.process());
    for child in [&mut shim, &mut impostor] {
        drop(child.0.stdin.take());
        // The end of the output is closed after the memory is freed.
        let mut rest = Vec::new();
        let out = child.0.stdout.as_mut().expect("is piped");
        std::io::Read::read_to_end(out, &mut rest).expect("it ends");
        let title = procfs::command_line(child.process().pid, 64);
        assert_eq!(title.as_deref(), Some(format!("[{name}]").as_str()), "no command line is left");
    }
    let is_of_other = |child: &MarkedChild, own: TaskId| {
        is_of_other_task(&root, own.birthmark(), child.process().pid)
    };
    assert!(is_of_other(&shim, outer));
    assert!(!is_of_other(&shim, nested), "it is the shim of this task");
    assert!(!is_of_other(&impostor, outer), "the journal names another process");
}
