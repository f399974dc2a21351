//! The output and the exit codes of puppet.

use std::time::Duration;

use rustix::process::Signal;
use siding_e2e::{Announcement, Sandbox, eventually, words};

use crate::run_puppet;

#[test]
fn puppet_prints_text_and_announces_each_step() {
    let done = run_puppet(&words("--quiet say hello err oh write x")).expect_code(0);
    assert_eq!(
        (done.stdout_text(), done.stderr_text()),
        ("hello\nx".to_owned(), "oh\n".to_owned())
    );
    let done = run_puppet(&["mark", "two words", "exit", "7"]).expect_code(7);
    let steps = Announcement::parse_all(&done.stdout_text());
    assert_eq!(steps.iter().map(|step| &step.verb).collect::<Vec<_>>(), ["mark", "exit"]);
    assert_eq!(steps[0].fields["text"], "two words");
}

#[test]
fn log_announces_steps_that_stdout_does_not() {
    let sandbox = Sandbox::new();
    let done = sandbox.puppet(&["say", "hello", "mark", "me"]).run().expect_code(0);
    let verbs: Vec<String> = sandbox.announcements().into_iter().map(|step| step.verb).collect();
    assert_eq!(verbs, ["say", "mark"]);
    assert_eq!(Announcement::parse_all(&done.stdout_text()).len(), 1);
}

#[test]
fn exit_codes_are_passed_through() {
    let sandbox = Sandbox::new();
    for code in [0, 1, 2, 64, 75, 126, 127, 128, 137, 255] {
        let _done = sandbox.puppet(&["exit", &code.to_string()]).run().expect_code(code);
    }
}

#[test]
fn die_ends_by_every_fatal_signal_even_if_ignored() {
    let sandbox = Sandbox::new();
    for signal in [1, 2, 3, 6, 9, 10, 11, 13, 14, 15, 24, 31, 34, 64] {
        let verbs = ["ignore", "ALL", "die", &signal.to_string()];
        let _done = sandbox.puppet(&verbs).run().expect_signal(signal);
    }
    let done = sandbox.puppet(&["die", "WINCH"]).run().expect_code(0);
    assert!(done.stdout_text().contains("survived"), "{done}");
}

#[test]
fn invalid_script_runs_no_step() {
    let done = run_puppet(&["say", "hello", "dance"]).expect_code(64);
    assert_eq!(done.stdout_text(), "");
    assert!(done.stderr_text().contains("`dance`"), "{done}");
}

#[test]
fn ignored_signal_has_no_effect() {
    let sandbox = Sandbox::new();
    let child = sandbox.puppet(&words("ignore TERM mark deaf hang")).spawn();
    sandbox.wait_for_mark("deaf").signal(Signal::TERM);
    child.signal(Signal::INT);
    let _done = child.wait().expect_signal(2);
}

#[test]
fn signal_disposition_survives_exec_and_can_be_reset() {
    let sandbox = Sandbox::new();
    let verbs = words("ignore TERM exec-self report default TERM report");
    let _done = sandbox.puppet(&verbs).run().expect_code(0);
    let reports = sandbox.wait_for_announcements("report", 2);
    let ignored = |step: &Announcement| {
        u64::from_str_radix(&step.field::<String>("ignored"), 16).expect("a mask")
    };
    assert_eq!(ignored(&reports[0]) & 1 << 14, 1 << 14);
    assert_eq!(ignored(&reports[1]) & 1 << 14, 0);
}

#[test]
fn puppet_is_killed_at_its_time_to_live() {
    let sandbox = Sandbox::new();
    for verbs in [
        &["hang"][..],
        &["stop-self", "hang"],
        &["ignore", "ALL", "burn"],
        &["leader-exits", "hang"],
        &["exec-self", "clearenv", "exec-self", "hang"],
    ] {
        let done = sandbox.puppet(verbs).env("PUPPET_TTL_MS", "300").run().expect_signal(9);
        assert!(done.elapsed >= Duration::from_millis(250), "{done}");
    }
    // The child starts a new session. In the caller's process group, it would receive SIGHUP from
    // the kernel, because the caller's exit would orphan a group with a stopped process.
    let spread = words("fork setsid mark child stop-self -- fork daemon mark daemon stop-self --");
    let _done = sandbox.puppet(&spread).env("PUPPET_TTL_MS", "3000").run().expect_code(0);
    let stopped: Vec<_> = ["child", "daemon"].map(|name| sandbox.wait_for_mark(name)).into();
    eventually("all of them have exited", || stopped.iter().all(|stopped| !stopped.is_alive()));
}
