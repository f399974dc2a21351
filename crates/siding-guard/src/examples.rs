//! Checks the examples of rules.

use serde::Serialize;

use crate::rules::{Rule, Rules};
use crate::verdict::{ExecMode, judge};

/// The results of the examples of some rules.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExampleResults {
    /// Number of examples that were checked.
    pub count: usize,
    /// The examples that failed.
    pub failed: Vec<FailedExample>,
    /// Rules without an example that they match.
    pub without: Vec<String>,
}

/// An example with another result than expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedExample {
    /// The rule.
    pub rule: String,
    /// The command.
    pub command: String,
    /// Whether the rule should match the command.
    pub should_hit: bool,
}

impl Rules {
    /// Checks the examples of the rules for which `is_wanted` holds.
    #[must_use]
    pub fn check_examples(&self, is_wanted: impl Fn(&Rule) -> bool) -> ExampleResults {
        let mut results = ExampleResults::default();
        for rule in self.rules.iter().filter(|rule| is_wanted(rule)) {
            let mode =
                if rule.background_only { ExecMode::Background } else { ExecMode::Foreground };
            let hits = rule.examples.hit.iter().map(|command| (command, true));
            let misses = rule.examples.miss.iter().map(|command| (command, false));
            if rule.examples.hit.is_empty() {
                results.without.push(rule.name.clone());
            }
            for (command, should_hit) in hits.chain(misses) {
                results.count += 1;
                let judgement = judge(command, self, mode);
                let is_hit = judgement.findings.iter().any(|found| found.rule == rule.name);
                if is_hit != should_hit {
                    let (rule, command) = (rule.name.clone(), command.clone());
                    results.failed.push(FailedExample { rule, command, should_hit });
                }
            }
        }
        results
    }
}
