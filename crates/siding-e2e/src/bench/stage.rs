//! Where measuring happens, and how it is left as it was found.
//!
//! A stage is one temporary directory with copies of the programs (a build that goes on meanwhile
//! changes nothing), a home, and one place per row. Whatever runs on it is known by the home in its
//! environment.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use siding_e2e::processes::{self, Process};
use tempfile::TempDir;

use super::client::Client;

/// First argument of the process that measures.
pub(super) const MEASURE: &str = "__measure";

/// Where a file system in memory is, on most machines.
const MEMORY: &str = "/dev/shm";
/// Link on the stage that leads to a directory there.
const MEMORY_LINK: &str = "memory";

/// How long what was told to end may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// The directory.
#[derive(Debug)]
pub(super) struct Stage {
    dir: PathBuf,
    /// Held by the process that clears up.
    kept: Vec<TempDir>,
}

/// One state directory with a working directory beside it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Holds both; room for anything else.
    pub(super) dir: PathBuf,
    pub(super) state: PathBuf,
    pub(super) work: PathBuf,
    siding: PathBuf,
}

impl Stage {
    /// Builds a stage around a program.
    pub(super) fn build(siding: &Path) -> Result<Self> {
        let temporary = || tempfile::Builder::new().prefix("siding-bench-").to_owned();
        let kept = temporary().tempdir()?;
        let dir = kept.path().canonicalize()?;
        let mut stage = Self { dir, kept: vec![kept] };
        if let Ok(memory) = temporary().tempdir_in(MEMORY) {
            std::os::unix::fs::symlink(memory.path(), stage.dir.join(MEMORY_LINK))?;
            stage.kept.push(memory);
        }
        // Another user must reach the programs; every state directory is closed by itself.
        fs::set_permissions(&stage.dir, fs::Permissions::from_mode(0o755))?;
        fs::create_dir(stage.dir.join("bin"))?;
        fs::create_dir(stage.dir.join("home"))?;
        fs::copy(siding, stage.siding()).context("could not copy siding")?;
        fs::copy(std::env::current_exe()?, stage.own()).context("could not copy siding-bench")?;
        Ok(stage)
    }

    /// Returns the stage that this process was started on, and the rest of its arguments.
    pub(super) fn entered(words: &[String]) -> Result<(Self, &[String])> {
        let (dir, rest) = words.split_first().context("no stage was named")?;
        let stage = Self { dir: PathBuf::from(dir), kept: vec![] };
        Ok((stage, rest))
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the program that is measured.
    pub(super) fn siding(&self) -> PathBuf {
        self.dir.join("bin/siding")
    }

    /// Returns this program.
    pub(super) fn own(&self) -> PathBuf {
        self.dir.join("bin/siding-bench")
    }

    /// Makes a place whose state is in memory; `None` where there is no such file system.
    pub(super) fn place_in_memory(&self, row: &str) -> Result<Option<Place>> {
        let memory = self.dir.join(MEMORY_LINK);
        if !memory.is_dir() {
            return Ok(None);
        }
        let dir = memory.join(row);
        fs::create_dir(&dir)?;
        Place::make(dir, self.siding()).map(Some)
    }

    /// Runs the measuring process, its output going where ours goes.
    pub(super) fn measure(&self, words: &[String]) -> Result<ExitCode> {
        let status = Command::new(self.own())
            .arg(MEASURE)
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

    /// Makes the place of a row.
    pub(super) fn place(&self, row: &str) -> Result<Place> {
        let dir = self.dir.join(row);
        fs::create_dir(&dir)?;
        Place::make(dir, self.siding())
    }

    /// Ends and removes whatever is still there.
    ///
    /// # Errors
    ///
    /// When a process had to be killed that should have ended by itself or by `siding stop`.
    pub(super) fn clear(mut self) -> Result<()> {
        let memory = fs::read_dir(self.dir.join(MEMORY_LINK)).into_iter().flatten();
        for entry in fs::read_dir(&self.dir)?.chain(memory).flatten() {
            let place = Place::at(entry.path(), self.siding());
            // One of another user's refuses; if anybody is left there, the look below finds him.
            let is_own = |found: fs::Metadata| found.uid() == rustix::process::geteuid().as_raw();
            if fs::metadata(&place.state).is_ok_and(is_own) {
                let _judged_below = place.stop_all();
            }
        }
        let left = self.settle();
        let described: Vec<String> = left
            .iter()
            .map(|process| format!("{} ({})", process.pid, processes::command_line(process.pid)))
            .collect();
        left.iter().for_each(|process| process.kill());
        let _gone = self.settle();
        for kept in self.kept.drain(..) {
            kept.close().context("could not remove the stage")?;
        }
        if !described.is_empty() {
            bail!("had to kill processes that were left: {}", described.join(", "));
        }
        Ok(())
    }

    /// Waits until nobody of the stage is left; returns who is.
    fn settle(&self) -> Vec<Process> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn processes(&self) -> Vec<Process> {
        let home = format!("HOME={}", self.dir.join("home").display());
        processes::all()
            .into_iter()
            .filter(|pid| processes::environment(*pid).contains(&home))
            .filter_map(Process::of)
            .filter(|process| process.alive())
            .collect()
    }
}

impl Place {
    fn at(dir: PathBuf, siding: PathBuf) -> Self {
        Self { state: dir.join("state"), work: dir.join("work"), dir, siding }
    }

    /// Makes a place in a directory that is there.
    pub(super) fn make(dir: PathBuf, siding: PathBuf) -> Result<Self> {
        let place = Self::at(dir, siding);
        fs::create_dir(&place.work)?;
        Ok(place)
    }

    /// Returns the place that somebody else made.
    pub(super) fn resume(dir: PathBuf, siding: PathBuf) -> Self {
        Self::at(dir, siding)
    }

    /// Returns siding as a library.
    pub(super) fn client(&self) -> Result<Client> {
        Client::open(&self.state, &self.work, &self.siding)
    }

    /// Returns a call of the program, its output thrown away.
    pub(super) fn siding<const N: usize>(&self, words: [&str; N]) -> Command {
        let mut command = Command::new(&self.siding);
        command
            .args(words)
            .env("SIDING_STATE_DIR", &self.state)
            .current_dir(&self.work)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Runs the program and returns what it printed as JSON.
    pub(super) fn siding_json<const N: usize>(
        &self,
        words: [&str; N],
    ) -> Result<serde_json::Value> {
        let output = self.siding(words).stdout(Stdio::piped()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`siding {}` failed: {}", words.join(" "), said.trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Ends all tasks and makes sure that none is left.
    pub(super) fn stop_all(&self) -> Result<()> {
        super::turns::timed(&mut self.siding(["stop", "--all"]))?;
        self.until_quiet()
    }

    /// Waits until the last shim has done its last work.
    pub(super) fn until_quiet(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while fs::read_dir(self.state.join("live"))?.next().is_some() {
            if Instant::now() >= until {
                bail!("tasks are still marked live in `{}`", self.state.display());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}
