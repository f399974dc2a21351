//! Terminates or reports unowned orphans in unattended runs: at the start of a session, and by the
//! timer.
//!
//! Only built-in rules apply here. [`UnownedReapMode`] decides whether these rules terminate
//! processes or only report them; `foreign-reports` in the state directory records that a report
//! was delivered.

use std::io;

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
/// Bytes read from the end of [`REPORTS_FILE`]. The file has one line of about 250 bytes for each
/// machine and set of rules; a report that the last lines do not contain is delivered again.
const REPORTS_TAIL_BYTES: u64 = 256 << 10;

/// Terminates the unowned orphans that the built-in rules select, or reports them as
/// [`ReapStep::ForeignFound`], depending on the settings and on earlier reports. With `dry_run`, no
/// process is terminated, and the steps are predicted. A process that matches a rule but is kept is
/// not reported, because each live session has processes of this kind.
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
    // The leading newline ends a line that a crash has truncated.
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
    // If the file cannot be read, the report is delivered again.
    let tail = read_reports_tail(root).unwrap_or_default();
    OrphanReports::parse(&String::from_utf8_lossy(&tail))
}

/// Reads the last lines of the file. The first of them may be incomplete, and is then ignored.
fn read_reports_tail(root: &StateDir) -> io::Result<Vec<u8>> {
    let record = file::open_at(root, REPORTS_FILE, OpenMode::Read)?;
    let len = file::metadata(&record)?.len;
    let mut bytes = vec![0; usize::try_from(len.min(REPORTS_TAIL_BYTES)).unwrap_or(0)];
    let count = file::read_at(&record, &mut bytes, len.saturating_sub(REPORTS_TAIL_BYTES))?;
    bytes.truncate(count);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of other machines that share the state directory fill the file.
    #[test]
    fn a_report_in_a_long_file_is_not_repeated() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("opens");
        let settings = Settings::default();
        let rules = built_in_rules(&settings);
        let line = |number: u64| {
            let reader = ReportAudience::Caller;
            let machine = format!("host-{number} 0123456789abcdef");
            let report = OrphanReport::new(clock::unix_now().rfc3339(), machine, &rules, reader);
            serde_json::to_string(&report).expect("JSON") + "\n"
        };
        let mut text = String::new();
        for number in 0.. {
            text.push_str(&line(number));
            if text.len() as u64 > 2 * REPORTS_TAIL_BYTES {
                break;
            }
        }
        let path = root.path().join(REPORTS_FILE);
        std::fs::write(&path, text).expect("own directory");
        assert!(!is_unowned_report_unseen(&root, &settings), "this machine has no report");
        let steps = [ReapStep::ForeignFound {
            rule: rules[0].name.clone(),
            pid: 1,
            top_pid: 1,
            age_ms: 0,
            command: String::new(),
        }];
        let record = |reader| record_unowned_report(&root, &settings, &steps, reader);
        record(ReportAudience::Caller).expect("written");
        assert!(is_unowned_report_unseen(&root, &settings), "no agent has received it");
        let len = || std::fs::metadata(&path).expect("there").len();
        let before = len();
        record(ReportAudience::Caller).expect("not repeated");
        assert_eq!(len(), before);
        record(ReportAudience::Agent).expect("written");
        assert!(len() > before && !is_unowned_report_unseen(&root, &settings));
    }
}
