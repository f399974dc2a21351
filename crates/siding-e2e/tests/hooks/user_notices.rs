//! Alerts for the user by the process that `siding hook notify-person` starts, which runs until the
//! host exits.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use siding_e2e::{RunningProgram, Sandbox, Terminal, eventually, processes};

use crate::support::{SESSION_ID, close_session, event_json, run_ended_task, sandbox};

fn write_program(path: &Path, text: &[u8]) {
    fs::write(path, text).expect("test directory");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("test file");
}

/// Starts a host that opens a session. Once the file `notify` exists, the host calls the hook
/// `notify-person` twice.
#[track_caller]
fn start_host(sandbox: &Sandbox, ways: &str, setup: &str) -> RunningProgram {
    let agent = sandbox.path("agent");
    // The copy has another name, because siding does not treat a shell as a host.
    write_program(&agent, &fs::read("/bin/bash").expect("a shell"));
    let bin = sandbox.path("bin");
    fs::create_dir(&bin).expect("test directory");
    let notify_args = sandbox.path("told");
    let script = format!("#!/bin/sh\nprintf '%s|' \"$@\" >> {}\n", notify_args.display());
    write_program(&bin.join("notify-send"), script.as_bytes());
    fs::write(sandbox.path("event"), event_json(sandbox, json!({}))).expect("test directory");
    let notify = sandbox.siding_line(&["hook", "--via", ways, "notify-person"]);
    let text = format!(
        "{setup}; mkfifo gate; {} < event; echo > opened; until [ -e notify ]; do sleep .02; done
         {notify} < event; {notify} < event; echo > begun; read -r _ < gate",
        sandbox.siding_line(&["hook", "session-start"]),
    );
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let running = sandbox.host(&agent.to_string_lossy(), &["-c", &text]).env("PATH", path).spawn();
    // Wait for the hook's answer, which would list any task that the test starts before the answer.
    eventually("the session is open", || sandbox.path("opened").exists());
    running
}

/// Starts the notifications, and waits until their first scan is complete. That scan acknowledges
/// the end of an earlier task without showing this end.
#[track_caller]
fn start_notifying(sandbox: &Sandbox) {
    let before = run_ended_task(sandbox, "echo before; exit 5");
    fs::write(sandbox.path("notify"), "").expect("test directory");
    let acks = sandbox.state_dir().join("sessions").join(SESSION_ID).join("acks");
    eventually("the first scan is complete", || {
        fs::read_to_string(&acks).is_ok_and(|text| text.contains(&before))
    });
}

fn follower_count(sandbox: &Sandbox) -> usize {
    let follows = |pid: &u32| {
        processes::descriptors(*pid).iter().any(|(_, target)| {
            target.starts_with(sandbox.state_dir()) && target.ends_with("waiting.person")
        })
    };
    processes::list_pids().iter().filter(|pid| follows(pid)).count()
}

/// Promise P69: a failed task causes a desktop notification and a successful one does not. When the
/// host is killed, the notifying process exits.
#[test]
fn failure_is_shown_on_the_desktop_until_the_host_ends() {
    let sandbox = sandbox();
    let host = start_host(&sandbox, "desktop", ":");
    start_notifying(&sandbox);
    eventually("the hooks have returned", || sandbox.path("begun").exists());
    let _well = run_ended_task(&sandbox, "echo fine; exit 0");
    let _badly = run_ended_task(&sandbox, "echo broken; exit 7");
    let notify_args = sandbox.path("told");
    eventually("the person is notified", || {
        fs::read_to_string(&notify_args).is_ok_and(|text| text.matches('|').count() == 6)
    });
    let text = fs::read_to_string(&notify_args).expect("the entry exists");
    assert!(text.contains("failed after ") && text.contains("broken"), "{text}");
    assert!(!text.contains("fine") && !text.contains("before"), "{text}");
    eventually("one follower runs", || follower_count(&sandbox) == 1);
    host.process().kill();
    eventually("the follower has ended with the host", || follower_count(&sandbox) == 0);
}

/// The notification of a program that asks for a secret names the command that answers, whatever
/// the program has printed before.
#[test]
fn a_secret_is_requested_with_the_command_that_answers() {
    let sandbox = sandbox();
    let host = start_host(&sandbox, "desktop", ":");
    start_notifying(&sandbox);
    let text = "seq 9; read -rsp 'Password: ' word";
    let run = ["run", "--pty", "--background", "--session", SESSION_ID, "--json", "--", text];
    let started = sandbox.siding(&run).run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("a task id").to_owned();
    let notify_args = sandbox.path("told");
    let command = format!("`siding answer {id}`");
    eventually("the person is asked for the secret", || {
        fs::read_to_string(&notify_args).is_ok_and(|text| text.contains(&command))
    });
    let shown = fs::read_to_string(&notify_args).expect("the entry exists");
    assert!(shown.contains("Password:"), "{shown}");
    close_session(&sandbox);
    host.process().kill();
    eventually("the follower has ended with the host", || follower_count(&sandbox) == 0);
}

/// Promise P69: the bell rings in the terminal of the host, because a hook has no terminal.
#[test]
fn bell_rings_in_the_hosts_terminal() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let device = format!("/proc/{}/fd/{}", std::process::id(), terminal.device_fd().as_raw_fd());
    let device = fs::read_link(device).expect("a terminal has a name");
    let host = start_host(&sandbox, "bell", &format!("exec > {}", device.display()));
    start_notifying(&sandbox);
    assert_eq!(terminal.scrollback_text().trim(), "", "an earlier end must not ring the bell");
    let _badly = run_ended_task(&sandbox, "exit 7");
    terminal.wait_for_bytes(b"\x07");
    host.process().kill();
    eventually("the follower has ended with the host", || follower_count(&sandbox) == 0);
}
