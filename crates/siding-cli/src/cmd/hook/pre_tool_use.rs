//! Before a tool runs a command: the guard.

use siding_guard::{ExecMode, GuardReport, GuardVerdict, judge};

use super::Answer;
use super::attendance::is_attended;
use super::host::Host;
use super::input::Input;
use crate::guarding;

/// Answers what speaks against the command. What nothing speaks against is the host's to decide.
pub(super) fn answer(input: &Input, host: Host) -> Answer {
    let Some(command) = input.command() else { return Answer::Nothing };
    let how = input.how();
    let is_asked = !how.is_background() || is_attended(input, host);
    let how = if is_asked { how } else { ExecMode::Unattended };
    match guarding::rules() {
        Ok(rules) => said(&judge(command, &rules, how)),
        // Somebody relies on rules that cannot be read.
        Err(failure) => Answer::Ask(format!("siding guard: {}", failure.message())),
    }
}

fn said(judgement: &GuardReport) -> Answer {
    match judgement.verdict {
        GuardVerdict::Allow => Answer::Nothing,
        GuardVerdict::Ask => Answer::Ask(guarding::reason(judgement)),
        GuardVerdict::Deny => Answer::Deny(guarding::reason(judgement)),
    }
}

#[cfg(test)]
mod tests {
    use siding_guard::Rules;

    use super::*;

    fn about(command: &str) -> Answer {
        said(&judge(command, &Rules::builtin(), ExecMode::Foreground))
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
