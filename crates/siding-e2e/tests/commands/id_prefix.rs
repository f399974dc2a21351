//! Every command accepts a task's id or any unique prefix of it.

use siding_e2e::Sandbox;

use crate::support::{
    HANG_COMMAND, run_ok, run_refused, run_to_end, sandbox, start_task, stop_all, task_ids,
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
