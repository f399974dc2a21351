//! An agent that is killed, and goes on where it was.

use siding_e2e::{Sandbox, eventually, eventually_some};

use super::{agent_with_script, entries_of_kind, transcript, wait_for_session};

/// Its commands are to be there when it goes on.
const SESSION_GRACE: (&str, &str) = ("SIDING_SESSION_GRACE", "60s");

/// The call has one result, the command ran once, and its end is told once.
#[test]
fn resumed_agent_keeps_its_tasks_and_runs_nothing_twice() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let ran = sandbox.path("ran");
    let command = format!("echo x >> {}; sleep 2; echo over", ran.display());
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
    eventually_some("it runs", || std::fs::read(&ran).ok().filter(|bytes| !bytes.is_empty()));
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
    assert_eq!(std::fs::read_to_string(&ran).expect("it ran"), "x\n", "once");
    let lines = transcript(&sandbox, &session);
    assert_eq!(entries_of_kind(&lines, "started").len(), 1, "{lines:#?}");
    assert_eq!(entries_of_kind(&lines, "done").len(), 1, "{lines:#?}");
}

/// Lines of the transcript that [`killed_after`] makes, when nobody is killed.
const TRANSCRIPT_LINES: usize = 19;

/// Wherever it is killed, and killed again a bit later: every command runs once at most, every call
/// has one result, every notice is told once, and in the end it is done.
#[test]
fn agent_killed_at_any_line_repeats_and_loses_nothing() {
    // The first says what the conversation is, the second what is wanted.
    for lines in 2..=TRANSCRIPT_LINES {
        kill_after_lines(lines);
    }
}

/// Kills an agent once its transcript has so many lines, and the next one three lines later.
fn kill_after_lines(lines: usize) {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
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
    eventually("it is as far as that, or over", || {
        count(&session) >= lines || !first.process().is_alive()
    });
    drop(first);
    first = sandbox
        .siding(&["agent", "--resume", &session])
        .env(SESSION_GRACE.0, SESSION_GRACE.1)
        .spawn();
    eventually("it is a bit further, or over", || {
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
    let results = entries_of_kind(&transcript, "done");
    let mut calls: Vec<&str> =
        results.iter().filter_map(|entry| entry["result"]["call"].as_str()).collect();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!((results.len(), calls.len()), (3, 3), "{}", context());
    let delivered = entries_of_kind(&transcript, "told");
    let notices = delivered.iter().filter(|entry| entry["told"][0]["told"] == "notice").count();
    // None where the command was killed before it was known whether it began.
    assert!(notices <= 1, "{}", context());
}
