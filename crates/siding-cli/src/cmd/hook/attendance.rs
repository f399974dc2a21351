//! Whether a person answers what a hook would ask.

use super::await_notice::{ENTRYPOINT, is_ever_idle};
use super::host::Host;
use super::input::Input;

/// Claude Code's modes in which no question reaches a person.
const UNASKED_MODES: [&str; 3] = ["auto", "bypassPermissions", "dontAsk"];

/// Whether the host puts a question of a hook to a person.
pub(super) fn is_attended(input: &Input, host: Host) -> bool {
    let entrypoint = std::env::var(ENTRYPOINT).ok();
    is_answered(host, input.permission_mode.as_deref(), entrypoint.as_deref())
}

fn is_answered(host: Host, permission_mode: Option<&str>, entrypoint: Option<&str>) -> bool {
    match host {
        // It refuses that word, or has none for it.
        Host::Codex | Host::Gemini => false,
        Host::ClaudeCode => {
            permission_mode.is_none_or(|mode| !UNASKED_MODES.contains(&mode))
                && is_ever_idle(entrypoint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_only_where_a_person_is_asked() {
        let claude = Host::ClaudeCode;
        for mode in [None, Some("default"), Some("plan"), Some("acceptEdits")] {
            assert!(is_answered(claude, mode, Some("cli")), "{mode:?}");
            assert!(!is_answered(claude, mode, Some("sdk-cli")), "{mode:?}");
        }
        for mode in UNASKED_MODES {
            assert!(!is_answered(claude, Some(mode), Some("cli")), "{mode}");
        }
        for host in [Host::Codex, Host::Gemini] {
            assert!(!is_answered(host, Some("default"), None), "{host:?}");
        }
    }
}
