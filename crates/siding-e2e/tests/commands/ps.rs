//! Order, columns and JSON of `siding ps`.

use siding_e2e::words;

use crate::support::{HANG_COMMAND, run_ok, run_to_end, sandbox, start_task, stop_all, task_ids};

#[test]
fn ps_lists_running_tasks_first_and_then_the_latest_ended() {
    let sandbox = sandbox();
    let nothing = run_ok(&sandbox, &["ps"]);
    assert_eq!(nothing.stdout_text(), "");
    assert!(
        nothing.stderr_text().contains("no tasks; `siding run -- COMMAND` starts one"),
        "{nothing}"
    );
    let first = run_to_end(&sandbox, "exit 3");
    let running = start_task(&sandbox, &["--name", "web"], HANG_COMMAND);
    let second = run_to_end(&sandbox, "echo four");
    let text = run_ok(&sandbox, &["ps"]).stdout_text();
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
    let list = run_ok(&sandbox, &["ps", "--json"]).json();
    assert_eq!(task_ids(&list), [running.clone(), second, first]);
    assert_eq!(task_ids(&run_ok(&sandbox, &["ps", "--json", "--running"]).json()), [running]);
    stop_all(&sandbox);
}

/// `show --json` has every field of an entry of `ps --json`. The entry has no output text.
#[test]
fn ps_json_has_no_output_text() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "echo hello");
    let list = run_ok(&sandbox, &["ps", "--json"]).json();
    let shown = run_ok(&sandbox, &["show", "--json", &id]).json();
    let keys = |view: &serde_json::Value| -> Vec<String> {
        view.as_object().expect("an object").keys().cloned().collect()
    };
    assert!(list[0]["output"]["text"].is_null(), "{list}");
    assert_eq!(list[0]["output"]["bytes"], 6);
    for key in keys(&list[0]) {
        assert!(shown.get(&key).is_some(), "{key} is not shown");
    }
    assert_eq!(list[0]["outcome"], shown["outcome"]);
    assert_eq!(run_ok(&sandbox, &["ps", "--json", "--running"]).stdout_text(), "[]\n");
}

#[test]
fn ps_shows_the_latest_ended_tasks_and_counts_the_others() {
    let sandbox = sandbox();
    let runs: Vec<_> = (0..12)
        .map(|number| sandbox.siding(&["run", "--", &format!("exit {number}")]).spawn())
        .collect();
    for (number, run) in runs.into_iter().enumerate() {
        let _done = run.wait().expect_code(number as i32);
    }
    let last = run_to_end(&sandbox, "echo last");
    let short = run_ok(&sandbox, &["ps"]);
    assert_eq!(short.stdout_text().lines().count(), 1 + 10, "{short}");
    assert!(
        short.stdout_text().lines().nth(1).is_some_and(|row| row.starts_with(&last)),
        "{short}"
    );
    assert!(short.stderr_text().contains("3 more have ended; --all lists them"), "{short}");
    let all = run_ok(&sandbox, &["ps", "--all"]);
    assert_eq!((all.stdout_text().lines().count(), all.stderr_text()), (1 + 13, String::new()));
}

#[test]
fn ps_has_session_and_port_columns_only_when_needed() {
    let sandbox = sandbox();
    let free = start_task(&sandbox, &[], HANG_COMMAND);
    let owner = sandbox.puppet(&words("--quiet hang")).spawn();
    let pid = owner.process().pid.to_string();
    let _open = run_ok(&sandbox, &["session", "open", "chat", "--owner-pid", &pid]);
    let line = sandbox.puppet_line(&words("--quiet listen port mark bound hang"));
    let listener = start_task(&sandbox, &["--session", "chat"], &line);
    let _bound = sandbox.wait_for_mark("bound");
    let port = std::fs::read_to_string(sandbox.path("port")).expect("the server listens");
    let text = run_ok(&sandbox, &["ps"]).stdout_text();
    let header: Vec<_> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["ID", "STATE", "ELAPSED", "SESSION", "PORTS", "OUTPUT", "COMMAND"]);
    let row = text.lines().find(|row| row.starts_with(&listener)).unwrap_or_default();
    assert!(row.contains(" chat ") && row.contains(&format!(" {} ", port.trim())), "{text}");
    let chat = run_ok(&sandbox, &["ps", "--session", "chat"]).stdout_text();
    assert!(chat.contains(&listener) && !chat.contains(&free), "{chat}");
    stop_all(&sandbox);
}
