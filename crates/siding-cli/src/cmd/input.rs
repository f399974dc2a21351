//! `siding input`: writes to the standard input of a task.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::output::INPUT_FIFO;
use siding_core::store::Root;
use siding_core::sys::{clock, file, poll};
use siding_core::watch::Watch;
use siding_model::id::TaskId;
use siding_model::protocol::Request;
use siding_model::spec::Stdin;

use crate::context::{self, PROGRAM, Task};
use crate::failure::Failure;
use crate::render;

/// How long the task may leave its input unread, in milliseconds.
const UNREAD_MS: u64 = 10_000;
/// How long its shim may take to close it, in milliseconds.
const CLOSE_MS: u64 = 10_000;
/// Bytes read from a file at once.
const BLOCK: usize = 64 << 10;

/// Writes to the standard input of a task that was started with `--stdin pipe`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding input b-4k7q yes                   the line `yes`
  siding input b-4k7q --no-newline y        one character
  siding input b-4k7q --file answers.txt    a file as it is; `-` is stdin
  siding input b-4k7q --eof                 nothing more will come
  siding input b-4k7q last line --eof       both

Words are joined by spaces. A task that does not read for 10 s is reported.")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    id: String,
    /// What to write, with a newline after it
    #[arg(value_name = "TEXT", required_unless_present_any = ["file", "eof"])]
    text: Vec<String>,
    /// Write what is in this file instead, as it is
    #[arg(long, value_name = "F", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Write no newline after the text
    #[arg(long, requires = "text")]
    no_newline: bool,
    /// Close the input: the task sees its end once it has read what was written
    #[arg(long)]
    eof: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints. `docs/schema/input.schema.json` is the contract.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "input")]
struct InputView {
    /// Name of the task.
    task_id: TaskId,
    /// Bytes the task can read now, or has read.
    written_bytes: u64,
    /// Whether the input was closed after them.
    closed: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::root()?;
        let task = Task::find(&root, &self.id)?;
        let id = task.dir.id();
        let input = Input::open(&task)?;
        let mut written_bytes = 0;
        if let Some(path) = &self.file {
            written_bytes = self.copy(path, &input)?;
        } else if !self.text.is_empty() {
            let newline = if self.no_newline { "" } else { "\n" };
            let text = format!("{}{newline}", self.text.join(" "));
            input.write(text.as_bytes())?;
            written_bytes = text.len() as u64;
        }
        if self.eof {
            close(&root, &task, input)?;
        }
        if self.json {
            render::json::print(&InputView { task_id: id, written_bytes, closed: self.eof })?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn copy(&self, path: &PathBuf, input: &Input) -> Result<u64, Failure> {
        let failed = |doing: &str, error: io::Error| {
            Failure::new(format!("could not {doing} `{}`: {error}", path.display()))
        };
        let mut source: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|error| failed("open", error))?)
        };
        let mut block = vec![0; BLOCK];
        let mut written = 0;
        loop {
            match source.read(&mut block) {
                Ok(0) => return Ok(written),
                Ok(count) => {
                    input.write(&block[..count])?;
                    written += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read", error)),
            }
        }
    }
}

/// The writing end of a task's input.
struct Input {
    id: TaskId,
    fifo: OwnedFd,
}

impl Input {
    fn open(task: &Task) -> Result<Self, Failure> {
        let id = task.dir.id();
        if !task.state.is_live() {
            return Err(Failure::new(format!("task {id} has ended, nothing reads any more"))
                .with_hint(format!("`siding show {id}` tells how it ended")));
        }
        if task.state.spec.stdin != Stdin::Pipe {
            return Err(Failure::new(format!("task {id} reads /dev/null")).with_hint(
                "only a task started with `siding run --stdin pipe` can be written to",
            ));
        }
        let fifo = task
            .dir
            .place()
            .and_then(|place| file::open_at(place, INPUT_FIFO, file::Open::FifoWrite));
        match fifo {
            Ok(fifo) => Ok(Self { id, fifo }),
            Err(error) if is_closed(&error) => Err(closed(id)),
            Err(error) => {
                Err(Failure::new(format!("could not open the input of task {id}: {error}")))
            }
        }
    }

    /// Writes everything. Waits for the task to make room, each time for a bounded while.
    fn write(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            match file::write(&self.fifo, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(bytes.len())?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_closed(&error) => return Err(closed(self.id)),
                Err(error) => {
                    return Err(Failure::new(format!(
                        "could not write to the input of task {}: {error}",
                        self.id
                    )));
                }
            }
        }
        Ok(())
    }

    fn wait(&self, left_bytes: usize) -> Result<(), Failure> {
        let until = clock::mono().plus_ms(UNREAD_MS);
        loop {
            let left = until.ms_since(clock::mono());
            let writable = poll::writable(self.fifo.as_fd(), left).map_err(|error| {
                Failure::new(format!("could not wait for task {} to read: {error}", self.id))
            })?;
            if writable {
                return Ok(());
            }
            if left == 0 {
                return Err(Failure::new(format!(
                    "task {} has not read its input for {} s; {left_bytes} bytes or more were not written",
                    self.id,
                    UNREAD_MS / 1000
                ))
                .with_hint(format!("`siding show {}` tells what it does", self.id)));
            }
        }
    }
}

/// Closes a task's input for good.
fn close(root: &Root, task: &Task, input: Input) -> Result<(), Failure> {
    let id = input.id;
    // The task sees the end when the last writer is gone.
    drop(input);
    let mut watch = Watch::open(root, PROGRAM, id)?;
    watch.ask(&Request::CloseStdin, CLOSE_MS)?;
    // Whoever comes later learns that it is closed.
    let _already_gone = task.dir.place().and_then(|place| file::remove(place, INPUT_FIFO));
    Ok(())
}

/// `ENXIO`: nobody has it open to read; `EPIPE`: nobody any more; `ENOENT`: it was closed for good.
fn is_closed(error: &io::Error) -> bool {
    const ENXIO: i32 = 6;
    error.raw_os_error() == Some(ENXIO)
        || matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::NotFound)
}

fn closed(id: TaskId) -> Failure {
    Failure::new(format!(
        "the input of task {id} is closed: it was closed with --eof, or the task does not read any more"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::schema;

    #[test]
    fn the_committed_schema_is_that_of_the_code() {
        schema::assert_committed::<InputView>("input");
    }

    #[test]
    fn a_closed_input_is_told_from_other_failures() {
        assert!(is_closed(&io::Error::from_raw_os_error(6)));
        assert!(is_closed(&ErrorKind::BrokenPipe.into()) && is_closed(&ErrorKind::NotFound.into()));
        assert!(!is_closed(&ErrorKind::PermissionDenied.into()));
    }
}
