//! Whoever is killed: a finished step is never repeated, and nothing lives on for ever.

use siding_e2e::{eventually, words};

use super::{begin, carrier, lines, run, sandbox, show, states, step, until, wait};

const TEXT: &str = r#"
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

/// Resumed before its steps end for want of an owner: what runs is taken up, and runs once.
#[test]
fn a_resumed_workflow_takes_up_what_runs() {
    let sandbox = sandbox();
    let started =
        run(&sandbox, TEXT, &["--background", "--json"]).env("SIDING_SESSION_GRACE", "60s");
    let id = started.run().expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    until(&sandbox, &id, "b", "running");
    eventually("b has begun", || lines(&sandbox, "log").len() == 2);
    carrier(&id).kill();
    let _over = sandbox.siding(&["wait", &id]).run().expect_code(0);
    let view = show(&sandbox, &id);
    assert_eq!(
        (&view["state"], states(&view)),
        (&"interrupted".into(), vec!["ok", "running", "waiting"])
    );
    let task = step(&view, "b")["task_id"].clone();
    let resumed = sandbox.siding(&["workflow", "resume", "--background", "--json", &id]).run();
    let second = resumed.expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    eventually("it is carried out", || show(&sandbox, &id)["state"] == "running");
    std::fs::write(sandbox.path("gate"), "").expect("written");
    let view = wait(&sandbox, &second);
    assert_eq!((&view["state"], states(&view)), (&"ok".into(), vec!["ok", "ok", "ok"]));
    assert_eq!((&step(&view, "b")["task_id"], &step(&view, "b")["attempt"]), (&task, &1.into()));
    assert_eq!(lines(&sandbox, "log"), ["a", "b", "b is over", "c"]);
}

/// Not resumed: its steps end with the session, and a later resume begins those again and no other.
#[test]
fn what_nobody_carries_out_ends_and_is_begun_again() {
    let sandbox = sandbox();
    let id = begin(&sandbox, TEXT, &[]);
    let view = until(&sandbox, &id, "b", "running");
    eventually("b has begun", || lines(&sandbox, "log").len() == 2);
    let why = sandbox.siding(&["why", "--json", &id]).run().expect_code(0).json();
    assert_eq!(
        (&why["verdict"], &why["waiting_on"]),
        (&"waiting".into(), &"child".into()),
        "{why}"
    );
    let advice = why["advice"].as_str().expect("a sentence");
    assert!(advice.contains(step(&view, "b")["task_id"].as_str().expect("a task")), "{advice}");
    carrier(&id).kill();
    let task = step(&view, "b")["task_id"].as_str().expect("a task");
    let _over = sandbox.siding(&["wait", task]).run().expect_code(0);
    let ended = sandbox.siding(&["show", "--json", task]).run().expect_code(0).json();
    assert_eq!(ended["outcome"], serde_json::json!({ "kind": "stopped", "by": "session" }));
    let view = show(&sandbox, &id);
    assert_eq!(
        (&view["state"], states(&view)),
        (&"interrupted".into(), vec!["ok", "waiting", "waiting"])
    );
    assert_eq!(step(&view, "b")["why"], "stopped by session");
    std::fs::write(sandbox.path("gate"), "").expect("written");
    let resumed = sandbox.siding(&["workflow", "resume", "--budget", "none", &id]).run();
    let out = resumed.expect_code(0).stdout_text();
    assert!(out.contains("lost") && out.contains("3 ok"), "{out}");
    assert_eq!(lines(&sandbox, "log"), ["a", "b", "b", "b is over", "c"]);
    assert_eq!(step(&show(&sandbox, &id), "b")["attempt"], 2);
}

/// The shim of the workflow, or of a step, is killed: the next command puts another in its place, and
/// the workflow goes on as if nothing had been.
#[test]
fn dead_shims_do_not_matter() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("mark step sleep 1500"));
    let text = format!(
        "[[step]]\nid = \"a\"\nrun = '''{line}'''\n[[step]]\nid = \"b\"\nneeds = [\"a\"]\nrun = \"true\"\n"
    );
    let id = begin(&sandbox, &text, &[]);
    let _runs = sandbox.wait_for_mark("step");
    let view = until(&sandbox, &id, "a", "running");
    for task in [id.as_str(), step(&view, "a")["task_id"].as_str().expect("a task")] {
        let show = sandbox.siding(&["show", "--json", task]).run().expect_code(0).json();
        let shim = show["shim_pid"].as_u64().unwrap_or_else(|| panic!("{show:#}"));
        let shim = siding_e2e::Process::from_pid(u32::try_from(shim).expect("a pid"));
        shim.expect("it lives").kill();
    }
    let view = wait(&sandbox, &id);
    assert_eq!((&view["state"], states(&view)), (&"ok".into(), vec!["ok", "ok"]), "{view:#}");
}

/// Killed again and again at random moments: every step has one end that counts, and its work was done
/// as often as it has attempts.
#[test]
fn a_workflow_that_is_killed_again_and_again_gets_done() {
    const KILLS: u64 = 6;
    let sandbox = sandbox();
    let text: String = (0..16)
        .map(|at| {
            let needs = if at == 0 { String::new() } else { format!("\"s{:02}\"", at - 1) };
            format!(
                "[[step]]\nid = \"s{at:02}\"\nneeds = [{needs}]\nrun = \"echo s{at:02} >> log; sleep 0.1\"\n"
            )
        })
        .collect();
    let id = begin(&sandbox, &text, &[]);
    let mut newest = id.clone();
    for kill in 0..KILLS {
        let count = usize::try_from(kill).expect("small");
        eventually("it goes on", || lines(&sandbox, "log").len() > count);
        carrier(&newest).kill();
        let _over = sandbox.siding(&["wait", &newest]).run().expect_code(0);
        let resumed = sandbox.siding(&["workflow", "resume", "--background", "--json", &id]).run();
        if resumed.code != Some(0) {
            // It had just got done.
            break;
        }
        newest = resumed.json()["task_id"].as_str().expect("an id").to_owned();
    }
    let view = wait(&sandbox, &newest);
    assert_eq!(view["state"], "ok", "{view:#}");
    let log = lines(&sandbox, "log");
    for step in view["steps"].as_array().expect("steps") {
        let times = log.iter().filter(|line| step["id"] == line.as_str()).count() as u64;
        let attempts = step["attempt"].as_u64().expect("a number");
        assert!(times >= 1 && times <= attempts, "{times} of {attempts}: {view:#}");
    }
    let mut sorted = log.clone();
    sorted.sort();
    assert_eq!(log, sorted, "in their order");
}
