//! `siding a2a serve` with a scripted agent: another machine's agent, on this one.

use std::net::SocketAddr;

use crate::{Invocation, RunningProgram, Sandbox};

/// A server whose agent a script answers for.
#[derive(Debug)]
pub struct AgentServer {
    running: RunningProgram,
    /// Where it listens.
    pub address: SocketAddr,
}

impl AgentServer {
    /// Starts one at an address, whose port may be 0, which lets in whoever has the token.
    ///
    /// # Panics
    ///
    /// When it does not begin to listen.
    #[must_use]
    #[track_caller]
    pub fn start(sandbox: &Sandbox, script: &str, address: &str, token: &str) -> Self {
        std::fs::write(sandbox.path("served.toml"), script).expect("the own directory is there");
        let args = ["a2a", "serve", "--addr", address, "--model", "script:served.toml"];
        Self::from_invocation(sandbox.siding(&args).env("SIDING_A2A_TOKEN", token))
    }

    /// Starts what this call says.
    ///
    /// # Panics
    ///
    /// When it does not begin to listen.
    #[must_use]
    #[track_caller]
    pub fn from_invocation(call: Invocation) -> Self {
        let mut running = call.spawn();
        let output = running.wait_for_stdout("\ntoken: ");
        let address = output.split("http://").nth(1).and_then(|rest| rest.split(',').next());
        let address = address.expect("an address").parse().expect("an address");
        Self { running, address }
    }

    /// Returns its address as a client wants it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it, as its user does.
    ///
    /// # Panics
    ///
    /// When it does not end well.
    #[track_caller]
    pub fn stop(self) {
        self.running.signal(rustix::process::Signal::TERM);
        let _ended = self.running.wait().expect_code(0);
    }
}
