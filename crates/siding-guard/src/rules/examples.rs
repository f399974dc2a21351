//! Trying a rule's examples.

use serde::Serialize;

use super::file::Rule;
use super::layers::Rules;
use crate::verdict::{ExecMode, judge};

/// What became of the examples of some rules.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExampleResults {
    /// How many were tried.
    pub count: usize,
    /// Those that failed.
    pub failed: Vec<FailedExample>,
    /// Rules without an example that they are about.
    pub without: Vec<String>,
}

/// An example of which a rule says something else than expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedExample {
    /// The rule.
    pub rule: String,
    /// The command.
    pub command: String,
    /// Whether the rule should be about it.
    pub should_hit: bool,
}

impl Rules {
    /// Tries the examples of the rules for which `is_wanted` holds.
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
