//! Runs steps one after the other, times them, and sums up.
//!
//! Knows nothing about what a step does.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::clock::readable;
use crate::workspace::Workspace;

/// One thing that must hold.
pub(crate) struct Step {
    /// One word, also accepted on the command line.
    pub(crate) name: &'static str,
    /// What it looks at, in one line.
    pub(crate) about: &'static str,
    /// Whether `--quick` includes it.
    pub(crate) pace: Pace,
    /// Does it. An error means that the step failed.
    pub(crate) run: fn(&Workspace) -> Result<Finding>,
}

/// Whether a step is worth running after every edit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Part of `--quick`.
    Quick,
    /// Left out by `--quick`.
    Thorough,
}

/// How a step ended that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// All is well.
    Passed,
    /// All is well, and the reader should know this.
    Noted(String),
    /// It could not be run here, for this reason. Never happens under CI: there it is a failure.
    LeftOut(String),
}

/// What to do after a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// Leave the remaining steps unrun.
    Stop,
    /// Run them all the same.
    GoOn,
}

/// How a whole run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Every step passed.
    Passed,
    /// No step failed, but some could not be run here.
    PassedInPart,
    /// A step failed.
    Failed,
}

/// The record of one step.
struct Entry {
    name: &'static str,
    result: Result<Finding>,
    took: Duration,
}

/// Runs the steps, prints a table, and returns how that ended.
pub(crate) fn run(steps: &[&Step], workspace: &Workspace, after_failure: AfterFailure) -> Ending {
    let started = Instant::now();
    let mut entries = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        println!("\n[{}/{}] {}: {}", number + 1, steps.len(), step.name, step.about);
        let began = Instant::now();
        let result = (step.run)(workspace);
        let took = began.elapsed();
        println!("  {}", verdict(step.name, &result, took));
        let failed = result.is_err();
        entries.push(Entry { name: step.name, result, took });
        if failed && after_failure == AfterFailure::Stop {
            break;
        }
    }
    let unrun: Vec<&str> = steps[entries.len()..].iter().map(|step| step.name).collect();
    print!("\n{}", table(&entries, &unrun, started.elapsed()));
    ending(&entries)
}

fn ending(entries: &[Entry]) -> Ending {
    let mut ending = Ending::Passed;
    for entry in entries {
        match entry.result {
            Err(_) => return Ending::Failed,
            Ok(Finding::LeftOut(_)) => ending = Ending::PassedInPart,
            Ok(Finding::Passed | Finding::Noted(_)) => {}
        }
    }
    ending
}

/// Returns the line printed right after a step.
fn verdict(name: &str, result: &Result<Finding>, took: Duration) -> String {
    let took = readable(took);
    match result {
        Ok(Finding::Passed) => format!("{name}: ok ({took})"),
        Ok(Finding::Noted(note)) => format!("{name}: ok ({took}); note: {note}"),
        Ok(Finding::LeftOut(why)) => format!("{name}: LEFT OUT: {why}"),
        Err(error) => format!("{name}: FAILED ({took}): {error:#}"),
    }
}

/// Returns the summary printed at the end.
fn table(entries: &[Entry], unrun: &[&str], total: Duration) -> String {
    let mut text = format!("{:<11}{:<9}{:>12}\n", "step", "result", "time");
    for entry in entries {
        let (result, note) = match &entry.result {
            Ok(Finding::Passed) => ("ok", ""),
            Ok(Finding::Noted(note)) => ("ok", note.as_str()),
            Ok(Finding::LeftOut(why)) => ("LEFT OUT", why.as_str()),
            Err(_) => ("FAILED", "see above"),
        };
        let row = format!("{:<11}{result:<9}{:>12}  {note}", entry.name, readable(entry.took));
        text.push_str(row.trim_end());
        text.push('\n');
    }
    for name in unrun {
        let _infallible = writeln!(text, "{name:<11}not run");
    }
    let _infallible = writeln!(text, "{:<20}{:>12}", "total", readable(total));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &'static str, result: Result<Finding>) -> Entry {
        Entry { name, result, took: Duration::from_millis(1_500) }
    }

    #[test]
    fn the_table_shows_every_kind_of_end() {
        let entries = [
            entry("format", Ok(Finding::Passed)),
            entry("deny", Ok(Finding::Noted("no advisories".to_owned()))),
            entry("clippy", Ok(Finding::LeftOut("no clippy".to_owned()))),
            entry("links", Err(anyhow::anyhow!("two dead links"))),
        ];
        assert_eq!(
            table(&entries, &["tests"], Duration::from_secs(61)),
            "\
step       result           time
format     ok              1.5 s
deny       ok              1.5 s  no advisories
clippy     LEFT OUT        1.5 s  no clippy
links      FAILED          1.5 s  see above
tests      not run
total                 1 min 01 s
"
        );
    }

    #[test]
    fn a_step_left_out_is_no_full_pass_and_a_failure_is_none() {
        let mut entries = vec![entry("format", Ok(Finding::Passed))];
        assert_eq!(ending(&entries), Ending::Passed);
        entries.push(entry("clippy", Ok(Finding::LeftOut(String::new()))));
        assert_eq!(ending(&entries), Ending::PassedInPart);
        entries.insert(0, entry("links", Err(anyhow::anyhow!("dead"))));
        assert_eq!(ending(&entries), Ending::Failed);
    }

    #[test]
    fn a_failure_is_told_with_its_cause() {
        let error = anyhow::anyhow!("file is gone").context("could not read the lock");
        assert_eq!(
            verdict("lock", &Err(error), Duration::ZERO),
            "lock: FAILED (0.0 s): could not read the lock: file is gone"
        );
    }
}
