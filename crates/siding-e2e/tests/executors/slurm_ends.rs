//! Jobs that wait, are stopped or canceled, are interrupted by their cluster, or are forgotten by
//! it.

use std::path::Path;

use serde_json::json;
use siding_e2e::{Process, eventually};

use crate::lifetime::{expect_dead, tree_command, wait_for_tree};
use crate::local_tasks::{kill_shim, show_task, wait_for_outcome};
use crate::slurm_cluster::SlurmCluster;
use crate::{create_file, sandbox, wait_for_file_command};

/// Starts a tree of three processes as a job; returns the task's id and the processes.
#[track_caller]
fn start_tree(cluster: &SlurmCluster<'_>, flags: &[&str]) -> (String, Vec<Process>) {
    let id = cluster.start_task(flags, &tree_command(cluster.sandbox));
    (id, wait_for_tree(cluster.sandbox))
}

/// Starts a job that writes `one`, waits for the file `gate`, writes `two` and exits with 4.
/// Returns the task's id once the first line is stored.
#[track_caller]
pub(crate) fn start_gated_task(cluster: &SlurmCluster<'_>, flags: &[&str], gate: &Path) -> String {
    let text = format!("echo one; {}; echo two; exit 4", wait_for_file_command(gate));
    let id = cluster.start_task(flags, &text);
    cluster.wait_for_output(&id, "one\n".len());
    id
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn stop_ends_the_tree_of_a_job() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let (id, tree) = start_tree(&cluster, &[]);
    let stopped = sandbox.siding(&["stop", "--json", &id]).run().expect_code(0).json();
    assert_eq!(stopped["outcome"], json!({"kind": "stopped", "by": "user"}), "{stopped}");
    expect_dead(&tree);
    eventually("the job has ended", || {
        let state = cluster.job_field(&id, "%T").unwrap_or_default();
        !["RUNNING", "COMPLETING"].contains(&state.as_str())
    });
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn deadline_ends_the_tree_of_a_job() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let (id, tree) = start_tree(&cluster, &["--timeout", "4s"]);
    let outcome = wait_for_outcome(&sandbox, &id);
    assert_eq!(outcome, json!({"kind": "deadline", "limit_ms": 4_000}));
    expect_dead(&tree);
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn scancel_stops_the_task_and_is_its_requester() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let (id, tree) = start_tree(&cluster, &[]);
    cluster.client("scancel", &[&cluster.job_id(&id)]);
    let outcome = wait_for_outcome(&sandbox, &id);
    assert_eq!(outcome, json!({"kind": "stopped", "by": "scancel"}));
    expect_dead(&tree);
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_job_waits_in_the_queue_until_its_node_is_available() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let id = cluster.start_task(&[], "exit 6");
    let queued = cluster.wait_until_queued(&id);
    assert_eq!(queued["state"], "PENDING", "{queued}");
    assert_eq!(queued["job_id"], cluster.job_id(&id), "{queued}");
    eventually("the reason is recorded", || {
        let reason = &show_task(&sandbox, &id)["queued"]["reason"];
        reason.as_str().is_some_and(|reason| reason.contains("Node"))
    });
    let why = sandbox.siding(&["why", "--json", &id]).run().expect_code(0).json();
    let advice = why["advice"].as_str().expect("a text");
    assert!(advice.starts_with("It waits in the queue of cluster: job "), "{why}");
    let text = sandbox.siding(&["why", &id]).run().expect_code(0).stdout_text();
    assert!(text.contains("waits in the queue of cluster: job "), "{text}");
    let output = sandbox.siding(&["output", &id]).run().expect_code(0);
    let footer = output.stderr_text();
    assert!(footer.contains("has written nothing, it waits in the queue of cluster"), "{footer}");
    let waiting = show_task(&sandbox, &id);
    assert_eq!(waiting["elapsed_ms"], 0, "{waiting}");
    let waited_ms = waiting["queued_ms"].as_u64().expect("the time in the queue");
    cluster.undrain();
    assert_eq!(wait_for_outcome(&sandbox, &id), json!({"kind": "exited", "code": 6}));
    let ended = show_task(&sandbox, &id);
    assert_eq!((&ended["job_id"], &ended["queued"]), (&queued["job_id"], &json!(null)), "{ended}");
    assert!(ended["queued_ms"].as_u64().is_some_and(|ms| ms >= waited_ms), "{ended}");
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_stop_in_the_queue_removes_the_job_and_starts_nothing() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let marker = sandbox.path("started");
    let id = cluster.start_task(&[], &format!("touch {}", marker.display()));
    cluster.wait_until_queued(&id);
    let stopped = sandbox.siding(&["stop", "--json", &id]).run().expect_code(0).json();
    assert_eq!(stopped["outcome"], json!({"kind": "stopped", "by": "user"}), "{stopped}");
    assert_eq!(cluster.job_field(&id, "%T").as_deref(), Some("CANCELLED"));
    cluster.undrain();
    // A later job shows that the cluster starts jobs again.
    let later = cluster.start_task(&[], "true");
    assert_eq!(wait_for_outcome(&sandbox, &later), json!({"kind": "exited", "code": 0}));
    assert!(!marker.exists(), "the command of a stopped job ran");
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn scancel_in_the_queue_stops_the_task() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let id = cluster.start_task(&[], "true");
    cluster.wait_until_queued(&id);
    cluster.client("scancel", &[&cluster.job_id(&id)]);
    let outcome = wait_for_outcome(&sandbox, &id);
    assert_eq!(outcome, json!({"kind": "stopped", "by": "scancel"}));
    assert_eq!(show_task(&sandbox, &id)["elapsed_ms"], 0);
    eventually("the history has a run without a duration", || {
        let runs = sandbox.siding(&["history", "--json"]).run().expect_code(0).json();
        runs[0]["ran_ms"].is_null() && runs[0]["task_id"] == id.as_str()
    });
}

/// A running task needs no answer from the cluster.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_task_ends_while_the_controller_is_away() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let gate = sandbox.path("go");
    let id = start_gated_task(&cluster, &[], &gate);
    cluster.stop_controller();
    create_file(&gate);
    assert_eq!(wait_for_outcome(&sandbox, &id), json!({"kind": "exited", "code": 4}));
    assert_eq!(cluster.output(&id), "one\ntwo\n");
    cluster.start_controller();
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_task_has_its_outcome_after_the_cluster_has_forgotten_the_job() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let gate = sandbox.path("go");
    let id = start_gated_task(&cluster, &[], &gate);
    kill_shim(&sandbox, &id);
    create_file(&gate);
    eventually("the job has ended", || {
        cluster.job_field(&id, "%T").is_some_and(|state| state == "FAILED")
    });
    cluster.forget_ended();
    assert_eq!(cluster.job_field(&id, "%i"), None);
    // The wait starts a new mirror, which cannot query the cluster.
    assert_eq!(wait_for_outcome(&sandbox, &id), json!({"kind": "exited", "code": 4}));
    assert_eq!(cluster.output(&id), "one\ntwo\n");
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_requeued_job_runs_its_command_again() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let gate = sandbox.path("go");
    let id = start_gated_task(&cluster, &["--engine-arg=--requeue"], &gate);
    let job = cluster.job_id(&id);
    cluster.client("scontrol", &["requeue", &job]);
    eventually("the second attempt runs", || {
        let view = show_task(&sandbox, &id);
        assert!(view["outcome"].is_null(), "the first attempt ended the task: {view}");
        view["restarts"] == 1 && view["queued"].is_null()
    });
    assert_eq!(cluster.job_id(&id), job, "the job keeps its number");
    create_file(&gate);
    assert_eq!(wait_for_outcome(&sandbox, &id), json!({"kind": "exited", "code": 4}));
    assert!(cluster.output(&id).ends_with("one\ntwo\n"));
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_failed_node_loses_the_task() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let (id, tree) = start_tree(&cluster, &[]);
    cluster.crash_nodes();
    expect_dead(&tree);
    let outcome = wait_for_outcome(&sandbox, &id);
    assert_eq!(outcome["kind"], "lost", "{outcome}");
    let why = outcome["why"].as_str().expect("a reason");
    assert!(why.contains("NODE_FAIL"), "{why}");
}
