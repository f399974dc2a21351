//! Workflow files: errors in a file, the drawing of a workflow's steps, and concurrent runs of one
//! file.

use super::{run_call, sandbox, show_workflow, start_in_background, write_workflow};

const MATRIX_WORKFLOW: &str = r#"
[[step]]
id = "a"
run = "true"
[[step]]
id = "b"
needs = ["a"]
matrix = { v = ["<&\"'>"] }
run = "false"
"#;

#[test]
fn invalid_workflow_is_rejected_before_any_step_runs() {
    let sandbox = sandbox();
    let bad = "[[step]]\nid = \"a\"\nrun = \"touch ran\"\nneeds = [\"b\"]\n";
    let refused = run_call(&sandbox, bad, &[]).run().expect_code(125);
    let err = refused.stderr_text();
    assert!(
        err.contains("flow.toml:4: step `a`: it needs `b`") && err.contains("the steps are a"),
        "{err}"
    );
    assert!(!sandbox.path("ran").exists() && sandbox.task_ids().is_empty());
    let path = write_workflow(&sandbox, bad).display().to_string();
    let checked = sandbox.siding(&["workflow", "check", &path]).run().expect_code(1);
    assert_eq!(checked.stdout_text(), "");
    assert!(checked.stderr_text().contains("no such step"), "{}", checked.stderr_text());
    let path = write_workflow(&sandbox, MATRIX_WORKFLOW).display().to_string();
    let checked = sandbox.siding(&["workflow", "check", &path]).run().expect_code(0);
    assert!(
        checked.stdout_text().ends_with("valid; 2 steps in 2 layers\n"),
        "{}",
        checked.stdout_text()
    );
    let elsewhere = "[[step]]\nid = \"a\"\nrun = \"true\"\non = \"biuld\"\n";
    let path = write_workflow(&sandbox, elsewhere).display().to_string();
    for (verb, code) in [("check", 1), ("run", 125)] {
        let refused = sandbox.siding(&["workflow", verb, &path]).run().expect_code(code);
        let err = refused.stderr_text();
        let known =
            "step `a`: `on`: no executor has the name `biuld`; the known names are: `local`";
        assert!(err.contains("flow.toml:4: ") && err.contains(known), "{err}");
    }
    for missing in ["nowhere.toml", "."] {
        let refused = sandbox.siding(&["workflow", "run", missing]).run().expect_code(125);
        assert!(refused.stderr_text().contains(missing), "{}", refused.stderr_text());
    }
    for id in ["w-000000000000", "nonsense", "b-4k7q0n2m8x5t"] {
        let _refused = sandbox.siding(&["workflow", "show", id]).run().expect_code(125);
    }
}

/// The drawing shows every step with its state, and contains the names with XML escapes.
#[test]
fn svg_shows_every_step_with_its_state() {
    let sandbox = sandbox();
    let path = write_workflow(&sandbox, MATRIX_WORKFLOW).display().to_string();
    let planned =
        sandbox.siding(&["workflow", "show", "--svg", &path]).run().expect_code(0).stdout_text();
    let done = run_call(&sandbox, MATRIX_WORKFLOW, &["--json"]).run().expect_code(1).json();
    let id = done["task_id"].as_str().expect("an id");
    let target = sandbox.path("flow.svg").display().to_string();
    let _drawn =
        sandbox.siding(&["workflow", "show", &format!("--svg={target}"), id]).run().expect_code(0);
    let ran = std::fs::read_to_string(&target).expect("a drawing");
    for (picture, words) in [(planned, ["waiting", "waiting"]), (ran, ["ok", "failed"])] {
        let document = roxmltree::Document::parse(&picture)
            .unwrap_or_else(|error| panic!("{error}: {picture}"));
        let role = document.root_element().attribute("role");
        assert_eq!(role, Some("group"), "screen readers see the titles");
        let steps: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "rect")))
            .collect();
        assert_eq!(steps.len(), 3, "expected the background and two steps");
        let titles: Vec<&str> = document
            .descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "title")))
            .filter_map(|node| node.text())
            .collect();
        assert!(titles[1].starts_with(&format!("a: {}", words[0])), "{titles:?}");
        assert!(titles[2].starts_with(&format!("b[v=<&\"'>]: {}", words[1])), "{titles:?}");
        let lines = document
            .descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "path")));
        assert_eq!(lines.count(), 1);
    }
}

#[test]
fn second_run_of_a_file_is_allowed_with_a_warning() {
    let sandbox = sandbox();
    let text = "[[step]]\nid = \"a\"\nrun = \"until [ -e gate ]; do sleep 0.05; done\"\n";
    let first = start_in_background(&sandbox, text, &[]);
    let second = run_call(&sandbox, text, &["--background"]).run().expect_code(0);
    let stderr = second.stderr_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(stderr.contains(&format!("already being run as {first}")), "{stderr}");
    std::fs::write(sandbox.path("gate"), "").expect("test file");
    for id in [first.as_str(), second.stdout_text().trim()] {
        assert_eq!(super::wait_until_ended(&sandbox, id)["state"], "ok");
        assert_ne!(show_workflow(&sandbox, id)["workflow_id"], serde_json::Value::Null);
    }
}

/// `ps` and `notices` report a workflow like any other task, and `ps` also lists its steps.
#[test]
fn workflow_is_listed_and_reported_like_any_task() {
    let sandbox = sandbox();
    let id = start_in_background(
        &sandbox,
        "name = \"nightly\"\n[[step]]\nid = \"a\"\nrun = \"true\"\n",
        &[],
    );
    let tasks = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    let tasks = tasks.as_array().expect("a list");
    let workflow_task =
        tasks.iter().find(|task| task["task_id"] == id.as_str()).expect("the entry exists");
    assert_eq!(
        (workflow_task["kind"].as_str(), workflow_task["name"].as_str()),
        (Some("local_workflow"), Some("nightly"))
    );
    siding_e2e::eventually("its end is reported", || {
        sandbox.siding(&["notices", "--json"]).run().expect_code(0).stdout_text().contains(&id)
    });
    let tasks = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    assert_eq!(tasks.as_array().map(Vec::len), Some(2), "expected one workflow task and one step");
}
