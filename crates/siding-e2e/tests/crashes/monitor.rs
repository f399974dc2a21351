//! A monitor whose shim is killed: every line is told once all the same.

use siding_e2e::{Sandbox, eventually, set_scripted_server_state, write_scripted_server};
use siding_model::outcome::Outcome;

use crate::state;

/// How many lines the monitor has told.
fn told(sandbox: &Sandbox, id: &str) -> u64 {
    state::journal(sandbox, id).map_or(0, |folded| folded.state.matched.lines)
}

fn start(sandbox: &Sandbox, command: &str) -> String {
    let args = ["monitor", "--json", "--match", "^line", "--", command];
    let started = sandbox.siding(&args).run().expect_code(0).json();
    started["task_id"].as_str().expect("an id").to_owned()
}

/// Says `count` lines, half of which match, when the test makes a file.
fn say(file: &str, from: u32, to: u32) -> String {
    format!(
        "until [ -e {file} ]; do sleep .02; done; \
         for n in $(seq {from} {to}); do echo line $n; echo other; done"
    )
}

fn make(sandbox: &Sandbox, name: &str) {
    std::fs::write(sandbox.path(name), "").expect("own directory");
}

#[test]
fn a_rescuer_goes_on_where_the_dead_shim_left_off() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let tail = "until [ -e c ]; do sleep .02; done; exit 3";
    let id = start(&sandbox, &format!("{}; {}; {tail}", say("a", 1, 40), say("b", 41, 50)));
    make(&sandbox, "a");
    eventually("the output is stored", || state::output(&sandbox, &id).contains("line 40\n"));
    // Some are on record, which comes after the output, and some are held for the next second.
    eventually("the first are told", || told(&sandbox, &id) > 0);
    let before = told(&sandbox, &id);
    assert!(before <= 40, "{before}");
    state::kill(state::keeper(&sandbox, &id));
    make(&sandbox, "b");
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    eventually("all are told", || told(&sandbox, &id) == 50);
    make(&sandbox, "c");
    let _over = sandbox.siding(&["wait", "--timeout", "20s", &id]).run().expect_code(0);
    state::assert_over(&sandbox, &id);
    let state = state::journal(&sandbox, &id).expect("recorded").state;
    assert_eq!((state.matched.lines, state.takeovers), (50, 1));
}

/// The task ended while nobody kept it: its last lines are told by whoever finds that.
#[test]
fn the_last_lines_are_told_though_nobody_kept_it() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let tail = "until [ -e c ]; do sleep .02; done";
    let id = start(&sandbox, &format!("{}; {tail}", say("a", 1, 40)));
    make(&sandbox, "a");
    eventually("the output is stored", || state::output(&sandbox, &id).contains("line 40\n"));
    state::kill(state::keeper(&sandbox, &id));
    make(&sandbox, "c");
    eventually("it has ended", || state::members(&id).is_empty());
    let _closed = sandbox.siding(&["ps"]).run().expect_code(0);
    state::assert_over(&sandbox, &id);
    assert_eq!(told(&sandbox, &id), 40);
}

/// A watch over another MCP server is a program of its task: it goes on whoever keeps that, and it and
/// its server end with the session whose owner was killed.
#[test]
fn a_watch_over_a_server_outlives_its_shim_and_not_its_owner() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let owner = sandbox.puppet(&["--quiet", "hang"]).spawn();
    let pid = owner.process().pid.to_string();
    let args = ["session", "open", "s", "--owner-pid", &pid];
    let _opened = sandbox.siding(&args).run().expect_code(0);
    let server = write_scripted_server(&sandbox, "up");
    let args = ["monitor-mcp", "--json", "--session", "s", "--tool", "look", "--every", "1s", "--"];
    let call = sandbox.siding(&[&args[..], &[&server]].concat());
    let started = call.env("SIDING_SESSION_GRACE", "200ms").run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    eventually("it watches", || state::output(&sandbox, &id).contains("= first: "));
    state::kill(state::keeper(&sandbox, &id));
    set_scripted_server_state(&sandbox, "down");
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    eventually("the change is told", || told(&sandbox, &id) == 1);
    drop(owner);
    assert_eq!(state::ended(&sandbox, &id), Outcome::Stopped { by: "session".to_owned() });
    eventually("its server has gone too", || state::members(&id).is_empty());
}
