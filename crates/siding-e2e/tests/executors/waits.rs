//! The conditions that a wait for a task on another machine can observe.

use crate::fake_ssh::FakeSsh;
use crate::local_tasks::task_id;
use crate::sandbox;

/// The ports of the remote machine are not visible here: the wait would last until its bound.
#[test]
fn a_wait_for_a_port_of_another_machine_is_an_error() {
    let sandbox = sandbox();
    let fake = FakeSsh::new(&sandbox, "exit 255");
    let call = fake.siding(&["run", "--json", "--on", "build", "--", "true"]);
    let id = task_id(&call.run().expect_code(125));
    let wait = |flags: &[&str]| fake.siding(&[&["wait", "--timeout", "10s", &id], flags].concat());
    let done = wait(&["--for", "output:x", "--for", "port:3000"]).run().expect_code(125);
    for part in [&*id, "`port:3000`", "`build`", "siding run --wait-for port:3000"] {
        assert!(done.stderr_text().contains(part), "no {part}: {done}");
    }
    assert_eq!(done.stdout_text(), "", "{done}");
    // The end of the task and its output are known here.
    let _done = wait(&["--for", "exit"]).run().expect_code(0);
    let _ended_first = wait(&["--for", "output:x"]).run().expect_code(1);
}
