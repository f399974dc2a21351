//! Before a tool runs a command: the guard.

use std::fmt::Write as _;

use siding_guard::{Finding, Judgement, Verdict, judge};
use siding_model::text::one_line;

use super::Answer;
use super::input::Input;
use crate::guarding;

/// Columns of what a finding is about.
const TEXT: usize = 200;

/// Answers what speaks against the command. What nothing speaks against is the host's to decide.
pub(super) fn answer(input: &Input) -> Answer {
    let Some(command) = input.command() else { return Answer::Nothing };
    match guarding::rules() {
        Ok(rules) => said(&judge(command, &rules, input.how())),
        // Somebody relies on rules that cannot be read.
        Err(failure) => Answer::Ask(format!("siding guard: {}", failure.message())),
    }
}

fn said(judgement: &Judgement) -> Answer {
    match judgement.verdict {
        Verdict::Allow => Answer::Nothing,
        Verdict::Ask => Answer::Ask(reason(judgement)),
        Verdict::Deny => Answer::Deny(reason(judgement)),
    }
}

/// Returns what is strictest, in words for the agent and the person.
fn reason(judgement: &Judgement) -> String {
    let mut text = String::new();
    let strictest = |finding: &&Finding| finding.verdict == judgement.verdict;
    for finding in judgement.findings.iter().filter(strictest) {
        if !text.is_empty() {
            text.push('\n');
        }
        let (rule, what) = (&finding.rule, one_line(&finding.text, TEXT));
        let verdict = finding.verdict.name();
        let _a_string_takes_all =
            write!(text, "siding guard, rule {rule} ({verdict}): `{what}`: {}", finding.why);
        if let Some(instead) = &finding.instead {
            let _a_string_takes_all = write!(text, ". Instead: {instead}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use siding_guard::{How, Rules};

    use super::*;

    fn about(command: &str) -> Answer {
        said(&judge(command, &Rules::builtin(), How::Foreground))
    }

    #[test]
    fn a_denial_says_what_and_why_and_nothing_weaker() {
        let Answer::Deny(why) = about("sudo true; rm -rf /") else { panic!("not denied") };
        assert!(why.contains("`rm -rf /`") && why.contains("(deny)"), "{why}");
        assert!(!why.contains("(ask)"), "{why}");
    }

    #[test]
    fn what_is_allowed_is_not_decided() {
        assert_eq!(about("cargo test"), Answer::Nothing);
        assert!(matches!(about("sudo true"), Answer::Ask(_)));
    }
}
