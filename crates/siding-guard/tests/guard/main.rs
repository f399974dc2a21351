//! Tests of the guard's verdicts and of its robustness.

mod background;
mod expansions;
mod fuzz;
mod layers;
mod nested_commands;
mod resource_limits;
mod spans;

use siding_guard::{ExecMode, GuardReport, GuardVerdict, Rules, judge};

fn judge_foreground(text: &str) -> GuardReport {
    judge(text, &Rules::builtin(), ExecMode::Foreground)
}

fn matched_rules(text: &str) -> Vec<String> {
    judge_foreground(text).findings.into_iter().map(|finding| finding.rule).collect()
}

#[track_caller]
fn assert_finding(text: &str, verdict: GuardVerdict, rule: &str) {
    let judgement = judge_foreground(text);
    let rules: Vec<_> = judgement.findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert!(rules.contains(&rule), "{text}: {rules:?}");
    assert_eq!(judgement.verdict, verdict, "{text}");
}

#[test]
fn every_built_in_rule_passes_its_examples() {
    let tried = Rules::builtin().check_examples(|_| true);
    assert!(tried.failed.is_empty(), "{:#?}", tried.failed);
    assert!(
        tried.rules_without_examples.is_empty(),
        "rules without an example: {:?}",
        tried.rules_without_examples
    );
    assert!(tried.count > 300, "{}", tried.count);
}
