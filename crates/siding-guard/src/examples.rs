//! Checks rules against the examples in their rule files.

use serde::Serialize;

use crate::rules::{Rule, Rules};
use crate::verdict::{ExecMode, judge};

/// The result of checking the examples of rules.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "guard_test"))]
pub struct ExampleResults {
    /// Number of examples that were checked.
    pub count: usize,
    /// The examples with an unexpected result; empty if all examples have the expected result.
    pub failed: Vec<FailedExample>,
    /// Names of the rules that have no example of a match.
    pub rules_without_examples: Vec<String>,
}

/// An example whose result is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedExample {
    /// Name of the rule for which the example was written.
    pub rule: String,
    /// The shell text of the example, which was judged but not run.
    pub command: String,
    /// Whether the rule should match the command. The actual result was the opposite.
    pub should_match: bool,
}

impl Rules {
    /// Checks the examples of the rules for which `is_wanted` returns true.
    #[must_use]
    pub fn check_examples(&self, is_wanted: impl Fn(&Rule) -> bool) -> ExampleResults {
        let mut results = ExampleResults::default();
        for rule in self.rules.iter().filter(|rule| is_wanted(rule)) {
            let mode =
                if rule.background_only { ExecMode::Background } else { ExecMode::Foreground };
            let matches = rule.examples.matching.iter().map(|command| (command, true));
            let mismatches = rule.examples.mismatch.iter().map(|command| (command, false));
            if rule.examples.matching.is_empty() {
                results.rules_without_examples.push(rule.name.clone());
            }
            for (command, should_match) in matches.chain(mismatches) {
                results.count += 1;
                let judgement = judge(command, self, mode);
                let is_match = judgement.findings.iter().any(|found| found.rule == rule.name);
                if is_match != should_match {
                    let (rule, command) = (rule.name.clone(), command.clone());
                    results.failed.push(FailedExample { rule, command, should_match });
                }
            }
        }
        results
    }
}
