//! The orders in which the history lists commands: the slow, the flaky and the noisy ones first.

use std::cmp::Reverse;
use std::collections::HashMap;

use siding_live::LiveView;
use siding_model::history::{Quantile, RunSummary, normalize_command};

/// An order of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandOrder {
    /// The most recently run command first.
    Latest,
    /// The largest median first.
    Slowest,
    /// The command with the most evenly divided successes and failures first.
    Flakiest,
    /// The largest output first.
    Noisiest,
}

/// A command with the data that the page shows about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CommandRow {
    /// The runs in the history.
    pub(super) summary: RunSummary,
    /// Size of the largest output among the kept tasks of this command, in bytes; `None` if no task
    /// is kept.
    pub(super) output_bytes: Option<u64>,
}

impl CommandOrder {
    /// The orders with their names in the address and on the page.
    pub(super) const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Latest, "latest", "latest"),
        (Self::Slowest, "slow", "slowest"),
        (Self::Flakiest, "flaky", "flakiest"),
        (Self::Noisiest, "noisy", "noisiest"),
    ];

    /// Returns the order with this name in the address; the first one for any other name.
    pub(super) fn from_name(name: Option<&str>) -> Self {
        let known = Self::ALL.iter().find(|(_, known, _)| name == Some(*known));
        known.map_or(Self::Latest, |(order, ..)| *order)
    }
}

/// Sorts commands that are in the order of their last runs.
pub(super) fn sort_commands(rows: &mut [CommandRow], order: CommandOrder) {
    match order {
        CommandOrder::Latest => {}
        CommandOrder::Slowest => rows.sort_by_key(|row| Reverse(median_ms(&row.summary))),
        CommandOrder::Flakiest => rows.sort_by_key(|row| Reverse(flaky_permille(&row.summary))),
        CommandOrder::Noisiest => rows.sort_by_key(|row| Reverse(row.output_bytes)),
    }
}

/// Adds the sizes of the kept outputs to the commands.
pub(super) fn add_outputs(view: &LiveView, summaries: Vec<RunSummary>) -> Vec<CommandRow> {
    let mut largest: HashMap<(String, String), u64> = HashMap::new();
    for task in view.tasks().map(|task| &task.view) {
        let key = (normalize_command(&task.command), task.history_directory());
        let bytes = largest.entry(key).or_default();
        *bytes = task.output.bytes.max(*bytes);
    }
    let row = |summary: RunSummary| {
        let key = (summary.last.command.clone(), summary.last.cwd.clone());
        CommandRow { output_bytes: largest.get(&key).copied(), summary }
    };
    summaries.into_iter().map(row).collect()
}

/// Returns the median, or its lower bound; 0 if it is unknown.
fn median_ms(summary: &RunSummary) -> u64 {
    match summary.expectation.map(|usual| usual.median) {
        Some(Quantile::Exact(ms) | Quantile::MoreThan(ms)) => ms,
        None => 0,
    }
}

/// Returns the share of successes or of failures, whichever is smaller, in thousandths: 500 for a
/// command that fails every other time, and 0 for one that always or never fails.
fn flaky_permille(summary: &RunSummary) -> usize {
    let judged = summary.succeeded + summary.failed;
    summary.succeeded.min(summary.failed) * 1_000 / judged.max(1)
}

#[cfg(test)]
mod tests {
    use siding_model::history::{Expectation, Run};
    use siding_model::outcome::Outcome;
    use siding_model::process::UnixMs;

    use super::*;

    fn row(name: &str, median: u64, results: (usize, usize), output: Option<u64>) -> CommandRow {
        let usual = Quantile::Exact(median);
        let last = Run {
            task_id: "b-4k7q0n2m8x5t".parse().expect("an id"),
            command: name.to_owned(),
            cwd: "/p".to_owned(),
            ended: UnixMs(0),
            ran_ms: Some(median),
            outcome: Outcome::Exited { code: 0 },
            peak_memory: None,
        };
        let summary = RunSummary {
            runs: results.0 + results.1,
            succeeded: results.0,
            failed: results.1,
            expectation: Some(Expectation { runs: 3, median: usual, p90: usual }),
            recent: Vec::new(),
            peak_memory: None,
            last,
        };
        CommandRow { summary, output_bytes: output }
    }

    #[test]
    fn each_order_has_its_worst_command_first() {
        let rows = [
            row("quick", 10, (9, 0), None),
            row("slow", 90_000, (0, 9), Some(10)),
            row("flaky", 20, (5, 4), Some(1 << 20)),
        ];
        for (order, first) in [
            (CommandOrder::Latest, "quick"),
            (CommandOrder::Slowest, "slow"),
            (CommandOrder::Flakiest, "flaky"),
            (CommandOrder::Noisiest, "flaky"),
        ] {
            let mut sorted = rows.to_vec();
            sort_commands(&mut sorted, order);
            assert_eq!(sorted[0].summary.last.command, first, "{order:?}");
        }
    }

    #[test]
    fn an_unknown_name_is_the_first_order() {
        for (order, name, _) in CommandOrder::ALL {
            assert_eq!(CommandOrder::from_name(Some(name)), order);
        }
        assert_eq!(CommandOrder::from_name(Some("x")), CommandOrder::Latest);
        assert_eq!(CommandOrder::from_name(None), CommandOrder::Latest);
    }
}
