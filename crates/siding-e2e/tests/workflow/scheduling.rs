//! The order, the concurrency and the variables of steps.

use super::{
    find_step, read_lines, run_call, sandbox, start_in_background, step_states, wait_until_ended,
};

/// A step runs after the steps that it needs, and independent steps run concurrently: `b` and `c`
/// wait for each other, so the workflow would hang if one step ran after the other.
#[test]
fn steps_run_in_dependency_order_and_concurrently() {
    let sandbox = sandbox();
    let text = r#"
name = "diamond"
[[step]]
id = "last"
needs = ["b", "c"]
run = "echo last >> log"
[[step]]
id = "b"
needs = ["a"]
run = "touch b; until [ -e c ]; do sleep 0.02; done; echo middle >> log"
[[step]]
id = "c"
needs = ["a"]
run = "touch c; until [ -e b ]; do sleep 0.02; done; echo middle >> log"
[[step]]
id = "a"
run = "echo a >> log; echo in $SIDING_STEP of $SIDING_WORKFLOW > who"
"#;
    let done = run_call(&sandbox, text, &[]).run().expect_code(0);
    assert_eq!(read_lines(&sandbox, "log"), ["a", "middle", "middle", "last"]);
    let out = done.stdout_text();
    assert!(out.lines().count() == 9 && out.contains("workflow ok in"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let who = read_lines(&sandbox, "who").concat();
    let id = who.rsplit(' ').next().expect("an id").to_owned();
    assert!(who.starts_with("in a of w-"), "{who}");
    let view = super::show_workflow(&sandbox, &id);
    assert_eq!((view["state"].as_str(), view["name"].as_str()), (Some("ok"), Some("diamond")));
    assert_eq!(step_states(&view), ["ok"; 4]);
    // A step is an ordinary task whose parent task is the workflow.
    let task = find_step(&view, "b")["task_id"].as_str().expect("a task").to_owned();
    let task = sandbox.siding(&["show", "--json", &task]).run().expect_code(0).json();
    assert_eq!(
        (task["parent_task"].as_str(), task["name"].as_str()),
        (Some(id.as_str()), Some("b"))
    );
    assert_eq!(task["session_id"], id.as_str());
}

/// Each combination of a matrix becomes a separate step. The step receives the values of its
/// combination as variables, so that no value can become part of the command.
#[test]
fn matrix_creates_one_step_per_combination() {
    let sandbox = sandbox();
    let text = r#"
[[step]]
id = "test"
matrix = { os = ["a", "$(touch bad)"], py = [3] }
env = { WHERE = "on {{os}}" }
run = 'echo "$MATRIX_OS $MATRIX_PY $WHERE" >> log'
[[step]]
id = "over"
needs = ["test"]
run = "sort log > sorted"
"#;
    let id = start_in_background(&sandbox, text, &[]);
    let view = wait_until_ended(&sandbox, &id);
    assert_eq!(view["state"], "ok", "{view:#}");
    assert_eq!(read_lines(&sandbox, "sorted"), ["$(touch bad) 3 on $(touch bad)", "a 3 on a"]);
    assert!(!sandbox.path("bad").exists());
    let ids: Vec<_> =
        view["steps"].as_array().expect("steps").iter().map(|step| &step["id"]).collect();
    assert_eq!(ids, ["test[os=a,py=3]", "test[os=$(touch bad),py=3]", "over"]);
    assert_eq!(find_step(&view, "over")["needs"], serde_json::json!([ids[0], ids[1]]));
}

/// At most `max_parallel` steps run concurrently. If two of these steps ran at the same time, one
/// would fail to create the directory.
#[test]
fn max_parallel_limits_concurrent_steps() {
    let sandbox = sandbox();
    let text = r#"
max_parallel = 1
[[step]]
id = "s"
matrix = { n = [1, 2, 3, 4] }
run = "mkdir lock && sleep 0.1 && rmdir lock"
"#;
    let path = super::write_workflow(&sandbox, text).display().to_string();
    let done = sandbox.siding(&["workflow", "run", "--budget", "none", &path]).run();
    let out = done.expect_code(0).stdout_text();
    assert!(out.contains("4 ok"), "{out}");
}

/// A step with `prompt` is a task of kind `local_agent`. Matrix values are inserted into the
/// prompt.
#[test]
fn prompt_step_runs_an_agent() {
    let sandbox = sandbox();
    let script = "[[answer]]\nexpect = '^greet a$'\ntext = \"hello\"\n";
    std::fs::write(sandbox.path("script.toml"), script).expect("test file");
    let text = r#"
model = "script:script.toml"
[[step]]
id = "greet"
matrix = { who = ["a"] }
prompt = "greet {{who}}"
"#;
    let id = start_in_background(&sandbox, text, &[]);
    let view = wait_until_ended(&sandbox, &id);
    let greet = find_step(&view, "greet[who=a]");
    assert_eq!(greet["state"], "ok", "{view:#}");
    let task = greet["task_id"].as_str().expect("a task");
    assert!(task.starts_with("a-"), "{task}");
    let output = sandbox.siding(&["output", task]).run().expect_code(0).stdout_text();
    assert!(output.lines().any(|line| line == "hello"), "{output}");
}
