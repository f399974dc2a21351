//! A Slurm cluster on 127.0.0.1, programs that count the calls of Slurm's commands, and submitit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::engine::Engine;
use super::executor_client::last_line;
use super::interleaved_runs::{time_command, time_concurrent_calls};
use super::ssh_machine::{find_program, prepend_to_path, write_program};
use super::workspace::RowDir;

/// The script of `tools/engines` that starts the cluster.
pub(super) const SCRIPT: &str = "slurm.sh";
/// The commands that query the controller or the accounting for the states of jobs. A cluster
/// tolerates only few such calls.
const QUERY_COMMANDS: [&str; 3] = ["squeue", "sacct", "scontrol"];
/// The other commands whose calls are counted.
const OTHER_COMMANDS: [&str; 4] = ["sbatch", "scancel", "sinfo", "srun"];
/// Ends a call of a client after 6 minutes: clients wait without limit for a controller that does
/// not answer, and submitit for a job that has failed, on a cluster without accounting.
const TIME_LIMIT_SECONDS: u64 = 360;

/// Submits commands as one array, and waits for their results. By default, submitit doubles the time
/// between two queries of the accounting, up to 10 minutes; here it asks as often as siding.
const SUBMITIT_SCRIPT: &str = "\
import sys
import submitit
from submitit.helpers import CommandFunction
from submitit.slurm.slurm import SlurmInfoWatcher
submitit.SlurmJob.watcher = SlurmInfoWatcher(delay_s=5)
executor = submitit.SlurmExecutor(folder=sys.argv[2])
executor.update_parameters(time=30)
command = CommandFunction(['true'], verbose=False)
with executor.batch():
    jobs = [executor.submit(command) for _ in range(int(sys.argv[1]))]
for job in jobs:
    job.result()
";

/// The cluster, and a directory of programs that count calls. Dropping this value stops the
/// cluster.
#[derive(Debug)]
pub(super) struct SlurmCluster {
    engine: Engine,
    wrapper_dir: PathBuf,
    /// The file that receives a line with the name of each counted command.
    calls: PathBuf,
    work: PathBuf,
}

/// An installed submitit.
#[derive(Debug)]
pub(super) struct Submitit {
    python: PathBuf,
    folder: PathBuf,
}

/// Numbers of calls by command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallCounts(BTreeMap<String, usize>);

impl SlurmCluster {
    pub(super) fn start(place: &RowDir) -> Result<Self> {
        let calls = place.dir.join("calls");
        fs::write(&calls, "")?;
        let wrapper_dir = place.dir.join("bin");
        for name in QUERY_COMMANDS.into_iter().chain(OTHER_COMMANDS) {
            // A site without accounting may lack `sacct`.
            let Ok(program) = find_program(name) else { continue };
            // The shell opens the file with O_APPEND, so that concurrent lines do not mix.
            let script = format!(
                "#!/bin/sh\necho {name} >> {}\nexec {} \"$@\"\n",
                calls.display(),
                program.display()
            );
            write_program(&wrapper_dir.join(name), &script)?;
        }
        let engine = Engine::start(SCRIPT, place.dir.join("c"))?;
        Ok(Self { engine, wrapper_dir, calls, work: place.work.clone() })
    }

    /// Returns the variables with which siding finds the cluster and the counting programs.
    pub(super) fn counted_variables(&self) -> Vec<(&'static str, OsString)> {
        vec![("PATH", prepend_to_path(&self.wrapper_dir)), self.config_variable()]
    }

    fn config_variable(&self) -> (&'static str, OsString) {
        ("SLURM_CONF", self.engine.config.clone().into_os_string())
    }

    /// Returns the time until `count` concurrent calls of `sbatch --wait` for `true` have ended.
    pub(super) fn time_sbatch(&self, count: usize) -> Result<Duration> {
        let words = ["sbatch", "--wait", "--quiet", "--output", "/dev/null", "--wrap", "true"];
        self.cancel_after_failure(time_concurrent_calls(count, || {
            self.client_command(&words).spawn()
        }))
    }

    /// Cancels the jobs that a failed client has left, which would delay those of the next one.
    fn cancel_after_failure(&self, result: Result<Duration>) -> Result<Duration> {
        if result.is_err() {
            let _best_effort = self.client_command(&["scancel", "--me"]).status();
        }
        result.with_context(|| format!("it failed, or took longer than {TIME_LIMIT_SECONDS} s"))
    }

    /// Prepares a program that uses the cluster.
    fn client_command(&self, words: &[&str]) -> Command {
        let (name, value) = self.config_variable();
        let mut command = Command::new("timeout");
        command.arg(TIME_LIMIT_SECONDS.to_string()).args(words);
        command.env(name, value).current_dir(&self.work);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Returns the calls since the start of the cluster.
    pub(super) fn call_counts(&self) -> Result<CallCounts> {
        Ok(CallCounts::parse(&fs::read_to_string(&self.calls)?))
    }
}

impl Submitit {
    /// Installs submitit from the package index into a virtual environment below `dir`; `None` if
    /// that is not possible.
    pub(super) fn install(dir: &Path) -> Option<Self> {
        let environment = dir.join("venv");
        let succeeds = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let python = environment.join("bin/python");
        let is_installed = succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            && succeeds(Command::new(&python).args(["-m", "pip", "install", "submitit"]));
        is_installed.then(|| Self { python, folder: dir.join("submitit") })
    }

    /// Returns the time in which a program runs `count` times `true`, as the tasks of one array.
    pub(super) fn time_tasks(&self, cluster: &SlurmCluster, count: usize) -> Result<Duration> {
        let python = self.python.to_string_lossy();
        let mut command = cluster.client_command(&[&python, "-c", SUBMITIT_SCRIPT]);
        // Without accounting, submitit warns at each query.
        let messages = self.folder.with_extension("messages");
        command.arg(count.to_string()).arg(&self.folder).stderr(File::create(&messages)?);
        let result = cluster.cancel_after_failure(time_command(&mut command));
        result.with_context(|| format!("its last message is `{}`", last_line(&messages)))
    }
}

impl CallCounts {
    fn parse(text: &str) -> Self {
        let mut counts = BTreeMap::new();
        for name in text.lines() {
            *counts.entry(name.to_owned()).or_insert(0) += 1;
        }
        Self(counts)
    }

    /// Returns the calls that were made after `earlier` was counted.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |name: &String| earlier.0.get(name).copied().unwrap_or(0);
        let added = self.0.iter().map(|(name, count)| (name.clone(), count - before(name)));
        Self(added.filter(|(_, count)| *count > 0).collect())
    }

    /// Returns the number of calls that query the states of jobs.
    pub(super) fn queries(&self) -> usize {
        QUERY_COMMANDS.iter().filter_map(|name| self.0.get(*name)).sum()
    }

    /// Formats the counts as `squeue 3, sbatch 500`.
    pub(super) fn text(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(name, count)| format!("{name} {count}")).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_calls_that_ask_for_states_are_queries() {
        let earlier = CallCounts::parse("squeue\nsbatch\n");
        let later = CallCounts::parse("squeue\nsbatch\nsacct\nsbatch\nsqueue\nscancel\n");
        let added = later.since(&earlier);
        assert_eq!(added.text(), "sacct 1, sbatch 1, scancel 1, squeue 1");
        assert_eq!(added.queries(), 2);
        assert_eq!(later.since(&later).text(), "none");
    }
}
