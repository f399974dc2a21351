//! `siding session`: opening, listing and closing sessions.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use siding_e2e::{RunningProgram, Sandbox, is_root, words};

use crate::support::{
    HANG_COMMAND, run_ok, run_refused, sandbox, show_task, start_task, stop_all, task_id, task_ids,
};

/// Starts a puppet as the owner, opens a session for it, and returns the owner.
#[track_caller]
fn open_session(sandbox: &Sandbox, name: &str) -> RunningProgram {
    let owner = sandbox.puppet(&words("--quiet hang")).spawn();
    let pid = owner.process().pid.to_string();
    let out = run_ok(sandbox, &["session", "open", name, "--owner-pid", &pid]).stdout_text();
    assert!(out.starts_with(&format!("session `{name}` is open")) && out.contains(&pid), "{out}");
    owner
}

/// Returns the entry of a session in `session list --json`; null if there is none.
#[track_caller]
fn find_listed_session(sandbox: &Sandbox, name: &str) -> Value {
    let list = run_ok(sandbox, &["session", "list", "--json"]).json();
    let list = list.as_array().expect("a list").clone();
    list.into_iter().find(|one| one["session_id"] == name).unwrap_or_default()
}

#[test]
fn sessions_are_listed_with_their_owner_and_tasks() {
    let sandbox = sandbox();
    assert_eq!(
        run_ok(&sandbox, &["session", "list"]).stdout_text(),
        "no session is open and no task runs\n"
    );
    let owner = open_session(&sandbox, "chat");
    let mine = start_task(&sandbox, &["--session", "chat"], HANG_COMMAND);
    let view = find_listed_session(&sandbox, "chat");
    assert_eq!(view["state"], "live");
    assert_eq!(view["owner_pid"], owner.process().pid);
    assert_eq!(view["running"], serde_json::json!([mine]));
    let free = start_task(&sandbox, &[], HANG_COMMAND);
    assert_eq!(find_listed_session(&sandbox, "cli")["running"], serde_json::json!([free]));
    let out = run_ok(&sandbox, &["session", "list"]).stdout_text();
    let row = out.lines().find(|line| line.starts_with("chat ")).unwrap_or_default();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..4], ["live", &owner.process().pid.to_string(), "1"], "{out}");
    stop_all(&sandbox);
    let _closed = run_ok(&sandbox, &["session", "close", "chat"]);
    let closed =
        |flags: &[&str]| run_ok(&sandbox, &[&["session", "list"], flags].concat()).stdout_text();
    assert!(!closed(&[]).contains("chat") && closed(&["--all"]).contains("chat     closed"));
}

/// Promise P41: closing a session stops the session's tasks except those with `--keep`, and no
/// other tasks.
#[test]
fn closing_a_session_stops_its_tasks_except_kept_ones() {
    let sandbox = sandbox();
    let _owners = [open_session(&sandbox, "chat"), open_session(&sandbox, "other")];
    let doomed: Vec<_> =
        (0..3).map(|_| start_task(&sandbox, &["--session", "chat"], HANG_COMMAND)).collect();
    let kept = start_task(&sandbox, &["--session", "chat", "--keep"], HANG_COMMAND);
    let others = [
        start_task(&sandbox, &["--session", "other"], HANG_COMMAND),
        start_task(&sandbox, &[], HANG_COMMAND),
    ];
    let closed = run_ok(&sandbox, &["session", "close", "chat", "--json"]).json();
    let mut stopped = task_ids(&closed["stopped"]);
    stopped.sort();
    let mut expected = doomed.clone();
    expected.sort();
    assert_eq!(stopped, expected);
    assert_eq!(closed["kept"], serde_json::json!([kept]));
    assert_eq!(closed["failed"], serde_json::json!([]));
    let by_session = serde_json::json!({"kind": "stopped", "by": "session"});
    for id in &doomed {
        assert_eq!(show_task(&sandbox, id)["outcome"], by_session);
    }
    for id in [&kept].into_iter().chain(&others) {
        assert_eq!(show_task(&sandbox, id)["phase"], "running");
    }
    stop_all(&sandbox);
}

/// `session close` and `stop --all` fail if they cannot read a task's journal. The task may belong
/// to the session, so these calls must not report that no task of the session is left.
#[test]
fn a_task_with_an_unreadable_journal_is_reported_as_failed() {
    if !is_root() {
        // Only root can make a journal unreadable for the ordinary user that runs the calls.
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(61_300);
    sandbox.expect_clean();
    let _owner = open_session(&sandbox, "chat");
    let unread = start_task(&sandbox, &["--session", "chat"], HANG_COMMAND);
    let read = start_task(&sandbox, &["--session", "chat"], HANG_COMMAND);
    let journal = sandbox.state_dir().join("tasks").join(&unread).join("journal");
    let allow = |mode| {
        std::fs::set_permissions(&journal, Permissions::from_mode(mode))
            .expect("changing the mode succeeded");
    };
    allow(0);
    let stop = ["stop", "--all", "--session", "chat", "--json"];
    let done = sandbox.siding(&stop).run().expect_code(125);
    assert!(done.stderr_text().contains(&unread), "{done}");
    assert_eq!(task_ids(&done.json()), [read]);
    let close = ["session", "close", "chat", "--json"];
    let closed = sandbox.siding(&close).run().expect_code(125).json();
    assert_eq!(closed["failed"][0]["task_id"], *unread, "{closed}");
    assert_eq!(closed["failed"].as_array().map(Vec::len), Some(1), "{closed}");
    allow(0o600);
    stop_all(&sandbox);
}

#[test]
fn session_close_prints_what_happened_to_each_task() {
    let sandbox = sandbox();
    let _owner = open_session(&sandbox, "chat");
    let task = start_task(&sandbox, &["--session", "chat"], HANG_COMMAND);
    let kept = start_task(&sandbox, &["--session", "chat", "--keep"], HANG_COMMAND);
    let out = run_ok(&sandbox, &["session", "close", "chat"]).stdout_text();
    let expected = format!(
        "session `chat` is closed\n{task}  stopped by session\n{kept}  continues: it was started \
         with --keep\n"
    );
    assert_eq!(out, expected);
    stop_all(&sandbox);
}

/// A call with a session that is not open fails, names the command that opens the session, and
/// starts no task.
#[test]
fn an_unopened_session_is_rejected_with_the_command_that_opens_it() {
    let sandbox = sandbox();
    let named = "`siding session open nope --owner-pid PID`";
    for args in [&["run", "--session", "nope", "--", "true"][..], &["session", "close", "nope"]] {
        let err = run_refused(&sandbox, args);
        assert!(err.contains("`nope` is not open") && err.contains(named), "{err}");
    }
    let call = sandbox.siding(&["run", "--", "true"]).env("SIDING_SESSION", "nope");
    let done = call.run().expect_code(125);
    assert!(done.stderr_text().contains(named), "{done}");
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
    let _owner = open_session(&sandbox, "nope");
    let _closed = run_ok(&sandbox, &["session", "close", "nope"]);
    let err = run_refused(&sandbox, &["run", "--session", "nope", "--", "true"]);
    assert!(err.contains("has ended (it was closed)") && err.contains(named), "{err}");
    // After the session has been opened again, tasks can be started in it.
    let _owner = open_session(&sandbox, "nope");
    let _ran = run_ok(&sandbox, &["run", "--session", "nope", "--", "true"]);
}

/// A name that is not UTF-8 is an error, as any other invalid name is. It does not select the
/// implicit session.
#[test]
fn a_session_variable_that_is_not_utf8_is_rejected() {
    let sandbox = sandbox();
    for args in [&["run", "--", "true"][..], &["notices"]] {
        let call = sandbox.siding(args).env("SIDING_SESSION", OsStr::from_bytes(b"\xff"));
        let _refused = call.run().expect_code(125);
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

#[test]
fn invalid_session_names_and_owners_are_rejected() {
    let sandbox = sandbox();
    let me = std::process::id().to_string();
    for args in [&["open", "cli", "--owner-pid", &me][..], &["close", "cli"]] {
        let err = run_refused(&sandbox, &[&["session"], args].concat());
        assert!(err.contains("`cli` is siding's own and never ends"), "{err}");
    }
    for name in ["a b", "../x", "", ".x", "-x", &"x".repeat(65)] {
        let name = format!("--owner-pid={me} -- {name}");
        let args: Vec<&str> = name.splitn(3, ' ').collect();
        let err = run_refused(&sandbox, &[&["session", "open"], &args[..]].concat());
        assert!(err.contains("use 1 to 64 of `A-Z a-z 0-9 . _ -`"), "{err}");
    }
    // No process has this pid, because the kernel assigns none above 4194304 (PID_MAX_LIMIT).
    let err = run_refused(&sandbox, &["session", "open", "chat", "--owner-pid", "4194305"]);
    assert!(err.contains("no process 4194305 runs"), "{err}");
    assert!(find_listed_session(&sandbox, "chat").is_null());
}

#[test]
fn the_session_flag_takes_precedence_over_the_variable() {
    let sandbox = sandbox();
    let _owners = [open_session(&sandbox, "one"), open_session(&sandbox, "two")];
    let args = ["run", "--background", "--allow-duplicate", "--json"];
    for (flag, variable, session) in [
        (&["--session", "one"][..], "two", "one"),
        (&[], "two", "two"),
        (&["--session", "cli"], "two", "cli"),
        (&[], "", "cli"),
    ] {
        let call = sandbox.siding(&[&args, flag, &["--", HANG_COMMAND]].concat());
        let done = call.env("SIDING_SESSION", variable).run().expect_code(0);
        assert_eq!(done.json()["session_id"], session, "{done}");
    }
    let two = run_ok(&sandbox, &["ps", "--json", "--session", "two"]).json();
    let stopped = run_ok(&sandbox, &["stop", "--json", "--all", "--session", "two"]).json();
    assert_eq!(task_ids(&stopped), [task_id(&two[0])]);
    assert_eq!(task_ids(&run_ok(&sandbox, &["ps", "--running", "--json"]).json()).len(), 3);
    stop_all(&sandbox);
}
