//! Runs steps one after the other, measures their time, and prints a summary.
//!
//! This module does not depend on the individual steps, which `check.rs` lists.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::duration::format_duration;
use crate::workspace::Workspace;

/// A check that can be selected by name.
pub(crate) struct Step {
    /// The name of the step in the summary and on the command line.
    pub(crate) name: &'static str,
    /// The rule that the step checks, in one line.
    pub(crate) about: &'static str,
    /// Whether `--quick` includes the step.
    pub(crate) tier: StepTier,
    /// Runs the check. An error means that the step failed.
    pub(crate) run: fn(&Workspace) -> Result<StepOutcome>,
}

/// Whether a step is fast enough to run after every edit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepTier {
    /// The step also runs with `--quick`.
    Quick,
    /// `--quick` omits the step.
    Slow,
}

/// The result of a step that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// The check passed.
    Passed,
    /// The check passed, with a note for the reader.
    PassedWithNote(String),
    /// The check could not run on this machine, for the given reason. In CI, a step returns an
    /// error instead.
    Skipped(String),
}

/// Whether the remaining steps run after a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// The remaining steps do not run, and the summary lists them as such.
    Stop,
    /// The remaining steps run, and the whole run fails at the end.
    Continue,
}

/// The combined result of all steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    /// Every step passed.
    Passed,
    /// No step failed, but some steps could not run on this machine.
    PassedWithSkips,
    /// A step failed.
    Failed,
}

/// A step that has run, with its result.
struct StepRecord {
    name: &'static str,
    result: Result<StepOutcome>,
    took: Duration,
}

/// Runs the steps, prints the summary table, and returns the combined result.
pub(crate) fn run(
    steps: &[&Step],
    workspace: &Workspace,
    after_failure: AfterFailure,
) -> RunOutcome {
    let started = Instant::now();
    let mut entries = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        println!("\n[{}/{}] {}: {}", number + 1, steps.len(), step.name, step.about);
        let began = Instant::now();
        let result = (step.run)(workspace);
        let took = began.elapsed();
        println!("  {}", format_step_line(step.name, &result, took));
        let failed = result.is_err();
        entries.push(StepRecord { name: step.name, result, took });
        if failed && after_failure == AfterFailure::Stop {
            break;
        }
    }
    let unrun: Vec<&str> = steps[entries.len()..].iter().map(|step| step.name).collect();
    print!("\n{}", format_table(&entries, &unrun, started.elapsed()));
    run_outcome(&entries)
}

fn run_outcome(entries: &[StepRecord]) -> RunOutcome {
    let mut outcome = RunOutcome::Passed;
    for entry in entries {
        match entry.result {
            Err(_) => return RunOutcome::Failed,
            Ok(StepOutcome::Skipped(_)) => outcome = RunOutcome::PassedWithSkips,
            Ok(StepOutcome::Passed | StepOutcome::PassedWithNote(_)) => {}
        }
    }
    outcome
}

/// Returns the line that is printed right after a step.
fn format_step_line(name: &str, result: &Result<StepOutcome>, took: Duration) -> String {
    let took = format_duration(took);
    match result {
        Ok(StepOutcome::Passed) => format!("{name}: ok ({took})"),
        Ok(StepOutcome::PassedWithNote(note)) => format!("{name}: ok ({took}); note: {note}"),
        Ok(StepOutcome::Skipped(why)) => format!("{name}: SKIPPED: {why}"),
        Err(error) => format!("{name}: FAILED ({took}): {error:#}"),
    }
}

/// Returns the summary that is printed at the end.
fn format_table(entries: &[StepRecord], unrun: &[&str], total: Duration) -> String {
    let mut text = format!("{:<11}{:<9}{:>12}\n", "step", "result", "time");
    for entry in entries {
        let (result, note) = match &entry.result {
            Ok(StepOutcome::Passed) => ("ok", ""),
            Ok(StepOutcome::PassedWithNote(note)) => ("ok", note.as_str()),
            Ok(StepOutcome::Skipped(why)) => ("SKIPPED", why.as_str()),
            Err(_) => ("FAILED", "see above"),
        };
        let row =
            format!("{:<11}{result:<9}{:>12}  {note}", entry.name, format_duration(entry.took));
        text.push_str(row.trim_end());
        text.push('\n');
    }
    for name in unrun {
        let _writing_to_string = writeln!(text, "{name:<11}not run");
    }
    let _writing_to_string = writeln!(text, "{:<20}{:>12}", "total", format_duration(total));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &'static str, result: Result<StepOutcome>) -> StepRecord {
        StepRecord { name, result, took: Duration::from_millis(1_500) }
    }

    #[test]
    fn the_table_shows_every_outcome() {
        let entries = [
            entry("format", Ok(StepOutcome::Passed)),
            entry("deny", Ok(StepOutcome::PassedWithNote("no advisories".to_owned()))),
            entry("clippy", Ok(StepOutcome::Skipped("no clippy".to_owned()))),
            entry("links", Err(anyhow::anyhow!("two dead links"))),
        ];
        assert_eq!(
            format_table(&entries, &["tests"], Duration::from_secs(61)),
            "\
step       result           time
format     ok              1.5 s
deny       ok              1.5 s  no advisories
clippy     SKIPPED         1.5 s  no clippy
links      FAILED          1.5 s  see above
tests      not run
total                 1 min 01 s
"
        );
    }

    #[test]
    fn a_skipped_step_prevents_a_full_pass_and_a_failure_fails() {
        let mut entries = vec![entry("format", Ok(StepOutcome::Passed))];
        assert_eq!(run_outcome(&entries), RunOutcome::Passed);
        entries.push(entry("clippy", Ok(StepOutcome::Skipped(String::new()))));
        assert_eq!(run_outcome(&entries), RunOutcome::PassedWithSkips);
        entries.insert(0, entry("links", Err(anyhow::anyhow!("dead"))));
        assert_eq!(run_outcome(&entries), RunOutcome::Failed);
    }

    #[test]
    fn a_failure_is_printed_with_its_cause() {
        let error = anyhow::anyhow!("file is gone").context("could not read the lock");
        assert_eq!(
            format_step_line("lock", &Err(error), Duration::ZERO),
            "lock: FAILED (0.0 s): could not read the lock: file is gone"
        );
    }
}
