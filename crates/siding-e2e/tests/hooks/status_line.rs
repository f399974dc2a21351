//! `siding statusline`.

use serde_json::json;
use siding_e2e::{Sandbox, eventually};

use crate::support::{background, begin, event, finish, sandbox};

#[track_caller]
fn line(sandbox: &Sandbox, args: &[&str]) -> String {
    let args: Vec<&str> = ["statusline"].iter().chain(args).copied().collect();
    let more = json!({"model": {"id": "m"}, "workspace": {"current_dir": "/"}});
    sandbox.siding(&args).stdin(event(sandbox, more)).run().expect_code(0).stdout_text()
}

#[test]
fn one_line_says_what_runs_and_what_needs_an_answer() {
    let sandbox = sandbox();
    begin(&sandbox);
    assert_eq!(line(&sandbox, &[]), "siding: nothing runs\n");
    let _first = background(&sandbox, "sleep 61");
    assert_eq!(line(&sandbox, &[]).replace(char::is_numeric, "N"), "siding: sleep NN for Ns\n");
    let second = background(&sandbox, "exec 3<>ask; read -r -p 'Sure? ' _ <&3; sleep 62");
    let said = line(&sandbox, &[]);
    assert!(said.starts_with("siding: 2 run, longest sleep 61 for "), "{said}");
    assert!(said.chars().count() <= 80 && said.lines().count() == 1, "{said}");
    let _stopped = sandbox.siding(&["stop", &second]).run();
    finish(&sandbox);
}

#[test]
fn a_task_that_waits_for_an_answer_comes_first() {
    let sandbox = sandbox();
    begin(&sandbox);
    let run = ["run", "--background", "--session", crate::support::SESSION, "--stdin", "pipe"];
    let words = ["--json", "--", "read -r -p 'Sure? ' answer; sleep 60"];
    let args: Vec<&str> = run.iter().chain(&words).copied().collect();
    let task = sandbox.siding(&args).env("SIDING_STALL_AFTER", "100ms").run().expect_code(0).json();
    let id = task["task_id"].as_str().expect("an id");
    eventually("it is seen to wait", || {
        let said = line(&sandbox, &[]);
        said.starts_with(&format!("siding: {id} needs input: read"))
    });
    finish(&sandbox);
}

/// The line that a person had stays theirs.
#[test]
fn another_status_line_is_called_with_the_same_input_and_printed_first() {
    let sandbox = sandbox();
    begin(&sandbox);
    let theirs = "cat > heard; printf 'mine \\033[1mbold\\033[m'";
    let said = line(&sandbox, &["--before", theirs]);
    assert_eq!(said, "mine \u{1b}[1mbold\u{1b}[m\nsiding: nothing runs\n");
    let heard = std::fs::read_to_string(sandbox.path("heard")).expect("it was called");
    assert!(heard.contains("\"session_id\""), "{heard}");
    // Whatever siding cannot read, theirs is shown.
    let call = sandbox.siding(&["statusline", "--before", "echo mine"]).stdin("no JSON");
    let done = call.run().expect_code(0);
    assert_eq!(done.stdout_text(), "mine\n");
    assert!(done.stderr_text().contains("cannot be read"), "{done}");
    finish(&sandbox);
}
