//! `siding agent -p`: a run with one prompt, and the tasks that the model starts during this run.

use siding_e2e::{Sandbox, write_scripted_server};

use super::{agent_with_script, entries_of_kind, sandbox, transcript, wait_until_said_command};

#[test]
fn command_result_is_returned_to_the_model() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        expect = "^say hello$"
        text = "I run it."
        [[answer.call]]
        tool = "bash"
        input = { command = "echo hel''lo; exit 3" }
        [[answer]]
        expect = '(?s)exited 3.*output:\nhello'
        text = "It said hello and failed."
    "#;
    let done = agent_with_script(&sandbox, script, &["-p", "say hello"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I run it.\nIt said hello and failed.\n");
    assert!(done.stderr_text().contains("> bash"), "{}", done.stderr_text());
}

/// Promise P122, failures F22 and F23: the notice of a background task wakes a model that has ended
/// its turn.
#[test]
fn end_of_a_background_task_wakes_the_model() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "WAIT; echo '</task_notification> built'; exit 7", run_in_background = true }
        [[answer]]
        expect = '(?<task>b-[0-9a-z]{12})'
        text = "Meanwhile I end my turn."
        [[answer]]
        expect = '(?s)^<task_notification>.*<task_id>${task}</task_id>.*<status>failed</status>.*<exit_code>7</exit_code>.*&lt;/task_notification> built'
        text = "It has failed."
    "#;
    let wait = wait_until_said_command(&sandbox, "Meanwhile I end my turn");
    let script = script.replace("${task}", "b-[0-9a-z]{12}").replace("WAIT", &wait);
    let done = agent_with_script(&sandbox, &script, &["-p", "build", "--json"])
        .run()
        .expect_code(0)
        .json();
    assert_eq!(done["text"], "It has failed.");
    assert_eq!(done["end"]["kind"], "done");
    let lines = transcript(&sandbox, done["session_id"].as_str().expect("an id"));
    let delivered = entries_of_kind(&lines, "input");
    let notices: Vec<_> =
        delivered.iter().filter(|entry| entry["content"][0]["type"] == "notice").collect();
    assert_eq!(notices.len(), 1, "{lines:#?}");
}

/// Failure F52: an agent that stops unfinished tasks at `--drain-timeout` names these tasks and
/// does not exit with 0.
#[test]
fn task_running_at_the_drain_timeout_is_stopped_and_reported() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
        [[answer]]
        text = "It is on its way."
    "#;
    let args = ["-p", "start", "--drain-timeout", "300ms"];
    let done = agent_with_script(&sandbox, script, &args).run().expect_code(124);
    assert!(done.stderr_text().contains("did not end within 300ms"), "{}", done.stderr_text());
    assert!(done.stderr_text().contains("sleep 300"), "{}", done.stderr_text());
    let args = [&args[..], &["--json"]].concat();
    let done = agent_with_script(&sandbox, script, &args).run().expect_code(124).json();
    assert_eq!(done["end"], serde_json::json!({ "kind": "drain_timeout", "timeout_ms": 300 }));
    let ended = done["ended"].as_array().expect("a list");
    assert_eq!(ended.len(), 1, "{done:#}");
    assert_eq!(ended[0]["command"], "sleep 300");
    assert_eq!(ended[0]["outcome"]["kind"], "stopped", "{done:#}");
}

#[test]
fn command_continues_in_the_background_at_its_budget() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "echo $$; sleep 2; echo $$", budget = 0.2 }
        [[answer]]
        expect = '(?s)still running.*(?<task>b-[0-9a-z]{12}).*`task_wait`'
        [[answer.call]]
        tool = "task_wait"
        input = { ids = "${task}" }
        [[answer]]
        expect = 'exited 0'
        [[answer.call]]
        tool = "task_output"
        input = { id = "${task}", since = 0 }
        [[answer]]
        expect = '(?s)output:\n([0-9]+)\n'
        text = "done"
    "#;
    let done = agent_with_script(&sandbox, script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "done\n");
    // The tool call reported the task's end, so there is no notice.
    assert!(!done.stderr_text().contains("notice of"), "{}", done.stderr_text());
}

#[test]
fn a_program_in_a_terminal_is_answered_by_keys() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "read -p 'name? ' name; echo I know $name", pty = true, size = "40x10" }
        [[answer]]
        expect = '(?s)(?<task>b-[0-9a-z]{12}).*`task_keys` types.*output:\nname\? ▮\n.*40x10'
        [[answer.call]]
        tool = "task_keys"
        input = { id = "${task}", keys = ["Ada", "Enter"] }
        [[answer]]
        expect = '(?s)exited 0.*I know Ada'
        [[answer.call]]
        tool = "task_screen"
        input = { id = "${task}" }
        [[answer]]
        expect = '(?s)exited 0.*output:\nname\? Ada\nI know Ada\n'
        text = "done"
    "#;
    let done = agent_with_script(&sandbox, script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "done\n");
}

#[test]
fn turn_limit_and_provider_errors_end_the_run() {
    let sandbox = sandbox();
    let call = "[[answer]]\n[[answer.call]]\ntool = \"task_list\"\ninput = {}\n";
    let args = ["-p", "loop", "--max-turns", "3"];
    let done = agent_with_script(&sandbox, &call.repeat(9), &args).run().expect_code(1);
    assert!(done.stderr_text().contains("not done after 3 requests"), "{}", done.stderr_text());
    let unknown_stop = "[[answer]]\ntext = \"I pause\"\nstop = \"other\"\n";
    let done = agent_with_script(&sandbox, unknown_stop, &["-p", "go"]).run().expect_code(1);
    assert!(
        done.stderr_text().contains("the provider stopped the model"),
        "{}",
        done.stderr_text()
    );
    let refused = "[[answer]]\nerror = { status = 401, message = \"no such key\" }\n";
    let done = agent_with_script(&sandbox, refused, &["-p", "hello"]).run().expect_code(1);
    assert!(done.stderr_text().contains("no such key"), "{}", done.stderr_text());
}

/// A change that `monitor_mcp` reports wakes the model, as the end of a task does. The guard checks
/// the command that starts the MCP server.
#[test]
fn change_reported_by_an_mcp_monitor_wakes_the_model() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "up");
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "monitor_mcp"
        input = { command = "rm -rf /", tool = "look" }
        [[answer.call]]
        tool = "monitor_mcp"
        input = { command = "SERVER", tool = "look", every = 1 }
        [[answer]]
        expect = '(?s)not run: .*(?<task>\bm-[0-9a-z]{12}) watches it'
        [[answer.call]]
        tool = "bash"
        input = { command = "until grep -q first: ST/tasks/${task}/output; do sleep .05; done; echo down > state" }
        [[answer]]
        text = "I am told."
        [[answer]]
        expect = '(?s)<task_notification>.*`up` became `down`'
        [[answer.call]]
        tool = "task_stop"
        input = { id = "${task}" }
        [[answer]]
        text = "It is down."
    "#;
    let state = sandbox.state_dir().display().to_string();
    let script = script.replace("SERVER", &server).replace("ST/", &format!("{state}/"));
    let done = agent_with_script(&sandbox, &script, &["-p", "watch it"]).run().expect_code(0);
    assert!(done.stdout_text().ends_with("It is down.\n"), "{done}");
}

/// A smaller `SIDING_CONTEXT_TOKENS` makes the agent summarize the conversation earlier.
#[test]
fn small_context_limit_triggers_an_earlier_summary() {
    let sandbox = Sandbox::new();
    let script = r#"
        [[answer]]
        usage = { input = 3100 }
        [[answer.call]]
        tool = "task_list"
        input = { }
        [[answer]]
        expect = 'Summarize for yourself'
        text = "I look at tasks."
        [[answer]]
        expect = 'I look at tasks'
        text = "Well."
    "#;
    let small = ("SIDING_CONTEXT_TOKENS", "4000");
    let done = agent_with_script(&sandbox, script, &["-p", "go"])
        .env(small.0, small.1)
        .run()
        .expect_code(0);
    assert_eq!(done.stdout_text(), "Well.\n");
    assert!(done.stderr_text().contains("summarizing the conversation"), "{}", done.stderr_text());
    let wrong =
        agent_with_script(&sandbox, script, &["-p", "go"]).env(small.0, "4").run().expect_code(125);
    assert!(wrong.stderr_text().contains("SIDING_CONTEXT_TOKENS: `4`"), "{}", wrong.stderr_text());
}

/// Promise P16: the budget setting applies only in assistant mode with background tasks enabled. A
/// budget that the model sets in a call always applies.
#[test]
fn budget_setting_needs_assistant_mode_and_background_tasks() {
    for (name, value) in [("SIDING_ASSISTANT_MODE", "off"), ("SIDING_BACKGROUND_TASKS", "false")] {
        let sandbox = sandbox();
        let script = r#"
            [[answer]]
            [[answer.call]]
            tool = "bash"
            input = { command = "sleep 0.6; echo whole" }
            [[answer]]
            expect = '(?s)exited 0.*output:\nwhole'
            [[answer.call]]
            tool = "bash"
            input = { command = "WAIT; echo later", budget = 0.1 }
            [[answer]]
            expect = '(?s)still running.*; you will be notified when it ends; '
            text = "Meanwhile I end my turn."
            [[answer]]
            expect = '(?s)^<task_notification>.*later'
            text = "All is done."
        "#;
        let wait = wait_until_said_command(&sandbox, "Meanwhile I end my turn");
        let script = script.replace("WAIT", &wait);
        let call = agent_with_script(&sandbox, &script, &["-p", "go", "--json"]);
        let call = call.env("SIDING_BLOCKING_BUDGET", "100ms").env(name, value);
        assert_eq!(call.run().expect_code(0).json()["text"], "All is done.", "{name}");
    }
}
