//! `siding wait` for the end of tasks.

use std::time::Duration;

use serde_json::{Value, json};
use siding_core::sys::unix_socket;

use crate::support::{
    HANG_COMMAND, MAX_PROMPT_TIME, make_file, run_ok, run_refused, run_to_end, sandbox, start_task,
    stop_all, until_file_exists,
};

#[test]
fn wait_returns_immediately_for_an_ended_task() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "exit 7");
    let done = sandbox.siding(&["wait", &id]).run().expect_code(7);
    assert!(done.elapsed < MAX_PROMPT_TIME, "{done}");
    assert!(done.stdout_text().starts_with(&format!("{id}  exited 7 after ")), "{done}");
    assert!(done.stdout_text().ends_with("  exit 7\n"), "{done}");
    let args = ["wait", "--json", "--timeout", "0s", &id];
    let view = sandbox.siding(&args).run().expect_code(7).json();
    let outcome = json!({"kind": "exited", "code": 7});
    let hit = json!({"task_id": id, "condition": "exit", "detail": outcome});
    assert_eq!((&view["satisfied"], &view["reason"]), (&true.into(), &"satisfied".into()));
    assert_eq!(view["by"], json!([hit]));
}

/// The code of a wait for the end of one task is that of `siding run` for such a task. The code 124
/// also means that the wait reached its bound; the text and `reason` distinguish the two cases.
#[test]
fn a_wait_for_one_task_returns_the_exit_code_of_the_task() {
    let sandbox = sandbox();
    let stopped = start_task(&sandbox, &[], HANG_COMMAND);
    stop_all(&sandbox);
    let late = start_task(&sandbox, &["--timeout", "1s"], HANG_COMMAND);
    let mut ends = vec![(stopped, 143), (late, 124)];
    for (command, code) in
        [("true", 0), ("exit 7", 7), ("exit 124", 124), ("kill -9 $$", 137), ("./missing", 127)]
    {
        ends.push((run_to_end(&sandbox, command), code));
    }
    for (id, code) in ends {
        let done = sandbox.siding(&["wait", &id]).run().expect_code(code);
        assert!(done.stdout_text().starts_with(&id), "{done}");
        assert!(!done.stderr_text().contains("within the bound"), "{done}");
        let view = sandbox.siding(&["wait", "--json", &id]).run().expect_code(code).json();
        assert_eq!(view["reason"], "satisfied", "{view}");
        // With these options, the code only tells whether the condition was met.
        for flags in [&["--all"][..], &["--any"], &["--for", "exit"]] {
            let _met = run_ok(&sandbox, &[&["wait", &id], flags].concat());
        }
    }
}

#[test]
fn a_wait_for_several_tasks_returns_the_first_failure_in_their_order() {
    let sandbox = sandbox();
    let [zero, three, four] =
        ["true", "exit 3", "exit 4"].map(|command| run_to_end(&sandbox, command));
    for (ids, code) in
        [([&zero, &three, &four], 3), ([&four, &zero, &three], 4), ([&zero, &zero, &zero], 0)]
    {
        let args: Vec<&str> = std::iter::once("wait").chain(ids.map(String::as_str)).collect();
        let _done = sandbox.siding(&args).run().expect_code(code);
        let _done = run_ok(&sandbox, &[&args[..], &["--all"]].concat());
    }
}

#[test]
fn any_returns_at_the_first_end_and_all_at_the_last() {
    let sandbox = sandbox();
    let one = start_task(&sandbox, &[], &until_file_exists("one"));
    let two = start_task(&sandbox, &[], &until_file_exists("two"));
    let [any, all, both] = [&["--any"][..], &["--all"], &[]]
        .map(|flags| sandbox.siding(&[&["wait", "--json", &one, &two], flags].concat()).spawn());
    make_file(&sandbox, "two");
    let view = any.wait().expect_code(0).json();
    let hits: Vec<&Value> = view["by"].as_array().expect("a list").iter().collect();
    assert_eq!(hits.len(), 1, "{view}");
    assert_eq!(hits[0]["task_id"], two);
    for waiting in [&all, &both] {
        assert!(waiting.process().is_alive(), "the wait must continue while a task runs");
    }
    make_file(&sandbox, "one");
    for waiting in [all, both] {
        let view = waiting.wait().expect_code(0).json();
        assert_eq!(view["by"].as_array().map(Vec::len), Some(2), "{view}");
        assert!(view["waited_ms"].as_u64() < view["bound_ms"].as_u64(), "{view}");
    }
}

/// Promise P51: when the time limit is reached, the wait ends, the tasks continue, and the answer
/// states the limit.
#[test]
fn a_wait_that_times_out_says_so_and_the_tasks_continue() {
    let sandbox = sandbox();
    let ids = [run_to_end(&sandbox, "true"), start_task(&sandbox, &[], HANG_COMMAND)];
    let bound = Duration::from_millis(300);
    let done = sandbox.siding(&["wait", "--timeout", "300ms", &ids[0], &ids[1]]).run();
    let done = done.expect_code(124);
    assert!(done.elapsed >= bound && done.elapsed < MAX_PROMPT_TIME, "{done}");
    assert!(done.stdout_text().starts_with(&format!("{}  exited 0", ids[0])), "{done}");
    assert!(
        done.stderr_text().contains("not ended within the bound of 300ms; the tasks continue"),
        "{done}"
    );
    let args = ["wait", "--json", "--timeout", "300ms", &ids[0], &ids[1]];
    let view = sandbox.siding(&args).run().expect_code(124).json();
    assert_eq!((&view["satisfied"], &view["reason"]), (&false.into(), &"timeout".into()));
    assert_eq!((&view["bound_ms"], view["by"].as_array().map(Vec::len)), (&300.into(), Some(1)));
    assert!(view["waited_ms"].as_u64().is_some_and(|ms| ms >= 300), "{view}");
    // Without `--timeout`, the setting `wait_bound` limits the wait.
    let call = sandbox.siding(&["wait", &ids[1]]).env("SIDING_WAIT_BOUND", "200ms");
    assert!(call.run().expect_code(124).stderr_text().contains("the bound of 200ms"));
    let shown = run_ok(&sandbox, &["show", "--json", &ids[1]]).json();
    assert_eq!(shown["phase"], "running");
    stop_all(&sandbox);
}

/// Another process may be creating a task whose directory is young and has no journal. The wait for
/// such a task ends at its bound, and other tasks can satisfy it.
#[test]
fn a_wait_for_a_task_that_is_being_created_ends_at_its_bound() {
    let sandbox = sandbox();
    let ended = run_to_end(&sandbox, "exit 3");
    let unborn = "b-4k7q0n2m8x5t";
    std::fs::create_dir(sandbox.state_dir().join("tasks").join(unborn)).expect("test directory");
    let done = sandbox.siding(&["wait", "--timeout", "10ms", unborn]).run().expect_code(124);
    assert!(done.elapsed < MAX_PROMPT_TIME, "{done}");
    assert!(done.stderr_text().contains("not ended within the bound of 10ms"), "{done}");
    let args = ["wait", "--json", "--any", "--timeout", "10ms", unborn, &ended];
    let view = run_ok(&sandbox, &args).json();
    assert_eq!((&view["reason"], &view["by"][0]["task_id"]), (&json!("satisfied"), &json!(ended)));
}

/// The shim of a task may not answer, for example because a debugger has stopped it. The wait for
/// such a task ends at its bound.
#[test]
fn a_wait_for_a_task_whose_shim_does_not_answer_ends_at_its_bound() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let dir = sandbox.state_dir().join("tasks").join(&id);
    let (socket, moved) = (dir.join("ctl"), dir.join("ctl.moved"));
    std::fs::rename(&socket, &moved).expect("the shim listens");
    // The calls connect to this socket, and its process accepts no connection.
    let dir = std::fs::File::open(&dir).expect("test directory");
    let _keeps_alive = unix_socket::listen(&dir, "ctl").expect("the name is free");
    let done = sandbox.siding(&["wait", "--timeout", "2s", &id]).run().expect_code(124);
    assert!(done.elapsed < MAX_PROMPT_TIME, "{done}");
    assert!(done.stderr_text().contains("not ended within the bound of 2s"), "{done}");
    std::fs::rename(&moved, &socket).expect("test directory");
    stop_all(&sandbox);
}

/// A task that is named several times is reported once.
#[test]
fn a_task_given_twice_is_reported_once() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "true");
    let view = run_ok(&sandbox, &["wait", "--json", &id, &id, &id[..id.len() - 1]]).json();
    assert_eq!(view["by"].as_array().map(Vec::len), Some(1), "{view}");
}

#[test]
fn invalid_wait_arguments_are_rejected() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "true");
    for (args, said) in [
        (&["--any", "--all", &id][..], "cannot be used with"),
        (&["--timeout", "5", &id], "write `5s` for seconds"),
        (&[&id, "b-zzz"], "no task `b-zzz`"),
        (&[&id, "--for", "ready"], "`ready` is not a condition; write exit, output:REGEX"),
        (&[&id, "--for", "port:http"], "write a number from 1 to 65535"),
        (&[&id, "--for", "output:[a"], "unclosed character class"),
        (&[&id, "--for", "https://localhost/"], "https is not supported"),
    ] {
        let err = run_refused(&sandbox, &[&["wait"], args].concat());
        assert!(err.contains(said), "{err}");
    }
}
