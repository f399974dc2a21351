//! Order, columns and JSON of `siding ps`.

use siding_e2e::{eventually, words};

use crate::notices::run_in_background_to_end;
use crate::support::{
    HANG_COMMAND, run_at_terminal, run_ok, run_to_end, sandbox, show_task, start_task, stop_all,
    task_ids,
};

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

#[test]
fn a_person_sees_first_the_tasks_that_need_action_and_a_count_of_the_ended_ones() {
    let sandbox = sandbox();
    let nothing = run_at_terminal(&sandbox, &["ps"], "starts one");
    assert_eq!(nothing.trim_end(), "siding: no tasks; `siding run -- COMMAND` starts one");
    let done = run_to_end(&sandbox, "true");
    let failed = run_in_background_to_end(&sandbox, &[], "exit 7");
    let only_ended = run_at_terminal(&sandbox, &["ps"], "unread ends");
    assert!(only_ended.contains("siding: nothing is running; 2 tasks have ended"), "{only_ended}");
    let asks = start_task(&sandbox, &["--stdin", "pipe"], "printf 'Continue? [y/N] '; read answer");
    let running = start_task(&sandbox, &[], HANG_COMMAND);
    eventually("the wait for input is recorded", || {
        !show_task(&sandbox, &asks)["attention"].is_null()
    });
    let text = run_at_terminal(&sandbox, &["ps"], "unread ends");
    let rows: Vec<&str> = text.lines().collect();
    let titles: Vec<&str> = rows[0].split_whitespace().collect();
    assert_eq!(titles[..5], ["ID", "STATE", "ATTENTION", "STARTED", "ELAPSED"], "{text}");
    for (row, id, parts) in [
        (rows[1], &asks, "running needs input"),
        (rows[2], &failed, "exited 7 unread"),
        (rows[3], &running, "running"),
    ] {
        let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(row.starts_with(&format!("{id} {parts} ")), "{row} in\n{text}");
    }
    assert!(
        rows[4].starts_with("siding: 2 tasks have ended (1 with exit code 0, 1 failed); --all"),
        "{text}"
    );
    assert!(rows.iter().all(|row| !row.starts_with(&done)), "{text}");
    let all = run_at_terminal(&sandbox, &["ps", "--all"], &done);
    assert!(all.contains(&asks) && all.contains(&failed) && all.contains(&running), "{all}");
    stop_all(&sandbox);
}

#[test]
fn a_person_learns_that_nothing_is_running_and_which_task_ended_last() {
    let sandbox = sandbox();
    let args = ["ps", "--running"];
    let never = run_at_terminal(&sandbox, &args, "starts a task");
    assert_eq!(
        never.trim_end(),
        "siding: nothing is running; `siding run -- COMMAND` starts a task"
    );
    let _earlier = run_to_end(&sandbox, "true");
    let last = run_to_end(&sandbox, "exit 3");
    let text = run_at_terminal(&sandbox, &args, &last);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("siding: nothing is running; the last task ended "), "{text}");
    assert!(lines[0].ends_with(" ago:"), "{text}");
    assert!(lines[1].starts_with(&format!("{last}  exited 3 after ")), "{text}");
    let piped = run_ok(&sandbox, &args);
    assert_eq!(piped.stdout_text(), "");
    let message = "siding: no task is running; `siding ps` lists those that have ended\n";
    assert_eq!(piped.stderr_text(), message);
}
