//! Ends or reports unowned orphans in unattended runs: at the start of a session, and by the timer.
//!
//! Only built-in rules apply here. [`UnownedReapMode`] decides whether these rules end processes or
//! only report them; `foreign-reports` in the state directory records that a report was delivered.

use std::io;
use std::os::fd::AsFd as _;

use siding_model::settings::Settings;
use siding_model::unowned::{
    OrphanReport, OrphanReports, OrphanRule, ReportAudience, UnownedReapMode,
};

use super::super::ReapStep;
use super::{UnownedRules, reap_unowned};
use crate::store::StateDir;
use crate::sys::file::{self, OpenMode};
use crate::sys::{clock, system_info};

/// The name of the file that records delivered reports, below the root (`docs/format.md`).
const REPORTS_FILE: &str = "foreign-reports";
/// Maximum size of [`REPORTS_FILE`], in bytes. The file has one line for each machine and set of
/// rules. A larger file is treated as empty.
const MAX_REPORTS_BYTES: usize = 256 << 10;

/// Ends the unowned orphans that the built-in rules select, or reports them as
/// [`ReapStep::ForeignFound`], depending on the settings. A process that matches a rule but is kept
/// is not reported, because each live session has processes of this kind.
///
/// A caller that has shown a report must record this with [`record_unowned_report`].
#[must_use]
pub fn reap_unowned_unattended(
    root: &StateDir,
    settings: &Settings,
    dry_run: bool,
) -> Vec<ReapStep> {
    let rules = built_in_rules(settings);
    let orphans = UnownedRules { rules: &rules, min_age: settings.unowned_min_age() };
    if rules.is_empty() || settings.foreign_reap == UnownedReapMode::Off || !orphans.may_match() {
        return Vec::new();
    }
    let is_reported = || read_reports(root).covers(&system_info::system_id(), &rules);
    let reports_only = match settings.effective_unowned_reap(is_reported()) {
        UnownedReapMode::Off => return Vec::new(),
        UnownedReapMode::Report => true,
        UnownedReapMode::End => false,
    };
    let mut steps = reap_unowned(root, orphans, dry_run || reports_only);
    steps.retain(|step| !matches!(step, ReapStep::ForeignSpared { .. }));
    if reports_only {
        steps = steps.into_iter().map(ReapStep::into_report).collect();
    }
    steps
}

/// Returns whether the rules may end processes on this machine although no agent has received a
/// report. In this case the report went only to callers of commands, perhaps to the log of a timer,
/// and an agent must be notified once.
#[must_use]
pub fn is_unowned_report_unseen(root: &StateDir, settings: &Settings) -> bool {
    let rules = built_in_rules(settings);
    let reports = read_reports(root);
    let machine = system_info::system_id();
    settings.foreign_reap == UnownedReapMode::End
        && !rules.is_empty()
        && reports.covers(&machine, &rules)
        && !reports.covers_for_agent(&machine, &rules)
}

/// Records that a report was delivered on this machine, if these steps contain a report or an agent
/// was notified of an earlier report. Later runs may then end the processes that the rules select.
///
/// # Errors
///
/// The I/O error of the system call; the report is delivered again then.
pub fn record_unowned_report(
    root: &StateDir,
    settings: &Settings,
    steps: &[ReapStep],
    reader: ReportAudience,
) -> io::Result<()> {
    let (rules, machine, known) =
        (built_in_rules(settings), system_info::system_id(), read_reports(root));
    let has_report = steps.iter().any(|step| matches!(step, ReapStep::ForeignFound { .. }));
    let is_new = match reader {
        ReportAudience::Agent => {
            (has_report || is_unowned_report_unseen(root, settings))
                && !known.covers_for_agent(&machine, &rules)
        }
        ReportAudience::Caller => has_report && !known.covers(&machine, &rules),
    };
    if !is_new {
        return Ok(());
    }
    let report = OrphanReport::new(clock::unix_now().rfc3339(), machine, &rules, reader);
    let record = file::open_at(root, REPORTS_FILE, OpenMode::Append)?;
    // The leading newline ends a line that a crash has cut off.
    let mut line = if file::metadata(&record)?.len == 0 { Vec::new() } else { vec![b'\n'] };
    line.extend(serde_json::to_vec(&report)?);
    line.push(b'\n');
    if file::write(&record, &line)? != line.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    file::sync_data(&record)
}

fn built_in_rules(settings: &Settings) -> Vec<OrphanRule> {
    settings.reap_foreign.iter().filter(|rule| rule.is_built_in()).cloned().collect()
}

fn read_reports(root: &StateDir) -> OrphanReports {
    let read = file::open_at(root, REPORTS_FILE, OpenMode::Read)
        .and_then(|record| file::read_to_end(record.as_fd(), MAX_REPORTS_BYTES));
    // If the file cannot be read, the report is delivered again.
    read.map(|bytes| OrphanReports::parse(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
}
