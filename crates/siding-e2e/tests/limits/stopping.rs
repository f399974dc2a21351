//! What happens at a limit, and what does not.

use siding_e2e::eventually;

use crate::support::{
    breaches, puppet, records, sandbox, shown, start, stop_all, until_breach, until_looked_at,
};

/// SPEC §2.3 and 3.2: the whole tree is stopped, the outcome and the task's own output name the
/// limit. TERM is ignored, so that the kill is seen too.
#[test]
fn a_limit_that_stops_names_itself() {
    let sandbox = sandbox();
    let flags = ["run", "--max-processes", "2", "--on-limit", "stop", "--grace", "300ms", "--"];
    let verbs = ["ignore", "TERM", "fork", "hang", "--", "fork", "hang", "--", "hang"];
    let line = format!("exec {}", sandbox.puppet_line(&verbs));
    let done = sandbox.siding(&[&flags[..], &[&line]].concat()).run().expect_code(137);
    let text =
        "[siding] stopped at its limit max-processes: 3 processes, limit 2; ended 3 processes";
    assert!(done.out().lines().any(|line| line == text), "{}", done.out());
    let id = sandbox.task_ids().pop().expect("a task");
    let view = shown(&sandbox, &id);
    let outcome = serde_json::json!({ "kind": "limit", "which": "processes" });
    assert_eq!(view["outcome"], outcome, "{view:#}");
    assert_eq!(view["stop_report"]["ended_total"], 3);
    assert_eq!(view["usage"]["processes"], 3);
    // Record first, act second.
    let events = records(&sandbox, &id, "event");
    let passed = events.iter().find(|event| event["event"] == "limit_passed").expect("on record");
    assert!(breaches(&sandbox, &id)[0]["at"].as_u64() <= passed["at"].as_u64());
}

/// A command that ends well when it is asked to was stopped all the same: no code 0.
#[test]
fn the_exit_code_of_a_stopped_task_is_not_zero() {
    let sandbox = sandbox();
    let text = "trap 'exit 0' TERM; sleep 300 & sleep 300 & wait";
    let flags = ["run", "--max-processes", "2", "--on-limit", "stop", "--", text];
    let _done = sandbox.siding(&flags).run().expect_code(143);
}

/// Settings give what no flag does, and a flag of zero takes it away.
/// SPEC 5.1: a limit that is passed is told once, and the task goes on.
#[test]
fn a_limit_is_told_once() {
    let sandbox = sandbox();
    let id = start(&sandbox, &["--max-processes", "1"], "sleep 300 & sleep 300");
    let _breach = until_breach(&sandbox, &id, "processes");
    let notices = || sandbox.siding(&["notices", "--json", "--ack"]).run().expect_code(0).json();
    let told = notices();
    let [notice] = &told.as_array().expect("a list")[..] else { panic!("one: {told:#}") };
    for (key, value) in
        [("kind", "limit"), ("status", "limit"), ("limit", "processes"), ("priority", "next")]
    {
        assert_eq!(notice[key], value, "{key}");
    }
    assert_eq!(notices().as_array().map(Vec::len), Some(0), "once");
    let text = sandbox.siding(&["ps"]).run().expect_code(0).out();
    assert!(text.contains("  running  over limit  "), "{text}");
    stop_all(&sandbox);
}

#[test]
fn limits_come_from_settings_too() {
    let sandbox = sandbox();
    let run = |flags: &[&str]| {
        let line = format!("exec {}", sandbox.puppet_line(&["hold-fds", "50", "hang"]));
        let head = ["run", "--background", "--allow-duplicate", "--json"];
        let call = sandbox.siding(&[&head, flags, &["--", &line]].concat());
        let done = call.env("SIDING_MAX_FDS", "30").run().expect_code(0);
        done.json()["task_id"].as_str().expect("a task id").to_owned()
    };
    let (limited, free) = (run(&[]), run(&["--max-fds", "0"]));
    assert_eq!(until_breach(&sandbox, &limited, "fds")["limit"], 30);
    until_looked_at(&sandbox, 1);
    assert!(breaches(&sandbox, &free).is_empty());
    stop_all(&sandbox);
}

#[test]
fn nonsense_is_refused_with_what_is_allowed() {
    let sandbox = sandbox();
    for (flag, value, allowed) in [
        ("--max-memory", "4G", "is not a size"),
        ("--max-fds", "many", "a whole number"),
        ("--max-cpu-spin", "60", "has no unit"),
        ("--max-output-rate", "true", "is not a size"),
        ("--on-limit", "kill", "`notice` or `stop`"),
    ] {
        let done = sandbox.siding(&["run", flag, value, "--", "true"]).run().expect_code(125);
        assert!(done.err().contains(flag) && done.err().contains(allowed), "{}", done.err());
    }
    assert!(sandbox.task_ids().is_empty());
}

/// A shim that takes over goes on with the limits, and does not tell twice.
#[test]
fn a_rescued_task_keeps_its_limits() {
    let sandbox = sandbox();
    let id = puppet(&sandbox, &["--max-fds", "30"], &["hold-fds", "50", "hang"]);
    let _told = until_breach(&sandbox, &id, "fds");
    let other = puppet(&sandbox, &["--max-processes", "1"], &["hang"]);
    for id in [&id, &other] {
        let shim = shown(&sandbox, id)["shim_pid"].as_u64().expect("a shim");
        siding_e2e::Process::of(u32::try_from(shim).expect("a pid")).expect("it lives").kill();
        eventually("another shim is there", || shown(&sandbox, id)["rescues"] == 1);
    }
    until_looked_at(&sandbox, 2);
    assert_eq!(breaches(&sandbox, &id).len(), 1);
    assert!(shown(&sandbox, &id)["usage"]["fds"].as_u64().is_some_and(|fds| fds > 50));
    stop_all(&sandbox);
}
