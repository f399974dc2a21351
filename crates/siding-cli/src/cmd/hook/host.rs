//! The hosts that call hooks, and their events.

use clap::ValueEnum;
use siding_model::id::SessionId;

/// An agent program that calls hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum HookHost {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
}

/// An event of a conversation. The aliases are Gemini CLI's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum HookEvent {
    /// A conversation starts, is resumed, cleared or compacted
    SessionStart,
    /// A tool is about to run
    #[value(alias = "before-tool")]
    PreToolUse,
    /// A tool has succeeded
    #[value(alias = "after-tool")]
    PostToolUse,
    /// A tool has failed
    PostToolUseFailure,
    /// All tool calls of one response have returned
    PostToolBatch,
    /// The person has submitted a prompt
    #[value(alias = "before-agent")]
    UserPromptSubmit,
    /// The agent is about to end its turn
    #[value(alias = "after-agent")]
    Stop,
    /// A conversation ends
    SessionEnd,
    /// Wait for a notice that should wake an idle agent
    AwaitNotice,
    /// Notify the person until the host ends
    NotifyPerson,
}

impl HookEvent {
    /// Returns a host's name for the event.
    pub(super) const fn name(self, host: HookHost) -> &'static str {
        let is_gemini = matches!(host, HookHost::Gemini);
        match self {
            Self::SessionStart => "SessionStart",
            Self::PreToolUse if is_gemini => "BeforeTool",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse if is_gemini => "AfterTool",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::PostToolBatch => "PostToolBatch",
            Self::UserPromptSubmit if is_gemini => "BeforeAgent",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop if is_gemini => "AfterAgent",
            Self::Stop => "Stop",
            Self::SessionEnd => "SessionEnd",
            Self::AwaitNotice => "await-notice",
            // The host calls it in an entry for the event SessionStart.
            Self::NotifyPerson => "SessionStart",
        }
    }
}

/// Maximum characters of a conversation's name inside a session id. Together with the host's prefix
/// they do not exceed the maximum length of a session id.
const MAX_CONVERSATION_CHARS: usize = 50;

impl HookHost {
    /// Returns the host's name as an argument of `siding doctor --host`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    const fn session_prefix(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the host's name as an argument of `siding hook --host`.
    pub(super) const fn long_name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the session id of a conversation of this host. A resumed conversation gets the same
    /// id.
    ///
    /// # Panics
    ///
    /// Never: characters that a session id may not have are replaced, and the length is limited.
    pub(super) fn session_id_for(self, conversation: &str) -> SessionId {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let rest: String = conversation.chars().take(MAX_CONVERSATION_CHARS).map(plain).collect();
        let name = format!("{}-{rest}", self.session_prefix());
        name.parse().expect("only allowed characters, and short enough")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_conversation_name_maps_to_a_valid_session_id() {
        let session = |text: &str| HookHost::ClaudeCode.session_id_for(text).to_string();
        let uuid = "3b0e8c1a-6d0f-4a55-9a43-0d8f2f3b1c77";
        assert_eq!(session(uuid), format!("claude-{uuid}"));
        assert_eq!(session("../a b\n\u{202e}"), "claude-..-a-b--");
        assert_eq!(session(""), "claude-");
        assert_eq!(session(&"x".repeat(1000)).len(), "claude-".len() + MAX_CONVERSATION_CHARS);
    }
}
