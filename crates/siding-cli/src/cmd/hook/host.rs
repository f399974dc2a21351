//! The hosts that call hooks, and their events.

use clap::ValueEnum;
use siding_model::id::SessionId;

pub(super) use crate::install::hosts::HookHost;

/// An event at which a host calls `siding hook`. The aliases are Gemini CLI's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum HookEvent {
    /// A conversation starts, or is resumed, cleared or compacted
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
    /// Returns the name of the event in the host's JSON and settings. For the waiter, whose answer
    /// is not JSON, returns the name of the argument.
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
            // `siding install --notify` adds this hook to the host's entries for SessionStart.
            Self::NotifyPerson => "SessionStart",
        }
    }

    /// Returns what siding does at the event, for a person who decides about an install.
    pub(super) const fn effect(self) -> &'static str {
        match self {
            Self::SessionStart => "opens siding's session, reports tasks that still run",
            Self::PreToolUse => "asks the guard about a command; sets its budget, if any",
            Self::PostToolUse => "reports new notices after a command",
            Self::PostToolUseFailure => "reports new notices after a command that failed",
            Self::PostToolBatch => "reports new notices, reminds of running tasks",
            Self::UserPromptSubmit => "reports new notices with your prompt",
            Self::Stop => "reports notices and running tasks before a turn ends",
            Self::SessionEnd => "closes siding's session, which stops its tasks",
            Self::AwaitNotice => "wakes the idle agent for a new notice",
            Self::NotifyPerson => "notifies you when a task needs you",
        }
    }
}

/// Maximum number of characters of the host's conversation id in a session id. With the host's
/// prefix before them, the session id stays within its maximum length.
const MAX_CONVERSATION_CHARS: usize = 50;

impl HookHost {
    /// Returns the host's name as `--host` of `siding hook` and `siding doctor` accepts it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Returns whether the host can move a running shell call to the background, so that the input
    /// of its calls may be changed.
    pub(super) const fn moves_calls(self) -> bool {
        match self {
            Self::ClaudeCode => true,
            Self::Codex | Self::Gemini => false,
        }
    }

    /// Returns whether a turn of the host may be held for new notices. Gemini CLI would continue a
    /// held turn with a text that its model reads as a prompt from the person.
    pub(super) const fn can_hold_turns(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Codex => true,
            Self::Gemini => false,
        }
    }

    /// Returns whether the Stop hook must start a process that waits for notices and wakes the idle
    /// host. Claude Code starts such a process itself, and Gemini CLI cannot be woken.
    pub(super) const fn wakes_by_waiter(self) -> bool {
        match self {
            Self::Codex => true,
            Self::ClaudeCode | Self::Gemini => false,
        }
    }

    /// Returns the session id of a conversation of this host. A resumed conversation gets the same
    /// id.
    ///
    /// # Panics
    ///
    /// Never: characters that a session id must not contain are replaced, and the length is
    /// limited.
    pub(super) fn session_id_for(self, conversation: &str) -> SessionId {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let rest: String = conversation.chars().take(MAX_CONVERSATION_CHARS).map(plain).collect();
        let name = format!("{}{rest}", self.session_prefix());
        name.parse().expect("only allowed characters, and short enough")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::hooks::HookEntry;
    use crate::install::hosts::{BaseDirs, Host, Scope};
    use crate::install::program::{ProgramNames, SidingProgram};
    use crate::install::target::FileContent;

    #[test]
    fn any_conversation_name_maps_to_a_valid_session_id() {
        let session = |text: &str| HookHost::ClaudeCode.session_id_for(text).to_string();
        let uuid = "3b0e8c1a-6d0f-4a55-9a43-0d8f2f3b1c77";
        assert_eq!(session(uuid), format!("claude-{uuid}"));
        assert_eq!(session("../a b\n\u{202e}"), "claude-..-a-b--");
        assert_eq!(session(""), "claude-");
        assert_eq!(session(&"x".repeat(1000)).len(), "claude-".len() + MAX_CONVERSATION_CHARS);
    }

    /// Returns whether `siding install` adds a hook for the event to the host's settings.
    const fn is_installed_for(host: HookHost, event: HookEvent) -> bool {
        let is_claude_code = matches!(host, HookHost::ClaudeCode);
        match event {
            HookEvent::SessionStart
            | HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::UserPromptSubmit
            | HookEvent::Stop => true,
            HookEvent::PostToolUseFailure | HookEvent::PostToolBatch | HookEvent::AwaitNotice => {
                is_claude_code
            }
            HookEvent::SessionEnd => match host {
                HookHost::ClaudeCode | HookHost::Gemini => true,
                HookHost::Codex => false,
            },
            // Installed only with `--notify`.
            HookEvent::NotifyPerson => false,
        }
    }

    #[test]
    fn each_host_gets_the_hooks_of_its_events() {
        let places = BaseDirs { home: "/h".into(), cwd: "/w".into() };
        let names = ProgramNames::with_name(None);
        let program = SidingProgram { path: "/p/siding".to_owned(), on_path: false, names };
        for host in Host::value_variants() {
            let targets = host.targets(&places, Scope::User, &program, None).expect("possible");
            let hooks = targets.into_iter().flat_map(|target| match target.content {
                FileContent::Json { hooks, .. } => hooks,
                FileContent::Toml(_) | FileContent::Owned(_) => Vec::new(),
            });
            let parse = |entry: HookEntry| HookEvent::from_str(entry.event_arg, false);
            let installed: Vec<_> = hooks.map(parse).collect::<Result<_, _>>().expect("events");
            for event in HookEvent::value_variants() {
                let is_installed = host.hook_host().is_some_and(|it| is_installed_for(it, *event));
                assert_eq!(installed.contains(event), is_installed, "{host:?} {event:?}");
            }
        }
    }
}
