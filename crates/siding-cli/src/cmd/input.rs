//! `siding input`: writes to the standard input of a task.

mod writer;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_model::id::TaskId;

use crate::context::{self, Task};
use crate::failure::Failure;
use crate::render;

use self::writer::InputWriter;

/// Maximum number of bytes to read from the file and write to the task in one step.
const BLOCK_BYTES: usize = 64 << 10;

/// Writes to the standard input of a task that was started with `--stdin pipe` or `--pty`.
///
/// A terminal receives the bytes as typed keys: Enter after a text, and Ctrl-D for --eof. It
/// refuses them as it refuses `siding keys`, while a person types or a program asks for a secret.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding input b-4k7q yes                   the line `yes`
  siding input b-4k7q --no-newline y        one character
  siding input b-4k7q --file answers.txt    a file as it is; `-` is stdin
  siding input b-4k7q --eof                 close the input (Ctrl-D)
  siding input b-4k7q last line --eof       write, then close

Words are joined by spaces. Fails if the task does not read for 10 s.")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID")]
    id: String,
    /// Text to write; a newline is added, for a terminal Enter
    #[arg(value_name = "TEXT", required_unless_present_any = ["file", "eof"])]
    text: Vec<String>,
    /// Write the contents of this file instead, unchanged; `-` is standard input
    #[arg(long, value_name = "F", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Do not add a newline or Enter to the text
    #[arg(long, requires = "text")]
    no_newline: bool,
    /// Close the input: the task reads end of file after what was written. A terminal receives
    /// Ctrl-D and stays open
    #[arg(long)]
    eof: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding input`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "input")]
pub(super) struct InputView {
    /// The complete id of the task.
    task_id: TaskId,
    /// Number of bytes written to the task's input pipe or terminal; the task may not have read
    /// them yet.
    written_bytes: u64,
    /// Whether the input was closed after the write, because `--eof` was given. A terminal has
    /// received Ctrl-D instead, which is not counted.
    closed: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let task = Task::find(&root, &self.id, self.json)?;
        let id = task.dir.id();
        let mut input = InputWriter::open(&root, &task)?;
        let mut written_bytes = 0;
        if let Some(path) = &self.file {
            written_bytes = self.copy_file(path, &mut input)?;
        } else if !self.text.is_empty() {
            let newline = if self.no_newline { "" } else { input.newline() };
            let text = format!("{}{newline}", self.text.join(" "));
            input.write(text.as_bytes())?;
            written_bytes = text.len() as u64;
        }
        if self.eof {
            input.close(&task.dir)?;
        }
        if self.json {
            render::json::print(&InputView { task_id: id, written_bytes, closed: self.eof })?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn copy_file(&self, path: &PathBuf, input: &mut InputWriter<'_>) -> Result<u64, Failure> {
        let failed = |doing: &str, error: io::Error| {
            Failure::new(format!("could not {doing} `{}`: {error}", path.display()))
        };
        let mut source: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|error| failed("open", error))?)
        };
        let mut block = vec![0; BLOCK_BYTES];
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
