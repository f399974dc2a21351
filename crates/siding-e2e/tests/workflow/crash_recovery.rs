//! Crash safety of workflows: whichever process is killed, no finished step is repeated, and no
//! process runs forever (promise P130).

use siding_e2e::{eventually, eventually_some, words};

use super::{
    find_step, read_lines, run_call, sandbox, show_workflow, start_in_background, step_states,
    wait_for_runner, wait_for_step_state, wait_until_ended,
};

const GATED_WORKFLOW: &str = r#"
[[step]]
id = "a"
run = "echo a >> log"
[[step]]
id = "b"
needs = ["a"]
run = "echo b >> log; until [ -e gate ]; do sleep 0.05; done; echo b is over >> log"
[[step]]
id = "c"
needs = ["b"]
run = "echo c >> log"
"#;

/// A workflow that is resumed within `session_grace` waits for the steps that still run, and does
/// not start these steps again.
#[test]
fn resumed_workflow_adopts_running_steps() {
    let sandbox = sandbox();
    let started = run_call(&sandbox, GATED_WORKFLOW, &["--background", "--json"])
        .env("SIDING_SESSION_GRACE", "60s");
    let id = started.run().expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    wait_for_step_state(&sandbox, &id, "b", "running");
    eventually("step b has started", || read_lines(&sandbox, "log").len() == 2);
    wait_for_runner(&id).kill();
    let _over = sandbox.siding(&["wait", "--all", &id]).run().expect_code(0);
    let view = show_workflow(&sandbox, &id);
    assert_eq!(
        (&view["state"], step_states(&view)),
        (&"interrupted".into(), vec!["ok", "running", "waiting"])
    );
    let task = find_step(&view, "b")["task_id"].clone();
    let resumed = sandbox.siding(&["workflow", "resume", "--background", "--json", &id]).run();
    let second = resumed.expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    eventually("the workflow runs", || show_workflow(&sandbox, &id)["state"] == "running");
    std::fs::write(sandbox.path("gate"), "").expect("test file");
    let view = wait_until_ended(&sandbox, &second);
    assert_eq!((&view["state"], step_states(&view)), (&"ok".into(), vec!["ok", "ok", "ok"]));
    assert_eq!(
        (&find_step(&view, "b")["task_id"], &find_step(&view, "b")["attempt"]),
        (&task, &1.into())
    );
    assert_eq!(read_lines(&sandbox, "log"), ["a", "b", "b is over", "c"]);
}

/// The result of a step is lost with its task, and running the step again could repeat its effects.
#[test]
fn a_step_whose_task_was_removed_is_not_run_again() {
    let sandbox = sandbox();
    let started = run_call(&sandbox, GATED_WORKFLOW, &["--background", "--json"])
        .env("SIDING_SESSION_GRACE", "60s");
    let id = started.run().expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    let journal = sandbox.state_dir().join("sessions").join(&id).join("workflow");
    eventually("step b is recorded as started", || {
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        text.lines().any(|line| line.contains("\"started\"") && line.contains("\"b\""))
    });
    wait_for_runner(&id).kill();
    let _over = sandbox.siding(&["wait", "--all", &id]).run().expect_code(0);
    let view = show_workflow(&sandbox, &id);
    let task = find_step(&view, "b")["task_id"].as_str().expect("an id").to_owned();
    std::fs::write(sandbox.path("gate"), "").expect("test file");
    let _ended = sandbox.siding(&["wait", &task]).run().expect_code(0);
    let _removed = sandbox.siding(&["rm", "--force", &task]).run().expect_code(0);

    let resumed = sandbox.siding(&["workflow", "resume", &id]).run().expect_code(1);
    assert!(resumed.stdout_text().contains("its task was removed"), "{resumed}");
    let view = show_workflow(&sandbox, &id);
    assert_eq!(step_states(&view)[..2], ["ok", "failed"], "{view:#}");
    assert_eq!(read_lines(&sandbox, "log"), ["a", "b", "b is over"]);
}

/// If a killed workflow is not resumed within `session_grace`, its running steps end. A later
/// resume starts only these steps again.
#[test]
fn unresumed_steps_end_and_a_later_resume_restarts_them() {
    let sandbox = sandbox();
    let id = start_in_background(&sandbox, GATED_WORKFLOW, &[]);
    let view = wait_for_step_state(&sandbox, &id, "b", "running");
    eventually("step b has started", || read_lines(&sandbox, "log").len() == 2);
    let why = eventually_some("it waits for the step", || {
        let why = sandbox.siding(&["why", "--json", &id]).run().expect_code(0).json();
        (why["verdict"] == "waiting" && why["waiting_on"] == "child").then_some(why)
    });
    let advice = why["advice"].as_str().expect("a text");
    assert!(
        advice.contains(find_step(&view, "b")["task_id"].as_str().expect("a task")),
        "{advice}"
    );
    wait_for_runner(&id).kill();
    let task = find_step(&view, "b")["task_id"].as_str().expect("a task");
    let _over = sandbox.siding(&["wait", "--all", task]).run().expect_code(0);
    let ended = sandbox.siding(&["show", "--json", task]).run().expect_code(0).json();
    assert_eq!(ended["outcome"], serde_json::json!({ "kind": "stopped", "by": "session" }));
    let view = show_workflow(&sandbox, &id);
    assert_eq!(
        (&view["state"], step_states(&view)),
        (&"interrupted".into(), vec!["ok", "waiting", "waiting"])
    );
    assert_eq!(find_step(&view, "b")["why"], "stopped by session");
    std::fs::write(sandbox.path("gate"), "").expect("test file");
    let resumed = sandbox.siding(&["workflow", "resume", "--budget", "none", &id]).run();
    let out = resumed.expect_code(0).stdout_text();
    assert!(out.contains("lost") && out.contains("3 ok"), "{out}");
    assert_eq!(read_lines(&sandbox, "log"), ["a", "b", "b", "b is over", "c"]);
    assert_eq!(find_step(&show_workflow(&sandbox, &id), "b")["attempt"], 2);
}

/// When the shims of a workflow and of its step are killed, a repair starts new shims, and the
/// workflow continues.
#[test]
fn workflow_survives_the_death_of_its_shims() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("mark step sleep 4000"));
    let text = format!(
        "[[step]]\nid = \"a\"\nrun = '''{line}'''\n[[step]]\nid = \"b\"\nneeds = [\"a\"]\nrun = \"true\"\n"
    );
    let id = start_in_background(&sandbox, &text, &[]);
    let _runs = sandbox.wait_for_mark("step");
    let view = wait_for_step_state(&sandbox, &id, "a", "running");
    for task in [id.as_str(), find_step(&view, "a")["task_id"].as_str().expect("a task")] {
        let show = sandbox.siding(&["show", "--json", task]).run().expect_code(0).json();
        let shim = show["shim_pid"].as_u64().unwrap_or_else(|| panic!("{show:#}"));
        let shim = siding_e2e::Process::from_pid(u32::try_from(shim).expect("a pid"));
        shim.expect("the process is alive").kill();
    }
    let view = wait_until_ended(&sandbox, &id);
    assert_eq!((&view["state"], step_states(&view)), (&"ok".into(), vec!["ok", "ok"]), "{view:#}");
}

/// A workflow that is repeatedly killed and resumed completes: every step succeeds, and runs at
/// most once for each recorded attempt.
#[test]
fn repeatedly_killed_workflow_completes() {
    const KILL_COUNT: u64 = 6;
    let sandbox = sandbox();
    let text: String = (0..16)
        .map(|index| {
            let needs = if index == 0 { String::new() } else { format!("\"s{:02}\"", index - 1) };
            format!(
                "[[step]]\nid = \"s{index:02}\"\nneeds = [{needs}]\nrun = \"echo s{index:02} >> log; sleep 0.1\"\n"
            )
        })
        .collect();
    let id = start_in_background(&sandbox, &text, &[]);
    let mut newest = id.clone();
    for kill in 0..KILL_COUNT {
        let count = usize::try_from(kill).expect("the number is small");
        eventually("it continues", || read_lines(&sandbox, "log").len() > count);
        wait_for_runner(&newest).kill();
        let _over = sandbox.siding(&["wait", "--all", &newest]).run().expect_code(0);
        let resumed = sandbox.siding(&["workflow", "resume", "--background", "--json", &id]).run();
        if resumed.code != Some(0) {
            // The workflow has completed in the meantime.
            break;
        }
        newest = resumed.json()["task_id"].as_str().expect("an id").to_owned();
    }
    let view = wait_until_ended(&sandbox, &newest);
    assert_eq!(view["state"], "ok", "{view:#}");
    let log = read_lines(&sandbox, "log");
    for step in view["steps"].as_array().expect("steps") {
        let times = log.iter().filter(|line| step["id"] == line.as_str()).count() as u64;
        let attempts = step["attempt"].as_u64().expect("a number");
        assert!(times >= 1 && times <= attempts, "{times} of {attempts}: {view:#}");
    }
    let mut sorted = log.clone();
    sorted.sort();
    assert_eq!(log, sorted, "the steps ran out of order");
}
