//! The table of measurements and their targets, and its formats: text and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::BenchMode;
use super::system_info::SystemInfo;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Ms,
    KiB,
    MibPerSecond,
    Percent,
    Times,
    Count,
    PerSecond,
}

impl Unit {
    const fn symbol(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::KiB => "KiB",
            Self::MibPerSecond => "MiB/s",
            Self::Percent => "%",
            Self::Times => "×",
            Self::Count => "",
            Self::PerSecond => "/s",
        }
    }

    /// Formats a number with about three significant digits.
    fn format_value(self, value: f64) -> String {
        let size = value.abs();
        let digits = if self == Self::Count || size >= 100.0 {
            0
        } else if size >= 10.0 {
            1
        } else if self == Self::Ms && size < 1.0 {
            3
        } else {
            2
        };
        match self {
            Self::Times => format!("{value:.digits$}×"),
            Self::Count => format!("{value:.digits$}"),
            Self::Ms | Self::KiB | Self::MibPerSecond | Self::Percent | Self::PerSecond => {
                format!("{value:.digits$} {}", self.symbol())
            }
        }
    }
}

/// The bound that a line must satisfy: on the value of siding, or on the ratio of that value to the
/// reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    /// The line is informational: it has no bound to meet or miss.
    None,
    /// The value of siding, divided by that of the reference, must be at most this.
    RatioAtMost(f64),
    /// The value of siding, divided by that of the reference, must be at least this.
    RatioAtLeast(f64),
    /// The value of siding must be at most this, in the unit of the line.
    AtMost(f64),
    /// The value of siding must be at least this, in the unit of the line.
    AtLeast(f64),
}

/// The measurement that siding's value is compared with.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    /// The measured object: a command as a person would type it, or another case of the same row.
    pub(super) name: String,
    pub(super) value: f64,
}

/// A measurement of siding, with an optional reference and target.
#[derive(Debug, Clone)]
pub(super) struct TableLine {
    /// Name of the row that the line belongs to.
    pub(super) row: &'static str,
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) ours: f64,
    pub(super) reference: Option<Reference>,
    pub(super) target: Target,
}

impl TableLine {
    /// Returns a line that has neither a reference nor a target.
    pub(super) fn new(row: &'static str, what: impl Into<String>, unit: Unit, ours: f64) -> Self {
        Self { row, label: what.into(), unit, ours, reference: None, target: Target::None }
    }

    pub(super) fn with_reference(mut self, name: impl Into<String>, value: f64) -> Self {
        self.reference = Some(Reference { name: name.into(), value });
        self
    }

    pub(super) fn with_target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    fn ratio(&self) -> Option<f64> {
        let reference = self.reference.as_ref()?;
        (reference.value > 0.0).then(|| self.ours / reference.value)
    }

    /// Returns whether the line meets its target; `None` if it has no target.
    fn target_met(&self) -> Option<bool> {
        match self.target {
            Target::None => None,
            Target::RatioAtMost(most) => Some(self.ratio().is_some_and(|ratio| ratio <= most)),
            Target::RatioAtLeast(least) => Some(self.ratio().is_some_and(|ratio| ratio >= least)),
            Target::AtMost(most) => Some(self.ours <= most),
            Target::AtLeast(least) => Some(self.ours >= least),
        }
    }

    fn format_target(&self) -> String {
        match self.target {
            Target::None => String::new(),
            Target::RatioAtMost(most) => format!("≤ {}", Unit::Times.format_value(most)),
            Target::RatioAtLeast(least) => format!("≥ {}", Unit::Times.format_value(least)),
            Target::AtMost(most) => format!("≤ {}", self.format_short(most)),
            Target::AtLeast(least) => format!("≥ {}", self.format_short(least)),
        }
    }

    /// Formats the value of a target with its unit, without trailing zeros.
    fn format_short(&self, value: f64) -> String {
        let symbol = self.unit.symbol();
        format!("{value} {symbol}").trim_end().to_owned()
    }

    fn text(&self) -> String {
        let reference = self.reference.as_ref();
        let verdict = match self.target_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let mut text = format!(
            "{:<34} {:>10} {:>10} {:>5} {:>10} {}",
            self.label,
            self.unit.format_value(self.ours),
            reference.map_or_else(String::new, |found| self.unit.format_value(found.value)),
            self.ratio().map_or_else(String::new, |ratio| Unit::Times.format_value(ratio)),
            self.format_target(),
            verdict,
        );
        text.truncate(text.trim_end().len());
        text.push('\n');
        if let Some(reference) = reference {
            let _writing_to_string = writeln!(text, "    against {}", reference.name);
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "row": self.row,
            "what": self.label,
            "unit": self.unit.symbol(),
            "ours": self.ours,
            "reference": self.reference.as_ref().map(|reference| json!({
                "name": reference.name,
                "value": reference.value,
            })),
            "ratio": self.ratio(),
            "target": self.format_target(),
            "met": self.target_met(),
        })
    }
}

/// All measurements, the notes about rows, and the rows that could not be measured.
#[derive(Debug, Default)]
pub(super) struct ResultTable {
    lines: Vec<TableLine>,
    notes: Vec<(&'static str, String)>,
    failures: Vec<(&'static str, String)>,
}

impl ResultTable {
    /// Adds a line, and reports it immediately: all rows together take many minutes.
    pub(super) fn add(&mut self, line: TableLine) {
        eprint!("  {}", line.text());
        self.lines.push(line);
    }

    /// Adds a note about a row, which appears below the table.
    pub(super) fn add_note(&mut self, row: &'static str, text: impl Into<String>) {
        let text = text.into();
        eprintln!("  note: {text}");
        self.notes.push((row, text));
    }

    /// Records that a row could not be measured.
    pub(super) fn add_failure(&mut self, row: &'static str, error: &anyhow::Error) {
        eprintln!("  NOT MEASURED: {error:#}");
        self.failures.push((row, format!("{error:#}")));
    }

    /// Returns whether all selected rows were measured; missed targets do not count.
    pub(super) fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }

    /// Returns the table as text for people.
    pub(super) fn text(&self, machine: &SystemInfo, pace: BenchMode) -> String {
        let mut text = format!("\n{}\n", machine.text());
        let _writing_to_string = writeln!(
            text,
            "{:<34} {:>10} {:>10} {:>5} {:>10}",
            "what", "ours", "reference", "ratio", "target"
        );
        let mut row = "";
        for line in &self.lines {
            if line.row != row {
                row = line.row;
                let _writing_to_string = writeln!(text, "[{row}]");
            }
            text.push_str(&line.text());
        }
        text.push('\n');
        for (row, note) in &self.notes {
            let _writing_to_string = writeln!(text, "note [{row}]: {note}");
        }
        for (row, failure) in &self.failures {
            let _writing_to_string = writeln!(text, "NOT MEASURED [{row}]: {failure}");
        }
        let judged = |met| self.lines.iter().filter(|line| line.target_met() == Some(met)).count();
        let _writing_to_string = writeln!(
            text,
            "targets met: {}, missed: {}; rows not measured: {}{}",
            judged(true),
            judged(false),
            self.failures.len(),
            match pace {
                BenchMode::Quick => " (--quick: few repetitions, use the full run for decisions)",
                BenchMode::Full => "",
            }
        );
        text
    }

    /// Returns the table as JSON for programs.
    pub(super) fn json(&self, machine: &SystemInfo, pace: BenchMode) -> Value {
        let pairs = |pairs: &[(&'static str, String)]| -> Value {
            pairs.iter().map(|(row, text)| json!({ "row": row, "text": text })).collect()
        };
        json!({
            "machine": machine.json(),
            "quick": pace == BenchMode::Quick,
            "lines": self.lines.iter().map(TableLine::json).collect::<Vec<_>>(),
            "notes": pairs(&self.notes),
            "not_measured": pairs(&self.failures),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ours: f64, target: Target) -> TableLine {
        TableLine::new("true", "start", Unit::Ms, ours)
            .with_reference("bash -c true", 2.0)
            .with_target(target)
    }

    #[test]
    fn a_target_applies_to_the_ratio_or_to_the_value() {
        assert_eq!(line(3.0, Target::RatioAtMost(1.5)).target_met(), Some(true));
        assert_eq!(line(3.1, Target::RatioAtMost(1.5)).target_met(), Some(false));
        assert_eq!(line(2.0, Target::RatioAtLeast(1.0)).target_met(), Some(true));
        assert_eq!(line(2.0, Target::AtMost(1.9)).target_met(), Some(false));
        assert_eq!(line(2.0, Target::AtLeast(2.0)).target_met(), Some(true));
        assert_eq!(line(2.0, Target::None).target_met(), None);
    }

    #[test]
    fn a_ratio_target_without_a_reference_is_missed() {
        let mut line = line(1.0, Target::RatioAtMost(1.5));
        line.reference = None;
        assert_eq!(line.target_met(), Some(false));
    }

    #[test]
    fn a_line_stays_within_80_columns() {
        let mut line = line(1234.5, Target::RatioAtMost(1.5));
        line.label = "x".repeat(34);
        line.unit = Unit::MibPerSecond;
        for shown in line.text().lines() {
            assert!(shown.chars().count() <= 80, "{shown}");
        }
    }
}
