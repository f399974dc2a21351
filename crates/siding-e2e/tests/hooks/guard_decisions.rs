//! The guard's answers to tool calls, and the answers of hooks to events that siding cannot parse.

use serde_json::json;

use crate::support::{call_hook, hook_call, sandbox};

/// Failure F63: some hosts have ignored a denial in JSON, so a denial also has exit code 2, which
/// blocks in every host.
#[test]
fn denial_uses_exit_code_json_and_stderr() {
    let sandbox = sandbox();
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "cd /tmp && rm -rf /"}});
    let denied = call_hook(&sandbox, "pre-tool-use", call.clone()).expect_code(2);
    let output = denied.json()["hookSpecificOutput"].clone();
    assert_eq!(output["permissionDecision"], "deny");
    let why = output["permissionDecisionReason"].as_str().expect("a reason").to_owned();
    assert!(why.contains("`rm -rf /`"), "{why}");
    assert!(denied.stderr_text().contains(&why));
    // Codex rejects JSON with unknown fields and reads the reason from stderr.
    for host in ["codex", "gemini"] {
        let args = ["pre-tool-use", "--host", host];
        let denied = hook_call(&sandbox, &args, call.clone()).run().expect_code(2);
        assert_eq!(denied.stdout_text(), "");
        assert!(denied.stderr_text().contains("`rm -rf /`"));
    }
}

#[test]
fn allowed_command_leaves_the_decision_to_the_host() {
    let sandbox = sandbox();
    let decision_for = |command: &str, more: serde_json::Value| {
        let mut input = json!({ "command": command });
        if let (Some(input), Some(more)) = (input.as_object_mut(), more.as_object()) {
            input.extend(more.clone());
        }
        let call = json!({"tool_name": "Bash", "tool_input": input});
        let done = call_hook(&sandbox, "pre-tool-use", call).expect_code(0);
        if done.stdout_text().is_empty() {
            return "none".to_owned();
        }
        let output = &done.json()["hookSpecificOutput"];
        output["permissionDecision"].as_str().expect("a decision").to_owned()
    };
    assert_eq!(decision_for("cargo test", json!({})), "none");
    assert_eq!(decision_for("sudo ls", json!({})), "ask");
    assert_eq!(decision_for("tail -f server.log", json!({})), "none");
    assert_eq!(decision_for("tail -f server.log", json!({"run_in_background": true})), "ask");
    // The guard does not check the call of a tool that runs no command.
    let call = json!({"tool_name": "Read", "tool_input": {"file_path": "/etc/passwd"}});
    assert_eq!(call_hook(&sandbox, "pre-tool-use", call).expect_code(0).stdout_text(), "");
    let written =
        std::fs::read_dir(sandbox.state_dir()).expect("the sandbox creates the directory");
    assert_eq!(written.count(), 0, "judging a command must write nothing");
}

/// A shell may run the text that siding's tools type.
#[test]
fn the_text_that_a_tool_types_is_judged() {
    let sandbox = sandbox();
    for (tool, input) in [
        ("keys", json!({"id": "b-4k7q", "keys": ["rm -rf ~", "Enter"]})),
        ("input", json!({"id": "b-4k7q", "text": "rm -rf ~"})),
    ] {
        let call = json!({"tool_name": format!("mcp__siding__{tool}"), "tool_input": input});
        let asked = call_hook(&sandbox, "pre-tool-use", call).expect_code(0).json();
        assert_eq!(asked["hookSpecificOutput"]["permissionDecision"], "ask", "{asked}");
    }
    let answer = json!({"id": "b-4k7q", "keys": ["y", "Enter"]});
    let call = json!({"tool_name": "mcp__siding__keys", "tool_input": answer});
    assert_eq!(call_hook(&sandbox, "pre-tool-use", call).expect_code(0).stdout_text(), "");
}

#[test]
fn the_variables_of_a_tool_call_are_judged_with_its_command() {
    let sandbox = sandbox();
    let call = |pager: &str| {
        let input = json!({"command": "git log", "env": {"GIT_PAGER": pager}});
        json!({"tool_name": "mcp__siding__run", "tool_input": input})
    };
    for host in ["claude-code", "codex", "gemini"] {
        let args = ["pre-tool-use", "--host", host];
        let denied = hook_call(&sandbox, &args, call("rm -rf /")).run().expect_code(2);
        let why = denied.stderr_text();
        assert!(why.contains("`GIT_PAGER=rm -rf /`"), "{host}: {why}");
        let allowed = hook_call(&sandbox, &args, call("head -50")).run().expect_code(0);
        assert_eq!(allowed.stdout_text(), "", "{host}");
    }
}

/// Promise P107: if no person can answer, the guard denies an endless background command instead of
/// asking.
#[test]
fn endless_background_command_is_denied_when_unattended() {
    let sandbox = sandbox();
    let call = |mode: &str, command: &str| {
        json!({
            "tool_name": "Bash",
            "permission_mode": mode,
            "tool_input": { "command": command, "run_in_background": true },
        })
    };
    let decision = |call: serde_json::Value, code: i32| {
        let done = call_hook(&sandbox, "pre-tool-use", call).expect_code(code);
        done.json()["hookSpecificOutput"]["permissionDecision"].as_str().map(str::to_owned)
    };
    let follow = "tail -f server.log";
    for mode in ["default", "plan", "acceptEdits"] {
        assert_eq!(decision(call(mode, follow), 0).as_deref(), Some("ask"), "{mode}");
    }
    for mode in ["dontAsk", "bypassPermissions", "auto"] {
        assert_eq!(decision(call(mode, follow), 2).as_deref(), Some("deny"), "{mode}");
    }
    // About other commands, the guard asks in every mode, because the host has its own rules for
    // answering such questions.
    assert_eq!(decision(call("auto", "sudo ls"), 0).as_deref(), Some("ask"));
    let bounded =
        call_hook(&sandbox, "pre-tool-use", call("auto", "timeout 60 tail -f server.log"));
    assert_eq!(bounded.expect_code(0).stdout_text(), "");
    // In a headless run no person can answer, whatever the permission mode.
    let headless = hook_call(&sandbox, &["pre-tool-use"], call("default", follow));
    let denied = headless.env("CLAUDE_CODE_ENTRYPOINT", "sdk-cli").run().expect_code(2);
    assert!(
        denied.stderr_text().contains("siding wait"),
        "the denial must suggest an alternative: {}",
        denied.stderr_text()
    );
    // In these hosts, a hook cannot make the host ask a question.
    for host in ["codex", "gemini"] {
        let args = ["pre-tool-use", "--host", host];
        let denied = hook_call(&sandbox, &args, call("default", follow)).run().expect_code(2);
        assert!(denied.stderr_text().contains("background-endless"), "{}", denied.stderr_text());
    }
    let guard_output =
        sandbox.siding(&["guard", "--background", "--unattended", "--", follow]).run();
    assert!(guard_output.expect_code(21).stdout_text().contains("deny"));
}

/// If a rule file cannot be read, the guard asks about every command, because the user may rely on
/// a rule in that file.
#[test]
fn unreadable_rules_file_makes_the_hook_ask() {
    let sandbox = sandbox();
    let rules = sandbox.home().join(".config/siding");
    std::fs::create_dir_all(&rules).expect("test directory");
    std::fs::write(rules.join("guard.toml"), "[[rule]\n").expect("test directory");
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "true"}});
    let output = call_hook(&sandbox, "pre-tool-use", call).expect_code(0).json();
    assert_eq!(output["hookSpecificOutput"]["permissionDecision"], "ask");
    assert!(output.to_string().contains("guard.toml"), "{output}");
}

#[test]
fn unreadable_event_makes_no_decision() {
    let sandbox = sandbox();
    for event in ["session-start", "pre-tool-use", "post-tool-use", "stop", "await-notice"] {
        for bad in ["", "{", "[]", r#"{"session_id": 7}"#] {
            let done = sandbox.siding(&["hook", event]).stdin(bad).run().expect_code(125);
            assert_eq!(done.stdout_text(), "");
            let first = done.stderr_text().lines().next().unwrap_or_default().to_owned();
            assert!(first.contains("no decision"), "{event} {bad:?}: {first}");
        }
        // A valid event without any field that siding uses causes no output.
        let done = sandbox.siding(&["hook", event]).stdin("{}").run().expect_code(0);
        assert_eq!(done.stdout_text() + &done.stderr_text(), "", "{event}");
    }
}
