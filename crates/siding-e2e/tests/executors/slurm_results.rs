//! A command in a Slurm cluster has the same result as on this machine.

use serde_json::json;

use crate::local_tasks::{task_id, wait_for_outcome};
use crate::results::{COMMANDS, expect_result_of_local_run};
use crate::slurm_cluster::SlurmCluster;
use crate::{numbered_lines, sandbox};

/// The jobs run at the same time: each waits about a second for the scheduler.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn results_of_jobs_equal_those_of_local_runs() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let prepare = |args: &[&str]| cluster.siding(args);
    std::thread::scope(|scope| {
        for row in COMMANDS {
            scope.spawn(move || expect_result_of_local_run(row, "cluster", prepare));
        }
    });
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn the_view_of_a_job_names_the_node_and_the_final_directory() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let done = cluster.run(&["--budget", "none"], "echo out; echo err >&2; cd /usr").run();
    let done = done.expect_code(0);
    let view = done.json();
    assert_eq!(view["output"]["text"], "out\nerr\n", "{done}");
    assert_eq!(view["final_cwd"], "/usr", "{done}");
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("procfs");
    assert_eq!(view["machine"], machine.trim_end(), "{done}");
    assert_eq!((&view["executor"], &view["restarts"]), (&json!("cluster"), &json!(0)), "{done}");
    assert!(view["queued"].is_null() && view["unreachable"].is_null(), "{done}");
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_large_output_of_a_job_is_complete() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let done = cluster.run(&["--budget", "none"], "seq 1 1000000").run().expect_code(0);
    // The assertion does not print the millions of bytes.
    assert!(cluster.output(&task_id(&done)) == numbered_lines(1_000_000));
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn jobs_that_are_submitted_at_the_same_time_have_their_own_outcomes() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let start = |code: u32| cluster.start_task(&[], &format!("echo {code}; exit {code}"));
    let tasks: Vec<(u32, String)> = (1..=10).map(|code| (code, start(code))).collect();
    for (code, id) in tasks {
        let outcome = wait_for_outcome(&sandbox, &id);
        assert_eq!(outcome, json!({"kind": "exited", "code": code}), "{id}");
        assert_eq!(cluster.output(&id), format!("{code}\n"), "{id}");
    }
}
