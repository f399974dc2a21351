//! Faults of a cluster, of its jobs, and of siding's processes on both sides: the task has its true
//! outcome, and its command runs once.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;
use siding_e2e::{Process, eventually, eventually_some, processes};

use crate::local_tasks::{
    kill_process, kill_shim, shim_process, show_task, task_id, wait_for_outcome,
};
use crate::slurm_cluster::SlurmCluster;
use crate::slurm_ends::start_gated_task;
use crate::{create_file, sandbox, wait_for_file_command};

/// A task whose command adds a line to a file when it starts, and waits for another file.
#[derive(Debug)]
struct CountedTask<'s> {
    cluster: &'s SlurmCluster<'s>,
    id: String,
    runs: PathBuf,
    gate: PathBuf,
}

impl<'s> CountedTask<'s> {
    /// Starts the task. The command writes `one` and `two`, before and after its wait, and exits
    /// with 4.
    #[track_caller]
    fn start(cluster: &'s SlurmCluster<'s>) -> Self {
        let (runs, gate) = (cluster.sandbox.path("runs"), cluster.sandbox.path("go"));
        let text = counted_command(&runs, &gate);
        Self { cluster, id: cluster.start_task(&[], &text), runs, gate }
    }

    /// Waits until the command runs and the mirror has stored its first line.
    #[track_caller]
    fn wait_until_running(&self) {
        self.cluster.wait_for_output(&self.id, "one\n".len());
    }

    /// Lets the command end, and asserts that it ran once and that its result is complete.
    #[track_caller]
    fn expect_true_end(&self) {
        create_file(&self.gate);
        let outcome = wait_for_outcome(self.cluster.sandbox, &self.id);
        assert_eq!(outcome, json!({"kind": "exited", "code": 4}));
        assert_eq!(self.cluster.output(&self.id), "one\ntwo\n");
        expect_one_run(&self.runs);
        let view = show_task(self.cluster.sandbox, &self.id);
        assert_eq!(view["restarts"], 0, "{view}");
        assert!(view["queued"].is_null() && view["unreachable"].is_null(), "{view}");
    }
}

fn counted_command(runs: &Path, gate: &Path) -> String {
    let wait = wait_for_file_command(gate);
    format!("echo run >> {}; echo one; {wait}; echo two; exit 4", runs.display())
}

#[track_caller]
fn expect_one_run(runs: &Path) {
    let text = std::fs::read_to_string(runs).unwrap_or_default();
    assert_eq!(text, "run\n", "the command runs once");
}

/// Returns the process that follows the job for the mirror of a task.
#[track_caller]
fn serving_process(cluster: &SlurmCluster<'_>, id: &str) -> Process {
    let mirror = shim_process(cluster.sandbox, id);
    eventually_some("a process follows the job", || {
        let mut below = processes::descendants(mirror.pid).into_iter();
        let serving = below.find(|pid| processes::command_line(*pid).contains("__serve"))?;
        Process::from_pid(serving)
    })
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_preempted_job_loses_its_task() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let flags = ["--nodes", "2", "--engine-arg=--exclusive"];
    let id = start_gated_task(&cluster, &flags, &sandbox.path("never"));
    let urgent = ["--partition=urgent", "--exclusive", "--nodes=2", "--output=/dev/null"];
    cluster.client("sbatch", &[&urgent[..], &["--wrap=true"]].concat());
    let outcome = wait_for_outcome(&sandbox, &id);
    assert_eq!(outcome["kind"], "lost", "{outcome}");
    let why = outcome["why"].as_str().expect("a reason");
    assert!(why.contains("PREEMPTED"), "{why}");
    assert!(cluster.output(&id).starts_with("one\n"));
}

/// Slurm ends the job up to half a minute after the limit of a minute.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn the_time_limit_of_a_job_is_a_deadline() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let flags = ["--time", "1m", "--timeout", "1h"];
    let id = start_gated_task(&cluster, &flags, &sandbox.path("never"));
    for _ in 0..2 {
        let _not_yet = sandbox.siding(&["wait", "--timeout", "50s", &id]).run();
    }
    let outcome = wait_for_outcome(&sandbox, &id);
    assert_eq!(outcome["kind"], "deadline", "{outcome}");
    let limit_ms = outcome["limit_ms"].as_u64().expect("a time");
    assert!((60_000..3_600_000).contains(&limit_ms), "{outcome}");
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_mirror_that_is_killed_in_the_queue_is_replaced() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let task = CountedTask::start(&cluster);
    let job = cluster.wait_until_queued(&task.id)["job_id"].take();
    kill_shim(&sandbox, &task.id);
    let _repaired = sandbox.siding(&["ps"]).run().expect_code(0);
    assert_eq!(cluster.wait_until_queued(&task.id)["job_id"], job);
    cluster.undrain();
    task.wait_until_running();
    task.expect_true_end();
    assert_eq!(show_task(&sandbox, &task.id)["rescues"], 1);
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_mirror_that_is_killed_while_the_command_runs_is_replaced() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let task = CountedTask::start(&cluster);
    task.wait_until_running();
    kill_shim(&sandbox, &task.id);
    let _repaired = sandbox.siding(&["ps"]).run().expect_code(0);
    task.expect_true_end();
    assert_eq!(show_task(&sandbox, &task.id)["rescues"], 1);
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_command_that_ends_without_its_mirror_has_its_outcome() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let task = CountedTask::start(&cluster);
    task.wait_until_running();
    kill_shim(&sandbox, &task.id);
    create_file(&task.gate);
    eventually("the job has ended", || {
        cluster.job_field(&task.id, "%T").as_deref() == Some("FAILED")
    });
    task.expect_true_end();
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_process_that_follows_a_job_is_replaced_when_it_is_killed() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let task = CountedTask::start(&cluster);
    cluster.wait_until_queued(&task.id);
    kill_process(serving_process(&cluster, &task.id));
    cluster.undrain();
    task.wait_until_running();
    kill_process(serving_process(&cluster, &task.id));
    task.expect_true_end();
}

/// slurmctld creates the job when slurmctld continues, long after sbatch has given up.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_command_runs_once_if_the_controller_hangs_during_its_submission() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let controller = cluster.controller();
    controller.signal(Signal::STOP);
    let task = CountedTask::start(&cluster);
    eventually("the submission got no answer", || {
        let queued = &show_task(&sandbox, &task.id)["queued"];
        queued["reason"].as_str().is_some_and(|reason| reason.contains("timed out"))
    });
    controller.signal(Signal::CONT);
    task.wait_until_running();
    task.expect_true_end();
    eventually("no job is left", || cluster.client("squeue", &["--noheader"]).is_empty());
    expect_one_run(&task.runs);
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_task_that_cannot_be_submitted_leaves_no_request() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.stop_controller();
    let runs = sandbox.path("runs");
    let text = format!("echo run >> {}", runs.display());
    let done = cluster.run(&["--budget", "none"], &text).run().expect_code(125);
    let (id, view) = (task_id(&done), done.json());
    assert_eq!(view["outcome"]["kind"], "failed_to_start", "{done}");
    let error = view["outcome"]["error"].as_str().expect("a text");
    assert!(error.contains("Unable to contact slurm controller"), "{error}");
    let request = cluster.job_directory(&id).join("request");
    assert!(!request.exists(), "it has the variables of the command");
    cluster.start_controller();
    // A later job shows that the cluster starts jobs again.
    let later = cluster.start_task(&[], "true");
    assert_eq!(wait_for_outcome(&sandbox, &later), json!({"kind": "exited", "code": 0}));
    assert_eq!(cluster.job_field(&id, "%i"), None);
    assert!(!runs.exists(), "a command that was not started ran");
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_job_waits_while_the_controller_is_restarted() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let task = CountedTask::start(&cluster);
    let job = cluster.wait_until_queued(&task.id)["job_id"].take();
    cluster.stop_controller();
    eventually("the cluster does not answer", || {
        show_task(&sandbox, &task.id)["queued"]["state"] == "UNKNOWN"
    });
    cluster.start_controller();
    assert_eq!(cluster.job_id(&task.id), job);
    cluster.undrain();
    task.wait_until_running();
    task.expect_true_end();
}
