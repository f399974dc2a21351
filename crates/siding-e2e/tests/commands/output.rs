//! `siding output`.

use siding_e2e::{Finished, Sandbox, eventually};

use crate::support::{
    ended, make_file, ok, outcome, refused, sandbox, shown, start, stop_all, until_file,
};

/// Output of which a choice can be made.
const LINES: &str = "for i in $(seq 1 20); do echo line $i; done; echo 'error: no such file'; \
                     for i in $(seq 21 40); do echo line $i; done";

#[track_caller]
fn output(sandbox: &Sandbox, id: &str, flags: &[&str]) -> Finished {
    ok(sandbox, &[&["output", id], flags].concat())
}

/// Waits until the task has written so many bytes.
#[track_caller]
fn until_bytes(sandbox: &Sandbox, id: &str, bytes: u64) {
    eventually("its output is there", || shown(sandbox, id)["output"]["bytes"] == bytes);
}

/// SPEC 1.5: a look shows what is new since the last one, and says so when nothing is.
#[test]
fn a_look_shows_what_is_new() {
    let sandbox = sandbox();
    let text = format!("echo one; {}; echo two; {}", until_file("go"), until_file("end"));
    let id = start(&sandbox, &[], &text);
    until_bytes(&sandbox, &id, 4);
    assert_eq!(output(&sandbox, &id, &[]).out(), "one\n");
    let nothing = output(&sandbox, &id, &[]);
    assert_eq!(nothing.out(), "");
    let said = format!("siding: nothing new from {id}, running for ");
    assert!(nothing.err().starts_with(&said), "{nothing}");
    assert_eq!(nothing.err().lines().count(), 1, "{nothing}");
    make_file(&sandbox, "go");
    until_bytes(&sandbox, &id, 8);
    assert_eq!(output(&sandbox, &id, &[]).out(), "two\n");
    assert_eq!(output(&sandbox, &id, &["--all"]).out(), "one\ntwo\n");
    make_file(&sandbox, "end");
    assert_eq!(outcome(&sandbox, &id)["code"], 0);
    let nothing = output(&sandbox, &id, &[]);
    assert_eq!(nothing.out(), "");
    assert!(nothing.err().contains("exited 0; --all shows everything again"), "{nothing}");
}

/// Two readers do not take each other's news, and a choice of lines is no look.
#[test]
fn looks_are_counted_for_each_session_and_choices_are_none() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "echo one; echo two");
    for flags in [&["--tail", "1"][..], &["--grep", "one"], &["--errors"], &["--raw"]] {
        let _choice = output(&sandbox, &id, flags);
    }
    let as_other = |flags: &[&str]| {
        let call = sandbox.siding(&[&["output", &id], flags].concat());
        call.env("SIDING_SESSION", "other").run().expect_code(0).out()
    };
    assert_eq!(output(&sandbox, &id, &[]).out(), "one\ntwo\n");
    assert_eq!(as_other(&[]), "one\ntwo\n");
    assert_eq!((output(&sandbox, &id, &[]).out(), as_other(&[])), (String::new(), String::new()));
}

#[test]
fn lines_are_chosen_from_the_end_by_an_expression_and_as_errors() {
    let sandbox = sandbox();
    let id = ended(&sandbox, LINES);
    assert_eq!(output(&sandbox, &id, &["--tail", "2"]).out(), "line 39\nline 40\n");
    let grep = output(&sandbox, &id, &["--grep", "line (7|38)$"]).out();
    assert!(grep.contains("line 7\n") && grep.ends_with("line 38\n"), "{grep}");
    assert!(!grep.contains("line 8\n") && !grep.contains("error"), "{grep}");
    let errors = output(&sandbox, &id, &["--errors"]).out();
    let around = "line 19\nline 20\nerror: no such file\nline 21\nline 22\n";
    assert!(errors.contains(around), "{errors}");
    assert!(!errors.contains("line 18\n") && !errors.contains("line 23\n"), "{errors}");
    let tail = output(&sandbox, &id, &["--tail", "5", "--grep", "3[79]"]).out();
    assert!(tail.contains("line 37\n") && tail.ends_with("line 39\n"), "{tail}");
    let none = output(&sandbox, &id, &["--grep", "nowhere"]);
    assert_eq!(none.out(), "");
    assert!(none.err().contains(&format!("no such line from {id}, exited 0")), "{none}");
}

/// Page by page, each saying where the next begins, comes everything and nothing twice.
#[test]
fn pages_join_to_the_whole() {
    let sandbox = sandbox();
    let id = ended(&sandbox, LINES);
    let whole = output(&sandbox, &id, &["--all", "--max-bytes", "none"]).out();
    let (mut joined, mut from, mut pages) = (String::new(), 0, 0);
    loop {
        let since = from.to_string();
        let flags = ["--since", &since, "--max-bytes", "100"];
        let words = output(&sandbox, &id, &flags);
        let page = output(&sandbox, &id, &[&flags[..], &["--json"]].concat()).json();
        let text = page["text"].as_str().expect("text");
        assert_eq!(page["from"], from);
        assert!(text.len() <= 100 && words.out().starts_with(text), "{words}");
        joined.push_str(text);
        from = page["next"].as_u64().expect("an offset");
        pages += 1;
        if page["truncated"] == false {
            break;
        }
        let said = format!("`siding output {id} --since {from}`");
        assert!(words.err().contains(&said), "{words}");
    }
    assert_eq!(joined, whole);
    assert!(pages >= 4, "{pages}");
}

#[test]
fn a_bound_keeps_the_beginning_and_the_end() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "seq 1 5000");
    let view = output(&sandbox, &id, &["--all", "--max-bytes", "1KiB", "--json"]).json();
    let text = view["text"].as_str().expect("text");
    assert_eq!(view["truncated"], true);
    assert!(text.starts_with("1\n2\n") && text.ends_with("4999\n5000\n"), "{text}");
    // The line that says what is left out comes on top.
    assert!(text.len() <= 1024 + 200, "{}", text.len());
    assert_eq!((&view["phase"], &view["outcome"]["code"]), (&"ended".into(), &0.into()));
    assert_eq!((&view["from"], &view["next"]), (&0.into(), &view["bytes"]));
    let call = sandbox.siding(&["output", &id, "--all"]).env("SIDING_OUTPUT_MAX_BYTES", "100");
    let out = call.run().expect_code(0).out();
    assert!(out.len() < 400 && out.ends_with("5000\n"), "{out}");
    assert_eq!(
        output(&sandbox, &id, &["--all", "--max-bytes", "none"]).out().lines().count(),
        5000
    );
}

#[test]
fn raw_is_exact() {
    let sandbox = sandbox();
    let bytes = b"\x00\xff\r10%\r20%\x1b[31mred\x1b[m\xc3 no newline";
    std::fs::write(sandbox.path("bytes"), bytes).expect("own directory");
    let id = ended(&sandbox, "cat bytes; cat bytes >&2");
    let whole = [&bytes[..], bytes].concat();
    let raw = output(&sandbox, &id, &["--raw"]);
    assert_eq!((&raw.stdout, raw.err()), (&whole, String::new()));
    assert_eq!(output(&sandbox, &id, &["--raw", "--since", "5"]).stdout, whole[5..]);
    assert_eq!(output(&sandbox, &id, &["--raw", "--follow"]).stdout, whole);
    let text = output(&sandbox, &id, &["--all"]).out();
    assert!(
        !text.contains('\u{1b}') && !text.contains('\r') && text.contains("20%red"),
        "{text:?}"
    );
}

/// What is followed comes as it is written, and its end ends the call.
#[test]
fn following_ends_with_the_task() {
    let sandbox = sandbox();
    let text = format!("echo one; {}; echo two; exit 3", until_file("go"));
    let id = start(&sandbox, &[], &text);
    let mut calls: Vec<_> = [&[][..], &["--raw"], &["--grep", "o"]]
        .map(|flags: &[&str]| {
            sandbox.siding(&[&["output", &id, "--follow"], flags].concat()).spawn()
        })
        .into();
    for call in &mut calls {
        let _so_far = call.until_out_has("one\n");
    }
    make_file(&sandbox, "go");
    for call in calls {
        let done = call.wait().expect_code(0);
        assert_eq!(done.out(), "one\ntwo\n", "{done}");
        assert!(done.err().contains(&format!("siding: {id}  exited 3 after ")), "{done}");
    }
    assert!(output(&sandbox, &id, &[]).err().contains("nothing new"), "the first was a look");
}

/// A reader who has seen enough is no failure.
#[test]
fn a_closed_pipe_is_no_failure() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "seq 1 200000");
    for flags in ["--raw", "--all --max-bytes none"] {
        let line = sandbox.siding_line(&["output", &id]);
        let text = format!("{line} {flags} | head -n1; exit ${{PIPESTATUS[0]}}");
        let done = sandbox.host("bash", &["-c", &text]).run().expect_code(0);
        assert_eq!((done.out().as_str(), done.err().as_str()), ("1\n", ""));
    }
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let sandbox = sandbox();
    let id = start(&sandbox, &[], crate::support::HANG);
    for (flags, said) in [
        (&["--raw", "--json"][..], "cannot be used with"),
        (&["--raw", "--grep", "x"], "cannot be used with"),
        (&["--all", "--since", "1"], "cannot be used with"),
        (&["--grep", "("], "unclosed group"),
        (&["--tail", "0"], "--tail"),
        (&["--max-bytes", "0"], "write `none` for no limit"),
        (&["--max-bytes", "many"], "many"),
    ] {
        let err = refused(&sandbox, &[&["output", &id], flags].concat());
        assert!(err.contains(said), "{err}");
    }
    stop_all(&sandbox);
}

/// A short text has no room for a line about what it lacks.
#[test]
fn a_text_that_is_cut_says_so_whatever_its_size() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "seq 1 500");
    for size in ["20", "64", "200", "319"] {
        let cut = output(&sandbox, &id, &["--all", "--max-bytes", size]);
        assert!(cut.out().len() <= size.parse().expect("a number"), "{cut}");
        assert!(cut.err().contains(&format!("cut to the last {size} bytes")), "{cut}");
        let chosen = output(&sandbox, &id, &["--grep", "[0-9]", "--max-bytes", size]);
        assert!(chosen.err().contains("cut to the last"), "{chosen}");
    }
    let marked = output(&sandbox, &id, &["--all", "--max-bytes", "400"]);
    assert!(!marked.err().contains("cut to") && marked.out().contains("--since"), "{marked}");
    let whole = output(&sandbox, &id, &["--all", "--max-bytes", "none"]);
    assert!(!whole.err().contains("cut to"), "{whole}");
}
