//! Programs in a terminal, driven with the tools `run`, `keys` and `screen`.

use serde_json::json;
use siding_e2e::{Terminal, eventually, eventually_some};

use crate::client::{Client, ToolAnswer, sandbox};

/// Returns the hash in the last line of a screen.
#[track_caller]
fn hash_of(answer: &ToolAnswer) -> String {
    let (_, after) = answer.output.rsplit_once("hash ").expect("the screen has a hash");
    after.chars().take_while(char::is_ascii_hexdigit).collect()
}

/// Starts a command in a terminal, which must wait for input. Returns the answer and the id.
#[track_caller]
fn start_in_terminal(client: &mut Client, command: &str) -> (ToolAnswer, String) {
    let answer = client.call("run", json!({ "command": command, "pty": true, "budget": 30 }));
    assert!(!answer.is_error, "{answer:?}");
    let id = answer.task_id();
    (answer, id)
}

#[test]
fn keys_answer_each_question_in_one_call() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let command = "read -p 'name? ' name; read -p 'age? ' age; echo \"$name is $age\"";
    let (asked, id) = start_in_terminal(&mut client, command);
    assert!(asked.message.ends_with("it waits for a line; `keys` types"), "{asked:?}");
    assert!(asked.output.starts_with("name? ▮\n"), "{asked:?}");
    let answer = client.call("keys", json!({ "id": id, "keys": ["Ada", "Enter"] }));
    assert_eq!(answer.message, "it waits for a line", "{answer:?}");
    assert_eq!(answer.output, "…\nage? ▮\n", "the echo and what was seen are not repeated");

    let hash = hash_of(&client.call("screen", json!({ "id": id })));
    let same = client.call("screen", json!({ "id": id, "since_hash": hash }));
    assert_eq!((&*same.message, &*same.output), ("unchanged\nit waits for a line", ""));
    let stale = hash_of(&asked);
    let refused = client.call("keys", json!({ "id": id, "keys": ["x"], "if_screen": stale }));
    assert!(refused.is_error && refused.message.contains(&hash), "{refused:?}");
    assert!(refused.output.contains("age? ▮"), "nothing was typed: {refused:?}");

    let no_hash = json!({ "id": id, "keys": ["x"], "if_screen": "unchanged" });
    let refused = client.call("keys", no_hash);
    assert!(refused.is_error && refused.message.contains("is not the hash of a screen"));

    let first_digits = json!({ "id": id, "keys": ["36", "Enter"], "if_screen": hash });
    let last = client.call("keys", first_digits);
    assert!(last.message.contains("exited 0"), "{last:?}");
    assert!(last.output.contains("Ada is 36"), "{last:?}");
    let screen = client.call("screen", json!({ "id": id }));
    assert!(screen.message.contains("exited 0") && screen.output.contains("Ada is 36"));
    let refused = client.call("keys", json!({ "id": id, "keys": ["x"] }));
    assert!(refused.is_error && refused.message.contains("read its output with `output`"));
    client.shutdown();
}

#[test]
fn only_a_person_types_a_secret() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let command = "read -s -p 'Password: ' word; echo; sleep 300";
    let (asked, id) = start_in_terminal(&mut client, command);
    let advice = format!("run `siding answer {id}`");
    assert!(asked.message.contains(&advice), "{asked:?}");
    let refused = client.call("keys", json!({ "id": id, "keys": ["hunter2", "Enter"] }));
    assert!(refused.is_error && refused.message.contains(&advice), "{refused:?}");
    assert!(refused.message.contains("(`Password:`)"), "{refused:?}");
    let screen = client.call("screen", json!({ "id": id }));
    assert!(screen.message.contains(&advice) && !screen.output.contains("hunter2"), "{screen:?}");
    let _stopped = client.call("stop", json!({ "ids": [id], "grace": 0 }));
    client.shutdown();
}

/// The screen in an answer shows what a person has typed, so no notice about it is added.
#[test]
fn an_answer_with_the_screen_covers_the_notice_of_a_person() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let command = "read -s -p 'Password: ' word; echo; read -p 'go on? ' answer; sleep 300";
    let (_asked, id) = start_in_terminal(&mut client, command);
    let mut terminal = Terminal::new(80, 24);
    let person = sandbox.siding(&["answer", &id]).on_terminal(&terminal).spawn();
    terminal.wait_for_text("Password:");
    terminal.send_keys("hunter2\r");
    assert_eq!(person.wait().code, Some(0));
    eventually("the person's keys are recorded", || {
        let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
        std::fs::read_to_string(journal).unwrap_or_default().contains("returned")
    });
    let go_on = json!({ "id": id, "wait_for": "screen:go on", "timeout": 30 });
    let answer = client.call("keys", go_on);
    assert!(answer.output.contains("go on? ▮"), "{answer:?}");
    let screen = client.call("screen", json!({ "id": id }));
    assert_eq!((&*answer.notices, &*screen.notices), ("", ""), "{answer:?} {screen:?}");
    let _stopped = client.call("stop", json!({ "ids": [id], "grace": 0 }));
    client.shutdown();
}

/// A step of a long dialog costs only the rows that have changed since the last answer.
#[test]
fn an_interpreter_is_driven_by_its_changes() {
    let sandbox = sandbox();
    if sandbox.host("/usr/bin/python3", &["-c", ""]).run().code != Some(0) {
        println!("left out: no python3");
        return;
    }
    let mut client = Client::connect_initialized(&sandbox);
    let (asked, id) = start_in_terminal(&mut client, "exec /usr/bin/python3 -q");
    assert!(asked.output.starts_with(">>> ▮"), "{asked:?}");
    let type_line = |client: &mut Client, line: &str| {
        let answer = client.call("keys", json!({ "id": id, "keys": [line, "Enter"] }));
        assert!(answer.message.starts_with("it waits for "), "{answer:?}");
        assert!(answer.output.contains(">>> ▮\n"), "{answer:?}");
        answer.output
    };
    assert!(type_line(&mut client, "1 + 1").contains("\n2\n"));
    assert!(type_line(&mut client, "6 * 7").contains("42\n"));
    let third = type_line(&mut client, "'a' * 3");
    assert_eq!(third, "…\n'aaa'\n>>> ▮\n");
    let interrupted =
        json!({ "id": id, "keys": ["while True: pass", "Enter", "Enter"], "timeout": 1 });
    let busy = client.call("keys", interrupted);
    assert!(busy.message.starts_with("not yet (input) after 1s\n"), "{busy:?}");
    let answer = client.call("keys", json!({ "id": id, "keys": "C-c" }));
    assert!(answer.output.contains("KeyboardInterrupt"), "{answer:?}");
    let ended = client.call("keys", json!({ "id": id, "keys": ["exit()", "Enter"] }));
    assert!(ended.message.contains("exited 0"), "{ended:?}");
    client.shutdown();
}

/// A short name in place of the id makes each step of a dialog shorter.
#[test]
fn a_task_is_driven_by_its_name() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let command = "read -p 'name? ' name; read -p 'age? ' age; sleep 300";
    let run = json!({ "command": command, "pty": true, "name": "ask", "budget": 30 });
    let asked = client.call("run", run);
    assert!(asked.output.starts_with("name? ▮\n"), "{asked:?}");
    let answer = client.call("keys", json!({ "id": "ask", "keys": ["Ada", "Enter"] }));
    assert_eq!(answer.output, "…\nage? ▮\n", "{answer:?}");
    let _stopped = client.call("stop", json!({ "ids": ["ask"], "grace": 0 }));
    let refused = client.call("run", json!({ "command": "true", "name": "@ask" }));
    assert!(refused.is_error && refused.message.contains("`name`: `@ask` cannot name a task"));
    client.shutdown();
}

/// `last` names the screen of the last answer, so a model needs no hash to answer only what it saw.
#[test]
fn keys_for_the_last_shown_screen_are_refused_after_a_change() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let command = "read -p 'first? ' a; read -p 'second? ' b; echo \"a=$a b=$b\"";
    let background = json!({ "command": command, "pty": true, "background": true });
    let id = client.call("run", background).task_id();
    let _waited = client.call("keys", json!({ "id": id, "wait_for": "screen:first" }));
    let asked = client.call("screen", json!({ "id": id }));
    assert!(asked.output.contains("first? ▮"), "{asked:?}");
    let other = sandbox.siding(&["keys", &id, "one", "Enter", "--wait-for", "screen:second"]);
    let _typed = other.run().expect_code(0);
    let late = json!({ "id": id, "keys": ["wrong", "Enter"], "if_screen": "last" });
    let refused = client.call("keys", late);
    assert!(refused.is_error && refused.output.contains("second? ▮"), "{refused:?}");
    let answer = json!({ "id": id, "keys": ["two", "Enter"], "if_screen": "last" });
    let ended = client.call("keys", answer);
    assert!(ended.output.contains("a=one b=two"), "{ended:?}");
    client.shutdown();
}

#[test]
fn the_other_tools_point_to_the_screen() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let command = "printf '\\033[?1049hmenu'; stty size; read answer; sleep 300";
    let run = json!({ "command": command, "pty": true, "size": "100x30", "budget": 30 });
    let asked = client.call("run", run);
    let id = asked.task_id();
    assert!(asked.output.contains("menu30 100") && asked.output.contains("alternate screen"));
    let output = client.call("output", json!({ "id": id }));
    assert!(output.message.contains("`screen` shows it better"), "{output:?}");
    let input = client.call("input", json!({ "id": id, "text": "yes" }));
    assert!(input.is_error && input.message.contains("`keys`"), "{input:?}");
    let why = eventually_some("siding sees the reader", || {
        let why = client.call("why", json!({ "id": id }));
        why.message.contains("waits for input").then_some(why)
    });
    assert!(why.message.contains("siding keys"), "{why:?}");
    let _stopped = client.call("stop", json!({ "ids": [id], "grace": 0 }));
    client.shutdown();
}

#[test]
fn wrong_arguments_about_terminals_name_the_next_step() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    for (arguments, part) in [
        (json!({ "command": "true", "size": "80x24" }), "set `pty` as well"),
        (json!({ "command": "true", "pty": true, "size": "80" }), "`size`: `80` is not"),
        (json!({ "command": "true", "pty": true, "stdin": true }), "omit it, and use `keys`"),
    ] {
        let answer = client.call("run", arguments);
        assert!(answer.is_error && answer.message.contains(part), "{answer:?}");
    }
    assert!(sandbox.task_ids().is_empty());
    let id = client.start_background_task("sleep 300");
    let answer = client.call("keys", json!({ "id": id, "keys": ["y"] }));
    assert!(answer.is_error && answer.message.contains("with `run` and `pty`"), "{answer:?}");
    let answer = client.call("screen", json!({ "id": id }));
    assert!(answer.is_error && answer.message.contains("`run` with `pty`"), "{answer:?}");
    let answer = client.call("keys", json!({ "id": id, "keys": ["Ctrl-C"] }));
    assert!(answer.is_error && answer.message.contains("`C-c`"), "{answer:?}");
    let answer = client.call("keys", json!({ "id": id, "wait_for": "exit" }));
    assert!(answer.is_error && answer.message.contains("`screen:REGEX`"), "{answer:?}");
    let _stopped = client.call("stop", json!({ "ids": [id] }));
    client.shutdown();
}

/// The terminal of an adopted command was opened by its host, so the tools cannot use it.
#[test]
fn a_terminal_that_siding_has_not_opened_is_refused_with_the_reason() {
    let sandbox = sandbox();
    let terminal = Terminal::new(80, 24);
    let shell = sandbox.host("bash", &["-c", "read -r _"]).on_terminal(&terminal).spawn();
    let pid = shell.process().pid.to_string();
    let adopt = sandbox.siding(&["adopt", "--json", &pid]).env("SIDING_ADOPT_KEEP_AFTER", "0s");
    let view = adopt.run().expect_code(0).json();
    let id = view["task_id"].as_str().expect("a task id").to_owned();
    eventually("the task is recorded", || sandbox.task_ids().contains(&id));
    let mut client = Client::connect_initialized(&sandbox);
    for (tool, args) in [
        ("screen", json!({ "id": id })),
        ("keys", json!({ "id": id, "keys": ["x"] })),
        ("input", json!({ "id": id, "text": "x" })),
    ] {
        let refused = client.call(tool, args);
        assert!(refused.is_error, "{tool}: {refused:?}");
        for part in ["a terminal that siding has not opened", "`why` says", "`run` with `pty`"] {
            assert!(refused.message.contains(part), "{tool}: {refused:?}");
        }
    }
    client.shutdown();
    terminal.send_keys("\r");
    let _ended = shell.wait();
}
