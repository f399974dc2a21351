//! Monitors report every matching line once, even if the shim is killed (promise P67).

use siding_e2e::{Sandbox, eventually, set_scripted_server_state, write_scripted_server};
use siding_model::outcome::Outcome;

use crate::state;

/// Returns the number of matching lines that the monitor has recorded.
fn matched_lines(sandbox: &Sandbox, id: &str) -> u64 {
    state::journal(sandbox, id).map_or(0, |folded| folded.state.matched.lines)
}

fn start_monitor(sandbox: &Sandbox, flags: &[&str], command: &str) -> String {
    let args = [&["monitor", "--json", "--match", "^line"], flags, &["--", command]].concat();
    let started = sandbox.siding(&args).run().expect_code(0).json();
    started["task_id"].as_str().expect("an id").to_owned()
}

/// Returns a shell text that waits for a file and then, for each number, prints one line that
/// matches and one that does not.
fn write_lines_on_file(file: &str, from: u32, to: u32) -> String {
    format!(
        "until [ -e {file} ]; do sleep .02; done; \
         for n in $(seq {from} {to}); do echo line $n; echo other; done"
    )
}

fn create_file(sandbox: &Sandbox, name: &str) {
    std::fs::write(sandbox.path(name), "").expect("test directory");
}

#[test]
fn takeover_continues_matching_where_the_dead_shim_stopped() {
    check_takeover(&[], "line 40\n");
}

#[test]
fn takeover_continues_matching_on_a_terminal() {
    check_takeover(&["--pty"], "line 40\r\n");
}

/// Kills the shim of a monitor when its output contains `last_line`.
fn check_takeover(flags: &[&str], last_line: &str) {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let tail = "until [ -e c ]; do sleep .02; done; exit 3";
    let id = start_monitor(
        &sandbox,
        flags,
        &format!(
            "{}; {}; {tail}",
            write_lines_on_file("a", 1, 40),
            write_lines_on_file("b", 41, 50)
        ),
    );
    create_file(&sandbox, "a");
    eventually("the output is stored", || state::output(&sandbox, &id).contains(last_line));
    // The shim records lines after it has stored the output. The monitor's rate limit allows a
    // burst of five records; the remaining lines are recorded one second later.
    eventually("the first lines are reported", || matched_lines(&sandbox, &id) > 0);
    let before = matched_lines(&sandbox, &id);
    assert!(before <= 40, "{before}");
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    create_file(&sandbox, "b");
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    eventually("all lines are reported", || matched_lines(&sandbox, &id) == 50);
    create_file(&sandbox, "c");
    let _over = sandbox.siding(&["wait", "--all", "--timeout", "20s", &id]).run().expect_code(0);
    state::assert_ended_cleanly(&sandbox, &id);
    let state = state::journal(&sandbox, &id).expect("a recorded task").state;
    assert_eq!((state.matched.lines, state.takeovers), (50, 1));
}

/// If a task ends while it has no shim, the next shim records the matching lines in output that the
/// dead shim had stored without recording them.
#[test]
fn lines_written_without_a_shim_are_matched_later() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let tail = "until [ -e c ]; do sleep .02; done";
    let id = start_monitor(&sandbox, &[], &format!("{}; {tail}", write_lines_on_file("a", 1, 40)));
    create_file(&sandbox, "a");
    eventually("the output is stored", || state::output(&sandbox, &id).contains("line 40\n"));
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    create_file(&sandbox, "c");
    eventually("it has ended", || state::members(&id).is_empty());
    let _closed = sandbox.siding(&["ps"]).run().expect_code(0);
    state::assert_ended_cleanly(&sandbox, &id);
    assert_eq!(matched_lines(&sandbox, &id), 40);
}

/// The process of `monitor-mcp` survives the death of its shim. When the owner of the session is
/// killed, this process and its MCP server are terminated.
#[test]
fn mcp_monitor_survives_its_shim_but_not_its_owner() {
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
    eventually("the monitor runs", || state::output(&sandbox, &id).contains("= first: "));
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    set_scripted_server_state(&sandbox, "down");
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    eventually("the change is reported", || matched_lines(&sandbox, &id) == 1);
    drop(owner);
    assert_eq!(
        state::wait_for_outcome(&sandbox, &id),
        Outcome::Stopped { by: "session".to_owned() }
    );
    eventually("its server has exited too", || state::members(&id).is_empty());
}
