//! The machines of `tools/engines`, on which the tasks of executors run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The directory of the scripts that start the machines.
const SCRIPT_DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/engines");

/// A machine or a cluster that a script of `tools/engines` has started. Dropping this value stops
/// it.
#[derive(Debug)]
pub(super) struct Engine {
    script: PathBuf,
    dir: PathBuf,
    /// The configuration for the clients, which the script has written.
    pub(super) config: PathBuf,
}

/// Returns the reason why a script cannot be used on this machine; `None` if it can.
pub(super) fn missing_reason(script: &str) -> Option<String> {
    let path = Path::new(SCRIPT_DIRECTORY).join(script);
    match Command::new(&path).arg("check").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("could not start `{}`: {error}", path.display())),
    }
}

impl Engine {
    /// Starts the machine of a script, with all of its files in `dir`.
    pub(super) fn start(script: &str, dir: PathBuf) -> Result<Self> {
        let script = Path::new(SCRIPT_DIRECTORY).join(script);
        let mut engine = Self { script, dir, config: PathBuf::new() };
        engine.config = PathBuf::from(engine.call("up")?);
        Ok(engine)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Calls the script, and returns its output without the newline at the end.
    fn call(&self, verb: &str) -> Result<String> {
        let mut call = Command::new(&self.script);
        let output = call.arg(verb).arg(&self.dir).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            bail!("{call:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = String::from_utf8(output.stdout).context("the script's output is not UTF-8")?;
        Ok(text.trim_end().to_owned())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The cleanup of the workspace kills the processes that remain.
        let _best_effort = self.call("down");
    }
}
