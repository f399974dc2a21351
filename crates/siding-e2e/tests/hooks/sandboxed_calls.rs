//! Calls of siding by a command that its host runs in a sandbox.

use crate::support::{has_bwrap, sandbox};

/// A call in the sandbox of a host, whose file system is read-only there, is told how to start a
/// command outside of it.
#[test]
fn a_call_in_a_sandbox_names_the_ways_out_of_it() {
    if !has_bwrap() {
        return;
    }
    let sandbox = sandbox();
    let inner = ["run", "--", "true"];
    for (variable, hint) in
        [("SANDBOX_RUNTIME", "siding's MCP tool `run`"), ("OTHER", "set SIDING_STATE_DIR")]
    {
        let line = format!("bwrap --ro-bind / / --dev /dev {}", sandbox.siding_line(&inner));
        let call = sandbox.host("bash", &["-c", &line]).env(variable, "1");
        let refused = call.run().expect_code(125);
        let text = refused.stderr_text();
        assert!(text.contains("Read-only file system") && text.contains(hint), "{text}");
    }
}
