//! `siding ps`.

use siding_e2e::words;

use crate::support::{HANG, ended, ids, ok, sandbox, start, stop_all};

#[test]
fn what_runs_comes_first_then_what_ended_last() {
    let sandbox = sandbox();
    let nothing = ok(&sandbox, &["ps"]);
    assert_eq!(nothing.out(), "");
    assert!(nothing.err().contains("no tasks; `siding run -- COMMAND` starts one"), "{nothing}");
    let first = ended(&sandbox, "exit 3");
    let running = start(&sandbox, &["--name", "web"], HANG);
    let second = ended(&sandbox, "echo four");
    let text = ok(&sandbox, &["ps"]).out();
    let rows: Vec<String> =
        text.lines().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows.len(), 4, "{text}");
    assert_eq!(rows[0], "ID STATE ELAPSED OUTPUT COMMAND");
    for (row, id, state, rest) in [
        (&rows[1], &running, "running", "0B [web] sleep 300"),
        (&rows[2], &second, "exited 0", "5B echo four"),
        (&rows[3], &first, "exited 3", "0B exit 3"),
    ] {
        assert!(row.starts_with(&format!("{id} {state} ")) && row.ends_with(rest), "{text}");
    }
    let list = ok(&sandbox, &["ps", "--json"]).json();
    assert_eq!(ids(&list), [running.clone(), second, first]);
    assert_eq!(ids(&ok(&sandbox, &["ps", "--json", "--running"]).json()), [running]);
    stop_all(&sandbox);
}

/// SPEC 2: the list is that of `show`, without the text of the output.
#[test]
fn json_has_no_output_text() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "echo hello");
    let list = ok(&sandbox, &["ps", "--json"]).json();
    let shown = ok(&sandbox, &["show", "--json", &id]).json();
    let keys = |view: &serde_json::Value| -> Vec<String> {
        view.as_object().expect("an object").keys().cloned().collect()
    };
    assert!(list[0]["output"]["text"].is_null(), "{list}");
    assert_eq!(list[0]["output"]["bytes"], 6);
    for key in keys(&list[0]) {
        assert!(shown.get(&key).is_some(), "{key} is not shown");
    }
    assert_eq!(list[0]["outcome"], shown["outcome"]);
    assert_eq!(ok(&sandbox, &["ps", "--json", "--running"]).out(), "[]\n");
}

#[test]
fn of_many_that_ended_the_last_are_shown_and_the_others_counted() {
    let sandbox = sandbox();
    let runs: Vec<_> = (0..12)
        .map(|number| sandbox.siding(&["run", "--", &format!("exit {number}")]).spawn())
        .collect();
    for (number, run) in runs.into_iter().enumerate() {
        let _done = run.wait().expect_code(number as i32);
    }
    let last = ended(&sandbox, "echo last");
    let short = ok(&sandbox, &["ps"]);
    assert_eq!(short.out().lines().count(), 1 + 10, "{short}");
    assert!(short.out().lines().nth(1).is_some_and(|row| row.starts_with(&last)), "{short}");
    assert!(short.err().contains("3 more have ended; --all lists them"), "{short}");
    let all = ok(&sandbox, &["ps", "--all"]);
    assert_eq!((all.out().lines().count(), all.err()), (1 + 13, String::new()));
}

#[test]
fn sessions_and_ports_have_columns_where_there_are_any() {
    let sandbox = sandbox();
    let free = start(&sandbox, &[], HANG);
    let owner = sandbox.puppet(&words("--quiet hang")).spawn();
    let pid = owner.process().pid.to_string();
    let _open = ok(&sandbox, &["session", "open", "chat", "--owner-pid", &pid]);
    let line = sandbox.puppet_line(&words("--quiet listen port mark bound hang"));
    let listener = start(&sandbox, &["--session", "chat"], &line);
    let _bound = sandbox.marked("bound");
    let port = std::fs::read_to_string(sandbox.path("port")).expect("it listens");
    let text = ok(&sandbox, &["ps"]).out();
    let header: Vec<_> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["ID", "STATE", "ELAPSED", "SESSION", "PORTS", "OUTPUT", "COMMAND"]);
    let row = text.lines().find(|row| row.starts_with(&listener)).unwrap_or_default();
    assert!(row.contains(" chat ") && row.contains(&format!(" {} ", port.trim())), "{text}");
    let chat = ok(&sandbox, &["ps", "--session", "chat"]).out();
    assert!(chat.contains(&listener) && !chat.contains(&free), "{chat}");
    stop_all(&sandbox);
}
