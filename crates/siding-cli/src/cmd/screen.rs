//! `siding screen`: shows the screen of a task with a terminal.

use std::process::ExitCode;

use siding_terminal::{ColorDetail, format_screen};

use crate::context::{self, LAST_TASK, Task};
use crate::failure::Failure;
use crate::render::{self, out};
use crate::terminal_replay;

/// Shows the screen of a task that was started with `--pty`: what a person would see.
///
/// The screen is computed from the output, also after the end of the task. `▮` marks the cursor. The
/// hash in the last line changes when the screen does; `siding keys --if-screen HASH` types only if
/// the screen is still the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding screen                  the last task
  siding screen b-4k7q --json    rows, cursor, title, modes, hash
  siding screen b-4k7q --at 8192 the screen after 8192 bytes of output")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID", default_value = LAST_TASK)]
    id: String,
    /// Show the screen after this many bytes of output
    #[arg(long, value_name = "OFFSET")]
    at: Option<u64>,
    /// Show this many rows that have scrolled off the top before the screen
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    scrollback: usize,
    /// With --json: also print the runs of characters with their colors
    #[arg(long, requires = "json")]
    colors: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let task = Task::find(&root, &self.id, self.json)?;
        let id = task.dir.id();
        if task.state.terminal.is_none() {
            return Err(terminal_replay::no_terminal_failure(&root, &task));
        }
        let replay = terminal_replay::open(id, &task.dir, self.at)?;
        let screen = replay.screen();
        if self.json {
            let colors = if self.colors { ColorDetail::Runs } else { ColorDetail::Text };
            let has_ended = !task.state.is_live();
            let view =
                screen.to_view(id, replay.offset(), has_ended, replay.is_incomplete(), colors);
            render::json::print(&view)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut text = String::new();
        for row in replay.emulator().scrollback(self.scrollback) {
            text.push_str(&siding_model::text::make_visible(&row));
            text.push('\n');
        }
        text.push_str(&format_screen(&screen));
        if !text.ends_with('\n') {
            text.push('\n');
        }
        out::print(&text)?;
        if replay.is_incomplete() {
            render::print_note(
                "a part of the output is no longer stored, so the screen may lack something",
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}
