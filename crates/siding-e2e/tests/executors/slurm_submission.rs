//! The submission of jobs: options and settings, clusters behind ssh, steps of workflows, and the
//! number of queries to the cluster.

use std::time::Instant;

use serde_json::{Value, json};
use siding_e2e::{Process, ProgramOutput, eventually, eventually_some, processes};

use crate::fake_ssh::write_program;
use crate::local_tasks::{kill_process, show_task, task_id, wait_for_outcome, write_config};
use crate::slurm_cluster::SlurmCluster;
use crate::ssh_remote::{SshRemote, write_executor};
use crate::{create_file, sandbox, wait_for_file_command};

/// Number of jobs that one test submits.
const JOB_COUNT: usize = 60;
/// Minimum time between two queries to the cluster, in seconds.
const QUERY_SECONDS: u64 = 5;

const MIXED_WORKFLOW: &str = r#"
[[step]]
id = "local"
run = "echo local >> log"
[[step]]
id = "job"
on = "cluster"
needs = ["local"]
run = "echo job >> log; until [ -e gate ]; do sleep 0.05; done; echo job is over >> log"
[[step]]
id = "last"
needs = ["job"]
run = "echo last >> log"
"#;

/// Asserts that a call has started nothing, with an error that contains `part`.
#[track_caller]
fn expect_failed_start(done: ProgramOutput, part: &str) {
    let done = done.expect_code(125);
    let view = done.json();
    assert_eq!(view["outcome"]["kind"], "failed_to_start", "{done}");
    let error = view["outcome"]["error"].as_str().expect("a text");
    assert!(error.contains(part), "{error}");
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn rejected_options_are_reported_in_the_words_of_slurm() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let call = ["run", "--json", "--on", "cluster:nope", "--", "true"];
    expect_failed_start(cluster.siding(&call).run(), "Invalid partition name specified");
    let done = cluster.run(&["--memory", "900G"], "true").run();
    expect_failed_start(done, "Requested node configuration is not available");
    let done = cluster.run(&["--engine-arg=--begin=soon"], "true").run();
    expect_failed_start(done, "--begin");
    let jobs = std::fs::read_dir(sandbox.state_dir().join("jobs")).expect("it was created");
    for job in jobs.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        assert!(job.join("ended").exists(), "{}", job.display());
        assert!(!job.join("request").exists(), "it has the variables of the command");
    }
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_program_that_is_missing_on_the_node_is_named() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.write_settings("program = \"/nonexistent/siding\"\n");
    let done = cluster.run(&["--budget", "none"], "true").run();
    expect_failed_start(done, "/nonexistent/siding");
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn options_of_a_call_reach_the_job() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let gate = sandbox.path("go");
    let flags =
        ["--cpus", "2", "--memory", "300M", "--time", "5m", "--engine-arg=--comment=from-siding"];
    let id = cluster.start_task(&flags, &wait_for_file_command(&gate));
    let job = cluster.client("scontrol", &["--oneliner", "show", "job", &cluster.job_id(&id)]);
    for part in ["CPUs/Task=2", "MinMemoryNode=300M", "TimeLimit=00:05:00", "Comment=from-siding"] {
        assert!(job.contains(part), "no {part}: {job}");
    }
    create_file(&gate);
    assert_eq!(wait_for_outcome(&sandbox, &id), json!({"kind": "exited", "code": 0}));
}

/// Without settings, siding copies itself to the directory that the nodes share.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn the_cluster_of_this_machine_needs_no_settings() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    write_config(&sandbox.home(), "foreign_reap = \"off\"\nsupervise_hosts = false\n");
    for (executor, partition) in [("slurm", "debug\n"), ("slurm:short", "short\n")] {
        let call = ["run", "--json", "--budget", "none", "--timeout", "30s", "--on", executor];
        let command = ["--", "echo $SLURM_JOB_PARTITION"];
        let done = cluster.siding(&[&call[..], &command].concat()).run().expect_code(0);
        let view = done.json();
        assert_eq!(
            (&view["output"]["text"], &view["executor"]),
            (&json!(partition), &json!("slurm"))
        );
    }
}

#[test]
fn options_of_a_job_need_a_cluster() {
    let sandbox = sandbox();
    write_executor(&sandbox, "");
    let marker = sandbox.path("started");
    let text = format!("touch {}", marker.display());
    for (flags, option, hint) in [
        (&["--on", "build", "--cpus", "2"][..], "--cpus", "`build` is no Slurm cluster"),
        (&["--on", "build", "--time", "1m"][..], "--time", "`build` is no Slurm cluster"),
        (&["--on", "local", "--memory", "1G"][..], "--memory", "this machine is no cluster"),
        (&["--engine-arg=--comment=x"][..], "--engine-arg", "this machine is no cluster"),
    ] {
        let call = [&["run"][..], flags, &["--", &text]].concat();
        let done = sandbox.siding(&call).run().expect_code(125);
        for part in [option, hint] {
            assert!(done.stderr_text().contains(part), "no {part}: {done}");
        }
    }
    assert!(!marker.exists(), "nothing was started");
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

/// The job may start while this machine is switched off.
#[test]
fn a_job_gets_no_standard_input() {
    let sandbox = sandbox();
    let settings = "[executor.cluster]\nkind = \"slurm\"\n";
    write_config(&sandbox.home(), settings);
    for mode in ["inherit", "pipe"] {
        let call = ["run", "--on", "cluster", "--stdin", mode, "--", "cat"];
        let done = sandbox.siding(&call).stdin("text").run().expect_code(125);
        for part in ["a job on cluster gets no standard input", "`--stdin null`"] {
            assert!(done.stderr_text().contains(part), "no {part}: {done}");
        }
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_check_tells_whether_the_controller_answers() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let check = || cluster.siding(&["executors", "--check", "--json", "cluster"]).run();
    let result = |done: &ProgramOutput| done.json()[0]["check"].take();
    let done = check().expect_code(0);
    let reachable = result(&done);
    assert_eq!((&reachable["reachable"], &reachable["machine"]), (&json!(true), &json!("siding")));
    let weaker = reachable["weaker"].as_array().expect("a list");
    assert!(
        weaker.iter().any(|text| text.as_str().is_some_and(|text| text.contains("accounting")))
    );
    cluster.stop_controller();
    let done = check().expect_code(1);
    let unreachable = result(&done);
    assert_eq!(unreachable["reachable"], false, "{done}");
    let error = unreachable["error"].as_str().expect("a text");
    assert!(error.contains("Unable to contact slurm controller"), "{error}");
}

/// The jobs wait in the queue at the same time. Without the shared query, each follower would query
/// the cluster itself.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn many_jobs_ask_the_cluster_together() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let (bin, calls) = (sandbox.path("bin"), sandbox.path("calls"));
    std::fs::create_dir(&bin).expect("test directory");
    let variables = sandbox.environment();
    let path = variables.into_iter().find(|(name, _)| name == "PATH").expect("it is set").1;
    let script = format!("echo call >> {}\nPATH='{path}'\nexec squeue \"$@\"", calls.display());
    write_program(&bin.join("squeue"), &script);
    cluster.drain();
    let started = Instant::now();
    let start = |code: usize| {
        let text = format!("echo {code}; exit {code}");
        let call = cluster.run(&["--background"], &text);
        task_id(&call.env("PATH", format!("{}:{path}", bin.display())).run().expect_code(0))
    };
    let tasks: Vec<(usize, String)> = (1..=JOB_COUNT).map(|code| (code, start(code))).collect();
    eventually("the reason of the last job is recorded", || {
        let last = tasks.last().map(|(_, id)| show_task(&sandbox, id));
        last.is_some_and(|view| view["queued"]["reason"].is_string())
    });
    cluster.undrain();
    for (code, id) in &tasks {
        let outcome = wait_for_outcome(&sandbox, id);
        assert_eq!(outcome, json!({"kind": "exited", "code": code}), "{id}");
        assert_eq!(cluster.output(id), format!("{code}\n"), "{id}");
    }
    let max_calls = started.elapsed().as_secs() / QUERY_SECONDS + 2;
    let count = std::fs::read_to_string(&calls).expect("squeue was called").lines().count() as u64;
    assert!((1..=max_calls).contains(&count), "{count} calls, at most {max_calls} are allowed");
}

/// Returns the steps of a workflow with their states.
fn step_states(view: &Value) -> Vec<(&str, &str)> {
    let steps = view["steps"].as_array().expect("steps").iter();
    steps
        .map(|step| (step["id"].as_str().expect("a text"), step["state"].as_str().expect("a text")))
        .collect()
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_resumed_workflow_repeats_no_step_that_ran_anywhere() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let file = sandbox.path("flow.toml");
    std::fs::write(&file, MIXED_WORKFLOW).expect("test file");
    let file = file.display().to_string();
    let log = || std::fs::read_to_string(sandbox.path("log")).unwrap_or_default();
    let show =
        |id: &str| sandbox.siding(&["workflow", "show", "--json", id]).run().expect_code(0).json();
    let call = ["workflow", "run", "--budget", "none", "--background", "--json", &file];
    let started = cluster.siding(&call).env("SIDING_SESSION_GRACE", "60s").run();
    let id = task_id(&started.expect_code(0));
    eventually("the job runs", || log() == "local\njob\n");
    kill_process(eventually_some("a process runs the workflow", || {
        let is_runner =
            |process: &Process| processes::command_line(process.pid).contains("__workflow");
        processes::with_birthmark(&id).into_iter().find(is_runner)
    }));
    let _interrupted = sandbox.siding(&["wait", "--all", &id]).run().expect_code(0);
    assert_eq!(step_states(&show(&id)), [("local", "ok"), ("job", "running"), ("last", "waiting")]);
    let resumed = cluster.siding(&["workflow", "resume", "--background", "--json", &id]).run();
    let second = task_id(&resumed.expect_code(0));
    create_file(&sandbox.path("gate"));
    let _ended = sandbox.siding(&["wait", "--all", &second]).run().expect_code(0);
    assert_eq!(step_states(&show(&id)), [("local", "ok"), ("job", "ok"), ("last", "ok")]);
    assert_eq!(log(), "local\njob\njob is over\nlast\n");
}

/// The commands of Slurm are on the machine that ssh reaches.
#[test]
#[ignore = "needs sshd and Slurm; `cargo xtask test --engines` runs it"]
fn a_cluster_behind_ssh_survives_a_cut() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let remote = SshRemote::start_with_slurm_conf(&sandbox, &cluster.config_path());
    let program = sandbox.siding_program();
    let keys = format!("host = \"remote\"\nprogram = \"{}\"\n", program.display());
    cluster.write_settings(&keys);
    let gate = sandbox.path("go");
    let text = format!("echo one; {}; echo two; exit 4", wait_for_file_command(&gate));
    let call = ["run", "--on", "cluster", "--background", "--json", "--", &text];
    let id = task_id(&remote.siding(&call).run().expect_code(0));
    cluster.wait_for_output(&id, "one\n".len());
    let job = cluster.job_id(&id);
    remote.cut();
    remote.wait_until_unreachable(&id);
    create_file(&gate);
    eventually("the job has ended", || cluster.job_field(&id, "%T").as_deref() == Some("FAILED"));
    assert!(show_task(&sandbox, &id)["outcome"].is_null(), "only the cluster knows the end");
    remote.restore();
    assert_eq!(wait_for_outcome(&sandbox, &id), json!({"kind": "exited", "code": 4}));
    assert_eq!(cluster.output(&id), "one\ntwo\n");
    assert_eq!(cluster.job_id(&id), job, "it was submitted once");
}
