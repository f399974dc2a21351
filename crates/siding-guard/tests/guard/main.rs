//! What the guard says, and what it survives.

mod background;
mod expansions;
mod fuzz;
mod hostile;
mod layers;
mod spans;
mod wrapped;

use siding_guard::{How, Judgement, Rules, Verdict, judge};

/// Judges with the built-in rules.
fn judged(text: &str) -> Judgement {
    judge(text, &Rules::builtin(), How::Foreground)
}

/// The names of the rules that speak against a text.
fn found(text: &str) -> Vec<String> {
    judged(text).findings.into_iter().map(|finding| finding.rule).collect()
}

#[track_caller]
fn expect(text: &str, verdict: Verdict, rule: &str) {
    let judgement = judged(text);
    let rules: Vec<_> = judgement.findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert!(rules.contains(&rule), "{text}: {rules:?}");
    assert_eq!(judgement.verdict, verdict, "{text}");
}

#[test]
fn every_example_of_a_built_in_rule_is_right() {
    let tried = Rules::builtin().try_examples(|_| true);
    assert!(tried.failed.is_empty(), "{:#?}", tried.failed);
    assert!(tried.without.is_empty(), "rules without an example: {:?}", tried.without);
    assert!(tried.count > 300, "{}", tried.count);
}
