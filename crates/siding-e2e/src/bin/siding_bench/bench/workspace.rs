//! The directory in which the bench measures, and its cleanup. A workspace is one temporary
//! directory that contains copies of the programs, a home directory, and one directory per row. The
//! programs are copies so that a concurrent build does not replace a program during the
//! measurement. The cleanup recognizes all processes of the bench by this home directory in their
//! environment.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use siding_e2e::processes::{self, Process};
use tempfile::TempDir;

use super::client::BenchClient;

/// First argument of the measuring process, followed by the workspace directory.
pub(super) const MEASURE_COMMAND: &str = "__measure";

/// The tmpfs in which the rows with state in memory run.
const TMPFS_DIR: &str = "/dev/shm";
/// Link in the workspace to its directory in the tmpfs.
const TMPFS_LINK: &str = "memory";

/// Longest time for stopped tasks and their processes to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The temporary directory of the bench, with copies of the programs in `bin`.
#[derive(Debug)]
pub(super) struct Workspace {
    dir: PathBuf,
    /// The directories to remove when this value is dropped. Only the process that cleans up has
    /// entries here.
    temp_dirs: Vec<TempDir>,
}

/// The directory of a row: a state directory with a working directory next to it.
#[derive(Debug, Clone)]
pub(super) struct RowDir {
    /// The directory that contains the state directory, the working directory and other files of
    /// the row.
    pub(super) dir: PathBuf,
    pub(super) state: PathBuf,
    pub(super) work: PathBuf,
    siding: PathBuf,
}

impl Workspace {
    /// Creates a workspace with copies of the program `siding` and of this program.
    pub(super) fn create(siding: &Path) -> Result<Self> {
        let temporary = || tempfile::Builder::new().prefix("siding-bench-").to_owned();
        let kept = temporary().tempdir()?;
        let dir = kept.path().canonicalize()?;
        let mut stage = Self { dir, temp_dirs: vec![kept] };
        if let Ok(memory) = temporary().tempdir_in(TMPFS_DIR) {
            std::os::unix::fs::symlink(memory.path(), stage.dir.join(TMPFS_LINK))?;
            stage.temp_dirs.push(memory);
        }
        // If this user is root, one row runs as another user, who must be able to run the programs.
        // Each state directory still restricts the access to itself.
        fs::set_permissions(&stage.dir, fs::Permissions::from_mode(0o755))?;
        fs::create_dir(stage.dir.join("bin"))?;
        fs::create_dir(stage.dir.join("home"))?;
        fs::copy(siding, stage.siding_program()).context("could not copy siding")?;
        fs::copy(std::env::current_exe()?, stage.bench_program())
            .context("could not copy siding-bench")?;
        Ok(stage)
    }

    /// Returns the workspace that this process was started in, and the remaining arguments.
    pub(super) fn from_args(words: &[String]) -> Result<(Self, &[String])> {
        let (dir, rest) = words.split_first().context("the workspace directory is missing")?;
        let stage = Self { dir: PathBuf::from(dir), temp_dirs: vec![] };
        Ok((stage, rest))
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the copied siding program.
    pub(super) fn siding_program(&self) -> PathBuf {
        self.dir.join("bin/siding")
    }

    /// Returns the path of the copy of this program.
    pub(super) fn bench_program(&self) -> PathBuf {
        self.dir.join("bin/siding-bench")
    }

    /// Creates a row directory with its state in memory; `None` if `/dev/shm` cannot be used.
    pub(super) fn row_dir_in_tmpfs(&self, row: &str) -> Result<Option<RowDir>> {
        let memory = self.dir.join(TMPFS_LINK);
        if !memory.is_dir() {
            return Ok(None);
        }
        let dir = memory.join(row);
        fs::create_dir(&dir)?;
        RowDir::create(dir, self.siding_program()).map(Some)
    }

    /// Runs the measuring process with an empty stdin and this process's stdout and stderr.
    pub(super) fn run_measuring_process(&self, words: &[String]) -> Result<ExitCode> {
        let status = Command::new(self.bench_program())
            .arg(MEASURE_COMMAND)
            .arg(&self.dir)
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.join("home"))
            .env("LANG", "C")
            .stdin(Stdio::null())
            .current_dir("/")
            .status()?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Creates the directory of a row in the workspace.
    pub(super) fn row_dir(&self, row: &str) -> Result<RowDir> {
        let dir = self.dir.join(row);
        fs::create_dir(&dir)?;
        RowDir::create(dir, self.siding_program())
    }

    /// Stops all remaining tasks and processes, and removes the workspace.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace cannot be removed, or if this function had to kill a
    /// process that `siding stop` had not ended and that had not exited by itself.
    pub(super) fn clean_up(mut self) -> Result<()> {
        let memory = fs::read_dir(self.dir.join(TMPFS_LINK)).into_iter().flatten();
        for entry in fs::read_dir(&self.dir)?.chain(memory).flatten() {
            let place = RowDir::from_path(entry.path(), self.siding_program());
            // siding refuses the state directory of another user, so this loop skips it. The scan
            // below finds the processes that remain there.
            let is_own = |found: fs::Metadata| found.uid() == rustix::process::geteuid().as_raw();
            if fs::metadata(&place.state).is_ok_and(is_own) {
                let _best_effort = place.stop_all();
            }
        }
        let left = self.wait_for_exit();
        let described: Vec<String> = left
            .iter()
            .map(|process| format!("{} ({})", process.pid, processes::command_line(process.pid)))
            .collect();
        left.iter().for_each(|process| process.kill());
        let _best_effort = self.wait_for_exit();
        for kept in self.temp_dirs.drain(..) {
            kept.close().context("could not remove the workspace")?;
        }
        if !described.is_empty() {
            bail!("had to kill processes that were left: {}", described.join(", "));
        }
        Ok(())
    }

    /// Waits until no process of the workspace remains, or until the timeout expires. Returns the
    /// remaining processes.
    fn wait_for_exit(&self) -> Vec<Process> {
        let until = Instant::now() + EXIT_TIMEOUT;
        loop {
            let left = self.list_processes();
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn list_processes(&self) -> Vec<Process> {
        let home = format!("HOME={}", self.dir.join("home").display());
        processes::list_pids()
            .into_iter()
            .filter(|pid| processes::environment(*pid).contains(&home))
            .filter_map(Process::from_pid)
            .filter(|process| process.is_alive())
            .collect()
    }
}

impl RowDir {
    fn from_path(dir: PathBuf, siding: PathBuf) -> Self {
        Self { state: dir.join("state"), work: dir.join("work"), dir, siding }
    }

    /// Creates the working directory in the existing directory `dir`; a client creates the state
    /// directory.
    pub(super) fn create(dir: PathBuf, siding: PathBuf) -> Result<Self> {
        let place = Self::from_path(dir, siding);
        fs::create_dir(&place.work)?;
        Ok(place)
    }

    /// Returns the row directory `dir`, which another process created.
    pub(super) fn open(dir: PathBuf, siding: PathBuf) -> Self {
        Self::from_path(dir, siding)
    }

    /// Returns a client of the siding library for this state directory.
    pub(super) fn client(&self) -> Result<BenchClient> {
        BenchClient::open(&self.state, &self.work, &self.siding)
    }

    /// Returns a command that runs siding with this state directory and discards its stdout.
    pub(super) fn siding_command<const N: usize>(&self, words: [&str; N]) -> Command {
        let mut command = Command::new(&self.siding);
        command
            .args(words)
            .env("SIDING_STATE_DIR", &self.state)
            .current_dir(&self.work)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Runs siding and returns its JSON output; fails if the exit code is not 0.
    pub(super) fn siding_json<const N: usize>(
        &self,
        words: [&str; N],
    ) -> Result<serde_json::Value> {
        let output = self.siding_command(words).stdout(Stdio::piped()).output()?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("`siding {}` failed: {}", words.join(" "), stderr.trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Stops all tasks. Returns an error if `siding stop` fails or a task is still marked live
    /// after the timeout.
    pub(super) fn stop_all(&self) -> Result<()> {
        super::interleaved_runs::time_command(&mut self.siding_command(["stop", "--all"]))?;
        self.wait_until_idle()
    }

    /// Waits until no task is marked live, which means that the last shim has finished its final
    /// work.
    pub(super) fn wait_until_idle(&self) -> Result<()> {
        wait_until_idle(&self.state)
    }
}

/// Waits until no task of the state directory `state` is marked live.
pub(super) fn wait_until_idle(state: &Path) -> Result<()> {
    let until = Instant::now() + EXIT_TIMEOUT;
    while fs::read_dir(state.join("live"))?.next().is_some() {
        if Instant::now() >= until {
            bail!("tasks are still marked live in `{}`", state.display());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
