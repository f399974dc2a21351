//! Finds and ends the processes that a test left running.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::announcement::Announcement;
use crate::eventually::poll_within;
use crate::processes::{self, Process};

/// Longest time that killed processes may take to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the file, next to the puppets' log, whose existence ends the puppets that fork
/// repeatedly.
pub fn shutdown_marker(log: &Path) -> PathBuf {
    log.with_extension("ending")
}

/// The properties by which the processes of one sandbox are recognized.
#[derive(Debug)]
pub(crate) struct SandboxTraces {
    /// The environment entry `PUPPET_SANDBOX=VALUE` that the sandbox's calls inherit.
    pub(crate) tag: String,
    /// The sandbox's directory, in which no process of another sandbox has files open.
    pub(crate) root: PathBuf,
    /// The log in which puppets announce their pids and start times.
    pub(crate) log: PathBuf,
    /// Birthmarks of all tasks found so far in the sandbox's state directory.
    pub(crate) birthmarks: BTreeSet<u64>,
}

/// A living process of the sandbox, with the property by which it was recognized.
#[derive(Debug, Clone)]
pub(crate) struct Leftover {
    process: Process,
    reason: &'static str,
    description: String,
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pid {} ({}), known by its {}", self.process.pid, self.description, self.reason)
    }
}

impl SandboxTraces {
    /// Returns the living processes of the sandbox.
    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let announced: BTreeSet<Process> = Announcement::parse_all(&String::from_utf8_lossy(&log))
            .into_iter()
            .map(|step| step.process)
            .collect();
        let own_program = std::fs::read_link("/proc/self/exe").ok();
        processes::list_pids()
            .into_iter()
            .filter_map(|pid| {
                let process = Process::from_pid(pid)?;
                // Until its exec, a child of a concurrent test is a copy of this test program. It
                // holds descriptors of every sandbox in the program, so its descriptors do not show
                // to which sandbox it belongs.
                let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
                if program.is_some() && program == own_program {
                    return None;
                }
                let because = self.match_reason(process, &announced)?;
                let described = format!(
                    "{}, state {}",
                    processes::command_line(pid),
                    processes::state(pid).unwrap_or('?')
                );
                process.is_alive().then_some(Leftover {
                    process,
                    reason: because,
                    description: described,
                })
            })
            .collect()
    }

    fn match_reason(
        &self,
        process: Process,
        announced: &BTreeSet<Process>,
    ) -> Option<&'static str> {
        let pid = process.pid;
        let inside = |path: &Path| path.starts_with(&self.root);
        if announced.contains(&process) {
            Some("announcement in the log")
        } else if processes::read_birthmark(pid).is_some_and(|mark| self.birthmarks.contains(&mark))
        {
            Some("birthmark")
        } else if processes::environment(pid).contains(&self.tag) {
            Some("environment")
        } else if std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| inside(&cwd)) {
            Some("working directory")
        } else if processes::descriptors(pid).iter().any(|(_, path)| inside(path)) {
            Some("open files in the sandbox")
        } else {
            None
        }
    }

    /// Waits at most `patience` until no process is left; returns the processes that are still
    /// alive.
    pub(crate) fn wait_for_exit(&self, patience: Duration) -> Vec<Leftover> {
        let mut remaining = vec![];
        let _best_effort = poll_within(patience, || {
            remaining = self.leftovers();
            remaining.is_empty().then_some(())
        });
        remaining
    }

    /// Scans for the sandbox's processes and kills them until a scan finds none; returns the
    /// processes that are still alive after [`KILL_TIMEOUT`].
    pub(crate) fn kill_all(&self) -> Vec<Leftover> {
        let _best_effort = std::fs::write(shutdown_marker(&self.log), "");
        let mut remaining = vec![];
        let _best_effort = poll_within(KILL_TIMEOUT, || {
            remaining = self.leftovers();
            remaining.iter().for_each(|leftover| leftover.process.kill());
            remaining.is_empty().then_some(())
        });
        remaining
    }
}
