//! `siding input`.

use siding_e2e::{Sandbox, eventually, words};

use crate::support::{HANG, ended, ok, outcome, refused, sandbox, start, stop_all, write};

/// Starts a puppet that repeats what it reads.
#[track_caller]
fn echo(sandbox: &Sandbox) -> String {
    let line = sandbox.puppet_line(&words("--quiet read-stdin exit 4"));
    start(sandbox, &["--stdin", "pipe"], &format!("exec {line}"))
}

fn written(sandbox: &Sandbox, id: &str) -> Vec<u8> {
    let output = sandbox.state_dir().join("tasks").join(id).join("output");
    std::fs::read(output).unwrap_or_default()
}

#[test]
fn text_arrives_with_its_newline_and_the_end_ends_it() {
    let sandbox = sandbox();
    let id = echo(&sandbox);
    for args in [&["yes"][..], &["two", "words  kept"], &["--no-newline", "half a "], &["line"]] {
        let done = ok(&sandbox, &[&["input", &id], args].concat());
        assert_eq!((done.out(), done.err()), (String::new(), String::new()));
    }
    let text = b"yes\ntwo words  kept\nhalf a line\n";
    eventually("it has read all of it", || written(&sandbox, &id) == text);
    let view = ok(&sandbox, &["input", "--json", &id, "last", "--eof"]).json();
    assert_eq!(view, serde_json::json!({"task_id": id, "written_bytes": 5, "closed": true}));
    assert_eq!(outcome(&sandbox, &id)["code"], 4);
    assert_eq!(written(&sandbox, &id), [&text[..], b"last\n"].concat());
}

/// A file arrives as it is, also when it is longer than a pipe holds.
#[test]
fn a_file_arrives_as_it_is() {
    let sandbox = sandbox();
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    write(&sandbox, "answers", &bytes);
    let id = echo(&sandbox);
    let view = ok(&sandbox, &["input", "--json", &id, "--file", "answers"]).json();
    assert_eq!((&view["written_bytes"], &view["closed"]), (&300_000.into(), &false.into()));
    let call = sandbox.siding(&["input", &id, "--file", "-", "--eof"]).stdin("from a pipe");
    let _done = call.run().expect_code(0);
    assert_eq!(outcome(&sandbox, &id)["code"], 4);
    assert!(written(&sandbox, &id) == [&bytes[..], b"from a pipe"].concat());
}

#[test]
fn those_who_do_not_read_are_named_with_the_reason() {
    let sandbox = sandbox();
    let dead = ended(&sandbox, "true");
    let err = refused(&sandbox, &["input", &dead, "hi"]);
    assert!(err.contains(&format!("task {dead} has ended")), "{err}");
    assert!(err.contains(&format!("hint: `siding show {dead}`")), "{err}");
    let deaf = start(&sandbox, &[], HANG);
    let err = refused(&sandbox, &["input", &deaf, "hi"]);
    assert!(err.contains("/dev/null") && err.contains("`siding run --stdin pipe`"), "{err}");
    let closed = start(&sandbox, &["--stdin", "pipe"], HANG);
    let _closed = ok(&sandbox, &["input", &closed, "--eof"]);
    for args in [&["hi"][..], &["--eof"]] {
        let err = refused(&sandbox, &[&["input", &closed], args].concat());
        assert!(err.contains(&format!("the input of task {closed} is closed")), "{err}");
    }
    stop_all(&sandbox);
}

#[test]
fn a_call_without_sense_writes_nothing() {
    let sandbox = sandbox();
    let id = echo(&sandbox);
    write(&sandbox, "file", "from the file");
    for (args, said) in [
        (&[][..], "required"),
        (&["text", "--file", "file"], "cannot be used with"),
        (&["--file", "missing"], "could not open `missing`"),
        (&["--file", "."], "could not read `.`"),
        (&["--eof", "--no-newline"], "required"),
    ] {
        let err = refused(&sandbox, &[&["input", &id], args].concat());
        assert!(err.contains(said), "{err}");
    }
    let _end = ok(&sandbox, &["input", &id, "--eof"]);
    assert_eq!(outcome(&sandbox, &id)["code"], 4);
    assert_eq!(written(&sandbox, &id), b"");
}
