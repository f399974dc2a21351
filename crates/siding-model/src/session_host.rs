//! The program that opened a session, as the prefix of the session's name shows.

use crate::id::SessionId;

/// A program that opens sessions, whose names begin with the program's own prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionHost {
    /// Claude Code, through its hooks.
    ClaudeCode,
    /// Codex, through its hooks.
    Codex,
    /// Gemini CLI, through its hooks.
    Gemini,
    /// siding's own agent.
    Agent,
    /// A client of siding's MCP server, whichever program it is.
    McpClient,
}

impl SessionHost {
    const ALL_HOSTS: [Self; 5] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Agent, Self::McpClient];

    /// Returns the beginning of the names of this program's sessions.
    #[must_use]
    pub const fn session_prefix(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-",
            Self::Codex => "codex-",
            Self::Gemini => "gemini-",
            Self::Agent => "agent-",
            Self::McpClient => "mcp-",
        }
    }

    /// Returns the name in a column of a table.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.session_prefix().trim_end_matches('-')
    }

    /// Returns the program that opened a session; `None` for another name: that of the implicit
    /// session, one that a person or a script chose, or that of a subagent, whose parent session
    /// has the answer.
    #[must_use]
    pub fn from_session(id: &SessionId) -> Option<Self> {
        Self::ALL_HOSTS.into_iter().find(|host| id.as_str().starts_with(host.session_prefix()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_tells_its_host() {
        for (name, host) in [
            ("claude-3b0e8c1a-6d0f", Some(SessionHost::ClaudeCode)),
            ("codex-7", Some(SessionHost::Codex)),
            ("gemini-7", Some(SessionHost::Gemini)),
            ("agent-12-345", Some(SessionHost::Agent)),
            ("mcp-12-345", Some(SessionHost::McpClient)),
            ("cli", None),
            ("claude", None),
            ("nightly", None),
            ("a-4k7q0n2m8x5t", None),
        ] {
            let id: SessionId = name.parse().expect("a name");
            assert_eq!(SessionHost::from_session(&id), host, "{name}");
        }
        assert_eq!(SessionHost::McpClient.label(), "mcp");
    }
}
