//! The budget that the PreToolUse hook sets for the host's own shell calls (promise P115).

use serde_json::{Value, json};
use siding_e2e::Sandbox;

use crate::support::{hook_call, open_session, sandbox};

/// Calls the PreToolUse hook with this budget. Returns `hookSpecificOutput` of its answer, or null
/// without an answer.
fn pre_tool_use_output(sandbox: &Sandbox, budget: &str, event: Value) -> Value {
    let done = hook_call(sandbox, &["--budget", budget, "pre-tool-use"], event).run();
    let done = done.expect_code(0);
    if done.stdout_text().is_empty() {
        Value::Null
    } else {
        done.json()["hookSpecificOutput"].clone()
    }
}

fn bash_call(input: Value) -> Value {
    json!({"tool_name": "Bash", "tool_input": input})
}

#[test]
fn budget_sets_only_the_timeout_of_a_call() {
    let sandbox = sandbox();
    let input = json!({
        "command": "npm test  # ü", "description": "Run tests", "run_in_background": false,
        "of_tomorrow": {"deep": [1, null]},
    });
    let output = pre_tool_use_output(&sandbox, "15s", bash_call(input.clone()));
    let mut expected = input.clone();
    expected["timeout"] = json!(15_000);
    assert_eq!(output, json!({"hookEventName": "PreToolUse", "updatedInput": expected}));
    // The agent sets a longer timeout to limit the command's run time, and not to wait longer, so
    // the budget replaces this timeout.
    let mut longer = input;
    longer["timeout"] = json!(600_000);
    assert_eq!(pre_tool_use_output(&sandbox, "15s", bash_call(longer))["updatedInput"], expected);
    assert_eq!(
        pre_tool_use_output(&sandbox, "off", bash_call(json!({"command": "npm test"}))),
        Value::Null
    );
}

#[test]
fn budget_leaves_excluded_calls_unchanged() {
    let sandbox = sandbox();
    let mut left_alone = vec![
        bash_call(json!({"command": "make", "timeout": 15_000})),
        bash_call(json!({"command": "make", "timeout": 3_000})),
        bash_call(json!({"command": "make", "run_in_background": true})),
        bash_call(json!({"command": "make", "timeout": "soon"})),
        bash_call(json!({"command": "sleep 20; make"})),
        bash_call(json!({"command": "# wait\nsleep 20"})),
        bash_call(json!({"command": 7})),
        json!({"tool_name": "Monitor", "tool_input": {"command": "make"}}),
    ];
    let mut subagent = bash_call(json!({"command": "make"}));
    subagent["agent_id"] = json!("agent-abc");
    left_alone.push(subagent);
    for event in left_alone {
        assert_eq!(pre_tool_use_output(&sandbox, "15s", event.clone()), Value::Null, "{event}");
    }
    let make = || bash_call(json!({"command": "make"}));
    for (name, value) in [
        ("SIDING_ASSISTANT_MODE", "off"),
        ("SIDING_BACKGROUND_TASKS", "false"),
        ("SIDING_BUDGET", "off"),
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
        ("BASH_DEFAULT_TIMEOUT_MS", "9000"),
    ] {
        let call = hook_call(&sandbox, &["--budget", "15s", "pre-tool-use"], make());
        assert_eq!(call.env(name, value).run().expect_code(0).stdout_text(), "", "{name}");
    }
    for host in ["codex", "gemini"] {
        let args = ["--host", host, "--budget", "15s", "pre-tool-use"];
        assert_eq!(
            hook_call(&sandbox, &args, make()).run().expect_code(0).stdout_text(),
            "",
            "{host}"
        );
    }
}

#[test]
fn project_budget_overrides_the_installed_one() {
    let sandbox = sandbox();
    let file = sandbox.path(".siding/config.toml");
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("test directory");
    for (text, timeout) in [("15s", json!(15_000)), ("1m30s", json!(90_000)), ("off", Value::Null)]
    {
        std::fs::write(&file, format!("budget = \"{text}\"\n")).expect("test directory");
        for installed in ["off", "20s"] {
            let output =
                pre_tool_use_output(&sandbox, installed, bash_call(json!({"command": "make"})));
            assert_eq!(output["updatedInput"]["timeout"], timeout, "{text} {installed}");
        }
    }
}

#[test]
fn budget_does_not_change_guard_decisions() {
    let sandbox = sandbox();
    let asked = pre_tool_use_output(&sandbox, "15s", bash_call(json!({"command": "sudo make"})));
    assert_eq!(asked["permissionDecision"], "ask");
    assert_eq!(asked["updatedInput"]["timeout"], 15_000);
    let event = bash_call(json!({"command": "rm -rf /"}));
    let done = hook_call(&sandbox, &["--budget", "15s", "pre-tool-use"], event).run();
    let denied = done.expect_code(2).json()["hookSpecificOutput"].clone();
    assert_eq!(denied["permissionDecision"], "deny");
    assert!(denied["updatedInput"].is_null(), "{denied}");
}

#[test]
fn backgrounded_call_names_the_budget_as_the_reason() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let budget_context = |timeout: u64, response: Value| {
        let mut event = bash_call(json!({"command": "make", "timeout": timeout}));
        event["tool_response"] = response;
        let done = hook_call(&sandbox, &["--budget", "15s", "post-tool-use"], event).run();
        let out = done.expect_code(0).stdout_text();
        let json = serde_json::from_str::<Value>(&out).unwrap_or_default();
        json["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
    };
    let moved = json!({"backgroundTaskId": "b7d3dcjlv", "timedOutAfterMs": 15_000});
    let text = budget_context(15_000, moved.clone());
    for part in ["15s", "siding's budget", "Claude Code moved", "b7d3dcjlv", "you will be notified"]
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert_eq!(
        budget_context(120_000, json!({"backgroundTaskId": "b7", "timedOutAfterMs": 120_000})),
        ""
    );
    assert_eq!(budget_context(15_000, json!({"stdout": "done"})), "");
    assert_eq!(
        budget_context(15_000, json!({"backgroundTaskId": "b7", "backgroundedByUser": true})),
        ""
    );
}

/// Promise P16: a subagent waits for its commands. siding's MCP server cannot recognize a
/// subagent's call, so the hook gives the call a budget that ends after the task's deadline.
#[test]
fn subagents_run_call_gets_a_budget_up_to_its_deadline() {
    let sandbox = sandbox();
    let updated = |agent: Value, input: Value| {
        let event =
            json!({"tool_name": "mcp__siding__run", "agent_id": agent, "tool_input": input});
        pre_tool_use_output(&sandbox, "off", event)["updatedInput"].clone()
    };
    let subagent = || json!("agent-abc");
    let input = updated(subagent(), json!({"command": "make", "cwd": "/p"}));
    // In seconds: the deadline of 30 minutes, 10 s of grace, and a margin of 60 s.
    assert_eq!(input, json!({"command": "make", "cwd": "/p", "budget": 1870}));
    assert_eq!(updated(subagent(), json!({"command": "make", "timeout": 60}))["budget"], 130);
    assert_eq!(updated(Value::Null, json!({"command": "make"})), Value::Null);
    assert_eq!(updated(subagent(), json!({"command": "make", "budget": 3})), Value::Null);
    assert_eq!(updated(subagent(), json!({"command": "make", "background": true})), Value::Null);
}

/// Claude Code stops its own monitors after 30 minutes, or after 10 minutes in a headless run, so
/// the hook suggests `siding monitor` if the agent wants a longer one.
#[test]
fn long_host_monitor_call_suggests_siding_monitor() {
    let sandbox = sandbox();
    let remark = |entrypoint: &str, input: Value| {
        let event = json!({"tool_name": "Monitor", "tool_input": input});
        let call = hook_call(&sandbox, &["pre-tool-use"], event);
        let out = call.env("CLAUDE_CODE_ENTRYPOINT", entrypoint).run().expect_code(0).stdout_text();
        let json = serde_json::from_str::<Value>(&out).unwrap_or_default();
        assert!(json["hookSpecificOutput"]["permissionDecision"].is_null(), "{out}");
        json["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
    };
    let watch = |ms: u64| json!({"command": "./watch.sh", "timeout_ms": ms});
    let text = remark("cli", watch(1_800_001));
    assert!(text.contains("after 30m at most") && text.contains("siding monitor"), "{text}");
    assert!(text.contains("up to 4h"), "{text}");
    assert_eq!(remark("cli", watch(1_800_000)), "");
    assert!(remark("sdk-cli", watch(1_800_000)).contains("after 10m at most"));
    assert!(remark("cli", json!({"command": "./watch.sh", "persistent": true})).contains("30m"));
    assert_eq!(
        remark("cli", json!({"ws": {"url": "wss://example.org"}, "timeout_ms": 3_600_000})),
        ""
    );
}
