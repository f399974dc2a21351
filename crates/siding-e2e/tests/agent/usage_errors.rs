//! Reactions of the agent to mistakes of the user and of the model, and to failures of the
//! provider.

use std::process::Stdio;

use siding_e2e::Sandbox;

use super::{agent_with_script, sandbox, wait_for_session};

#[test]
fn agent_usage_errors_name_the_fix() {
    let sandbox = Sandbox::new();
    let expect_error = |args: &[&str], parts: &[&str]| {
        let done = sandbox.siding(&[&["agent"], args].concat()).run().expect_code(125);
        for part in parts {
            assert!(done.stderr_text().contains(part), "no {part} in {}", done.stderr_text());
        }
    };
    expect_error(&["-p", "x"], &["--model", "SIDING_MODEL", "script:FILE"]);
    expect_error(&["-p", "x", "--model", "anthropic:some"], &["ANTHROPIC_API_KEY"]);
    expect_error(&["-p", "x", "--model", "openai:some"], &["OPENAI_API_KEY"]);
    expect_error(&["-p", "x", "--model", "script:none.toml"], &["none.toml", "No such file"]);
    expect_error(&["--resume", "agent-1-1", "-p", "x"], &["no conversation `agent-1-1`"]);
    expect_error(&["-p", "x", "--model", "gpt"], &["`gpt` is not a model"]);
    std::fs::write(sandbox.path("bad.toml"), "[[answer]]\ntexts = 'x'\n").expect("test file");
    expect_error(&["-p", "x", "--model", "script:bad.toml"], &["bad.toml:2", "texts", "`text`"]);
    assert!(sandbox.task_ids().is_empty());
}

/// Without a terminal, a call without `-p` fails with an error that names `-p`. A blank prompt is
/// an error too.
#[test]
fn missing_or_blank_prompt_is_an_error() {
    let sandbox = Sandbox::new();
    let none = sandbox.siding(&["agent", "--model", "script:x"]).run();
    assert!(
        none.stderr_text().contains("is not a terminal") && none.stderr_text().contains("-p TEXT"),
        "{}",
        none.stderr_text()
    );
    let blank = sandbox.siding(&["agent", "--model", "script:x", "-p", " "]).run();
    assert!(blank.stderr_text().contains("the prompt is empty"), "{}", blank.stderr_text());
}

/// For an ambiguous id prefix, the tool result lists the matching tasks.
#[test]
fn ambiguous_task_id_lists_the_candidates() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "exit 3" }
        [[answer.call]]
        tool = "bash"
        input = { command = "exit 4" }
        [[answer]]
        [[answer.call]]
        tool = "task_output"
        input = { id = "b" }
        [[answer]]
        expect = '`b` is ambiguous, 2 ids begin with it: b-\S+  exited \d after \S+  exit \d; b-\S+  exited \d after \S+  exit \d; give more characters; `task_list` lists the ids'
        text = "done"
    "#;
    let done = agent_with_script(&sandbox, script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "done\n");
}

#[test]
fn agent_works_with_a_closed_stdout() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        text = "I write a file."
        [[answer.call]]
        tool = "write_file"
        input = { path = "written", content = "x" }
        [[answer]]
        text = "It is written."
    "#;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let call = agent_with_script(&sandbox, script, &["-p", "go"]).stdout_to(Stdio::from(writer));
    let _unread = call.run().expect_code(0);
    assert!(sandbox.path("written").exists());
}

/// `--resume` without other options repeats the failed request with the model of the conversation.
#[test]
fn failed_conversation_resumes_with_the_same_model() {
    let sandbox = sandbox();
    let refused = "[[answer]]\nerror = { status = 401, message = \"no such key\" }\n";
    let done = agent_with_script(&sandbox, refused, &["-p", "hello"]).run().expect_code(1);
    assert!(done.stderr_text().contains("no such key"), "{}", done.stderr_text());
    let session = wait_for_session(&sandbox);
    assert!(done.stderr_text().contains(&format!("--resume {session}")), "{}", done.stderr_text());
    let answer = "[[answer]]\nexpect = '\\Ahello\\z'\ntext = \"Here I am.\"\n";
    std::fs::write(sandbox.path("script.toml"), answer).expect("test file");
    // A conversation can be resumed in another directory.
    let resumed = sandbox.siding(&["agent", "--resume", &session]).cwd("/");
    assert_eq!(resumed.run().expect_code(0).stdout_text(), "Here I am.\n");
}
