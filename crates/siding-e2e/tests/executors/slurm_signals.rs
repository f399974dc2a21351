//! Commands that handle the signals with which a cluster ends their job.

use std::time::{Duration, Instant};

use serde_json::json;
use siding_e2e::eventually;

use crate::fake_ssh::write_program;
use crate::local_tasks::{show_task, task_id, wait_for_outcome};
use crate::slurm_cluster::SlurmCluster;
use crate::{create_file, sandbox, wait_for_file_command};

/// A shell text that writes a line, and exits with 0 when it receives SIGTERM.
const OBEDIENT_COMMAND: &str = "trap 'exit 0' TERM; echo ready; while :; do sleep .01; done";

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_cancelled_command_that_exits_with_0_is_not_successful() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let ids = ["1", "2", "3", "4"].map(|number| {
        // Two equal commands would count as duplicates.
        cluster.start_task(&[], &format!("{OBEDIENT_COMMAND} # {number}"))
    });
    for id in &ids {
        cluster.wait_for_output(id, "ready\n".len());
    }
    let jobs = ids.each_ref().map(|id| cluster.job_id(id));
    cluster.client("scancel", &jobs.each_ref().map(String::as_str));
    for id in &ids {
        let outcome = wait_for_outcome(&sandbox, id);
        assert_eq!(outcome, json!({"kind": "stopped", "by": "scancel"}), "{id}");
    }
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_requeued_command_that_exits_with_0_runs_again() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let id = cluster.start_task(&["--engine-arg=--requeue"], OBEDIENT_COMMAND);
    cluster.wait_for_output(&id, "ready\n".len());
    cluster.client("scontrol", &["requeue", &cluster.job_id(&id)]);
    eventually("the second attempt runs", || {
        let view = show_task(&sandbox, &id);
        assert!(view["outcome"].is_null(), "the first attempt ended the task: {view}");
        view["restarts"] == 1 && view["queued"].is_null()
    });
    cluster.wait_for_output(&id, "ready\nready\n".len());
    let stopped = sandbox.siding(&["stop", "--json", &id]).run().expect_code(0).json();
    assert_eq!(stopped["outcome"], json!({"kind": "stopped", "by": "user"}), "{stopped}");
    // The summary from the node covers only the second attempt.
    let view = show_task(&sandbox, &id);
    assert_eq!(view["output"]["bytes"], cluster.output(&id).len(), "{view}");
}

/// The first request of the job gets no answer, and a stop arrives before the next one.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_stop_before_the_cluster_has_the_job_submits_nothing() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let tools = sandbox.path("tools");
    std::fs::create_dir(&tools).expect("test directory");
    // An sbatch whose request is lost.
    write_program(&tools.join("sbatch"), "echo 'error: request timed out' >&2; exit 1");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").expect("a search path"));
    let marker = sandbox.path("started");
    let command = format!("touch {}", marker.display());
    let call = cluster.run(&["--background"], &command).env("PATH", path);
    let id = task_id(&call.run().expect_code(0));
    eventually("the submission has failed", || {
        show_task(&sandbox, &id)["queued"]["state"] == "SUBMITTING"
    });
    let stopped = sandbox.siding(&["stop", "--json", &id]).run().expect_code(0).json();
    assert_eq!(stopped["outcome"], json!({"kind": "stopped", "by": "user"}), "{stopped}");
    assert_eq!(cluster.job_field(&id, "%i"), None);
    assert!(!marker.exists(), "the command ran");
}

/// The reason is permanent, so siding does not retry, as it would for an unreachable machine.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_directory_of_jobs_that_cannot_be_used_fails_the_start() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.write_settings("directory = \"/proc/siding\"\n");
    let done = cluster.run(&["--budget", "none"], "true").run();
    let outcome = &done.json()["outcome"];
    assert_eq!(outcome["kind"], "failed_to_start", "{done}");
    assert!(
        outcome["error"].as_str().is_some_and(|why| why.contains("/proc/siding/jobs")),
        "{done}"
    );
}

/// A call of squeue that hangs takes 20 s.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_stop_does_not_wait_for_a_queue_that_does_not_answer() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let (asked, gate) = (sandbox.path("asked"), sandbox.path("go"));
    let tools = sandbox.path("tools");
    std::fs::create_dir(&tools).expect("test directory");
    let path = std::env::var("PATH").expect("a search path");
    let wait = wait_for_file_command(&gate);
    let squeue = format!("touch {}; {wait}; PATH='{path}' exec squeue \"$@\"", asked.display());
    write_program(&tools.join("squeue"), &squeue);
    let path = format!("{}:{path}", tools.display());
    let call = cluster.run(&["--background"], "true").env("PATH", path);
    let id = task_id(&call.run().expect_code(0));
    eventually("the queue is read", || asked.exists());
    let before = Instant::now();
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| sandbox.siding(&["stop", "--json", &id]).run());
        eventually("the job is cancelled", || {
            cluster.job_field(&id, "%T").is_some_and(|state| state == "CANCELLED")
        });
        assert!(before.elapsed() < Duration::from_secs(15), "the stop waited for squeue");
        create_file(&gate);
        let stopped = stop.join().expect("no panic").expect_code(0).json();
        assert_eq!(stopped["outcome"], json!({"kind": "stopped", "by": "user"}), "{stopped}");
    });
}
