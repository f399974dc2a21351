//! `siding a2a`: its client and its server against each other, and against servers that misbehave.

mod client;
mod fake_server;
mod serve;

use siding_e2e::{Invocation, ProgramOutput, Sandbox};

/// A token that is long enough.
const TOKEN: &str = "a-token-of-a-test-0123456789";

/// A sandbox that fails its test when anything is left in it.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Prepares a message to the agent at an address, with the token.
fn send_call(sandbox: &Sandbox, url: &str, args: &[&str]) -> Invocation {
    let call = sandbox.siding(&[&["a2a", "send", url, "--bearer-env", "PEER"], args].concat());
    call.env("PEER", TOKEN)
}

/// The outcome of a task, once it has ended.
#[track_caller]
fn wait_outcome(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    let _waited = sandbox.siding(&["wait", id]).run().expect_code(0);
    show_task(sandbox, id)["outcome"].clone()
}

#[track_caller]
fn show_task(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    sandbox.siding(&["show", "--json", id]).run().expect_code(0).json()
}

/// The id that a call in the background has printed.
fn printed_task_id(done: &ProgramOutput) -> String {
    done.stdout_text().trim().to_owned()
}
