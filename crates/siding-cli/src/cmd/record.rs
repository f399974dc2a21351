//! `siding record`: records the terminal of a task in a file for asciinema.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use siding_core::task::view::ViewDetail;
use siding_model::id::TaskId;
use siding_terminal::{CastSource, CastSummary, write_cast};

use super::STDOUT_PATH;
use crate::context::{self, LAST_TASK, Task};
use crate::failure::Failure;
use crate::render::{self, out};
use crate::terminal_replay;

/// Records the terminal of a task in a file that asciinema plays, with the times of the output.
///
/// Any task that was started with a terminal can be recorded, also after its end. The recording of
/// a running task ends with its present output. The times are accurate to 50 ms. Input is not
/// recorded, and what was typed without echo, such as a password, is not in the output. The file is
/// in the format asciicast v3.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding record --cast demo.cast                   the last task
  siding record b-4k7q --cast demo.cast --force    replaces an earlier recording
  siding record b-4k7q --cast - --idle-limit 2s    to standard output")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID", default_value = LAST_TASK)]
    id: String,
    /// File for the recording; `-` is standard output
    #[arg(long, value_name = "FILE")]
    cast: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Longest pause that a player shows, such as `2s` (default: pauses as they were)
    #[arg(long, value_name = "DURATION", value_parser = super::parse_duration)]
    idle_limit: Option<Duration>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.idle_limit.is_some_and(|limit| limit.is_zero()) {
            return Err(Failure::new("--idle-limit 0s: a player would show no pause at all")
                .with_hint("give a duration such as `500ms` or `2s`"));
        }
        let root = context::open_state_dir()?;
        let task = Task::find(&root, &self.id, false)?;
        let id = task.dir.id();
        let Some(terminal) = &task.state.terminal else {
            return Err(terminal_replay::no_terminal_failure(&root, &task));
        };
        let source = CastSource {
            dir: &task.dir,
            state: &task.state,
            terminal,
            elapsed_ms: task.view(&root, ViewDetail::Brief).elapsed_ms,
            idle_limit: self.idle_limit,
        };
        let summary = if self.cast.as_os_str() == STDOUT_PATH {
            let written = write_cast(&source, BufWriter::new(io::stdout().lock()));
            out::map_broken_pipe(written)?
        } else {
            Some(self.write_file(&source)?)
        };
        if let Some(summary) = summary {
            print_notes(id, &summary, task.state.is_live());
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write_file(&self, source: &CastSource<'_>) -> Result<CastSummary, Failure> {
        let file = self.create_file()?;
        write_cast(source, BufWriter::new(file)).map_err(|error| {
            // The next call would refuse to replace an incomplete recording.
            if !self.force {
                let _already_removed = fs::remove_file(&self.cast);
            }
            let path = self.cast.display();
            Failure::new(format!("could not write the recording `{path}`: {error}"))
        })
    }

    fn create_file(&self) -> Result<File, Failure> {
        let created = if self.force {
            File::create(&self.cast)
        } else {
            OpenOptions::new().write(true).create_new(true).open(&self.cast)
        };
        let path = self.cast.display();
        created.map_err(|error| {
            if error.kind() == ErrorKind::AlreadyExists {
                Failure::new(format!("`{path}` exists already"))
                    .with_hint("--force replaces it; another name keeps both")
            } else {
                Failure::new(format!("could not create `{path}`: {error}"))
            }
        })
    }
}

/// Reports the output that the recording lacks or could not date.
fn print_notes(id: TaskId, summary: &CastSummary, is_live: bool) {
    let CastSummary { estimated_bytes, released_bytes } = *summary;
    if is_live {
        render::print_note(&format!("{id} still runs: the recording ends with its present output"));
    }
    if estimated_bytes > 0 {
        render::print_note(&format!(
            "the times of the first {estimated_bytes} bytes of output were not recorded, and are \
             spread evenly"
        ));
    }
    if released_bytes > 0 {
        render::print_note(&format!(
            "{released_bytes} bytes of output are no longer stored; a marker shows where, and the \
             screen begins again after it"
        ));
    }
}
