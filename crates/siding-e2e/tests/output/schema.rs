//! The output of `--json` matches the committed schemas in every phase of a task (promise P135).

mod validator;

use std::sync::LazyLock;

use serde_json::{Value, json};
use siding_e2e::{Process, Sandbox, output_schema, words};
use siding_model::process::ProcRef;
use siding_model::record::{self, Record};
use validator::Schema;

use crate::{Task, gate, shell};

static TASK_SCHEMA: LazyLock<Schema> = LazyLock::new(|| committed_schema("task"));
static WAIT_SCHEMA: LazyLock<Schema> = LazyLock::new(|| committed_schema("wait"));

fn committed_schema(name: &str) -> Schema {
    Schema::new(&output_schema(name))
}

/// Asserts that `value` matches the `task` schema, and returns it as a [`Task`].
#[track_caller]
fn assert_task_schema(value: Value) -> Task {
    TASK_SCHEMA.assert_valid(&value);
    Task(value)
}

/// Reads a task with `show`, `ps` and `wait`, validates the three answers, and returns the task as
/// `show` describes it.
#[track_caller]
fn check_all_views(sandbox: &Sandbox, id: &str) -> Task {
    let shown =
        assert_task_schema(sandbox.siding(&["show", "--json", id]).run().expect_code(0).json());
    let listed = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    let listed = listed.as_array().expect("a list");
    assert!(listed.iter().any(|task| task["task_id"] == id), "{listed:?}");
    for task in listed {
        assert!(task["output"]["text"].is_null(), "`ps` must not list output text: {task:#}");
        let _task = assert_task_schema(task.clone());
    }
    let args = ["wait", "--all", "--json", "--timeout", "1ms", id];
    let waited = sandbox.siding(&args).run();
    WAIT_SCHEMA.assert_valid(&waited.json());
    let over = shown.text("/phase") == "ended";
    assert_eq!(waited.code, Some(if over { 0 } else { 124 }), "{waited}");
    shown
}

#[track_caller]
fn start_background(sandbox: &Sandbox, flags: &[&str], command: &[String]) -> Task {
    let args = ["run", "--background", "--json"].iter().chain(flags).chain(&["--"]);
    let args: Vec<String> = args.map(|word| (*word).to_owned()).chain(command.to_vec()).collect();
    assert_task_schema(sandbox.siding(&args).run().json())
}

#[track_caller]
fn stop_task(sandbox: &Sandbox, id: &str) -> Task {
    let args = ["stop", "--json", "--grace", "0s", id];
    assert_task_schema(sandbox.siding(&args).run().expect_code(0).json())
}

#[test]
fn ended_tasks_match_the_schema() {
    let sandbox = Sandbox::new();
    for (text, code, outcome) in [
        ("exit 0", 0, json!({"kind": "exited", "code": 0})),
        ("cd /; false | true | exit 9", 9, json!({"kind": "exited", "code": 9})),
        ("kill -9 $$", 137, json!({"kind": "signaled", "signal": "SIGKILL", "by": null})),
        ("head -c 300000 /dev/urandom", 0, json!({"kind": "exited", "code": 0})),
        ("printf 'a\\0\\033[31m\\xff\\r\\n'", 0, json!({"kind": "exited", "code": 0})),
    ] {
        let call = shell(&sandbox, text).env("SIDING_OUTPUT_KEEP_HEAD", "4KiB");
        let done = call.env("SIDING_OUTPUT_KEEP_TAIL", "8KiB").run().expect_code(code);
        let task = assert_task_schema(done.json());
        assert_eq!(task.0["outcome"], outcome);
        assert_eq!(check_all_views(&sandbox, task.id()).0["outcome"], outcome);
    }
    let args = ["run", "--json", "--", "/no/such/program", "argument"];
    let task = assert_task_schema(sandbox.siding(&args).run().expect_code(127).json());
    assert_eq!(check_all_views(&sandbox, task.id()).text("/outcome/kind"), "failed_to_start");
}

#[test]
fn tasks_ended_by_siding_match_the_schema() {
    let sandbox = Sandbox::new();
    let port = sandbox.path("port").display().to_string();
    let argv = sandbox
        .puppet_argv(&["listen", &port, "fork", "setsid", "hang", "--", "mark", "up", "hang"]);
    let task = start_background(&sandbox, &["--name", "a name", "--stdin", "pipe"], &argv);
    let _up = sandbox.wait_for_mark("up");
    let running = check_all_views(&sandbox, task.id());
    assert_eq!(running.text("/phase"), "running");
    assert_eq!(running.0["listening"].as_array().map(Vec::len), Some(1));
    assert_eq!(running.0["processes"].as_array().map(Vec::len), Some(2));
    assert_eq!(stop_task(&sandbox, task.id()).number("/stop_report/ended_total"), 2);
    assert_eq!(check_all_views(&sandbox, task.id()).text("/outcome/kind"), "stopped");
    let args = ["--timeout", "100ms", "--grace", "0s", "--wait-for", "output:never"];
    let task = start_background(&sandbox, &args, &sandbox.puppet_argv(&["hang"]));
    let _over = sandbox.siding(&["wait", task.id()]).run().expect_code(124);
    assert_eq!(check_all_views(&sandbox, task.id()).text("/outcome/kind"), "deadline");
}

#[test]
fn lingering_and_stopping_tasks_match_the_schema() {
    let sandbox = Sandbox::new();
    let gate = gate(&sandbox);
    let text = format!("(read -r x < {}) & exit 3", gate.display());
    let task = assert_task_schema(shell(&sandbox, &text).run().expect_code(3).json());
    let lingering = check_all_views(&sandbox, task.id());
    assert_eq!(lingering.text("/phase"), "lingering");
    assert_eq!(lingering.0["leader_outcome"], json!({"kind": "exited", "code": 3}));
    let _stopped = stop_task(&sandbox, task.id());
    let argv = sandbox.puppet_argv(&words("ignore TERM mark deaf hang"));
    let task = start_background(&sandbox, &["--grace", "50s"], &argv);
    let _deaf = sandbox.wait_for_mark("deaf");
    let asking = sandbox.siding(&["stop", "--json", task.id()]).spawn();
    siding_e2e::eventually("it is being stopped", || {
        check_all_views(&sandbox, task.id()).text("/phase") == "stopping"
    });
    let _killed = stop_task(&sandbox, task.id());
    let _asked = assert_task_schema(asking.wait().expect_code(0).json());
}

#[test]
fn starting_and_lost_tasks_match_the_schema() {
    let sandbox = Sandbox::new();
    let task = assert_task_schema(shell(&sandbox, "true").run().expect_code(0).json());
    siding_e2e::eventually("its shim has exited", || {
        siding_e2e::processes::with_birthmark(task.id()).is_empty()
    });
    // Only the record `accepted` remains, with this live process as the shim, as in a journal
    // before the command is started.
    let me = Process::current();
    let pid = i32::try_from(me.pid).expect("a process number");
    let dir = sandbox.state_dir().join("tasks").join(task.id());
    let journal = std::fs::read(dir.join("journal")).expect("test file");
    let first = journal.split(|byte| *byte == b'\n').next().expect("a line");
    let (seq, mut accepted) = record::parse_line(first).expect("a valid record line");
    let Record::Accepted(inner) = &mut accepted else { panic!("{accepted:?}") };
    inner.shim = ProcRef { pid, start_ticks: me.start };
    let write = |accepted: &Record| {
        let mut line = vec![];
        record::write_line(&mut line, seq, accepted);
        std::fs::write(dir.join("journal"), line).expect("test file");
    };
    write(&accepted);
    std::fs::write(sandbox.state_dir().join("live").join(task.id()), "").expect("test file");
    let shown = assert_task_schema(sandbox.siding(&["show", "--json", task.id()]).run().json());
    assert_eq!(shown.text("/phase"), "starting");
    // The same journal, but with a start time that does not match the named process, so that the
    // shim counts as dead.
    let Record::Accepted(inner) = &mut accepted else { panic!("{accepted:?}") };
    inner.shim.start_ticks += 1;
    write(&accepted);
    assert_eq!(check_all_views(&sandbox, task.id()).text("/outcome/kind"), "lost");
}

#[test]
fn lists_duplicates_and_nested_tasks_match_the_schema() {
    let sandbox = Sandbox::new();
    let argv = sandbox.puppet_argv(&["hang"]);
    let first = start_background(&sandbox, &[], &argv);
    let again = start_background(&sandbox, &[], &argv);
    assert_eq!(again.text("/duplicate_of"), first.id());
    let second = start_background(&sandbox, &["--allow-duplicate"], &argv);
    assert_eq!(second.text("/duplicate_of"), first.id());
    let inner = sandbox.siding_line(&["run", "--json", "--", "true"]);
    let outer = assert_task_schema(shell(&sandbox, &inner).run().expect_code(0).json());
    let nested: Value = serde_json::from_str(outer.text("/output/text")).expect("JSON inside");
    assert_eq!(assert_task_schema(nested).text("/parent_task"), outer.id());
    let args = ["show", "--json", first.id(), second.id()];
    let both = sandbox.siding(&args).run().expect_code(0).json();
    let args = ["wait", "--json", "--any", "--timeout", "1ms", first.id(), second.id()];
    WAIT_SCHEMA.assert_valid(&sandbox.siding(&args).run().expect_code(124).json());
    let ended = sandbox.siding(&["stop", "--json", "--all", "--grace", "0s"]).run();
    for list in [both, ended.expect_code(0).json()] {
        let list = list.as_array().expect("a list").clone();
        assert_eq!(list.len(), 2, "{list:?}");
        list.into_iter().map(assert_task_schema).for_each(drop);
    }
}

/// The JSON of `doctor`, `install`, `config show`, `session` and `reap` matches their schemas.
#[test]
fn all_other_json_answers_match_their_schemas() {
    let sandbox = Sandbox::new();
    let me = std::process::id().to_string();
    let check = |schema: &Schema, args: &[&str]| {
        let answer = sandbox.siding(args).run().json();
        let list = answer.as_array().cloned().unwrap_or_else(|| vec![answer]);
        assert!(!list.is_empty(), "{args:?}");
        list.iter().for_each(|one| schema.assert_valid(one));
        list
    };
    check(&committed_schema("doctor"), &["doctor", "--json"]);
    check(&committed_schema("doctor"), &["doctor", "--host", "claude-code", "--json"]);
    check(&committed_schema("doctor_watch"), &["doctor", "--watch", "--json"]);
    let install = committed_schema("install");
    check(&install, &["install", "claude-code", "--dry-run", "--json"]);
    check(&install, &["install", "codex", "--json"]);
    check(&install, &["uninstall", "codex", "--json"]);
    check(&committed_schema("setting"), &["config", "show", "--json"]);
    let session = committed_schema("session");
    check(&session, &["session", "open", "chat", "--owner-pid", &me, "--json"]);
    let argv = sandbox.puppet_argv(&["hang"]);
    let _kept = start_background(&sandbox, &["--session", "chat", "--keep"], &argv);
    let stopped = start_background(&sandbox, &["--session", "chat", "--allow-duplicate"], &argv);
    check(&session, &["session", "list", "--json"]);
    let closed = committed_schema("session_close");
    let closed = check(&closed, &["session", "close", "chat", "--json"]);
    assert_eq!(closed[0]["stopped"][0]["task_id"], stopped.id());
    let ended = assert_task_schema(shell(&sandbox, "true").run().expect_code(0).json());
    siding_e2e::eventually("its shim has exited", || {
        siding_e2e::processes::with_birthmark(ended.id()).is_empty()
    });
    std::fs::write(sandbox.state_dir().join("live").join(ended.id()), "").expect("test file");
    let unread = sandbox.state_dir().join("tasks").join(stopped.id()).join("journal");
    std::fs::write(unread, "nonsense\n").expect("test file");
    let reap = committed_schema("reap");
    for args in [&["reap", "--json", "--dry-run"][..], &["reap", "--json"]] {
        let done = check(&reap, args);
        let kinds: Vec<_> = done[0]["counts"].as_object().expect("an object").keys().collect();
        assert_eq!(kinds, ["cleared", "quarantined"], "{done:?}");
    }
    let mut broken = sandbox.siding(&["reap", "--json"]).run().json();
    broken["steps"] = json!([{"kind": "cleared"}]);
    assert!(!reap.faults(&broken).is_empty(), "a step without its task went unnoticed");
}

/// The validator detects violations of the task schema, so the other tests can fail.
#[test]
fn a_schema_violation_is_detected() {
    let sandbox = Sandbox::new();
    let whole = shell(&sandbox, "true").run().expect_code(0).json();
    TASK_SCHEMA.assert_valid(&whole);
    for (pointer, wrong) in [
        ("/task_id", json!("b-1")),
        ("/phase", json!("paused")),
        ("/placement", json!({"kind": "foreground"})),
        ("/placement/why", json!("whim")),
        ("/outcome", json!({"kind": "exited"})),
        ("/outcome/code", json!(256)),
        ("/outcome", json!({"kind": "signaled", "signal": 9})),
        ("/started_at", json!("yesterday")),
        ("/elapsed_ms", json!("9")),
        ("/processes", json!([{"pid": 1}])),
        ("/output/bytes", json!(-1.5)),
        ("/output/gap", json!({"from": "1"})),
    ] {
        let mut broken = whole.clone();
        *broken.pointer_mut(pointer).expect("the entry exists") = wrong;
        assert!(!TASK_SCHEMA.faults(&broken).is_empty(), "{pointer} went unnoticed");
    }
    let mut broken = whole;
    broken.as_object_mut().expect("an object").remove("output");
    assert!(!TASK_SCHEMA.faults(&broken).is_empty());
}
