//! Tests of crash safety, which kill an agent and then resume it.

use siding_e2e::{eventually, eventually_some, write_scripted_server};

use super::{
    agent_with_script, entries_of_kind, sandbox, transcript, wait_for_session,
    wait_until_said_command,
};

/// A session grace that is long enough to keep the commands running until the agent is resumed.
const SESSION_GRACE: (&str, &str) = ("SIDING_SESSION_GRACE", "60s");

/// Promise P123: after a kill and a resume, the call has one result, the command has run once, and
/// the command's end is delivered once.
#[test]
fn resumed_agent_keeps_its_tasks_and_runs_nothing_twice() {
    let sandbox = sandbox();
    let ran = sandbox.path("ran");
    let wait = wait_until_said_command(&sandbox, "I wait for");
    let command = format!("echo x >> {}; {wait}; echo over", ran.display());
    let script = format!(
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = {{ command = "{command}" }}
        [[answer]]
        text = "never"
        "#
    );
    let first = agent_with_script(&sandbox, &script, &["-p", "go"])
        .env(SESSION_GRACE.0, SESSION_GRACE.1)
        .spawn();
    eventually_some("the command runs", || {
        std::fs::read(&ran).ok().filter(|bytes| !bytes.is_empty())
    });
    let session = wait_for_session(&sandbox);
    drop(first);
    let script = r#"
        restart = true
        [[answer]]
        expect = '(?s)was killed while the command ran.*(?<task>b-[0-9a-z]{12})'
        text = "I wait for ${task}."
        [[answer]]
        expect = '(?s)^<task_notification>.*<status>completed</status>.*over'
        text = "It is over."
    "#;
    let done = agent_with_script(&sandbox, script, &["--resume", &session, "--json"]).run();
    let done = done.expect_code(0).json();
    assert_eq!(done["text"], "It is over.");
    assert_eq!(
        std::fs::read_to_string(&ran).expect("the command ran"),
        "x\n",
        "expected exactly once"
    );
    let lines = transcript(&sandbox, &session);
    assert_eq!(entries_of_kind(&lines, "call_started").len(), 1, "{lines:#?}");
    assert_eq!(entries_of_kind(&lines, "call_finished").len(), 1, "{lines:#?}");
}

/// An agent that is killed after it has recorded the id of a monitor, and before it has recorded the
/// result of the call, finds the monitor again.
#[test]
fn resumed_agent_finds_the_monitor_that_it_was_starting() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "up");
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "monitor_mcp"
        input = { command = "SERVER", tool = "look", every = 1 }
        [[answer]]
        delay_ms = 600000
        text = "never"
    "#;
    let first = agent_with_script(&sandbox, &script.replace("SERVER", &server), &["-p", "go"])
        .env(SESSION_GRACE.0, SESSION_GRACE.1)
        .spawn();
    let session = wait_for_session(&sandbox);
    let path = sandbox.state_dir().join("sessions").join(&session).join("transcript.jsonl");
    let read = || std::fs::read_to_string(&path).expect("the transcript exists");
    eventually("the monitor has started", || read().contains("\"call_finished\""));
    drop(first);
    let text = read();
    let is_bound = |line: &str| line.contains("\"task_bound\"");
    let end = text.lines().position(is_bound).expect("the id is recorded");
    let lines: Vec<&str> = text.lines().take(end + 1).collect();
    assert!(!lines.iter().any(|line| line.contains("\"call_finished\"")), "{lines:#?}");
    std::fs::write(&path, lines.join("\n") + "\n").expect("test file");
    let script = r#"
        restart = true
        [[answer]]
        expect = '(?s)was killed while the monitor ran.*(?<task>m-[0-9a-z]{12})'
        [[answer.call]]
        tool = "task_stop"
        input = { id = "${task}" }
        [[answer]]
        text = "It is stopped."
    "#;
    let done = agent_with_script(&sandbox, script, &["--resume", &session, "--json"]).run();
    assert_eq!(done.expect_code(0).json()["text"], "It is stopped.");
}

/// Number of transcript lines that the agent in [`kill_after_lines`] writes if it is not killed.
const TRANSCRIPT_LINES: usize = 19;
const CONCURRENT_RUNS: usize = 3;

/// Promise P123: for each line of the transcript, a run kills the agent after that line, and the
/// resumed agent three lines later. Every command runs at most once, every call has one result,
/// every notice is delivered at most once, and the last agent finishes.
#[test]
fn agent_killed_at_any_line_repeats_and_loses_nothing() {
    // Before the second line the prompt is not recorded yet, so there is nothing to resume.
    let lines: Vec<usize> = (2..=TRANSCRIPT_LINES).collect();
    // The agents mostly wait for their commands, so concurrent runs shorten the test.
    std::thread::scope(|scope| {
        for some in lines.chunks(lines.len().div_ceil(CONCURRENT_RUNS)) {
            scope.spawn(move || some.iter().for_each(|lines| kill_after_lines(*lines)));
        }
    });
}

/// Kills an agent once its transcript has `lines` lines, and the resumed agent three lines later.
fn kill_after_lines(lines: usize) {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "echo a >> ran" }
        [[answer.call]]
        tool = "create_task"
        input = { subject = "once" }
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "echo b >> ran; sleep 0.2; echo c >> ran", run_in_background = true }
        [[answer]]
        text = "I end my turn."
        [[answer]]
        text = "I was told."
    "#;
    let count = |session: &str| {
        let path = sandbox.state_dir().join("sessions").join(session).join("transcript.jsonl");
        std::fs::read(path).unwrap_or_default().iter().filter(|&&byte| byte == b'\n').count()
    };
    let mut first = agent_with_script(&sandbox, script, &["-p", "go"])
        .env(SESSION_GRACE.0, SESSION_GRACE.1)
        .spawn();
    let session = wait_for_session(&sandbox);
    eventually("the agent has written the lines, or has exited", || {
        count(&session) >= lines || !first.process().is_alive()
    });
    drop(first);
    first = sandbox
        .siding(&["agent", "--resume", &session])
        .env(SESSION_GRACE.0, SESSION_GRACE.1)
        .spawn();
    eventually("the agent is three lines further, or has exited", || {
        count(&session) >= lines + 3 || !first.process().is_alive()
    });
    drop(first);
    let done = sandbox.siding(&["agent", "--resume", &session]).run().expect_code(0);
    let transcript = transcript(&sandbox, &session);
    let context = || format!("killed after {lines}: {transcript:#?}{}", done.stderr_text());
    let ran = std::fs::read_to_string(sandbox.path("ran")).unwrap_or_default();
    for letter in ["a", "b", "c"] {
        let times = ran.lines().filter(|line| *line == letter).count();
        assert!(times <= 1, "{letter} {times} times, {}", context());
    }
    let list = std::fs::read_to_string(sandbox.path(".siding/todo.jsonl")).unwrap_or_default();
    assert!(list.matches("\"created\"").count() <= 1, "{list} {}", context());
    let results = entries_of_kind(&transcript, "call_finished");
    let mut calls: Vec<&str> =
        results.iter().filter_map(|entry| entry["result"]["call"].as_str()).collect();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!((results.len(), calls.len()), (3, 3), "{}", context());
    let delivered = entries_of_kind(&transcript, "input");
    let notices = delivered.iter().filter(|entry| entry["content"][0]["type"] == "notice").count();
    // There is no notice if the agent was killed before it had recorded whether the command
    // started.
    assert!(notices <= 1, "{}", context());
}
