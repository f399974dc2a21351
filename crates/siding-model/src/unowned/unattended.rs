//! Decides whether an automatic run of the reaper terminates or reports unowned processes.
//!
//! Session starts, the timer, and `siding reap` without `--foreign` apply only the built-in rules.
//! By default the first such run that finds an orphan only reports it, so that the user learns of
//! the reaper before it acts. The report is recorded as an [`OrphanReport`], and later runs
//! terminate orphans.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::OrphanRule;

/// Version of the records that this build writes and reads.
const REPORT_FORMAT: u32 = 1;

/// The action on unowned processes in an automatic run of the reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnownedReapMode {
    /// No run searches for orphans.
    Off,
    /// Each run reports orphans and terminates none.
    Report,
    /// Each run terminates orphans.
    End,
}

impl UnownedReapMode {
    /// Returns the mode for the current run. The built-in `end` only reports until orphans have
    /// been reported on this machine (`is_reported`); an `end` that a source of settings sets
    /// (`is_chosen`) applies immediately.
    #[must_use]
    pub const fn effective(self, is_chosen: bool, is_reported: bool) -> Self {
        match self {
            Self::End if !is_chosen && !is_reported => Self::Report,
            Self::Off | Self::Report | Self::End => self,
        }
    }
}

/// The reader of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportAudience {
    /// An agent, at the start of its session.
    Agent,
    /// The caller of a command: a person, a program, or the log of a timer.
    #[default]
    Caller,
}

/// The record of a report: one line of `foreign-reports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanReport {
    /// Format version of the record. Records of other versions are ignored.
    pub format: u32,
    /// Time of the report, RFC 3339, for display.
    pub at: String,
    /// The machine on which the orphans were found.
    pub machine: String,
    /// Names of the rules that were in effect.
    pub rules: Vec<String>,
    /// The reader of the report.
    #[serde(default)]
    pub reader: ReportAudience,
}

impl OrphanReport {
    /// Creates the record of a report that `reader` has just received.
    #[must_use]
    pub fn new(at: String, machine: String, rules: &[OrphanRule], reader: ReportAudience) -> Self {
        let rules = rules.iter().map(|rule| rule.name.clone()).collect();
        Self { format: REPORT_FORMAT, at, machine, rules, reader }
    }
}

/// The recorded reports, of this and other machines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrphanReports(Vec<OrphanReport>);

impl OrphanReports {
    /// Parses the records. A line that is damaged or of another format is ignored, so that the
    /// report is repeated.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<OrphanReport>(line).ok());
        Self(lines.filter(|report| report.format == REPORT_FORMAT).collect())
    }

    /// Returns whether the reports of a machine together include each of these rules.
    #[must_use]
    pub fn covers(&self, machine: &str, rules: &[OrphanRule]) -> bool {
        Self::includes_rules(self.for_machine(machine), rules)
    }

    /// Returns whether the reports that agents received on a machine together include each of these
    /// rules.
    #[must_use]
    pub fn covers_for_agent(&self, machine: &str, rules: &[OrphanRule]) -> bool {
        Self::includes_rules(
            self.for_machine(machine).filter(|report| report.reader == ReportAudience::Agent),
            rules,
        )
    }

    fn for_machine(&self, machine: &str) -> impl Iterator<Item = &OrphanReport> {
        self.0.iter().filter(move |report| report.machine == machine)
    }

    fn includes_rules<'r>(
        reports: impl Iterator<Item = &'r OrphanReport>,
        rules: &[OrphanRule],
    ) -> bool {
        let known: BTreeSet<&str> =
            reports.flat_map(|report| report.rules.iter().map(String::as_str)).collect();
        rules.iter().all(|rule| known.contains(rule.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_mode_reports_before_it_ends_processes() {
        use UnownedReapMode::{End, Off, Report};
        for (setting, is_chosen, is_reported, in_force) in [
            (End, false, false, Report),
            (End, false, true, End),
            (End, true, false, End),
            (Report, true, true, Report),
            (Off, true, true, Off),
            (Off, false, false, Off),
        ] {
            assert_eq!(setting.effective(is_chosen, is_reported), in_force, "{setting:?}");
        }
    }

    #[test]
    fn a_report_covers_only_its_machine_and_its_rules() {
        let rules = OrphanRule::built_in();
        let report = |machine: &str| {
            OrphanReport::new("now".to_owned(), machine.to_owned(), &rules, ReportAudience::Caller)
        };
        let line = serde_json::to_string(&report("here")).expect("it serializes");
        let reports = OrphanReports::parse(&format!("{{\"format\":1,\n{line}\n{{\"torn"));
        assert!(reports.covers("here", &rules) && !reports.covers("there", &rules));
        assert!(!reports.covers_for_agent("here", &rules));
        let agents = OrphanReport { reader: ReportAudience::Agent, ..report("here") };
        let line = serde_json::to_string(&agents).expect("it serializes");
        assert!(OrphanReports::parse(&line).covers_for_agent("here", &rules));
        let newer = OrphanRule { name: "newer".to_owned(), ..rules[0].clone() };
        assert!(!reports.covers("here", &[rules[0].clone(), newer]));
        let tomorrow = OrphanReport { format: REPORT_FORMAT + 1, ..report("here") };
        let line = serde_json::to_string(&tomorrow).expect("it serializes");
        assert!(!OrphanReports::parse(&line).covers("here", &rules));
        assert!(!OrphanReports::parse("").covers("here", &rules));
    }
}
