//! What people do wrong, and what cannot be helped.

use std::process::Stdio;

use siding_e2e::Sandbox;

use super::{agent, session_of};

#[test]
fn mistakes_say_what_to_do() {
    let sandbox = Sandbox::new();
    let says = |args: &[&str], parts: &[&str]| {
        let done = sandbox.siding(&[&["agent"], args].concat()).run().expect_code(125);
        for part in parts {
            assert!(done.err().contains(part), "no {part} in {}", done.err());
        }
    };
    says(&["-p", "x"], &["--model", "SIDING_MODEL", "script:FILE"]);
    says(&["-p", "x", "--model", "anthropic:some"], &["ANTHROPIC_API_KEY"]);
    says(&["-p", "x", "--model", "openai:some"], &["OPENAI_API_KEY"]);
    says(&["-p", "x", "--model", "script:none.toml"], &["none.toml", "No such file"]);
    says(&["--resume", "agent-1-1", "-p", "x"], &["no conversation `agent-1-1`"]);
    says(&["-p", "x", "--model", "gpt"], &["`gpt` is no model"]);
    std::fs::write(sandbox.path("bad.toml"), "[[answer]]\ntexts = 'x'\n").expect("written");
    says(&["-p", "x", "--model", "script:bad.toml"], &["bad.toml:2", "texts", "`text`"]);
    assert!(sandbox.task_ids().is_empty());
}

/// A wrong call of the program is told as by every other command.
#[test]
fn a_prompt_must_be_there_and_say_something() {
    let sandbox = Sandbox::new();
    let none = sandbox.siding(&["agent", "--model", "script:x"]).run();
    assert!(none.err().contains("no terminal") && none.err().contains("-p TEXT"), "{}", none.err());
    let blank = sandbox.siding(&["agent", "--model", "script:x", "-p", " "]).run();
    assert!(blank.err().contains("say what it is to do"), "{}", blank.err());
}

/// A model that cut an id short sees what it could have meant.
#[test]
fn an_ambiguous_id_is_answered_with_the_choices() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
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
        expect = '`b` is ambiguous, 2 ids begin with it: b-\S+  exited \d after \S+  exit \d; b-\S+  exited \d after \S+  exit \d; give more characters; `task_list` shows the ids'
        text = "done"
    "#;
    let done = agent(&sandbox, script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.out(), "done\n");
}

#[test]
fn nobody_need_read_what_it_says() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
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
    let call = agent(&sandbox, script, &["-p", "go"]).stdout_to(Stdio::from(writer));
    let _unread = call.run().expect_code(0);
    assert!(sandbox.path("written").exists());
}

/// What failed is tried again by whoever goes on, and nothing else need be said for that.
#[test]
fn a_conversation_goes_on_after_a_failure_with_the_same_model() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let refused = "[[answer]]\nerror = { status = 401, message = \"no such key\" }\n";
    let done = agent(&sandbox, refused, &["-p", "hello"]).run().expect_code(1);
    assert!(done.err().contains("no such key"), "{}", done.err());
    let session = session_of(&sandbox);
    assert!(done.err().contains(&format!("--resume {session}")), "{}", done.err());
    let answer = "[[answer]]\nexpect = '\\Ahello\\z'\ntext = \"Here I am.\"\n";
    std::fs::write(sandbox.path("script.toml"), answer).expect("written");
    // From elsewhere, too.
    let resumed = sandbox.siding(&["agent", "--resume", &session]).cwd("/");
    assert_eq!(resumed.run().expect_code(0).out(), "Here I am.\n");
}
