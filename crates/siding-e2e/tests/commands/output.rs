//! `siding output`: new output, filters, pages and `--follow`.

use std::fs;

use siding_e2e::{ProgramOutput, Sandbox, Terminal, eventually};

use crate::support::{
    make_file, run_ok, run_refused, run_to_end, sandbox, show_task, start_task, stop_all,
    until_file_exists, wait_for_outcome,
};

/// A command that prints forty numbered lines and an error, from which the filters select.
const LINES_COMMAND: &str = "for i in $(seq 1 20); do echo line $i; done; echo 'error: no such file'; \
                     for i in $(seq 21 40); do echo line $i; done";

#[track_caller]
fn read_output(sandbox: &Sandbox, id: &str, flags: &[&str]) -> ProgramOutput {
    run_ok(sandbox, &[&["output", id], flags].concat())
}

/// Waits until the task has written this many bytes.
#[track_caller]
fn wait_for_output_bytes(sandbox: &Sandbox, id: &str, bytes: u64) {
    eventually("the output is stored", || show_task(sandbox, id)["output"]["bytes"] == bytes);
}

/// Promise P27: a call shows the output since the previous call, and reports when there is no new
/// output.
#[test]
fn output_shows_only_what_is_new_since_the_last_read() {
    let sandbox = sandbox();
    let text =
        format!("echo one; {}; echo two; {}", until_file_exists("go"), until_file_exists("end"));
    let id = start_task(&sandbox, &[], &text);
    wait_for_output_bytes(&sandbox, &id, 4);
    assert_eq!(read_output(&sandbox, &id, &[]).stdout_text(), "one\n");
    let nothing = read_output(&sandbox, &id, &[]);
    assert_eq!(nothing.stdout_text(), "");
    let expected = format!("siding: nothing new from {id}, running for ");
    assert!(nothing.stderr_text().starts_with(&expected), "{nothing}");
    assert_eq!(nothing.stderr_text().lines().count(), 1, "{nothing}");
    make_file(&sandbox, "go");
    wait_for_output_bytes(&sandbox, &id, 8);
    assert_eq!(read_output(&sandbox, &id, &[]).stdout_text(), "two\n");
    assert_eq!(read_output(&sandbox, &id, &["--all"]).stdout_text(), "one\ntwo\n");
    make_file(&sandbox, "end");
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 0);
    let nothing = read_output(&sandbox, &id, &[]);
    assert_eq!(nothing.stdout_text(), "");
    assert!(nothing.stderr_text().contains("exited 0; --all shows everything again"), "{nothing}");
}

/// Promise P27: two sessions have separate read cursors, and a filtered or raw read moves neither.
#[test]
fn each_session_has_its_own_read_cursor_and_filters_do_not_move_it() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "echo one; echo two");
    for flags in [&["--tail", "1"][..], &["--grep", "one"], &["--errors"], &["--raw"]] {
        let _choice = read_output(&sandbox, &id, flags);
    }
    let as_other = |flags: &[&str]| {
        let call = sandbox.siding(&[&["output", &id], flags].concat());
        call.env("SIDING_SESSION", "other").run().expect_code(0).stdout_text()
    };
    assert_eq!(read_output(&sandbox, &id, &[]).stdout_text(), "one\ntwo\n");
    assert_eq!(as_other(&[]), "one\ntwo\n");
    assert_eq!(
        (read_output(&sandbox, &id, &[]).stdout_text(), as_other(&[])),
        (String::new(), String::new())
    );
}

#[test]
fn tail_grep_and_errors_select_lines() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, LINES_COMMAND);
    assert_eq!(read_output(&sandbox, &id, &["--tail", "2"]).stdout_text(), "line 39\nline 40\n");
    let grep = read_output(&sandbox, &id, &["--grep", "line (7|38)$"]).stdout_text();
    assert!(grep.contains("line 7\n") && grep.ends_with("line 38\n"), "{grep}");
    assert!(!grep.contains("line 8\n") && !grep.contains("error"), "{grep}");
    let errors = read_output(&sandbox, &id, &["--errors"]).stdout_text();
    let around = "line 19\nline 20\nerror: no such file\nline 21\nline 22\n";
    assert!(errors.contains(around), "{errors}");
    assert!(!errors.contains("line 18\n") && !errors.contains("line 23\n"), "{errors}");
    let tail = read_output(&sandbox, &id, &["--tail", "5", "--grep", "3[79]"]).stdout_text();
    assert!(tail.contains("line 37\n") && tail.ends_with("line 39\n"), "{tail}");
    let none = read_output(&sandbox, &id, &["--grep", "nowhere"]);
    assert_eq!(none.stdout_text(), "");
    assert!(none.stderr_text().contains(&format!("no such line from {id}, exited 0")), "{none}");
}

/// Promise P27: the pages together contain the whole output if each page is read with `--since` and
/// the offset that the previous page returned.
#[test]
fn pages_read_with_since_join_to_the_whole_output() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, LINES_COMMAND);
    let whole = read_output(&sandbox, &id, &["--all", "--max-bytes", "none"]).stdout_text();
    let (mut joined, mut from, mut pages) = (String::new(), 0, 0);
    loop {
        let since = from.to_string();
        let flags = ["--since", &since, "--max-bytes", "100"];
        let words = read_output(&sandbox, &id, &flags);
        let page = read_output(&sandbox, &id, &[&flags[..], &["--json"]].concat()).json();
        let text = page["text"].as_str().expect("text");
        assert_eq!(page["from"], from);
        assert!(text.len() <= 100 && words.stdout_text().starts_with(text), "{words}");
        joined.push_str(text);
        from = page["next"].as_u64().expect("an offset");
        pages += 1;
        if page["truncated"] == false {
            break;
        }
        let expected = format!("`siding output {id} --since {from}`");
        assert!(words.stderr_text().contains(&expected), "{words}");
    }
    assert_eq!(joined, whole);
    assert!(pages >= 4, "{pages}");
}

/// Promise P28: `--all` at a terminal without an agent prints every byte that is kept, and then how
/// the task ended. For an agent, `--all` prints readable text within the size limit.
#[test]
fn all_is_every_byte_for_a_person_and_cut_text_for_an_agent() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "printf '10%%\\r20%%\\n'; seq 1 20000; printf end");
    let mut terminal = Terminal::new(80, 24);
    let target = sandbox.path("all");
    let read_all = |flags: &[&str], agent: &str| {
        let file = fs::File::create(&target).expect("test directory");
        let call = sandbox.siding(&[&["output", &id, "--all"], flags].concat());
        let call = call.env("CLAUDECODE", agent).on_terminal(&terminal).stdout_to(file);
        let _done = call.run().expect_code(0);
        fs::read(&target).expect("the file was written")
    };
    let exact = read_output(&sandbox, &id, &["--raw"]).stdout;
    assert!(exact.starts_with(b"10%\r20%\n1\n2\n") && exact.ends_with(b"20000\nend"));
    assert_eq!(read_all(&[], ""), exact);
    assert_eq!(read_all(&["--follow"], ""), exact);
    let matching = read_all(&["--grep", "^[0-9]+$"], "");
    assert_eq!(matching.iter().filter(|byte| **byte == b'\n').count(), 20_000);
    let cut = read_all(&[], "1");
    assert!(cut.starts_with(b"20%\n") && cut.len() < 40 << 10, "{} bytes", cut.len());
    terminal.wait_for_text(&format!("siding: {id} exited 0 after "));
}

#[test]
fn max_bytes_keeps_the_beginning_and_the_end() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "seq 1 5000");
    let view = read_output(&sandbox, &id, &["--all", "--max-bytes", "1KiB", "--json"]).json();
    let text = view["text"].as_str().expect("text");
    assert_eq!(view["truncated"], true);
    assert!(text.starts_with("1\n2\n") && text.ends_with("4999\n5000\n"), "{text}");
    // This bound is looser than the limit, which includes the line about omitted output.
    assert!(text.len() <= 1024 + 200, "{}", text.len());
    assert_eq!((&view["phase"], &view["outcome"]["code"]), (&"ended".into(), &0.into()));
    assert_eq!((&view["from"], &view["next"]), (&0.into(), &view["bytes"]));
    let call = sandbox.siding(&["output", &id, "--all"]).env("SIDING_OUTPUT_MAX_BYTES", "100");
    let out = call.run().expect_code(0).stdout_text();
    assert!(out.len() < 400 && out.ends_with("5000\n"), "{out}");
    assert_eq!(
        read_output(&sandbox, &id, &["--all", "--max-bytes", "none"]).stdout_text().lines().count(),
        5000
    );
}

#[test]
fn raw_output_is_byte_exact() {
    let sandbox = sandbox();
    let bytes = b"\x00\xff\r10%\r20%\x1b[31mred\x1b[m\xc3 no newline";
    std::fs::write(sandbox.path("bytes"), bytes).expect("test directory");
    let id = run_to_end(&sandbox, "cat bytes; cat bytes >&2");
    let whole = [&bytes[..], bytes].concat();
    let raw = read_output(&sandbox, &id, &["--raw"]);
    assert_eq!((&raw.stdout, raw.stderr_text()), (&whole, String::new()));
    assert_eq!(read_output(&sandbox, &id, &["--raw", "--since", "5"]).stdout, whole[5..]);
    assert_eq!(read_output(&sandbox, &id, &["--raw", "--follow"]).stdout, whole);
    let text = read_output(&sandbox, &id, &["--all"]).stdout_text();
    assert!(
        !text.contains('\u{1b}') && !text.contains('\r') && text.contains("20%red"),
        "{text:?}"
    );
}

/// `--follow` prints output as the task writes it, and ends with the task.
#[test]
fn follow_ends_with_the_task() {
    let sandbox = sandbox();
    let text = format!("echo one; {}; echo two; exit 3", until_file_exists("go"));
    let id = start_task(&sandbox, &[], &text);
    let mut calls: Vec<_> = [&[][..], &["--raw"], &["--grep", "o"]]
        .map(|flags: &[&str]| {
            sandbox.siding(&[&["output", &id, "--follow"], flags].concat()).spawn()
        })
        .into();
    for call in &mut calls {
        let _so_far = call.wait_for_stdout("one\n");
    }
    make_file(&sandbox, "go");
    for call in calls {
        let done = call.wait().expect_code(0);
        assert_eq!(done.stdout_text(), "one\ntwo\n", "{done}");
        assert!(done.stderr_text().contains(&format!("siding: {id}  exited 3 after ")), "{done}");
    }
    assert!(
        read_output(&sandbox, &id, &[]).stderr_text().contains("nothing new"),
        "the first call must move the read cursor"
    );
}

/// If the reader closes the pipe early, `siding output` exits with 0 and without a message.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "seq 1 200000");
    for flags in ["--raw", "--all --max-bytes none"] {
        let line = sandbox.siding_line(&["output", &id]);
        let text = format!("{line} {flags} | head -n1; exit ${{PIPESTATUS[0]}}");
        let done = sandbox.host("bash", &["-c", &text]).run().expect_code(0);
        assert_eq!((done.stdout_text().as_str(), done.stderr_text().as_str()), ("1\n", ""));
    }
}

#[test]
fn conflicting_or_invalid_output_flags_are_rejected() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], crate::support::HANG_COMMAND);
    for (flags, expected) in [
        (&["--raw", "--json"][..], "cannot be used with"),
        (&["--raw", "--grep", "x"], "cannot be used with"),
        (&["--all", "--since", "1"], "cannot be used with"),
        (&["--grep", "("], "unclosed group"),
        (&["--tail", "0"], "--tail"),
        (&["--max-bytes", "0"], "use `none` for no limit"),
        (&["--max-bytes", "many"], "many"),
    ] {
        let err = run_refused(&sandbox, &[&["output", &id], flags].concat());
        assert!(err.contains(expected), "{err}");
    }
    stop_all(&sandbox);
}

/// `siding output` always reports that it has omitted output, on stderr if `--max-bytes` leaves no
/// room for the report on stdout.
#[test]
fn truncated_output_says_so_at_every_size() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "seq 1 500");
    for size in ["20", "64", "200", "319"] {
        let cut = read_output(&sandbox, &id, &["--all", "--max-bytes", size]);
        assert!(cut.stdout_text().len() <= size.parse().expect("a number"), "{cut}");
        assert!(cut.stderr_text().contains(&format!("cut to the last {size} bytes")), "{cut}");
        let chosen = read_output(&sandbox, &id, &["--grep", "[0-9]", "--max-bytes", size]);
        assert!(chosen.stderr_text().contains("cut to the last"), "{chosen}");
    }
    let marked = read_output(&sandbox, &id, &["--all", "--max-bytes", "400"]);
    assert!(
        !marked.stderr_text().contains("cut to") && marked.stdout_text().contains("--since"),
        "{marked}"
    );
    let whole = read_output(&sandbox, &id, &["--all", "--max-bytes", "none"]);
    assert!(!whole.stderr_text().contains("cut to"), "{whole}");
}
