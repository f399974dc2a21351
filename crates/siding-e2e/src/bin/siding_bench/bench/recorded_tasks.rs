//! Writes finished and orphaned tasks to the disk with the journal writer of the model, without
//! running any command.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result};
use siding_core::sys::{clock, procfs};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::outcome::{BackgroundReason, LeaderEnd, Placement};
use siding_model::process::{BootId, ProcRef};
use siding_model::record::{self, AcceptedTask, BASE_FORMAT, CloseSummary, OutputTotals, Record};
use siding_model::settings::Settings;
use siding_model::spec::{StdinMode, TaskCommand, TaskSpec};
use siding_model::terminal::DEFAULT_ATTACH_IDLE_MS;

use super::workspace::RowDir;

/// The state of a written task, as its journal records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordedState {
    /// The task ended by itself, with a complete journal.
    Ended,
    /// The shim was killed, and the command ended later. No shim recorded the end, so the last
    /// record in the journal is of a running command.
    Orphaned,
}

/// Writes the directories of `count` tasks into a state directory, as their shims would have.
pub(super) fn write_tasks(place: &RowDir, count: usize, past: RecordedState) -> Result<()> {
    // Opening the client creates the directories.
    let _client = place.client()?;
    let boot = procfs::boot_id()?;
    // Real ids are spread over the whole range of ids. Fixed steps have the same effect and cannot
    // produce a duplicate.
    let step = (TaskId::MAX_BITS - TaskId::MIN_BITS) / (count as u64 + 1);
    for number in 0..count as u64 {
        let id = TaskId::from_random(TaskKind::LocalBash, (number + 1) * step, TaskId::MAX_BITS);
        write_task(place, id.context("there are too few task ids")?, number, &boot, past)?;
    }
    Ok(())
}

fn write_task(
    place: &RowDir,
    id: TaskId,
    number: u64,
    boot: &BootId,
    past: RecordedState,
) -> Result<()> {
    const OUTPUT: &[u8] = b"   Compiling siding v0.1.0\n    Finished `dev` profile\n";
    let dir = place.state.join("tasks").join(id.to_string());
    fs::create_dir(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
    let mut lines = Vec::new();
    for (seq, record) in (0..).zip(task_records(place, id, number, boot, past)) {
        record::write_line(&mut lines, seq, &record);
    }
    fs::write(dir.join("journal"), lines)?;
    fs::write(dir.join("output"), OUTPUT)?;
    if past == RecordedState::Orphaned {
        fs::write(place.state.join("live").join(id.to_string()), "")?;
    }
    Ok(())
}

fn task_records(
    place: &RowDir,
    id: TaskId,
    number: u64,
    boot: &BootId,
    past: RecordedState,
) -> Vec<Record> {
    // The reference has the pid of this process and another start time, so it matches no process.
    let pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let nobody = |start_ticks| ProcRef { pid, start_ticks };
    let at = clock::monotonic_now();
    let accepted = AcceptedTask {
        format: BASE_FORMAT,
        boot: boot.clone(),
        at,
        wall: clock::unix_now(),
        shim: nobody(1),
        cgroup: None,
        adopted: None,
        spec: task_spec(place, id, number),
    };
    let spawned = TaskEvent::Spawned { leader: nobody(2).into() };
    let mut records =
        vec![Record::Accepted(Box::new(accepted)), Record::Event { at, event: spawned }];
    if past == RecordedState::Ended {
        let ended = TaskEvent::LeaderEnded {
            end: LeaderEnd::Exited { code: 0 },
            tree: TreeLiveness::Empty,
            final_cwd: Some(place.work.display().to_string()),
            pipeline: None,
        };
        records.push(Record::Event { at, event: ended });
        records.push(Record::Closed(Box::new(CloseSummary {
            wall: clock::unix_now(),
            at,
            report: None,
            output: OutputTotals { bytes: 56, ..OutputTotals::default() },
            peaks: None,
            proof: "ECHILD".to_owned(),
        })));
    }
    records
}

fn task_spec(place: &RowDir, task_id: TaskId, number: u64) -> TaskSpec {
    let settings = Settings::default();
    TaskSpec {
        task_id,
        session_id: SessionId::implicit(),
        parent_task: None,
        name: None,
        command: TaskCommand::Shell {
            text: format!("cargo build --package part-{number} 2>&1 | tail -n 20"),
            shell: "bash".to_owned(),
        },
        cwd: place.work.display().to_string(),
        stdin: StdinMode::Null,
        placement: Placement::Background { why: BackgroundReason::Asked },
        deadline_ms: settings.max_elapsed.as_millis() as u64,
        cap_ms: settings.max_elapsed_hard_cap.as_millis() as u64,
        deadline_from_background: false,
        signal: settings.kill_signal,
        grace_ms: settings.kill_grace.as_millis() as u64,
        on_leader_exit: settings.on_leader_exit,
        keep: false,
        session_grace_ms: settings.session_grace.as_millis() as u64,
        keep_head: settings.output_keep_head.0,
        keep_tail: settings.output_keep_tail.0,
        stall_after_ms: 45_000,
        deadline_notice_ms: 0,
        watch: siding_model::limits::Thresholds::default(),
        limits: siding_model::limits::Limits::default(),
        net: siding_model::net::NetPolicy::Unrestricted,
        same_key: format!("{number:016x}"),
        duplicate_of: None,
        separate_stderr: false,
        terminal: None,
        terminal_attributes: None,
        attach_idle_ms: DEFAULT_ATTACH_IDLE_MS,
        executor: None,
        fetch: None,
        sent_by: None,
        trace_parent: None,
        log_journald: false,
        monitor: None,
        wait_for: Vec::new(),
    }
}
