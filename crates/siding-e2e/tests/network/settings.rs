//! The setting `net`: the sources that may loosen the policy, and the tasks to which the policy
//! applies.

use siding_e2e::Sandbox;

use crate::support::{CountingServer, connect_command, root_and_user_sandboxes, show_task};

fn write(path: &std::path::Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("the value exists")).expect("test directory");
    std::fs::write(path, text).expect("test directory");
}

#[test]
fn project_settings_can_tighten_but_not_loosen_the_network() {
    let sandbox = Sandbox::new();
    let server = CountingServer::start();
    let text = connect_command(server.port);
    let project = sandbox.path(".siding/config.toml");
    let user = sandbox.home().join(".config/siding/config.toml");
    let run = |flags: &[&str]| {
        let args = [&["run", "--allow-duplicate"], flags, &["--", &text]].concat();
        sandbox.siding(&args).run()
    };
    write(&project, "net = \"none\"\n");
    let _closed = run(&[]).expect_code(1);
    let _by_the_call = run(&["--net", "host"]).expect_code(0);
    write(&user, "net = \"loopback\"\n");
    write(&project, "net = \"host\"\n");
    let warned = run(&[]).expect_code(1);
    let warning = warned.stderr_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        warning.contains("`net` is `host`, which is not stricter than `loopback` (user"),
        "{warning}"
    );
}

/// A task that is started inside a task stays within the outer task's policy, and `--net` also
/// applies to `siding monitor`.
#[test]
fn nested_tasks_and_monitors_obey_the_network_policy() {
    for sandbox in root_and_user_sandboxes() {
        let server = CountingServer::start();
        let text = connect_command(server.port);
        let inner = sandbox.siding_line(&["run", "--net", "host", "--", &text]);
        let outer = ["run", "--", &inner];
        let nested = sandbox.siding(&outer).env("SIDING_NET", "none").run();
        let _bound_by_the_outer = nested.expect_code(1);
        let monitor = ["monitor", "--json", "--net", "none", "--", &text];
        // The exit code of the call is not checked, because it is the task's exit code if the task
        // ends before the call returns.
        let id = sandbox.siding(&monitor).run().json()["task_id"].clone();
        let id = id.as_str().expect("an id");
        let _waited = sandbox.siding(&["wait", id]).run();
        let view = show_task(&sandbox, id);
        assert_eq!(
            (&view["net"], &view["outcome"]["code"]),
            (&"none".into(), &1.into()),
            "{view:#}"
        );
        assert_eq!(server.accepted(), 0);
    }
}
