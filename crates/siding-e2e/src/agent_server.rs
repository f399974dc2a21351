//! Runs `siding a2a serve` with a scripted agent, in the role of an agent on another machine.

use std::net::SocketAddr;

use crate::{Invocation, RunningProgram, Sandbox};

/// A running A2A server whose agent answers from a script.
#[derive(Debug)]
pub struct AgentServer {
    running: RunningProgram,
    /// Address and port on which the server listens; the port is never 0.
    pub address: SocketAddr,
}

impl AgentServer {
    /// Starts a server on `address`, whose port may be 0. The server admits clients that present
    /// `token`.
    ///
    /// # Panics
    ///
    /// When the server does not start to listen.
    #[must_use]
    #[track_caller]
    pub fn start(sandbox: &Sandbox, script: &str, address: &str, token: &str) -> Self {
        std::fs::write(sandbox.path("served.toml"), script).expect("test directory");
        let args = ["a2a", "serve", "--addr", address, "--model", "script:served.toml"];
        Self::from_invocation(sandbox.siding(&args).env("SIDING_A2A_TOKEN", token))
    }

    /// Starts a server with a prepared `siding a2a serve` command, for tests that need other
    /// options.
    ///
    /// # Panics
    ///
    /// When the server does not start to listen.
    #[must_use]
    #[track_caller]
    pub fn from_invocation(call: Invocation) -> Self {
        let mut running = call.spawn();
        let output = running.wait_for_stdout("\ntoken: ");
        let address = output.split("http://").nth(1).and_then(|rest| rest.split(',').next());
        let address = address.expect("an address").parse().expect("an address");
        Self { running, address }
    }

    /// Returns the server's base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops the server with SIGTERM, as `kill` does, and waits for its exit.
    ///
    /// # Panics
    ///
    /// When the server exits with a code other than 0, or does not exit.
    #[track_caller]
    pub fn stop(self) {
        self.running.signal(rustix::process::Signal::TERM);
        let _ended = self.running.wait().expect_code(0);
    }
}
