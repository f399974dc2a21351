//! The tasks of another machine in `siding ps`, and the check of executors.

use std::path::Path;

use serde_json::json;

use crate::fake_ssh::{FakeSsh, write_program};
use crate::local_tasks::write_config;
use crate::ssh_remote::{SshRemote, write_executor};
use crate::{create_file, sandbox, wait_for_file_command};

/// Prints text, as startup files of a shell do, and then runs the remote command on this machine.
const GREETING_SSH: &str = "echo '[Welcome]'; for last; do :; done; eval \"$last\"";
/// Lists one task, and fails to read another one.
const INCOMPLETE_LIST: &str = r#"
case "$*" in
*--json*) echo '[{"task_id":"b-x","executor":null}]' ;;
*) echo 'b-x  running' ;;
esac
echo 'siding: task b-y: damaged' >&2
exit 125"#;

#[test]
fn a_list_is_found_after_other_text_and_kept_with_its_error() {
    let sandbox = sandbox();
    let fake = FakeSsh::new(&sandbox, GREETING_SSH);
    let program = sandbox.path("remote-siding");
    fake.set_program(&program);
    let list = |flags: &[&str]| fake.siding(&[&["ps", "--on", "build"], flags].concat()).run();
    assert_eq!(list(&[]).expect_code(0).stdout_text(), "build:\nno tasks\n");
    assert_eq!(list(&["--json"]).expect_code(0).json(), json!([]));

    write_program(&program, INCOMPLETE_LIST);
    let done = list(&[]).expect_code(125);
    assert_eq!(done.stdout_text(), "build:\nb-x  running\n");
    assert!(done.stderr_text().contains("build: siding: task b-y: damaged"), "{done}");
    let done = list(&["--json"]).expect_code(125);
    assert_eq!(done.json(), json!([{"task_id": "b-x", "executor": "build"}]));
}

/// Another machine has sent the task, so that this one has no mirror of it.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn two_machines_watch_the_same_task() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let second_state = sandbox.path("second-state");
    let second = |args: &[&str]| {
        let args = [&args[..1], &["--on", "build"], &args[1..]].concat();
        remote.siding(&args).env("SIDING_STATE_DIR", &second_state)
    };
    let gate = sandbox.path("go");
    let text = format!("echo one; {}; echo two; exit 4", wait_for_file_command(&gate));
    let id = remote.start_task(&[], &text);
    remote.wait_for_output(&id, "one\n".len());
    let listed = second(&["ps", "--json"]).run().expect_code(0).json();
    assert_eq!((&listed[0]["task_id"], &listed[0]["executor"]), (&json!(id), &json!("build")));
    let unknown = remote.siding(&["show", &id]).env("SIDING_STATE_DIR", &second_state);
    let _unknown = unknown.run().expect_code(125);
    let shown = second(&["show", "--json", &id]).run().expect_code(0).json();
    assert_eq!(shown["task_id"], id.as_str(), "{shown}");
    assert_eq!(second(&["output", &id, "--all"]).run().expect_code(0).stdout_text(), "one\n");
    let follows = second(&["output", &id, "--all", "--follow"]).spawn();
    let waits = second(&["wait", &id]).spawn();
    create_file(&gate);
    let _code = waits.wait().expect_code(4);
    assert_eq!(follows.wait().expect_code(0).stdout_text(), "one\ntwo\n");
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 4}));

    let id = remote.start_task(&[], "sleep 1000");
    let stopped = second(&["stop", "--json", &id]).run().expect_code(0).json();
    let outcome = json!({"kind": "stopped", "by": "user"});
    assert_eq!((&stopped["outcome"], remote.wait_outcome(&id)), (&outcome, outcome.clone()));
    let _unknown = second(&["show", "no-such-task"]).run().expect_code(125);
}

#[test]
fn a_task_of_an_unknown_or_unreachable_machine_is_an_error() {
    let sandbox = sandbox();
    let fake = FakeSsh::new(&sandbox, "echo 'ssh: no route' >&2; exit 255");
    let done = fake.siding(&["wait", "--on", "build", "b-x"]).run().expect_code(125);
    for part in
        ["ssh: no route", "build cannot be reached over ssh", "siding executors --check build"]
    {
        assert!(done.stderr_text().contains(part), "no {part}: {done}");
    }
    let done = fake.siding(&["stop", "--on", "other", "b-x"]).run().expect_code(125);
    assert!(done.stderr_text().contains("other"), "{done}");
    let _usage = fake.siding(&["stop", "--on", "build", "--all"]).run().expect_code(125);
}

/// This machine itself has the tasks that it has submitted to a cluster.
#[test]
fn a_cluster_without_a_host_lists_its_tasks_of_this_machine() {
    let sandbox = sandbox();
    write_config(&sandbox.home(), "[executor.cluster]\nkind = \"slurm\"\n");
    let tools = sandbox.path("tools");
    std::fs::create_dir(&tools).expect("test directory");
    write_program(&tools.join("sbatch"), "echo 'sbatch: error: no such cluster' >&2; exit 1");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").expect("a search path"));
    let run = |on: &str| {
        let call = sandbox.siding(&["run", "--on", on, "--budget", "none", "--json", "--", "true"]);
        call.env("PATH", &path).run().json()["task_id"].clone()
    };
    let (local, job) = (run("local"), run("cluster"));
    let list = |on: &str| {
        let list = sandbox.siding(&["ps", "--on", on, "--json"]).run().expect_code(0).json();
        let tasks = list.as_array().expect("a list").iter();
        tasks.map(|task| task["task_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(list("cluster"), std::slice::from_ref(&job));
    assert!(list("slurm").is_empty());
    let all = list("all");
    assert!(all.len() == 2 && all.contains(&local) && all.contains(&job), "{all:?}");
}

#[test]
fn a_check_names_the_missing_program_and_directories() {
    let sandbox = sandbox();
    let fake = FakeSsh::new(&sandbox, "for last; do :; done; eval \"$last\"");
    fake.set_program(Path::new("/no/such/siding"));
    let check = || fake.siding(&["executors", "--check", "--json", "build"]).run();
    let checked = check().expect_code(1).json();
    let error = checked[0]["check"]["error"].as_str().expect("a text");
    assert!(error.contains("there is no program `/no/such/siding`"), "{error}");

    write_executor(&sandbox, "paths = { \"/a\" = \"/no/such/copy\", \"/b\" = \"/usr\" }\n");
    let checked = check().expect_code(0).json();
    let missing = "paths: there is no directory `/no/such/copy`";
    assert_eq!(checked[0]["check"]["missing"], json!([missing]));
}
