//! `siding history`: how earlier runs went.

mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::duration::format_duration;
use siding_model::history::{Run, RunLength, RunView};
use siding_model::size::format_size as size;

use crate::context;
use crate::failure::Failure;
use crate::past;
use crate::render::grid::{Side, grid};
use crate::render::paint::Colour;
use crate::render::{self, out};

pub(super) use words::{ago, filter, nothing, place, places};

/// Runs that are listed without --limit.
const LISTED: usize = 20;

/// Shows how earlier runs of commands went: when, how long, with how much memory, and how they
/// ended.
///
/// Runs are remembered by their command and directory, also when the task itself has been removed.
/// Blanks do not count, and of assignments before a command only the names.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding history                   the last runs of all commands
  siding history make test         of `make test`, with any more arguments
  siding history --cwd . make      of those in this directory
  siding history --json            all that is remembered, as a list

Words with a dash in front go behind `--`, as in `siding history -- ls -l`.")]
pub(crate) struct Args {
    /// The command, or its first words
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Only runs in this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// List at most this many (default: 20, with --json all)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print JSON: a list of runs, the newest first
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::root()?;
        let filter = filter(&self.command, self.cwd)?;
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(if self.json { usize::MAX } else { LISTED });
        // One more than is shown tells that there are more.
        let mut runs = past::ask(&root, |history| history.runs(&filter, limit.saturating_add(1)))?;
        let more = runs.len() > limit;
        runs.truncate(limit);
        if self.json {
            let views: Vec<RunView> = runs.into_iter().map(RunView::from).collect();
            render::json::print(&views)?;
            return Ok(ExitCode::SUCCESS);
        }
        if runs.is_empty() {
            nothing(&filter);
            return Ok(ExitCode::SUCCESS);
        }
        out::print(&table(&runs, Colour::of_stdout()))?;
        if more {
            errln!("siding: there are more; --limit N lists them");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(runs: &[Run], colour: Colour) -> String {
    let now = clock::unix_now();
    let places = places(runs.iter().map(|run| run.cwd.as_str()));
    let row = |run: &Run| {
        let took = run
            .ran_ms
            .map_or_else(|| "-".to_owned(), |ms| format_duration(Duration::from_millis(ms)));
        let over = if matches!(run.length(), RunLength::AtLeast(_)) { ">" } else { "" };
        let cells = [
            ago(run.ended, now),
            format!("{over}{took}"),
            run.peak_memory.map_or_else(|| "-".to_owned(), size),
            render::short_outcome(&run.outcome),
        ];
        (cells, place(&run.command, &run.cwd, places))
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let titles = [
        ("WHEN", Side::Right),
        ("TOOK", Side::Right),
        ("MEMORY", Side::Right),
        ("HOW", Side::Left),
    ];
    grid(titles, "COMMAND", &rows, colour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::schema;

    #[test]
    fn the_schema_is_the_committed_one() {
        schema::assert_committed::<RunView>("history");
    }
}
