//! `siding input`, which writes to a task's standard input.

use siding_e2e::{Sandbox, eventually, words};

use crate::support::{
    HANG_COMMAND, run_ok, run_refused, run_to_end, sandbox, start_task, stop_all, wait_for_outcome,
    write,
};

/// Starts a puppet that echoes its input, and returns the task's id.
#[track_caller]
fn start_echo(sandbox: &Sandbox) -> String {
    let line = sandbox.puppet_line(&words("--quiet read-stdin exit 4"));
    start_task(sandbox, &["--stdin", "pipe"], &format!("exec {line}"))
}

fn output_bytes(sandbox: &Sandbox, id: &str) -> Vec<u8> {
    let output = sandbox.state_dir().join("tasks").join(id).join("output");
    std::fs::read(output).unwrap_or_default()
}

#[test]
fn input_adds_a_newline_and_eof_closes_stdin() {
    let sandbox = sandbox();
    let id = start_echo(&sandbox);
    for args in [&["yes"][..], &["two", "words  kept"], &["--no-newline", "half a "], &["line"]] {
        let done = run_ok(&sandbox, &[&["input", &id], args].concat());
        assert_eq!((done.stdout_text(), done.stderr_text()), (String::new(), String::new()));
    }
    let text = b"yes\ntwo words  kept\nhalf a line\n";
    eventually("the task has read all input", || output_bytes(&sandbox, &id) == text);
    let view = run_ok(&sandbox, &["input", "--json", &id, "last", "--eof"]).json();
    assert_eq!(view, serde_json::json!({"task_id": id, "written_bytes": 5, "closed": true}));
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 4);
    assert_eq!(output_bytes(&sandbox, &id), [&text[..], b"last\n"].concat());
}

/// `--file` sends a file unchanged, even if the file is larger than a pipe's capacity.
#[test]
fn input_sends_a_file_unchanged() {
    let sandbox = sandbox();
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    write(&sandbox, "answers", &bytes);
    let id = start_echo(&sandbox);
    let view = run_ok(&sandbox, &["input", "--json", &id, "--file", "answers"]).json();
    assert_eq!((&view["written_bytes"], &view["closed"]), (&300_000.into(), &false.into()));
    let call = sandbox.siding(&["input", &id, "--file", "-", "--eof"]).stdin("from a pipe");
    let _done = call.run().expect_code(0);
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 4);
    assert!(output_bytes(&sandbox, &id) == [&bytes[..], b"from a pipe"].concat());
}

#[test]
fn input_to_a_task_that_cannot_read_is_rejected_with_the_reason() {
    let sandbox = sandbox();
    let dead = run_to_end(&sandbox, "true");
    let err = run_refused(&sandbox, &["input", &dead, "hi"]);
    assert!(err.contains(&format!("task {dead} has ended")), "{err}");
    assert!(err.contains(&format!("hint: `siding show {dead}`")), "{err}");
    let deaf = start_task(&sandbox, &[], HANG_COMMAND);
    let err = run_refused(&sandbox, &["input", &deaf, "hi"]);
    assert!(err.contains("/dev/null") && err.contains("`siding run --stdin pipe`"), "{err}");
    let closed = start_task(&sandbox, &["--stdin", "pipe"], HANG_COMMAND);
    let _closed = run_ok(&sandbox, &["input", &closed, "--eof"]);
    for args in [&["hi"][..], &["--eof"]] {
        let err = run_refused(&sandbox, &[&["input", &closed], args].concat());
        assert!(err.contains(&format!("the input of task {closed} is closed")), "{err}");
    }
    stop_all(&sandbox);
}

#[test]
fn an_invalid_input_call_writes_nothing() {
    let sandbox = sandbox();
    let id = start_echo(&sandbox);
    write(&sandbox, "file", "from the file");
    for (args, said) in [
        (&[][..], "required"),
        (&["text", "--file", "file"], "cannot be used with"),
        (&["--file", "missing"], "could not open `missing`"),
        (&["--file", "."], "could not read `.`"),
        (&["--eof", "--no-newline"], "required"),
    ] {
        let err = run_refused(&sandbox, &[&["input", &id], args].concat());
        assert!(err.contains(said), "{err}");
    }
    let _end = run_ok(&sandbox, &["input", &id, "--eof"]);
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 4);
    assert_eq!(output_bytes(&sandbox, &id), b"");
}
