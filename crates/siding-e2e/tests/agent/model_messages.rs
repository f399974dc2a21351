//! The order and the content of the results, notices, reminders and summaries that the model
//! receives.

use siding_e2e::eventually;

use super::terminal::{CTRL_D, TerminalSession};
use super::{agent_with_script, entries_of_kind, sandbox, transcript};

/// Promise P121: results and notices are sent in one message, results first, because the API
/// requires the results directly after the calls.
#[test]
fn results_and_notices_share_one_message_results_first() {
    let sandbox = sandbox();
    // The task ends while the calls of the next answer run: the second of them waits until the task
    // and the first call are closed.
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "for n in $(seq 400); do [ -e gate ] && break; sleep 0.05; done; echo early", run_in_background = true }
        [[answer]]
        expect = '\Ab-[0-9a-z]{12}  running'
        [[answer.call]]
        tool = "bash"
        input = { command = "touch gate; echo o''ne" }
        [[answer.call]]
        tool = "bash"
        input = { command = "for n in $(seq 1200); do [ $(grep -ls '\"record\":\"closed\"' STATE/tasks/*/journal | wc -l) = 2 ] && break; sleep 0.05; done; echo t''wo" }
        [[answer.call]]
        tool = "no_such_tool"
        [[answer]]
        expect = '(?s)\Ab-[0-9a-z]{12}  exited 0.*\none\n.*\ntwo\n.*no tool `no_such_tool`[^<]*<task_notification>.*early.*</task_notification>\n\z'
        text = "All at once."
    "#;
    let script = script.replace("STATE", &sandbox.state_dir().display().to_string());
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go", "--json"]).run().expect_code(0).json();
    assert_eq!(done["text"], "All at once.", "{done:#}");
    let lines = transcript(&sandbox, done["session_id"].as_str().expect("an id"));
    let request_count = lines.iter().filter(|line| line["entry"] == "request_sent").count();
    assert_eq!(request_count, 3, "the notice must not cost a request: {lines:#?}");
    // The result of a call that starts a background task is recorded immediately and names the
    // task.
    let placeholder = &entries_of_kind(&lines, "call_finished")[0]["result"];
    let bound = &entries_of_kind(&lines, "task_bound")[0];
    assert_eq!(placeholder["call"], bound["call"]);
    let text = placeholder["text"].as_str().expect("a text");
    assert!(text.contains(bound["task"].as_str().expect("an id")), "{text}");
    // The notice is a separate entry and not the result of a call.
    let delivered = entries_of_kind(&lines, "input");
    let notices = delivered.iter().filter(|entry| entry["content"][0]["type"] == "notice");
    assert_eq!(notices.count(), 1, "{lines:#?}");
}

/// One result reports a task as running, and the task ends while another call of the same answer
/// still runs. The notice of this end is not part of the message with these results and wakes the
/// agent afterwards.
#[test]
fn end_during_another_call_wakes_the_agent_after_the_results() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "for n in $(seq 1200); do [ -e first ] && break; sleep 0.05; done; echo early", run_in_background = true }
        [[answer.call]]
        tool = "bash"
        input = { command = "touch first; for n in $(seq 1200); do [ -e gate ] && break; sleep 0.05; done", budget = 60 }
        [[answer]]
        text = "I wait for it."
        [[answer]]
        expect = '(?s)^<task_notification>.*<status>completed</status>.*early'
        text = "It has ended."
    "#;
    let mut talk = TerminalSession::spawn_on_terminal(agent_with_script(&sandbox, script, &[]));
    talk.type_line("go");
    eventually("the first has ended", || {
        let listed = sandbox.siding(&["ps", "--all", "--json"]).run().expect_code(0).json();
        let tasks = listed.as_array().expect("a list");
        tasks.len() == 2 && tasks.iter().any(|task| task["phase"] == "ended")
    });
    std::fs::write(sandbox.path("gate"), "").expect("test file");
    talk.terminal.wait_for_text("It has ended.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

/// Promise P68: a reminder mentions an unread background task once.
#[test]
fn unread_background_task_is_mentioned_once() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
        [[answer]]
        expect = '(?<task>\bb-[0-9a-z]{12}\b)'
        [[answer.call]]
        tool = "bash"
        input = { command = "true" }
        [[answer]]
        expect = '(?s)Still running, output not read.*\bb-[0-9a-z]{12}  running.*sleep 300'
        [[answer.call]]
        tool = "bash"
        input = { command = "true" }
        [[answer]]
        expect = '(?s)\Ab-[0-9a-z]{12}  exited 0[^S]*\z'
        [[answer.call]]
        tool = "task_stop"
        input = { ids = ["${task}"], grace = 0 }
        [[answer]]
        expect = 'stopped'
        text = "done"
    "#;
    let done = agent_with_script(&sandbox, script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "done\n");
}

/// Promise P68: every twentieth batch lists all running tasks.
#[test]
fn running_tasks_are_listed_every_twentieth_batch() {
    let sandbox = sandbox();
    let list_call = "[[answer]]\n[[answer.call]]\ntool = \"list_tasks\"\n";
    let silent = "[[answer]]\nexpect = '\\A[^B]*\\z'\n[[answer.call]]\ntool = \"list_tasks\"\n";
    let start_task = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
    "#;
    let end = r#"
        [[answer]]
        expect = '(?s)Running in the background.*(?<task>\bb-[0-9a-z]{12})  running.*sleep 300'
        [[answer.call]]
        tool = "task_stop"
        input = { ids = ["${task}"], grace = 0 }
        [[answer]]
        text = "done"
    "#;
    // The start of the task is the first batch. The reminder of the unread task is part of one of
    // the next two requests.
    let script = format!("{start_task}{}{}{end}", list_call.repeat(2), silent.repeat(17));
    let done = agent_with_script(&sandbox, &script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "done\n");
}

/// When the context is full, the conversation is summarized, and the summary lists the running
/// tasks.
#[test]
fn running_tasks_are_listed_after_a_context_summary() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        usage = { input = 160000 }
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
        [[answer]]
        expect = '(?s)(?<task>\bb-[0-9a-z]{12})  running.*replace the conversation'
        text = "They want something slow to be started. It is."
        [[answer]]
        expect = '(?s)\AThey want something slow.*Running in the background.*${task}  running.*sleep 300'
        [[answer.call]]
        tool = "task_stop"
        input = { ids = ["${task}"], grace = 0 }
        [[answer]]
        text = "done"
    "#;
    let script = script.replacen("${task}  running", "b-[0-9a-z]{12}  running", 1);
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go", "--json"]).run().expect_code(0).json();
    assert_eq!(done["text"], "done", "{done:#}");
    let lines = transcript(&sandbox, done["session_id"].as_str().expect("an id"));
    assert_eq!(entries_of_kind(&lines, "summary").len(), 1, "{lines:#?}");
}

#[test]
fn read_only_tools_run_concurrently_up_to_the_limit() {
    let sandbox = sandbox();
    std::fs::write(sandbox.path("text"), "a line\n").expect("test file");
    let call = "[[answer.call]]\ntool = \"read_file\"\ninput = { path = \"text\" }\n";
    let script = format!("[[answer]]\n{}[[answer]]\ntext = \"read\"\n", call.repeat(12));
    for (limit, expected_concurrency) in [("", 10), ("3", 3), ("1", 1)] {
        let call = agent_with_script(&sandbox, &script, &["-p", "go", "--json"]);
        let done = call.env("SIDING_MAX_TOOL_CONCURRENCY", limit).run().expect_code(0).json();
        let lines = transcript(&sandbox, done["session_id"].as_str().expect("an id"));
        let (mut running, mut max_running) = (0_usize, 0);
        for line in &lines {
            match line["entry"].as_str() {
                Some("call_started") => running += 1,
                Some("call_finished") => running -= 1,
                _ => {}
            }
            max_running = max_running.max(running);
        }
        assert_eq!((running, max_running), (0, expected_concurrency), "{limit}: {lines:#?}");
    }
}
