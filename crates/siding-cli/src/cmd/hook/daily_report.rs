//! The daily report: the output of `siding report`, delivered once a day by the first hook whose
//! answer can contain it.

use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_core::upkeep::activity::claim_daily_report;
use siding_model::activity::Period;
use siding_model::settings::Settings;

use crate::activity::{self, MAX_HISTORY_RUNS};
use crate::cmd::report;
use crate::failure::Failure;
use crate::render::color::ColorMode;
use crate::run_history;

/// The daily report in its two forms.
#[derive(Debug)]
pub(super) struct DailyReport {
    /// The complete report, for the agent.
    pub(super) context: String,
    /// The headline with a reference to `siding report`, as one line for the person.
    pub(super) person: String,
}

/// Returns the daily report if the settings enable it, [`claim_daily_report`] finds it due, and at
/// least one task ran. A failure is only reported on stderr, so that the event is still answered.
pub(super) fn due_report(root: &StateDir, settings: &Settings) -> Option<DailyReport> {
    if !settings.report_daily {
        return None;
    }
    let report = claim_daily_report(root, clock::unix_now())
        .map_err(|error| Failure::new(format!("could not record the daily report: {error}")))
        .and_then(|due| due.map(|period| build_report(root, settings, period)).transpose());
    report.unwrap_or_else(|failure| {
        failure.report();
        None
    })?
}

fn build_report(
    root: &StateDir,
    settings: &Settings,
    period: Period,
) -> Result<Option<DailyReport>, Failure> {
    let runs = run_history::runs_best_effort(root, MAX_HISTORY_RUNS);
    let report = activity::build_report(root, period, &runs, settings.retention_bytes)?;
    if report.is_empty() {
        return Ok(None);
    }
    let length = period.until.0.saturating_sub(period.since.0);
    // Rounded down to whole hours, so that a headline says `65h` and not `65h 3m 12s`.
    let hours = u64::try_from(length).unwrap_or(0) / 3_600_000;
    let since = Duration::from_secs(hours * 3_600);
    Ok(Some(DailyReport {
        context: format!(
            "Daily report on all tasks of this user (setting report_daily):\n{}",
            report::format_screen(&report, since, ColorMode::Off)
        ),
        person: format!(
            "siding, {}; `siding report` shows more",
            report::format_headline(&report, since)
        ),
    }))
}
