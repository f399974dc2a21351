//! Tests of `siding a2a`: the client with siding's own server, and with a scripted server.

mod client;
mod fake_server;
mod serve;

use siding_e2e::{Invocation, ProgramOutput, Sandbox};

/// The bearer token of all tests, longer than the 16 characters that the server requires.
const TOKEN: &str = "a-token-of-a-test-0123456789";

/// Returns a sandbox that fails its test if the test leaves processes running.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Prepares `siding a2a send` to the agent at `url`. The command reads [`TOKEN`] from the variable
/// `PEER`.
fn send_call(sandbox: &Sandbox, url: &str, args: &[&str]) -> Invocation {
    let call = sandbox.siding(&[&["a2a", "send", url, "--bearer-env", "PEER"], args].concat());
    call.env("PEER", TOKEN)
}

/// Waits for the end of a task and returns its outcome.
#[track_caller]
fn wait_outcome(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    let _waited = sandbox.siding(&["wait", "--all", id]).run().expect_code(0);
    show_task(sandbox, id)["outcome"].clone()
}

#[track_caller]
fn show_task(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    sandbox.siding(&["show", "--json", id]).run().expect_code(0).json()
}

/// Returns the task id that a call with `--background` has printed.
fn printed_task_id(done: &ProgramOutput) -> String {
    done.stdout_text().trim().to_owned()
}
