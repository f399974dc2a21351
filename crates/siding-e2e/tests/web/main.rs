//! Tests of `siding web`: sign-in, refused requests, pages with hostile tasks, output, events, actions,
//! and typing into terminals.

mod attacks;
mod browser;
mod client;
mod control;
mod detail;
mod hostile;
mod metrics;
mod output;
mod pages;
mod sign_in;
mod typing;

use siding_e2e::Sandbox;

/// Returns a sandbox that fails its test if the test leaves processes running.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Runs a shell command to its end and returns the id of its task.
#[track_caller]
fn run_task(sandbox: &Sandbox, command: &str) -> String {
    let done = sandbox.siding(&["run", "--json", "--", command]).run();
    done.json()["task_id"].as_str().expect("an id").to_owned()
}

/// Starts a shell command in the background and returns the id of its task.
#[track_caller]
fn start_task(sandbox: &Sandbox, args: &[&str], command: &str) -> String {
    let args = [&["run", "--json", "--background"], args, &["--", command]].concat();
    let done = sandbox.siding(&args).run().expect_code(0);
    done.json()["task_id"].as_str().expect("an id").to_owned()
}
