//! `siding metrics`: prints the metrics of all tasks for Prometheus.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use siding_history::metrics;

use crate::context;
use crate::failure::Failure;
use crate::render::out;
use crate::run_history;

/// Mode of the text file before the umask: node_exporter runs as another user and must read it.
const TEXT_FILE_MODE: u32 = 0o644;

/// Prints metrics of all tasks in the text format of Prometheus.
///
/// Tasks by state and outcome, durations, stalls, limits, stops, notices, output and disk use. Each
/// call computes the values, so nothing has to run between two calls. Counters include the tasks
/// that retention has removed. No label has a command, a path or the id of a task. Tasks are not
/// repaired.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding metrics                              print the metrics
  siding metrics | promtool check metrics     check them
  siding metrics --textfile /srv/siding.prom  for node_exporter, from a timer

The lines `# HELP` of the output describe each metric.")]
pub(crate) struct Args {
    /// Write the metrics to this file instead of printing them
    ///
    /// The file is replaced atomically, so a reader never sees a part of it. The collector
    /// `textfile` of node_exporter reads the files in its directory whose names end in `.prom`. If
    /// the metrics cannot be read, the old file stays.
    #[arg(long, value_name = "PATH")]
    textfile: Option<PathBuf>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let settings = context::load_settings()?;
        let text = metrics::read_metrics(&root, settings.retention_bytes)
            .map(run_history::report_moved_file)
            .map_err(|error| {
                Failure::new(error).with_hint(
                    "the counters are in the history; without it they would seem to fall to zero",
                )
            })?;
        match self.textfile {
            None => drop(out::print(&text)?),
            Some(path) => replace_file(&path, &text).map_err(|error| {
                Failure::new(format!("could not write `{}`: {error}", path.display())).with_hint(
                    "the directory must exist, and this user must be able to write to it",
                )
            })?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Replaces a file with rename(2), so that a reader sees the old or the new text.
fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    // The collector reads only names that end in `.prom`, so it ignores this one.
    let mut name = OsString::from(path);
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    let written = write_new_file(&new, text).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        let _already_removed = std::fs::remove_file(&new);
    }
    written
}

fn write_new_file(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(TEXT_FILE_MODE).open(path)?;
    file.write_all(text.as_bytes())?;
    // Otherwise the file may be empty after a power failure.
    file.sync_data()
}
