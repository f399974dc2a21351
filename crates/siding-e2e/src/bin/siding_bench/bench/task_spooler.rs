//! Runs jobs with task-spooler (`tsp`), the existing program for background jobs with which siding
//! is compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use super::interleaved_runs::time_command;

/// The note below the table if the machine has no `tsp`.
pub(super) const INSTALL_HINT: &str =
    "not compared: `tsp` is not installed; `apt-get install task-spooler` installs it";

/// A task-spooler server with its own socket and a slot for every job, so that no job is queued.
/// Dropping this value ends the server.
#[derive(Debug)]
pub(super) struct TaskSpooler {
    socket: PathBuf,
    slots: usize,
}

impl TaskSpooler {
    /// Starts a server that runs up to `slots` jobs concurrently; `None` if the program is not
    /// installed or cannot run a job.
    pub(super) fn start(dir: &Path, slots: usize) -> Option<Self> {
        let spooler = Self { socket: dir.join("tsp"), slots };
        // The first call starts the server, which keeps running.
        time_command(&mut spooler.run_command(["true"])).ok()?;
        Some(spooler)
    }

    /// Prepares a call that runs a job without storing its output, and returns at its end.
    pub(super) fn run_command<const N: usize>(&self, job: [&str; N]) -> Command {
        self.command("-fn", &job)
    }

    /// Starts a job without storing its output, and returns without waiting for its end.
    pub(super) fn start_job<const N: usize>(&self, job: [&str; N]) -> Result<()> {
        time_command(&mut self.command("-n", &job)).map(drop)
    }

    /// Prepares a call that returns at the end of the job that was started last.
    pub(super) fn wait_command(&self) -> Command {
        self.command("-w", &[])
    }

    fn command(&self, option: &str, words: &[&str]) -> Command {
        let mut command = Command::new("tsp");
        command.arg(option).args(words).env("TS_SOCKET", &self.socket);
        command.env("TS_SLOTS", self.slots.to_string()).env("TS_MAXFINISHED", "10");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for TaskSpooler {
    fn drop(&mut self) {
        // If the server does not end, the cleanup of the workspace kills it.
        let _best_effort = self.command("-K", &[]).status();
    }
}
