//! The end states of jobs for which the records of the node are not enough.

use std::path::Path;

use serde_json::{Value, json};
use siding_e2e::Sandbox;

use crate::fake_slurm::FakeSlurm;
use crate::local_tasks::{task_id, wait_for_outcome};
use crate::slurm_cluster::SlurmCluster;
use crate::{create_file, sandbox, wait_for_file_command};

/// The directory of the control groups that Slurm 22.05 can use without systemd.
const MEMORY_GROUPS: &str = "/sys/fs/cgroup/memory";

/// Runs a command as a job to its end, and returns the outcome of the task.
#[track_caller]
fn run_job(cluster: &SlurmCluster<'_>, fake: &FakeSlurm, flags: &[&str], text: &str) -> Value {
    let flags = [&["--background"], flags].concat();
    let started = fake.in_path(cluster.run(&flags, text)).run().expect_code(0);
    wait_for_outcome(cluster.sandbox, &task_id(&started))
}

/// Returns a script in place of squeue that shows another state in place of `state`.
fn squeue_script(state: &str, shown: &str) -> String {
    format!("squeue \"$@\" | sed 's/|{state}|/|{shown}|/'")
}

/// A cluster that limits memory with control groups kills a process, and the job has this state.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_job_without_memory_ends_its_task_with_a_limit() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let fake = FakeSlurm::new(&sandbox);
    fake.write("squeue", &squeue_script("FAILED", "OUT_OF_MEMORY"));
    let outcome = run_job(&cluster, &fake, &[], "kill -9 $$");
    assert_eq!(outcome, json!({"kind": "limit", "which": "memory"}));
    // Only an end by SIGKILL is ambiguous.
    let outcome = run_job(&cluster, &fake, &[], "exit 3");
    assert_eq!(outcome, json!({"kind": "exited", "code": 3}));
}

/// slurmctld has forgotten the job, and the accounting knows its end.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn the_accounting_gives_the_end_of_a_forgotten_job() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let fake = FakeSlurm::new(&sandbox);
    fake.write("squeue", "squeue \"$@\" | grep -v '|FAILED|'; true");
    fake.write("sacct", "echo PREEMPTED; echo OUT_OF_MEMORY");
    let outcome = run_job(&cluster, &fake, &[], "kill -9 $$");
    assert_eq!(outcome, json!({"kind": "limit", "which": "memory"}));
    // Without accounting, the record of the node decides.
    fake.write("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    let outcome = run_job(&cluster, &fake, &[], "kill -9 $$");
    assert_eq!((&outcome["kind"], &outcome["signal"]), (&json!("signaled"), &json!("SIGKILL")));
}

/// The node of the job could not be booted, so siding never ran there.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_job_whose_node_does_not_boot_is_not_started() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let fake = FakeSlurm::new(&sandbox);
    fake.write("squeue", &squeue_script("PENDING", "BOOT_FAIL"));
    let outcome = run_job(&cluster, &fake, &[], "true");
    assert_eq!(outcome["kind"], "failed_to_start", "{outcome}");
    let error = outcome["error"].as_str().expect("a text");
    assert!(error.contains("Slurm reports BOOT_FAIL"), "{error}");
}

/// Returns whether this process may create control groups for memory; prints a message otherwise.
fn can_limit_memory(sandbox: &Sandbox) -> bool {
    let probe = Path::new(MEMORY_GROUPS).join(format!("siding-test-{}", std::process::id()));
    let is_possible = Path::new(MEMORY_GROUPS).join("memory.oom_control").exists()
        && std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)).is_ok();
    if !is_possible {
        eprintln!("skipped in {}: {MEMORY_GROUPS} is not writable", sandbox.root().display());
    }
    is_possible
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_job_above_its_memory_ends_with_a_limit_on_a_cluster_with_control_groups() {
    let sandbox = sandbox();
    if !can_limit_memory(&sandbox) {
        return;
    }
    let cluster = SlurmCluster::start_with_memory_groups(&sandbox);
    let fake = FakeSlurm::new(&sandbox);
    let text = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}";
    let outcome = run_job(&cluster, &fake, &["--memory", "60M"], text);
    assert_eq!(outcome, json!({"kind": "limit", "which": "memory"}));
}

/// The user of the cluster of the tests is its operator.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn an_extension_raises_the_time_limit_of_the_job_or_tells_why_it_does_not() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let fake = FakeSlurm::new(&sandbox);
    let gate = sandbox.path("go");
    let text = format!("echo one; {}", wait_for_file_command(&gate));
    let started = fake.in_path(cluster.run(&["--background"], &text)).run().expect_code(0);
    let id = task_id(&started);
    cluster.wait_for_output(&id, "one\n".len());
    // The text is wrapped at the width of the output.
    let words = |args: &[&str]| {
        let text = sandbox.siding(args).run().expect_code(0).stdout_text();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let extend = |to: &str| words(&["extend", &id, "--to", to]);
    let text = extend("31m");
    assert!(!text.contains("ends the job"), "the job lasts longer: {text}");
    let text = extend("1h");
    assert!(!text.contains("ends the job"), "{text}");
    assert_eq!(cluster.job_field(&id, "%l").as_deref(), Some("1:02:00"));

    let script = "[ \"$1\" != update ] || { echo 'Access/permission denied' >&2; exit 1; }\n\
                  exec scontrol \"$@\"";
    fake.write("scontrol", script);
    let text = extend("2h");
    for part in ["now 2h after its start", "ends the job 1h 2m", "Access/permission denied"] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    let text = words(&["show", &id]);
    assert!(text.contains("the cluster ends the job then, at its time limit"), "{text}");

    // The operator changes the limit, which siding learns at the next extension.
    let job = format!("JobId={}", cluster.job_id(&id));
    let set_limit = |minutes: u32| {
        cluster.client("scontrol", &["update", &job, &format!("TimeLimit={minutes}")])
    };
    let _no_output = set_limit(75);
    let text = extend("3h");
    for part in ["now 3h after its start", "ends the job 1h 15m", "Access/permission denied"] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    // With the denial of every update, an extension shows that none was sent: every user may lower
    // a limit, so it would have taken the hours that the operator has granted.
    let _no_output = set_limit(300);
    let text = extend("2h");
    assert!(text.contains("now 2h after its start") && !text.contains("the job"), "{text}");
    assert_eq!(cluster.job_field(&id, "%l").as_deref(), Some("5:00:00"));
    create_file(&gate);
    assert_eq!(wait_for_outcome(&sandbox, &id), json!({"kind": "exited", "code": 0}));
}
