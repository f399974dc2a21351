//! A state directory whose tasks the test writes record by record.

use std::collections::HashMap;
use std::path::PathBuf;

use siding_core::notices::Outbox;
use siding_core::store::StateDir;
use siding_core::store::journal_file::JournalFile;
use siding_core::sys::procfs;
use siding_live::{LiveOptions, LiveView};
use siding_model::evidence::{Certainty, Evidence, StallRecord, WhyVerdict};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::notice::{Consumer, NoticeId};
use siding_model::outcome::{BackgroundReason, LeaderEnd, Placement};
use siding_model::process::{BootId, MonotonicMs, ProcRef, UnixMs};
use siding_model::record::{AcceptedTask, CloseSummary, NEWEST_FORMAT, Record};
use siding_model::sample::sample_task_spec;
use siding_model::spec::{TaskCommand, TaskSpec};

/// The deadline of each task: three years after its start.
pub(crate) const DEADLINE_MS: u64 = 100_000_000_000;

/// A state directory, and the open journals of its running tasks.
pub(crate) struct StateFixture {
    directory: tempfile::TempDir,
    pub(crate) root: StateDir,
    boot: BootId,
    journals: HashMap<TaskId, JournalFile>,
    started: i64,
}

impl StateFixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&directory.path().join("state")).expect("opens");
        let boot = procfs::boot_id().expect("/proc is mounted");
        Self { directory, root, boot, journals: HashMap::new(), started: 1_760_000_000_000 }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub(crate) fn open_view(&self) -> LiveView {
        self.open_view_with(LiveOptions::default())
    }

    pub(crate) fn open_view_with(&self, options: LiveOptions) -> LiveView {
        let root = StateDir::open(&self.path()).expect("opens");
        LiveView::open(root, options).expect("is read")
    }

    /// Writes the first records of a task, which then runs.
    pub(crate) fn start_task(&mut self) -> TaskId {
        self.start_task_in("cli")
    }

    pub(crate) fn start_task_in(&mut self, session: &str) -> TaskId {
        self.start_task_of(own_process(), session)
    }

    pub(crate) fn start_task_with_shim(&mut self, shim: ProcRef) -> TaskId {
        self.start_task_of(shim, "cli")
    }

    fn start_task_of(&mut self, shim: ProcRef, session: &str) -> TaskId {
        let id = self.root.new_id(TaskKind::LocalBash).expect("an id");
        let dir = self.root.create_task(id).expect("a new task");
        self.root.mark_live(id).expect("marked");
        let mut journal = JournalFile::create(&dir).expect("a new journal");
        self.started += 1_000;
        let records = [
            Record::Accepted(Box::new(AcceptedTask {
                format: NEWEST_FORMAT,
                boot: self.boot.clone(),
                at: MonotonicMs(1),
                wall: UnixMs(self.started),
                shim,
                cgroup: None,
                adopted: None,
                spec: task_spec(id, session.parse().expect("a name")),
            })),
            event(2, TaskEvent::Spawned { leader: shim.into() }),
        ];
        journal.append(&records).expect("written");
        self.journals.insert(id, journal);
        id
    }

    pub(crate) fn append(&mut self, id: TaskId, record: Record) {
        self.journals.get_mut(&id).expect("it runs").append(&[record]).expect("written");
    }

    /// Moves the deadline of a running task to `by_ms` after its original deadline. Each call for a
    /// task needs a different `by_ms`, because the replay rejects an extension to the present
    /// deadline.
    pub(crate) fn extend_task(&mut self, id: TaskId, by_ms: u64) {
        let deadline = MonotonicMs(DEADLINE_MS + 1 + by_ms);
        let (by, job_limit) = (Some("web".to_owned()), None);
        self.append(id, event(3, TaskEvent::Extended { deadline, by, job_limit }));
    }

    /// Records that a running task waits for an answer.
    pub(crate) fn stall_task(&mut self, id: TaskId) {
        let evidence = Evidence {
            verdict: WhyVerdict::InputWait,
            waiting_on: None,
            awaited_input: None,
            certainty: Certainty::Hard,
            since_ms: 2_000,
            silent_ms: 2_000,
            cpu_permille: 0,
            chain: Vec::new(),
            tail: "Continue? [y/N]".to_owned(),
            advice: String::new(),
        };
        let stalled = StallRecord { at: MonotonicMs(3), output_bytes: 0, evidence };
        self.append(id, Record::Stalled(Box::new(stalled)));
    }

    /// Ends a task as its shim would.
    pub(crate) fn end_task(&mut self, id: TaskId, code: u8) {
        let end = TaskEvent::LeaderEnded {
            end: LeaderEnd::Exited { code },
            tree: TreeLiveness::Empty,
            final_cwd: None,
            pipeline: None,
        };
        self.append(id, event(4, end));
        self.started += 1_000;
        let closed = CloseSummary { wall: UnixMs(self.started), ..CloseSummary::default() };
        self.append(id, Record::Closed(Box::new(closed)));
        self.root.unmark_live(id, "");
        self.journals.remove(&id);
    }

    /// Removes an ended task as the reaper does.
    pub(crate) fn remove_task(&self, id: TaskId) {
        let dir = self.root.task_dir(id).expect("it exists");
        let locked = dir.try_lock().expect("the lock is readable").expect("it is free");
        self.root.remove_task(&locked).expect("removed");
    }

    /// Overwrites the journal of a task with text that is not a journal.
    pub(crate) fn damage_task(&mut self, id: TaskId) {
        self.journals.remove(&id);
        let path = self.root.task_dir(id).expect("it exists").path().join("journal");
        std::fs::write(path, "damaged\n").expect("written");
    }

    /// Acknowledges notices as a person at a terminal does.
    pub(crate) fn acknowledge(&self, session: &str, notices: &[NoticeId]) {
        self.acknowledge_for(Consumer::terminal(), session, notices);
    }

    pub(crate) fn acknowledge_for(&self, consumer: Consumer, session: &str, notices: &[NoticeId]) {
        let session: SessionId = session.parse().expect("a name");
        let outbox = Outbox::new(&self.root, session, consumer).expect("opens");
        outbox.acknowledge(notices).expect("acknowledged");
    }
}

/// Returns the process of this test, which takes the place of each task's shim.
pub(crate) fn own_process() -> ProcRef {
    let pid = i32::try_from(std::process::id()).expect("a pid is small");
    procfs::identify(pid).expect("it runs")
}

fn event(at: u64, event: TaskEvent) -> Record {
    Record::Event { at: MonotonicMs(at), event }
}

fn task_spec(task_id: TaskId, session_id: SessionId) -> TaskSpec {
    TaskSpec {
        session_id,
        command: TaskCommand::Argv { argv: vec!["make".to_owned(), "test".to_owned()] },
        cwd: "/project".to_owned(),
        placement: Placement::Background { why: BackgroundReason::Asked },
        deadline_ms: DEADLINE_MS,
        cap_ms: 2 * DEADLINE_MS,
        ..sample_task_spec(task_id)
    }
}
