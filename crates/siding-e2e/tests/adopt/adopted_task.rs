//! An adopted command can be stopped and diagnosed, has an outcome, and is covered by the
//! watchdogs, like any other task.

use std::os::fd::AsRawFd as _;

use rustix::process::Signal;
use serde_json::json;
use siding_e2e::{Terminal, eventually, eventually_some, processes, words};

use crate::support::{
    RecordedShell, adopted_shell, journal, list_tasks, recorded_shell, sandbox, shims, show_task,
    start_recorded, wait_until_ended, wait_until_no_shims, with_adoption,
};

/// Promise P80: a short command leaves no record, because an agent's session runs thousands of
/// them.
#[test]
fn short_command_leaves_no_task() {
    let sandbox = sandbox();
    for (text, code) in [("true", 0), ("exit 7", 7), ("ls / | wc -l >/dev/null; false", 1)] {
        let _done = adopted_shell(&sandbox, text).run().expect_code(code);
    }
    wait_until_no_shims(&sandbox);
    assert_eq!(list_tasks(&sandbox), Vec::<serde_json::Value>::new());
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
    for directory in ["tasks", "live", "dedup"] {
        let leftover =
            std::fs::read_dir(sandbox.state_dir().join(directory)).expect("the entry exists");
        assert_eq!(leftover.count(), 0, "{directory}");
    }
}

/// Failures F17 and F18: the outcome has the command's exit code, although the command is not a
/// child of the shim.
#[test]
fn exit_code_of_an_adopted_command_is_known() {
    let sandbox = sandbox();
    for code in [0, 3, 255] {
        let recorded = start_recorded(
            &sandbox,
            recorded_shell(
                &sandbox,
                &format!("until [ -e go{code} ]; do sleep .02; done; exit {code}"),
            ),
        );
        let view = show_task(&sandbox, &recorded.id);
        assert_eq!((&view["adopted"], &view["kind"]), (&json!(true), &json!("local_bash")));
        assert_eq!(view["phase"], "running");
        assert_eq!(view["cwd"], sandbox.path("").to_string_lossy().trim_end_matches('/'));
        assert!(view["command"].as_str().is_some_and(|text| text.starts_with("until [")), "{view}");
        std::fs::write(sandbox.path(&format!("go{code}")), "").expect("test directory");
        let _done = recorded.shell.wait().expect_code(code);
        let view = wait_until_ended(&sandbox, &recorded.id);
        assert_eq!(view["outcome"], json!({"kind": "exited", "code": code}));
    }
}

#[test]
fn signal_from_the_host_is_recorded_as_the_outcome() {
    let sandbox = sandbox();
    let recorded = start_recorded(&sandbox, recorded_shell(&sandbox, "exec sleep 60"));
    recorded.shell.process().kill();
    let view = wait_until_ended(&sandbox, &recorded.id);
    assert_eq!(view["outcome"], json!({"kind": "signaled", "signal": "SIGKILL", "by": null}));
}

/// Promise P36: if the shim can read the exit status neither with PIDFD_GET_INFO nor from the
/// zombie, the outcome is `lost` with a reason.
#[test]
fn unobtainable_exit_status_is_recorded_as_lost() {
    let sandbox = sandbox();
    let text = "until [ -e go ]; do sleep .02; done; exit 5";
    let other = sandbox.host("bash", &["-c", text]).spawn();
    let pid = other.process().pid.to_string();
    let call = sandbox.siding(&["adopt", "--json", &pid]).env("SIDING_ADOPT_KEEP_AFTER", "0s");
    let adopted = call.without_syscalls(&[libc::SYS_ioctl]).run().expect_code(0).json();
    let id = adopted["task_id"].as_str().expect("an id").to_owned();
    eventually("the record exists", || journal(&sandbox, &id).contains("spawned"));
    let [shim] = shims(&sandbox)[..] else { panic!("expected exactly one shim") };
    // Without a running shim, the parent collects the status before the shim can read it.
    shim.signal(Signal::STOP);
    eventually("the process is stopped", || processes::state(shim.pid) == Some('T'));
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let _done = other.wait().expect_code(5);
    shim.signal(Signal::CONT);
    let outcome = wait_until_ended(&sandbox, &id)["outcome"].clone();
    assert_eq!(outcome["kind"], "lost");
    assert!(outcome["why"].as_str().is_some_and(|why| why.contains("adopted")), "{outcome}");
}

/// Failure F7: a stop ends the whole tree, which the shim finds by the birthmark alone. The host
/// sees that a signal has ended its shell.
#[test]
fn stop_ends_the_whole_adopted_tree() {
    let sandbox = sandbox();
    let line = sandbox
        .puppet_line(&words("--quiet fork daemon mark far hang -- ignore TERM mark near hang"));
    let recorded = start_recorded(&sandbox, recorded_shell(&sandbox, &format!("{line}; echo on")));
    let (far, near) = (sandbox.wait_for_mark("far"), sandbox.wait_for_mark("near"));
    let args = ["stop", "--json", "--grace", "300ms", &recorded.id];
    let view = sandbox.siding(&args).run().expect_code(0).json();
    assert!(!far.is_alive() && !near.is_alive(), "{view}");
    assert_eq!(view["outcome"], json!({"kind": "stopped", "by": "user"}));
    assert_eq!(view["stop_report"]["survivors"], json!([]));
    let done = recorded.shell.wait();
    assert_eq!(done.signal, Some(15), "{done}");
    assert!(journal(&sandbox, &recorded.id).contains("no process carries its mark"));
}

/// Failure F37: `siding why` finds what an adopted command waits for.
#[test]
fn why_works_for_an_adopted_task() {
    let sandbox = sandbox();
    let recorded = start_recorded(&sandbox, recorded_shell(&sandbox, "sleep 60; true"));
    eventually("the sleep is found", || {
        let why = sandbox.siding(&["why", "--json", &recorded.id]).run().expect_code(0).json();
        println!("{why}");
        (&why["verdict"], &why["waiting_on"]) == (&json!("waiting"), &json!("timer"))
    });
    let _stopped = sandbox.siding(&["stop", &recorded.id]).run().expect_code(0);
    let _ended = recorded.shell.wait();
}

/// The path of the device of a terminal.
fn device_path(terminal: &Terminal) -> String {
    let link = format!("/proc/self/fd/{}", terminal.device_fd().as_raw_fd());
    std::fs::read_link(link).expect("an open descriptor").to_string_lossy().into_owned()
}

/// A command on a terminal of its host: siding shows what it waits for, and says that it cannot use
/// the terminal.
#[test]
fn a_command_on_a_terminal_of_its_host_is_diagnosed_and_left_to_the_host() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let path = device_path(&terminal);
    let text = "printf 'name? '; read -r name; echo \"hello $name\"";
    let call = recorded_shell(&sandbox, text).on_terminal(&terminal);
    let RecordedShell { shell, id } = start_recorded(&sandbox, call);
    terminal.wait_for_row("name?");
    let why = eventually_some("the read is found", || {
        let why = sandbox.siding(&["why", "--json", &id]).run().expect_code(0).json();
        (why["verdict"] == "input_wait").then_some(why)
    });
    assert_eq!(why["certainty"], "hard", "{why}");
    let reader = why["chain"].as_array().and_then(|chain| chain.last()).expect("a process");
    assert_eq!((&reader["syscall"], &reader["object"]), (&json!("read"), &json!(path)), "{why}");
    let advice = why["advice"].as_str().expect("a text");
    assert!(advice.contains("answer where the command was started"), "{advice}");

    let view = show_task(&sandbox, &id);
    assert_eq!((&view["host_terminal"], &view["terminal"]), (&json!(path), &json!(null)));
    let sheet = sandbox.siding(&["show", &id]).run().expect_code(0).stdout_text();
    assert!(
        sheet.contains(&format!("\nterminal     {path}, which siding has not opened")),
        "{sheet}"
    );
    for args in [
        &["screen", &id][..],
        &["keys", &id, "x"],
        &["input", &id, "x"],
        &["attach", &id],
        &["answer", &id],
        &["record", &id, "--cast", "-"],
        &["wait", &id, "--for", "input", "--timeout", "1s"],
    ] {
        let refused = sandbox.siding(args).run().expect_code(125).stderr_text();
        let reason = format!("{id} runs on {path}, a terminal that siding has not opened");
        assert!(refused.contains(&reason) && refused.contains("siding why"), "{args:?}: {refused}");
    }

    terminal.send_keys("Ada\r");
    terminal.wait_for_row("hello Ada");
    let _ended = shell.wait().expect_code(0);
    assert_eq!(wait_until_ended(&sandbox, &id)["host_terminal"], json!(null));
}

/// Promise P83: shells inside a task of `siding run` carry its birthmark and are not adopted.
#[test]
fn sidings_own_task_is_not_adopted() {
    let sandbox = sandbox();
    let text = "bash -c 'echo inner; ulimit -R'; ulimit -R";
    let call = sandbox.siding(&["run", "--json", "--", text]);
    let call = with_adoption(&sandbox, call).env("SIDING_ADOPT_KEEP_AFTER", "0s");
    let view = call.run().expect_code(0).json();
    assert_eq!(view["adopted"], false);
    let id = view["task_id"].as_str().expect("an id");
    let mark = processes::birthmark_from_id(id).expect("an id");
    assert_eq!(view["output"]["text"], format!("inner\n{mark}\n{mark}\n"));
    wait_until_no_shims(&sandbox);
    assert_eq!(list_tasks(&sandbox).len(), 1);
}

/// Failure F53: a plain `siding run` inside an adopted shell joins the session of the host, which
/// the adoption has opened.
#[test]
fn nested_run_joins_the_session_of_the_host() {
    let sandbox = sandbox();
    let run = sandbox.siding_line(&["run", "--background", "--", "sleep 60"]);
    let text = format!("until [ -e go ]; do sleep .02; done; {run}; sleep 60");
    let recorded = start_recorded(&sandbox, recorded_shell(&sandbox, &text));
    let session = show_task(&sandbox, &recorded.id)["session_id"].clone();
    assert_ne!(session, "cli");
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    eventually("both run", || list_tasks(&sandbox).len() == 2);
    for task in list_tasks(&sandbox) {
        assert_eq!(task["session_id"], session, "{task}");
        if task["task_id"] != recorded.id.as_str() {
            assert_eq!(task["parent_task"], recorded.id.as_str());
        }
    }
    let _stopped = sandbox.siding(&["stop", "--all", "--grace", "0s"]).run().expect_code(0);
    let _ended = recorded.shell.wait();
}

/// Failure F24: the exit of an adopted command creates no notice, because the host has seen the
/// exit. A stop by siding, here at the deadline, creates a notice.
#[test]
fn only_ends_unknown_to_the_host_are_notices() {
    let sandbox = sandbox();
    let first =
        start_recorded(&sandbox, recorded_shell(&sandbox, "until [ -e go ]; do sleep .02; done"));
    let session = show_task(&sandbox, &first.id)["session_id"].as_str().expect("a name").to_owned();
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let _done = first.shell.wait().expect_code(0);
    let _view = wait_until_ended(&sandbox, &first.id);
    let second = start_recorded(
        &sandbox,
        recorded_shell(&sandbox, "sleep 60").env("SIDING_MAX_ELAPSED", "300ms"),
    );
    let _ended = second.shell.wait();
    eventually("the task has ended", || show_task(&sandbox, &second.id)["phase"] == "ended");
    let args = ["notices", "--session", &session, "--json"];
    let notices = sandbox.siding(&args).run().expect_code(0).json();
    let notices = notices.as_array().expect("a list").clone();
    let ids: Vec<_> = notices.iter().map(|notice| notice["task_id"].as_str()).collect();
    assert_eq!(ids, [Some(second.id.as_str())], "{notices:?}");
}

#[test]
fn adopt_command_reports_task_and_session() {
    let sandbox = sandbox();
    let other = sandbox.host("sleep", &["60"]).spawn();
    let pid = other.process().pid.to_string();
    let adopt = |pid: &str| sandbox.siding(&["adopt", "--json", pid]).run();
    let first = adopt(&pid).expect_code(0).json();
    let again = adopt(&pid).expect_code(0).json();
    assert_eq!(
        (&first["already_adopted"], &again["already_adopted"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(first["task_id"], again["task_id"]);
    let session = first["session_id"].as_str().expect("a name");
    assert!(session.starts_with("adopt-"), "{first}");
    assert_eq!(shims(&sandbox).len(), 1);
    other.process().kill();
    wait_until_no_shims(&sandbox);
    let refused = adopt("2147483647").expect_code(125);
    assert!(refused.stderr_text().contains("no process 2147483647 runs"), "{refused}");
}

/// `siding adopt` checks the settings before it marks the process. With `--at-once` it marks the
/// process and prints its answer before the check, because the calling shell waits for the answer.
#[test]
fn adopt_checks_first_and_adopt_at_once_answers_first() {
    let sandbox = sandbox();
    let other = sandbox.host("sleep", &["60"]).spawn();
    let pid = other.process().pid.to_string();
    let is_marked = || {
        let limits =
            std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("the process is alive");
        !limits.lines().any(|line| line.starts_with("Max realtime timeout") && line.contains("unl"))
    };
    let adopt = |args: &[&str]| sandbox.siding(args).env("SIDING_MAX_ELAPSED", "soon").run();
    let by_hand = adopt(&["adopt", &pid]).expect_code(125);
    assert_eq!((by_hand.stdout_text().as_str(), is_marked()), ("", false), "{by_hand}");
    let by_a_shell = adopt(&["adopt", &pid, "--at-once"]).expect_code(125);
    assert!(by_a_shell.stdout_text().contains(" adopt-") && is_marked(), "{by_a_shell}");
    for done in [by_hand, by_a_shell] {
        assert!(done.stderr_text().contains("SIDING_MAX_ELAPSED"), "{done}");
    }
    // No shim supervises the process, which continues unchanged.
    assert_eq!(shims(&sandbox), []);
    other.process().kill();
}

/// Promise P95: the watchdogs also cover adopted commands, even if the host waits for them in the
/// foreground.
#[test]
fn watchdog_covers_adopted_commands() {
    let sandbox = sandbox();
    let leak = sandbox.puppet_line(&["hold-fds", "600", "hang"]);
    let call = recorded_shell(&sandbox, &format!("exec {leak}")).env("SIDING_WATCH_FDS", "400");
    let recorded = start_recorded(&sandbox, call);
    eventually("the leak is reported", || {
        journal(&sandbox, &recorded.id).contains("\"detail\":\"watch_fds: ")
    });
    recorded.shell.process().kill();
    let _ended = wait_until_ended(&sandbox, &recorded.id);
}

/// siding cannot read the pipe to which an adopted command writes, but detects the writes in
/// `/proc/PID/io`. A compiler that prints lines is therefore not reported as a busy loop.
#[test]
fn writing_to_a_pipe_prevents_a_busy_loop_report() {
    let sandbox = sandbox();
    let watched = |text: &str| recorded_shell(&sandbox, text).env("SIDING_WATCH_CPU_SPIN", "2s");
    let computes = "for ((i = 0; i < 5000; i++)); do :; done";
    let compiler =
        start_recorded(&sandbox, watched(&format!("while :; do {computes}; echo compiled; done")));
    let spins = start_recorded(&sandbox, watched(&format!("while :; do {computes}; done")));
    let is_reported =
        |kept: &RecordedShell| journal(&sandbox, &kept.id).contains("\"limit_kind\":\"cpu_spin\"");
    eventually("the loop is reported", || is_reported(&spins));
    assert!(!is_reported(&compiler));
    for kept in [compiler, spins] {
        kept.shell.process().kill();
        let _ended = wait_until_ended(&sandbox, &kept.id);
    }
}
