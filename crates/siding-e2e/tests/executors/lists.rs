//! The tasks of another machine in `siding ps`, and the check of executors.

use std::path::Path;

use serde_json::json;

use crate::fake_ssh::{FakeSsh, write_program};
use crate::local_tasks::write_config;
use crate::sandbox;
use crate::ssh_remote::write_executor;

/// Runs the remote command on this machine, after text as startup files of a shell print it.
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

/// This machine has the tasks that it has submitted to a cluster itself.
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
