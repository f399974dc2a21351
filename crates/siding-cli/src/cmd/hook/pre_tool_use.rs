//! Asks the guard before a tool runs a command.

use siding_guard::{ExecMode, GuardReport, GuardVerdict, judge_with_environment};

use super::HookAnswer;
use super::attendance::is_attended;
use super::host::HookHost;
use super::input::HookInput;
use crate::guard_rules;

/// Answers with the guard's objections to the command and its variables. Without an objection, the
/// answer contains no decision, and the host decides.
pub(super) fn answer(input: &HookInput, host: HookHost) -> HookAnswer {
    let typed = input.typed_command();
    let Some(command) = input.command().or(typed.as_deref()) else { return HookAnswer::Nothing };
    let mode = input.exec_mode();
    let is_asked = !mode.is_background() || is_attended(input, host);
    let mode = if is_asked { mode } else { ExecMode::Unattended };
    match guard_rules::load_rules() {
        Ok(rules) => {
            let environment = input.environment();
            answer_for_judgement(&judge_with_environment(command, &environment, &rules, mode))
        }
        // Without valid rules the guard can neither allow nor deny the command. The hook therefore
        // asks the person, or only shows a warning on a host that cannot ask.
        Err(failure) => HookAnswer::Ask(format!("siding guard: {}", failure.message())),
    }
}

fn answer_for_judgement(judgement: &GuardReport) -> HookAnswer {
    match judgement.verdict {
        GuardVerdict::Allow => HookAnswer::Nothing,
        GuardVerdict::Ask => HookAnswer::Ask(guard_rules::format_reason(judgement)),
        GuardVerdict::Deny => HookAnswer::Deny(guard_rules::format_reason(judgement)),
    }
}

#[cfg(test)]
mod tests {
    use siding_guard::{Rules, judge};

    use super::*;

    fn answer_to_command(command: &str) -> HookAnswer {
        answer_for_judgement(&judge(command, &Rules::builtin(), ExecMode::Foreground))
    }

    #[test]
    fn a_denial_reports_only_the_strictest_findings() {
        let HookAnswer::Deny(why) = answer_to_command("sudo true; rm -rf /") else {
            panic!("not denied")
        };
        assert!(why.contains("`rm -rf /`") && why.contains("(deny)"), "{why}");
        assert!(!why.contains("(ask)"), "{why}");
    }

    #[test]
    fn an_allowed_command_gets_no_decision() {
        assert_eq!(answer_to_command("cargo test"), HookAnswer::Nothing);
        assert!(matches!(answer_to_command("sudo true"), HookAnswer::Ask(_)));
    }
}
