//! `siding stats`: shows the usual duration and result of each command.

use std::process::ExitCode;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::duration::format_duration;
use siding_model::history::{Quantile, RunSummary, StatsView};
use siding_model::size::format_size as size;

use super::history::{RunSelection, count_directories, format_age, format_command, report_no_runs};
use crate::context;
use crate::failure::Failure;
use crate::render::color::ColorMode;
use crate::render::table_layout::{Align, format_grid};
use crate::render::{self, out, sparkline};
use crate::run_history;
use crate::stdout;

/// Number of commands that the table lists if `--limit` is not given.
const DEFAULT_LISTED_COMMANDS: usize = 20;

/// Shows statistics for each command: runs, median, p90, success rate, memory, the latest runs.
///
/// Half of the runs take at most the median, nine of ten at most the p90; older runs have less
/// weight. Both need at least 3 runs with a known duration. A run that was stopped is included with
/// the time it lasted; `>` marks a value that is only a lower bound, because too many runs were
/// stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding stats                  each command and directory, latest first
  siding stats cargo            commands that start with `cargo`
  siding stats --cwd .          commands in this directory
  siding stats --json           all remembered commands, as a list

OK is the share of runs that exited with 0, without stopped ones. MEMORY is the
highest usage measured in any run. RECENT shows the durations of the last ten
runs, the newest on the right.")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: RunSelection,
    /// Maximum number of commands to list (default: 20, with --json all)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print JSON: a list of commands, most recently run first
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let filter = self.selection.into_filter()?;
        let mut summaries = run_history::query(&root, |history| history.summaries(&filter))?;
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(if self.json { usize::MAX } else { DEFAULT_LISTED_COMMANDS });
        let more = summaries.len().saturating_sub(limit);
        summaries.truncate(limit);
        if self.json {
            let views: Vec<StatsView> = summaries.into_iter().map(StatsView::from).collect();
            render::json::print(&views)?;
            return Ok(ExitCode::SUCCESS);
        }
        if summaries.is_empty() {
            report_no_runs(&filter);
            return Ok(ExitCode::SUCCESS);
        }
        out::print(&format_table(&summaries, ColorMode::for_stdout()))?;
        if more > 0 {
            errln!("siding: {more} more commands; --limit N lists them");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn format_table(summaries: &[RunSummary], color: ColorMode) -> String {
    let now = clock::unix_now();
    let directories = count_directories(summaries.iter().map(|summary| summary.last.cwd.as_str()));
    let row = |summary: &RunSummary| {
        let usual = summary.expectation;
        let cells = [
            summary.runs.to_string(),
            format_quantile(usual.map(|usual| usual.median)),
            format_quantile(usual.map(|usual| usual.p90)),
            summary.success_rate().map_or_else(|| "-".to_owned(), format_percent),
            summary.peak_memory.map_or_else(|| "-".to_owned(), size),
            format_age(summary.last.ended, now),
            sparkline(&summary.recent),
        ];
        (cells, format_command(&summary.last.command, &summary.last.cwd, directories))
    };
    let rows: Vec<_> = summaries.iter().map(row).collect();
    let titles = [
        ("RUNS", Align::Right),
        ("MEDIAN", Align::Right),
        ("P90", Align::Right),
        ("OK", Align::Right),
        ("MEMORY", Align::Right),
        ("LAST", Align::Right),
        ("RECENT", Align::Right),
    ];
    format_grid(titles, "COMMAND", &rows, color, stdout::table_columns())
}

fn format_quantile(quantile: Option<Quantile>) -> String {
    match quantile {
        None => "-".to_owned(),
        Some(Quantile::Exact(ms)) => format_duration(Duration::from_millis(ms)),
        Some(Quantile::MoreThan(ms)) => format!(">{}", format_duration(Duration::from_millis(ms))),
    }
}

fn format_percent(share: f64) -> String {
    // Rounded down, so that 100% means every run.
    format!("{:.0}%", (share * 100.0).floor())
}

#[cfg(test)]
mod tests {
    use siding_model::history::{Expectation, Run};
    use siding_model::outcome::Outcome;

    use super::*;

    #[test]
    fn a_row_shows_the_usual_duration_and_success_rate() {
        let last = Run {
            task_id: "b-4k7q0n2m8x5t".parse().expect("an id"),
            command: "cargo test".to_owned(),
            cwd: "/p".to_owned(),
            ended: clock::unix_now(),
            ran_ms: Some(7),
            outcome: Outcome::Exited { code: 0 },
            peak_memory: None,
        };
        let usual = Expectation {
            runs: 3,
            median: Quantile::Exact(250_000),
            p90: Quantile::MoreThan(310_000),
        };
        let summary = RunSummary {
            runs: 4,
            succeeded: 2,
            failed: 1,
            expectation: Some(usual),
            recent: vec![1, 4, 7],
            peak_memory: Some(212 << 20),
            last,
        };
        let text = format_table(&[summary], ColorMode::Off);
        assert_eq!(
            text,
            "RUNS  MEDIAN      P90   OK  MEMORY    LAST  RECENT  COMMAND\n   \
             4  4m 10s  >5m 10s  66%  212MiB  0s ago     ▂▅█  cargo test\n"
        );
    }
}
