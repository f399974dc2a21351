//! `siding history`: shows the results of earlier runs.

mod text;

use std::process::ExitCode;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::duration::format_duration;
use siding_model::history::{Run, RunLength, RunView};
use siding_model::size::format_size as size;

use crate::context;
use crate::failure::Failure;
use crate::render::color::ColorMode;
use crate::render::table_layout::{Align, format_grid};
use crate::render::{self, out};
use crate::run_history;
use crate::stdout;

pub(super) use text::{
    RunSelection, count_directories, format_age, format_command, report_no_runs,
};

/// Number of runs that the table lists if `--limit` is not given.
const DEFAULT_LISTED_RUNS: usize = 20;

/// Shows earlier runs of commands: when they ran, their duration, memory and outcome.
///
/// The history identifies runs by command and directory, and keeps each run after its task has been
/// removed. Differences in whitespace are ignored, as are the values of variables that are assigned
/// before the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding history                   the latest runs of all commands
  siding history make test         those of `make test`, with any arguments
  siding history --cwd . make      those of make in this directory
  siding history --json            all remembered runs, as a list

Put words that start with a dash after `--`, as in `siding history -- ls -l`.")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: RunSelection,
    /// Maximum number of runs to list (default: 20, with --json all)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print JSON: a list of runs, newest first
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let filter = self.selection.into_filter()?;
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(if self.json { usize::MAX } else { DEFAULT_LISTED_RUNS });
        // The query asks for one run more than the limit, to determine whether the table omits
        // runs.
        let mut runs =
            run_history::query(&root, |history| history.runs(&filter, limit.saturating_add(1)))?;
        let more = runs.len() > limit;
        runs.truncate(limit);
        if self.json {
            let views: Vec<RunView> = runs.into_iter().map(RunView::from).collect();
            render::json::print(&views)?;
            return Ok(ExitCode::SUCCESS);
        }
        if runs.is_empty() {
            report_no_runs(&filter);
            return Ok(ExitCode::SUCCESS);
        }
        out::print(&format_table(&runs, ColorMode::for_stdout()))?;
        if more {
            errln!("siding: there are more runs; --limit N lists them");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn format_table(runs: &[Run], color: ColorMode) -> String {
    let now = clock::unix_now();
    let directories = count_directories(runs.iter().map(|run| run.cwd.as_str()));
    let row = |run: &Run| {
        let took = run
            .ran_ms
            .map_or_else(|| "-".to_owned(), |ms| format_duration(Duration::from_millis(ms)));
        let over = if matches!(run.length(), RunLength::AtLeast(_)) { ">" } else { "" };
        let cells = [
            format_age(run.ended, now),
            format!("{over}{took}"),
            run.peak_memory.map_or_else(|| "-".to_owned(), size),
            run.outcome.short_text(),
        ];
        (cells, format_command(&run.command, &run.cwd, directories))
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let titles = [
        ("WHEN", Align::Right),
        ("TOOK", Align::Right),
        ("MEMORY", Align::Right),
        ("HOW", Align::Left),
    ];
    format_grid(titles, "COMMAND", &rows, color, stdout::table_columns())
}
