//! The effects of an exceeded limit: the notice, the stop, and the state that a new shim keeps
//! after a takeover.

use siding_e2e::eventually;

use crate::support::{
    journal_records, limit_breaches, sandbox, show_task, start_puppet, start_task, stop_all,
    wait_for_breach, wait_for_limit_checks,
};

/// Promises P40 and P94: siding stops the whole tree of a task at a limit, and the outcome and the
/// task's output name the limit. The task ignores SIGTERM, so that SIGKILL is tested too.
#[test]
fn a_task_stopped_at_a_limit_reports_which_limit() {
    let sandbox = sandbox();
    let flags = ["run", "--max-processes", "2", "--on-limit", "stop", "--grace", "300ms", "--"];
    let verbs = ["ignore", "TERM", "fork", "hang", "--", "fork", "hang", "--", "hang"];
    let line = format!("exec {}", sandbox.puppet_line(&verbs));
    let done = sandbox.siding(&[&flags[..], &[&line]].concat()).run().expect_code(137);
    let text =
        "[siding] stopped at its limit max-processes: 3 processes, limit 2; ended 3 processes";
    assert!(done.stdout_text().lines().any(|line| line == text), "{}", done.stdout_text());
    let id = sandbox.task_ids().pop().expect("a task");
    let view = show_task(&sandbox, &id);
    let outcome = serde_json::json!({ "kind": "limit", "which": "processes" });
    assert_eq!(view["outcome"], outcome, "{view:#}");
    assert_eq!(view["stop_report"]["ended_total"], 3);
    assert_eq!(view["usage"]["processes"], 3);
    // The breach is recorded before the stop begins.
    let events = journal_records(&sandbox, &id, "event");
    let passed =
        events.iter().find(|event| event["event"] == "limit_passed").expect("a recorded entry");
    assert!(limit_breaches(&sandbox, &id)[0]["at"].as_u64() <= passed["at"].as_u64());
}

/// A command that exits with 0 on SIGTERM was still stopped, so the exit code of `siding run` is
/// not 0.
#[test]
fn a_task_stopped_at_a_limit_exits_with_a_nonzero_code() {
    let sandbox = sandbox();
    let text = "trap 'exit 0' TERM; sleep 300 & sleep 300 & wait";
    let flags = ["run", "--max-processes", "2", "--on-limit", "stop", "--", text];
    let _done = sandbox.siding(&flags).run().expect_code(143);
}

/// Promise P94: the breach of a limit is reported once, and the task continues.
#[test]
fn a_limit_breach_is_notified_once() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--max-processes", "1"], "sleep 300 & sleep 300");
    let _breach = wait_for_breach(&sandbox, &id, "processes");
    let notices = || sandbox.siding(&["notices", "--json", "--ack"]).run().expect_code(0).json();
    let delivered = notices();
    let [notice] = &delivered.as_array().expect("a list")[..] else {
        panic!("expected exactly one: {delivered:#}")
    };
    for (key, value) in
        [("kind", "limit"), ("status", "limit"), ("limit", "processes"), ("priority", "next")]
    {
        assert_eq!(notice[key], value, "{key}");
    }
    assert_eq!(notices().as_array().map(Vec::len), Some(0), "expected exactly once");
    let text = sandbox.siding(&["ps"]).run().expect_code(0).stdout_text();
    assert!(text.contains("  running  over limit  "), "{text}");
    stop_all(&sandbox);
}

#[test]
fn limits_are_read_from_settings_and_overridden_by_flags() {
    let sandbox = sandbox();
    let run = |flags: &[&str]| {
        let line = format!("exec {}", sandbox.puppet_line(&["hold-fds", "50", "hang"]));
        let head = ["run", "--background", "--allow-duplicate", "--json"];
        let call = sandbox.siding(&[&head, flags, &["--", &line]].concat());
        let done = call.env("SIDING_MAX_FDS", "30").run().expect_code(0);
        done.json()["task_id"].as_str().expect("a task id").to_owned()
    };
    let (limited, free) = (run(&[]), run(&["--max-fds", "0"]));
    assert_eq!(wait_for_breach(&sandbox, &limited, "fds")["limit"], 30);
    wait_for_limit_checks(&sandbox, 1);
    assert!(limit_breaches(&sandbox, &free).is_empty());
    stop_all(&sandbox);
}

#[test]
fn invalid_limit_values_are_rejected_with_the_allowed_form() {
    let sandbox = sandbox();
    for (flag, value, allowed) in [
        ("--max-memory", "4G", "is not a size"),
        ("--max-fds", "many", "a whole number"),
        ("--max-cpu-spin", "60", "has no unit"),
        ("--max-output-rate", "true", "is not a size"),
        ("--on-limit", "kill", "`notice` or `stop`"),
    ] {
        let done = sandbox.siding(&["run", flag, value, "--", "true"]).run().expect_code(125);
        assert!(
            done.stderr_text().contains(flag) && done.stderr_text().contains(allowed),
            "{}",
            done.stderr_text()
        );
    }
    assert!(sandbox.task_ids().is_empty());
}

/// A shim that takes over keeps the limits and does not report a breach again.
#[test]
fn a_task_keeps_its_limits_after_takeover() {
    let sandbox = sandbox();
    let id = start_puppet(&sandbox, &["--max-fds", "30"], &["hold-fds", "50", "hang"]);
    let _told = wait_for_breach(&sandbox, &id, "fds");
    let other = start_puppet(&sandbox, &["--max-processes", "1"], &["hang"]);
    for id in [&id, &other] {
        let shim = show_task(&sandbox, id)["shim_pid"].as_u64().expect("a shim");
        siding_e2e::Process::from_pid(u32::try_from(shim).expect("a pid"))
            .expect("the process is alive")
            .kill();
        eventually("another shim has taken over", || show_task(&sandbox, id)["rescues"] == 1);
    }
    wait_for_limit_checks(&sandbox, 2);
    assert_eq!(limit_breaches(&sandbox, &id).len(), 1);
    assert!(show_task(&sandbox, &id)["usage"]["fds"].as_u64().is_some_and(|fds| fds > 50));
    stop_all(&sandbox);
}
