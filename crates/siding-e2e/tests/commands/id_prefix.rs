//! The commands for one task accept the task's id, any unique prefix of the id, the task's name,
//! or `@`.

use siding_e2e::Sandbox;

use crate::support::{
    HANG_COMMAND, make_file, run_ok, run_refused, run_to_end, sandbox, start_task, stop_all,
    task_id, task_ids, until_file_exists, wait_for_outcome,
};

/// Returns the shortest prefix of an id that no other task's id has.
fn shortest_prefix(sandbox: &Sandbox, id: &str) -> String {
    let all = sandbox.task_ids();
    let unique = |len: &usize| all.iter().filter(|one| one.starts_with(&id[..*len])).count() == 1;
    let len = (1..=id.len()).find(unique).expect("ids are unique");
    id[..len].to_owned()
}

/// Commands that accept a task's id, with their other arguments.
const ID_COMMANDS: [(&str, &[&str]); 6] = [
    ("show", &[]),
    ("output", &[]),
    ("wait", &["--timeout", "0s"]),
    ("input", &["--eof"]),
    ("extend", &["1h"]),
    ("stop", &[]),
];

#[test]
fn a_unique_id_prefix_selects_a_task() {
    let sandbox = sandbox();
    let _other = run_to_end(&sandbox, "true");
    let id = start_task(&sandbox, &["--stdin", "pipe"], HANG_COMMAND);
    let short = shortest_prefix(&sandbox, &id);
    assert!(short.len() < id.len());
    for (command, rest) in ID_COMMANDS {
        let code = if command == "wait" { 124 } else { 0 };
        let done = sandbox.siding(&[&[command, &short], rest].concat()).run().expect_code(code);
        assert!(
            command == "input"
                || format!("{}{}", done.stdout_text(), done.stderr_text()).contains(&id)
                || code == 124,
            "{done}"
        );
    }
    let both = run_ok(&sandbox, &["show", "--json", &short, &id]).json();
    assert_eq!(task_ids(&both), [id.clone(), id]);
}

#[test]
fn an_ambiguous_id_prefix_is_rejected_with_the_matches() {
    let sandbox = sandbox();
    let live = start_task(&sandbox, &["--stdin", "pipe"], HANG_COMMAND);
    let over = run_to_end(&sandbox, "exit 3");
    for (command, rest) in ID_COMMANDS {
        let err = run_refused(&sandbox, &[&[command, "b-"], rest].concat());
        let lines: Vec<&str> = err.lines().collect();
        assert_eq!(lines[0], "siding: `b-` is ambiguous, 2 ids begin with it", "{command}: {err}");
        assert!(lines[1].starts_with(&format!("  {live}  running after ")), "{command}: {err}");
        assert!(lines[2].starts_with(&format!("  {over}  exited 3 after ")), "{command}: {err}");
        assert!(lines[2].ends_with("  exit 3"), "{command}: {err}");
        assert!(lines[3].starts_with("  hint: give more characters"), "{command}: {err}");
    }
    assert_eq!(task_ids(&run_ok(&sandbox, &["ps", "--json", "--running"]).json()).len(), 1);
    stop_all(&sandbox);
}

/// The error for an ambiguous prefix lists at most five of the matching tasks.
#[test]
fn an_ambiguous_id_prefix_lists_at_most_five_matches() {
    let sandbox = sandbox();
    for code in 0..7 {
        let _ended = run_to_end(&sandbox, &format!("exit {code}"));
    }
    let live = start_task(&sandbox, &[], HANG_COMMAND);
    let err = run_refused(&sandbox, &["show", "b"]);
    let lines: Vec<&str> = err.lines().collect();
    let message = "siding: `b` is ambiguous, 8 ids begin with it, of which 5 are listed";
    assert_eq!((lines[0], lines.len()), (message, 7), "{err}");
    assert!(lines[1].contains(&live), "running tasks must come first: {err}");
    assert!(err.contains("`siding ps --all` lists all tasks"), "{err}");
    stop_all(&sandbox);
}

#[test]
fn an_unknown_task_id_is_rejected() {
    let sandbox = sandbox();
    let _one = run_to_end(&sandbox, "true");
    for text in ["b-zzzzzzzzzzzz", "nonsense", "", "..", "b-/../../etc"] {
        for (command, rest) in ID_COMMANDS {
            let err = run_refused(&sandbox, &[&[command, text], rest].concat());
            assert!(err.contains("no task ") && err.contains("`siding ps --all`"), "{err}");
        }
    }
}

/// Returns the id of the task that `siding show` shows for these arguments.
#[track_caller]
fn shown_id(sandbox: &Sandbox, args: &[&str]) -> String {
    task_id(&run_ok(sandbox, &[&["show", "--json"], args].concat()).json())
}

#[test]
fn a_name_selects_the_running_task_otherwise_the_last_one() {
    let sandbox = sandbox();
    let name = ["--name", "my web", "--stdin", "pipe"];
    let running = start_task(&sandbox, &name, HANG_COMMAND);
    let gated = format!("{}; exit 3", until_file_exists("go"));
    let later = start_task(&sandbox, &["--name", "my web"], &gated);
    make_file(&sandbox, "go");
    assert_eq!(wait_for_outcome(&sandbox, &later)["code"], 3);
    for (command, rest) in ID_COMMANDS {
        assert_eq!(shown_id(&sandbox, &["my web"]), running, "before {command}");
        let code = if command == "wait" { 124 } else { 0 };
        let _done = sandbox.siding(&[&[command, "my web"], rest].concat()).run().expect_code(code);
    }
    assert_eq!(shown_id(&sandbox, &["my web"]), later);
    for other in ["my", "my web ", "My web"] {
        let err = run_refused(&sandbox, &["show", other]);
        assert!(err.contains(&format!("no task `{other}`")), "{err}");
    }
}

/// A name cannot be an id, and a task whose name is the beginning of an id does not take the place
/// of the task with this id.
#[test]
fn a_name_cannot_hide_an_id() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "true");
    for (name, why) in [(id.as_str(), "the form of an id"), ("@", "the last task"), ("", "empty")] {
        let err = run_refused(&sandbox, &["run", "--name", name, "--", "true"]);
        assert!(err.contains(why) && err.contains("cannot name a task"), "{err}");
    }
    let _other = start_task(&sandbox, &["--name", &id[..id.len() - 1]], HANG_COMMAND);
    for text in [id.as_str(), &id[..id.len() - 1]] {
        assert_eq!(shown_id(&sandbox, &[text]), id);
    }
    stop_all(&sandbox);
}

#[test]
fn without_an_id_the_last_task_is_read_and_named() {
    let sandbox = sandbox();
    for command in ["show", "output", "wait", "why"] {
        let err = run_refused(&sandbox, &[command]);
        assert!(err.contains("there is no task yet") && err.contains("`siding run "), "{err}");
    }
    let _first = run_to_end(&sandbox, "echo one");
    let last = run_to_end(&sandbox, "echo two");
    let line = format!("siding: {last}: echo two\n");
    for args in [&["output"][..], &["show"], &["wait"], &["output", "@"], &["stop", "@"]] {
        let done = run_ok(&sandbox, args);
        assert!(done.stderr_text().starts_with(&line), "{done}");
    }
    for args in [&["show", "--json"][..], &["output", "--json"], &["show", "--json", "@"]] {
        let done = run_ok(&sandbox, args);
        assert_eq!((task_id(&done.json()), done.stderr_text()), (last.clone(), String::new()));
    }
    // For a call inside a task, this task is not the last task.
    let inner = sandbox.siding_line(&["show", "--json"]);
    let done = run_ok(&sandbox, &["run", "--budget", "none", "--", &inner]);
    assert_eq!(task_id(&done.json()), last);
}

/// With `SIDING_SESSION`, the last task is that of the session.
#[test]
fn the_last_task_belongs_to_the_callers_session() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "true");
    for (session, found) in [("cli", true), ("other", false)] {
        let done = sandbox.siding(&["show", "@"]).env("SIDING_SESSION", session).run();
        let done = done.expect_code(if found { 0 } else { 125 });
        let printed = format!("{}{}", done.stdout_text(), done.stderr_text());
        assert_eq!(printed.contains(&id), found, "{done}");
        assert_eq!(printed.contains("the session `other` has no task"), !found, "{done}");
    }
    let invalid = sandbox.siding(&["stop", "@"]).env("SIDING_SESSION", "a/b").run();
    assert!(invalid.expect_code(125).stderr_text().contains("SIDING_SESSION"));
}

#[test]
fn stop_without_an_id_stops_nothing_and_lists_the_running_tasks() {
    let sandbox = sandbox();
    let err = run_refused(&sandbox, &["stop"]);
    assert!(err.contains("none is running"), "{err}");
    let ended = run_to_end(&sandbox, "true");
    let id = start_task(&sandbox, &["--name", "web"], HANG_COMMAND);
    let err = run_refused(&sandbox, &["stop"]);
    assert!(err.contains(&format!("`siding stop {id}` stops the first")), "{err}");
    assert!(err.contains(HANG_COMMAND) && !err.contains(&ended), "{err}");
    assert!(err.lines().all(|line| line.chars().count() <= 80), "{err}");
    assert_eq!(task_ids(&run_ok(&sandbox, &["ps", "--json", "--running"]).json()), [id]);
    stop_all(&sandbox);
}
