//! `siding report`: summarizes the tasks of a period on one screen.

mod markdown;
mod text;

use std::process::ExitCode;
use std::time::Duration;

use siding_core::sys::clock;
use siding_history::Filter;
use siding_model::activity::Period;

use crate::activity::{self, MAX_HISTORY_RUNS};
use crate::context;
use crate::failure::Failure;
use crate::render::color::ColorMode;
use crate::render::{json, out};
use crate::run_history;

pub(crate) use text::{format_headline, format_screen};

/// Shows what ran in the last 24 hours: how much failed, what was stopped or reaped and by which
/// rule, what lingers, the slowest and the noisiest tasks, and the disk usage.
///
/// Covers the tasks of all sessions and projects; removed tasks are included if the history has
/// them. With report_daily, the first session start or prompt of a day delivers the same report.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding report                the last 24 hours, on one screen
  siding report --since 7d     the last week
  siding report --markdown     for an email or a merge request
  siding report --json         for a program, with longer lists

TIME is the duration of a task, a count if it ends in x, or, for the noisiest
tasks, the size of their output.")]
pub(crate) struct Args {
    /// Length of the period up to now, such as `8h` or `7d`
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = super::parse_duration)]
    since: Duration,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.since.is_zero() {
            return Err(Failure::new("--since 0s: the period is empty")
                .with_hint("give a duration such as `24h` or `7d`"));
        }
        let root = context::open_state_dir()?;
        let settings = context::load_settings()?;
        // All tasks are recovered first, so that a task that ended after its shim was killed is not
        // shown as running.
        let _logged_by_callee = context::recover_all(&root)?;
        let until = clock::unix_now();
        let back = i64::try_from(self.since.as_millis()).unwrap_or(i64::MAX);
        let period = Period { since: until.plus_ms(back.saturating_neg()), until };
        let runs = run_history::query(&root, |history| {
            history.runs(&Filter::default(), MAX_HISTORY_RUNS)
        })?;
        let report = activity::build_report(&root, period, &runs, settings.retention_bytes)?;
        if self.json {
            json::print(&report)?;
        } else if self.markdown {
            out::print(&markdown::format_document(&report, self.since))?;
        } else {
            out::print(&format_screen(&report, self.since, ColorMode::for_stdout()))?;
        }
        if report.is_empty() && !self.json {
            errln!(
                "siding: --since selects a longer period; `siding run -- COMMAND` starts a task"
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}
