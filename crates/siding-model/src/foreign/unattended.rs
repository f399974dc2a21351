//! What a run of the reaper that nobody asked for does about foreign orphans.
//!
//! Session starts and the timer run the built-in rules by themselves. By default the first such run
//! that finds an orphan only reports it; a [`Report`] on record lets later runs end them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Rule;

/// Version of the records that this build writes and reads.
const FORMAT: u32 = 1;

/// What happens to foreign orphans when the reaper runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignReap {
    /// Nothing: they are not searched for.
    Off,
    /// They are reported each time.
    Report,
    /// They are ended.
    End,
}

impl ForeignReap {
    /// Returns what holds for this run: the built-in `end`, which nobody chose, only reports until
    /// a report was given on this machine.
    #[must_use]
    pub const fn in_force(self, is_chosen: bool, is_reported: bool) -> Self {
        match self {
            Self::End if !is_chosen && !is_reported => Self::Report,
            Self::Off | Self::Report | Self::End => self,
        }
    }
}

/// The reader of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reader {
    /// An agent, at the start of its session.
    Agent,
    /// The caller of a command: a person, a program, or the log of a timer.
    #[default]
    Caller,
}

/// The record that a report was given: one line of `foreign-reports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the record.
    pub format: u32,
    /// When, RFC 3339. Only shown.
    pub at: String,
    /// The machine on which the orphans were found.
    pub machine: String,
    /// Names of the rules that were in force.
    pub rules: Vec<String>,
    /// Its reader.
    #[serde(default)]
    pub reader: Reader,
}

impl Report {
    /// Makes the record of a report that was given just now.
    #[must_use]
    pub fn new(at: String, machine: String, rules: &[Rule], reader: Reader) -> Self {
        let rules = rules.iter().map(|rule| rule.name.clone()).collect();
        Self { format: FORMAT, at, machine, rules, reader }
    }
}

/// The reports on record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reports(Vec<Report>);

impl Reports {
    /// Reads the records. A line that is damaged or of a newer format counts for nothing: then
    /// the report is given again.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Report>(line).ok());
        Self(lines.filter(|report| report.format == FORMAT).collect())
    }

    /// Whether a report was given on a machine for each of these rules.
    #[must_use]
    pub fn cover(&self, machine: &str, rules: &[Rule]) -> bool {
        Self::covered(self.of(machine), rules)
    }

    /// Whether an agent was given a report on a machine for each of these rules.
    #[must_use]
    pub fn cover_for_agent(&self, machine: &str, rules: &[Rule]) -> bool {
        Self::covered(self.of(machine).filter(|report| report.reader == Reader::Agent), rules)
    }

    fn of(&self, machine: &str) -> impl Iterator<Item = &Report> {
        self.0.iter().filter(move |report| report.machine == machine)
    }

    fn covered<'r>(given: impl Iterator<Item = &'r Report>, rules: &[Rule]) -> bool {
        let known: BTreeSet<&str> =
            given.flat_map(|report| report.rules.iter().map(String::as_str)).collect();
        rules.iter().all(|rule| known.contains(rule.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_default_waits_for_a_first_report() {
        use ForeignReap::{End, Off, Report};
        for (setting, is_chosen, is_reported, in_force) in [
            (End, false, false, Report),
            (End, false, true, End),
            (End, true, false, End),
            (Report, true, true, Report),
            (Off, true, true, Off),
            (Off, false, false, Off),
        ] {
            assert_eq!(setting.in_force(is_chosen, is_reported), in_force, "{setting:?}");
        }
    }

    #[test]
    fn a_report_counts_for_its_machine_and_its_rules() {
        let rules = Rule::built_in();
        let report = |machine: &str| {
            Report::new("now".to_owned(), machine.to_owned(), &rules, Reader::Caller)
        };
        let line = serde_json::to_string(&report("here")).expect("plain");
        let reports = Reports::parse(&format!("{{\"format\":1,\n{line}\n{{\"torn"));
        assert!(reports.cover("here", &rules) && !reports.cover("there", &rules));
        assert!(!reports.cover_for_agent("here", &rules));
        let agents = Report { reader: Reader::Agent, ..report("here") };
        let line = serde_json::to_string(&agents).expect("plain");
        assert!(Reports::parse(&line).cover_for_agent("here", &rules));
        let newer = Rule { name: "newer".to_owned(), ..rules[0].clone() };
        assert!(!reports.cover("here", &[rules[0].clone(), newer]));
        let tomorrow = Report { format: FORMAT + 1, ..report("here") };
        let line = serde_json::to_string(&tomorrow).expect("plain");
        assert!(!Reports::parse(&line).cover("here", &rules));
        assert!(!Reports::parse("").cover("here", &rules));
    }
}
