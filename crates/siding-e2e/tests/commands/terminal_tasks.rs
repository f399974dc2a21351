//! `siding wait` and `siding input` with a task that has a terminal.

use serde_json::{Value, json};
use siding_e2e::{Sandbox, Terminal, eventually};

use crate::support::{
    HANG_COMMAND, make_file, run_ok, run_refused, sandbox, show_task, start_task, stop_all,
    until_file_exists, wait_for_outcome,
};

/// A shell text that asks for a line with the echo turned off.
const ASK_FOR_SECRET: &str = "stty -echo; printf 'Password: '; read -r secret; stty echo; echo in";

/// Returns the notices about a task that have this kind.
#[track_caller]
fn notices_of_kind(sandbox: &Sandbox, id: &str, kind: &str) -> Vec<Value> {
    let all = run_ok(sandbox, &["notices", "--json"]).json();
    let all = all.as_array().expect("a list").iter();
    all.filter(|notice| notice["task_id"] == id && notice["kind"] == kind).cloned().collect()
}

/// Waits for a condition of a task's terminal.
#[track_caller]
fn wait_for(sandbox: &Sandbox, id: &str, condition: &str) -> Value {
    run_ok(sandbox, &["wait", "--json", "--timeout", "30s", id, "--for", condition]).json()
}

#[test]
fn a_wait_for_input_ends_when_the_program_reads_its_terminal() {
    let sandbox = sandbox();
    let text = format!("{}; read -r word; echo got $word; read -r word", until_file_exists("go"));
    let id = start_task(&sandbox, &["--pty"], &text);
    let args = ["wait", &id, "--for", "input", "--timeout", "300ms"];
    let done = sandbox.siding(&args).run().expect_code(124);
    let expected = "siding: no `input` within the bound of 300ms; the task continues\n";
    assert_eq!((done.stdout_text().as_str(), done.stderr_text().as_str()), ("", expected));
    make_file(&sandbox, "go");
    let done = run_ok(&sandbox, &["wait", &id, "--for", "input", "--timeout", "30s"]);
    assert_eq!(done.stdout_text(), format!("{id}  input\n"));
    let _typed = run_ok(&sandbox, &["input", &id, "hello"]);
    let view = wait_for(&sandbox, &id, "screen:^got hello$");
    assert_eq!((&view["satisfied"], &view["reason"]), (&true.into(), &"satisfied".into()));
    let hit = json!({"task_id": id, "condition": "screen:^got hello$", "detail": null});
    assert_eq!(view["by"], json!([hit]));
    assert_eq!(wait_for(&sandbox, &id, "idle")["satisfied"], true);
    stop_all(&sandbox);
    // The last screen can satisfy a condition, like the last output.
    assert_eq!(wait_for(&sandbox, &id, "screen:^got hello$")["satisfied"], true);
    let args = ["wait", "--json", &id, "--for", "screen:^never$"];
    let view = sandbox.siding(&args).run().expect_code(1).json();
    assert_eq!((&view["reason"], &view["by"][0]["condition"]), (&json!("ended"), &json!("exit")));
    assert_eq!(view["by"][0]["detail"]["kind"], "stopped", "{view}");
}

#[test]
fn a_wait_for_a_terminal_names_one_task_and_one_condition() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--pty"], HANG_COMMAND);
    let other = start_task(&sandbox, &[], HANG_COMMAND);
    for (args, said) in [
        (&[id.as_str(), "--for", "input", "--for", "exit"][..], "cannot be combined with another"),
        (&[&id, "--any", "--for", "idle", "--for", "input"], "cannot be combined with another"),
        (&[&id, &other, "--for", "screen:x"], "`screen:x` is about the terminal of one task; 2"),
        (&[&other, "--for", "idle"], "has no terminal"),
        (&[&id, "--for", "screen:("], "`(` is not a regular expression"),
        (&[&id, "--for", "inputs"], "of a task with a terminal also input, idle or screen:REGEX"),
    ] {
        let err = run_refused(&sandbox, &[&["wait"], args].concat());
        assert!(err.contains(said), "{args:?}: {err}");
    }
    let err = run_refused(&sandbox, &["run", "--pty", "--wait-for", "input", "--", "cat"]);
    assert!(err.contains("condition of `siding wait --for`"), "{err}");
    stop_all(&sandbox);
}

/// The output of a full-screen program is drawing, so a notice contains the rows of the screen.
#[test]
fn a_notice_about_a_full_screen_program_has_rows_of_its_screen() {
    let sandbox = sandbox();
    let text = r"printf '\033[?1049h\033[2J\033[3;5Hbelow\033[2;1Habove'; read -r key";
    let id = start_task(&sandbox, &["--pty"], text);
    let stalled = || notices_of_kind(&sandbox, &id, "stalled").pop();
    eventually("the shim has recorded that the task waits", || stalled().is_some());
    let notice = stalled().expect("it is recorded");
    let summary = notice["summary"].as_str().expect("a text");
    assert!(summary.starts_with("silent for "), "{notice}");
    assert!(summary.ends_with("\nabove\n    below"), "{notice}");
    stop_all(&sandbox);
}

/// The mode of the terminal, not the text of the prompt, identifies a prompt for a secret.
#[test]
fn a_notice_tells_a_person_to_answer_a_prompt_for_a_secret() {
    let sandbox = sandbox();
    let text = "stty -echo; printf 'Continue with? '; read -r secret; stty echo";
    let id = start_task(&sandbox, &["--pty"], text);
    let asks = || notices_of_kind(&sandbox, &id, "stalled").pop();
    eventually("the shim has recorded that the task waits", || asks().is_some());
    let notice = asks().expect("it is recorded");
    let summary = notice["summary"].as_str().expect("a text");
    assert!(summary.contains(&format!("`siding answer {id}`")), "{notice}");
    assert!(!summary.contains("siding keys"), "{notice}");
    let text = run_ok(&sandbox, &["notices"]).stdout_text();
    assert!(text.contains(&format!("`siding answer {id}`")), "{text}");
    stop_all(&sandbox);
}

/// A task that asks for a secret is distinguished from one that asks for a line, and an idle
/// full-screen program asks for nothing. `--for input` depends only on the reading process.
#[test]
fn the_kind_of_the_awaited_input_is_shown() {
    let sandbox = sandbox();
    let full_screen = "stty raw -echo; printf '\\033[?1049hfile'; exec cat";
    let cases = [
        ("read -rsp 'PIN: ' pin", "input_wait", "secret", "waits for a password"),
        ("read -rp 'name? ' name", "input_wait", "line", "waits for input"),
        (full_screen, "quiet", "keys", "idle, waits for keys"),
    ];
    for (text, verdict, awaited, phrase) in cases {
        let id = start_task(&sandbox, &["--pty"], text);
        let _reads = wait_for(&sandbox, &id, "input");
        let view = run_ok(&sandbox, &["why", "--json", &id]).json();
        let found = (&view["verdict"], &view["awaited_input"]);
        assert_eq!(found, (&json!(verdict), &json!(awaited)), "{view}");
        let shown = run_ok(&sandbox, &["why", &id]).stdout_text();
        assert!(shown.contains(phrase), "{shown}");
    }
    eventually("the stalls are recorded", || {
        run_ok(&sandbox, &["ps"]).stdout_text().contains("  password  ")
    });
    stop_all(&sandbox);
}

/// The agent receives one notice that a person has taken the terminal, and one that the terminal
/// was released.
#[test]
fn an_agent_is_told_who_has_the_terminal() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--pty"], "echo ready; cat");
    let _reads = wait_for(&sandbox, &id, "input");
    let mut terminal = Terminal::new(80, 24);
    let attached = sandbox.siding(&["attach", &id]).on_terminal(&terminal).spawn();
    // From now on, attach passes on the keys.
    terminal.wait_for_text("ready");
    terminal.send_keys("hello\r");
    terminal.wait_for_text("hello");
    let statuses = || -> Vec<Value> {
        let notices = notices_of_kind(&sandbox, &id, "terminal");
        notices.iter().map(|notice| notice["status"].clone()).collect()
    };
    eventually("the terminal is taken", || statuses() == ["terminal_taken"]);
    let err = run_refused(&sandbox, &["keys", &id, "x"]);
    assert!(err.contains("a person has had the terminal"), "{err}");
    assert_ne!(show_task(&sandbox, &id)["terminal"]["taken_since"], Value::Null);
    terminal.send_keys("\x1c\x1c");
    let _left = attached.wait().expect_code(0);
    eventually("the terminal is given back", || statuses() == ["terminal_returned"]);
    let notice = notices_of_kind(&sandbox, &id, "terminal").remove(0);
    let summary = notice["summary"].as_str().expect("a text");
    assert!(summary.contains(&format!("`siding screen {id}`")), "{notice}");
    assert!(summary.contains("hello"), "{notice}");
    assert_eq!(show_task(&sandbox, &id)["terminal"]["taken_since"], Value::Null);
    stop_all(&sandbox);
}

#[test]
fn show_describes_the_terminal_of_a_task() {
    let sandbox = sandbox();
    let text = format!("printf '\\033[?1049hfull'; {HANG_COMMAND}");
    let id = start_task(&sandbox, &["--pty", "--size", "100x30"], &text);
    let _drawn = wait_for(&sandbox, &id, "screen:^full$");
    let view = show_task(&sandbox, &id);
    let size = json!({"columns": 100, "rows": 30});
    let expected = json!({"size": size, "taken_since": null, "alternate": true});
    assert_eq!(view["terminal"], expected);
    let text = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(text.contains("terminal     100x30, a full-screen program; `siding attach"), "{text}");
    let list = run_ok(&sandbox, &["ps", "--json"]).json();
    assert_eq!(list[0]["terminal"]["alternate"], Value::Null, "{list}");
    stop_all(&sandbox);
    let text = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(text.contains(&format!("`siding screen {id}`")), "{text}");
    let pipes = start_task(&sandbox, &[], HANG_COMMAND);
    assert_eq!(show_task(&sandbox, &pipes)["terminal"], Value::Null);
    stop_all(&sandbox);
}

#[test]
fn input_types_into_a_terminal() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--pty"], "cat; echo ended");
    let _reads = wait_for(&sandbox, &id, "input");
    let _typed = run_ok(&sandbox, &["input", &id, "yes"]);
    // The first row is the echo, the second the output of cat.
    let _shown = wait_for(&sandbox, &id, r"screen:^yes\nyes$");
    // In the middle of a line, one Ctrl-D only delivers the line.
    let view = run_ok(&sandbox, &["input", "--json", &id, "--no-newline", "half", "--eof"]).json();
    assert_eq!(view, json!({"task_id": id, "written_bytes": 4, "closed": true}));
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 0);
    let _shown = wait_for(&sandbox, &id, "screen:^halfhalfended$");
}

#[test]
fn input_of_an_agent_never_answers_a_prompt_for_a_secret() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--pty"], ASK_FOR_SECRET);
    let _reads = wait_for(&sandbox, &id, "input");
    for args in [&["hunter2"][..], &["--eof"]] {
        let err = run_refused(&sandbox, &[&["input", &id], args].concat());
        assert!(err.contains("the program asks for a secret (`Password:`)"), "{err}");
        assert!(err.contains(&format!("`siding answer {id}`")), "{err}");
    }
    let screen = run_ok(&sandbox, &["screen", &id]).stdout_text();
    assert!(screen.starts_with("Password: ▮\n"), "{screen}");
    stop_all(&sandbox);
}
