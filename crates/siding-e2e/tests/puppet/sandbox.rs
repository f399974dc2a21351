//! A sandbox finds all of its processes, and fails a test that leaves a process.

use std::time::Duration;

use siding_e2e::processes::{self, is_heartbeat_running};
use siding_e2e::{Announcement, Sandbox, eventually_some, is_root, words};

use crate::{set_birthmark, unique_birthmark};

#[test]
fn sandbox_finds_processes_by_their_environment() {
    let sandbox = Sandbox::new();
    let mut running = sandbox
        .puppet(&words("fork setsid chdir / hang -- chdir / hang"))
        .env_remove("PUPPET_LOG")
        .spawn();
    let text = running.wait_for_stdout("puppet: fork ");
    let child = Announcement::parse_all(&text).into_iter().find(|step| step.verb == "fork");
    let child = child.expect("an announcement").process;
    assert_eq!(sandbox.announcements(), vec![]);
    drop(sandbox);
    assert!(!child.is_alive());
}

#[test]
fn sandbox_finds_processes_by_their_birthmark() {
    let sandbox = Sandbox::new();
    let (mark, id) = unique_birthmark(2);
    std::fs::create_dir_all(sandbox.state_dir().join("tasks").join(&id)).expect("test directory");
    let script = words("read-stdin daemon hang");
    let call = sandbox.puppet(&script).env_remove("PUPPET_LOG");
    let mut running = call.stdin_pipe().spawn();
    set_birthmark(running.process(), mark);
    running.close_stdin();
    let _left = running.wait().expect_code(0);
    let stray = eventually_some("the daemon has detached", || {
        let [stray] = processes::with_birthmark(&id)[..] else {
            return None;
        };
        (processes::comm(stray.pid) == "innocent").then_some(stray)
    });
    assert_eq!(sandbox.announcements(), vec![]);
    assert_eq!(sandbox.task_ids(), [id]);
    drop(sandbox);
    assert!(!stray.is_alive());
}

#[test]
fn clean_sandbox_check_fails_on_a_leftover_process() {
    let mut sandbox = Sandbox::new();
    let _done = sandbox.puppet(&["daemon", "mark", "stray", "hang"]).run().expect_code(0);
    let stray = sandbox.wait_for_mark("stray");
    sandbox.expect_clean_within(Duration::from_millis(100));
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(sandbox)));
    let message = failure.expect_err("the closure panics");
    let message = message.downcast_ref::<String>().expect("a message");
    assert!(message.contains(&format!("pid {}", stray.pid)), "{message}");
    assert!(!stray.is_alive(), "the sandbox did not end the stray process");
}

#[test]
fn call_fails_when_a_process_still_holds_its_output() {
    let sandbox = Sandbox::new();
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let argv = words("--quiet fork mark holder hang -- exit 0");
        sandbox.puppet(&argv).limit_held_output(Duration::from_millis(100)).run()
    }));
    assert!(failure.is_err(), "a held output must fail the call");
}

#[test]
fn puppet_argv_and_puppet_line_run_the_same_command() {
    let sandbox = Sandbox::new();
    let verbs = ["say", "it's $HOME"];
    let argv = sandbox.puppet_argv(&verbs);
    let direct =
        std::process::Command::new(&argv[0]).args(&argv[1..]).output().expect("the program runs");
    let line = sandbox.puppet_line(&verbs);
    let shell =
        std::process::Command::new("sh").args(["-c", &line]).output().expect("the program runs");
    assert_eq!(direct.stdout, b"it's $HOME\n");
    assert_eq!(direct.stdout, shell.stdout);
    assert_eq!(sandbox.wait_for_announcements("say", 2).len(), 2);
}

#[test]
fn sandbox_can_belong_to_another_user() {
    if !is_root() {
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(65_534);
    sandbox.expect_clean();
    let beat = sandbox.path("beat");
    let _done = sandbox.puppet(&words("report fill 1 exit 6")).run().expect_code(6);
    assert_eq!(sandbox.wait_for_announcement("report").field::<u32>("uid"), 65_534);
    let daemon = ["daemon", "beat", &beat.display().to_string()];
    let _done = sandbox.puppet(&daemon).run().expect_code(0);
    assert!(is_heartbeat_running(&beat));
    sandbox.wait_for_announcement("daemon").process.kill();
}
