//! Decides whether a person would see and answer a question that a hook asks.

use super::await_notice::{ENTRYPOINT_VARIABLE, can_be_idle};
use super::host::HookHost;
use super::input::HookInput;

/// Claude Code's permission modes in which no question reaches a person.
const UNATTENDED_MODES: [&str; 3] = ["auto", "bypassPermissions", "dontAsk"];

/// Returns whether the host shows a hook's question to a person.
pub(super) fn is_attended(input: &HookInput, host: HookHost) -> bool {
    let entrypoint = std::env::var(ENTRYPOINT_VARIABLE).ok();
    question_reaches_person(host, input.permission_mode.as_deref(), entrypoint.as_deref())
}

fn question_reaches_person(
    host: HookHost,
    permission_mode: Option<&str>,
    entrypoint: Option<&str>,
) -> bool {
    match host {
        // Codex rejects the decision `ask`, and Gemini CLI does not have it.
        HookHost::Codex | HookHost::Gemini => false,
        HookHost::ClaudeCode => {
            permission_mode.is_none_or(|mode| !UNATTENDED_MODES.contains(&mode))
                && can_be_idle(entrypoint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reaches_a_person_only_in_interactive_modes() {
        let claude = HookHost::ClaudeCode;
        for mode in [None, Some("default"), Some("plan"), Some("acceptEdits")] {
            assert!(question_reaches_person(claude, mode, Some("cli")), "{mode:?}");
            assert!(!question_reaches_person(claude, mode, Some("sdk-cli")), "{mode:?}");
        }
        for mode in UNATTENDED_MODES {
            assert!(!question_reaches_person(claude, Some(mode), Some("cli")), "{mode}");
        }
        for host in [HookHost::Codex, HookHost::Gemini] {
            assert!(!question_reaches_person(host, Some("default"), None), "{host:?}");
        }
    }
}
