//! `siding wait`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    HANG, PROMPT, ended, make_file, ok, refused, sandbox, start, stop_all, until_file,
};

#[test]
fn an_ended_task_is_not_waited_for() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "exit 7");
    let done = ok(&sandbox, &["wait", &id]);
    assert!(done.elapsed < PROMPT, "{done}");
    assert!(done.out().starts_with(&format!("{id}  exited 7 after ")), "{done}");
    assert!(done.out().ends_with("  exit 7\n"), "{done}");
    let view = ok(&sandbox, &["wait", "--json", "--timeout", "0s", &id]).json();
    let outcome = json!({"kind": "exited", "code": 7});
    let hit = json!({"task_id": id, "condition": "exit", "detail": outcome});
    assert_eq!((&view["satisfied"], &view["reason"]), (&true.into(), &"satisfied".into()));
    assert_eq!(view["by"], json!([hit]));
}

#[test]
fn any_is_the_first_and_all_are_all() {
    let sandbox = sandbox();
    let one = start(&sandbox, &[], &until_file("one"));
    let two = start(&sandbox, &[], &until_file("two"));
    let [any, all, both] = [&["--any"][..], &["--all"], &[]]
        .map(|flags| sandbox.siding(&[&["wait", "--json", &one, &two], flags].concat()).spawn());
    make_file(&sandbox, "two");
    let view = any.wait().expect_code(0).json();
    let hits: Vec<&Value> = view["by"].as_array().expect("a list").iter().collect();
    assert_eq!(hits.len(), 1, "{view}");
    assert_eq!(hits[0]["task_id"], two);
    for waiting in [&all, &both] {
        assert!(waiting.process().alive(), "one of them still runs");
    }
    make_file(&sandbox, "one");
    for waiting in [all, both] {
        let view = waiting.wait().expect_code(0).json();
        assert_eq!(view["by"].as_array().map(Vec::len), Some(2), "{view}");
        assert!(view["waited_ms"].as_u64() < view["bound_ms"].as_u64(), "{view}");
    }
}

/// The bound ends the wait and not the task; the answer states it.
#[test]
fn at_the_bound_the_answer_says_so_and_the_tasks_go_on() {
    let sandbox = sandbox();
    let ids = [ended(&sandbox, "true"), start(&sandbox, &[], HANG)];
    let bound = Duration::from_millis(300);
    let done = sandbox.siding(&["wait", "--timeout", "300ms", &ids[0], &ids[1]]).run();
    let done = done.expect_code(124);
    assert!(done.elapsed >= bound && done.elapsed < PROMPT, "{done}");
    assert!(done.out().starts_with(&format!("{}  exited 0", ids[0])), "{done}");
    assert!(done.err().contains("not ended within the bound of 300ms; they go on"), "{done}");
    let args = ["wait", "--json", "--timeout", "300ms", &ids[0], &ids[1]];
    let view = sandbox.siding(&args).run().expect_code(124).json();
    assert_eq!((&view["satisfied"], &view["reason"]), (&false.into(), &"timeout".into()));
    assert_eq!((&view["bound_ms"], view["by"].as_array().map(Vec::len)), (&300.into(), Some(1)));
    assert!(view["waited_ms"].as_u64().is_some_and(|ms| ms >= 300), "{view}");
    // Without a bound of its own a wait has that of the settings.
    let call = sandbox.siding(&["wait", &ids[1]]).env("SIDING_WAIT_BOUND", "200ms");
    assert!(call.run().expect_code(124).err().contains("the bound of 200ms"));
    let shown = ok(&sandbox, &["show", "--json", &ids[1]]).json();
    assert_eq!(shown["phase"], "running");
    stop_all(&sandbox);
}

/// A task that is named twice is waited for once.
#[test]
fn a_task_is_named_once_in_the_answer() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "true");
    let view = ok(&sandbox, &["wait", "--json", &id, &id, &id[..id.len() - 1]]).json();
    assert_eq!(view["by"].as_array().map(Vec::len), Some(1), "{view}");
}

#[test]
fn whoever_waits_for_nobody_is_refused() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "true");
    for (args, said) in [
        (&[][..], "required"),
        (&["--any", "--all", &id], "cannot be used with"),
        (&["--timeout", "5", &id], "write `5s` for seconds"),
        (&[&id, "b-zzz"], "no task `b-zzz`"),
        (&[&id, "--for", "ready"], "`ready` is nothing to wait for; write exit, output:REGEX"),
        (&[&id, "--for", "port:http"], "write a number from 1 to 65535"),
        (&[&id, "--for", "output:[a"], "unclosed character class"),
        (&[&id, "--for", "https://localhost/"], "https is not spoken here"),
    ] {
        let err = refused(&sandbox, &[&["wait"], args].concat());
        assert!(err.contains(said), "{err}");
    }
}
