//! The rules that select unowned processes.

use std::time::Duration;

use regex::Regex;

/// Name of the rule for leftovers of Claude Code's sandbox.
const CLAUDE_SANDBOX_RULE_NAME: &str = "claude-sandbox";

/// Command lines of the helpers of Claude Code's sandbox (anthropics/claude-code#51932). The
/// helpers are the relays between the sandbox and the host's proxies, and the shells and `bwrap`
/// processes around the relays, whose arguments contain the relays' commands or the sockets. Claude
/// Code 2.1.330 runs one relay outside of the sandbox (`socat
/// UNIX-LISTEN:/tmp/claude-http-….sock,fork TCP:localhost:…`), which continues after the end of the
/// sandbox.
const CLAUDE_SANDBOX_PATTERN: &str = concat!(
    r"^(\S*/)?(socat|bwrap|(ba|da|z)?sh .*socat) ",
    r".*(claude-(http|socks)-[^\s/]*|srt-mux-[0-9]+-[0-9]+)\.sock"
);

/// The names of the socket files of Claude Code's sandbox, as they occur in command lines.
const CLAUDE_SOCKET_PATTERN: &str =
    r#"(claude-(http|socks)-[^\s/,:;"']*?|srt-mux-[0-9]+-[0-9]+)\.sock"#;

/// Maximum length of a rule's name, in bytes. The limit is low because every line of a report
/// contains the name.
const NAME_MAX: usize = 40;

/// A rule for one kind of unowned processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanRule {
    /// Name of the rule in reports.
    pub name: String,
    /// Regular expression for the command line, whose words are joined by blanks. The expression is
    /// always valid.
    pub pattern: String,
    /// Minimum age of a process; `None` stands for the setting `max_elapsed_hard_cap` without
    /// project files.
    pub min_age: Option<Duration>,
    /// Names of the host programs: a process below a living host is kept. The list is never empty.
    pub hosts: Vec<String>,
}

/// The reason why a rule is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadOrphanRule {
    /// The name is too long, empty, or contains characters other than letters, digits, dashes and
    /// underscores.
    #[error("a rule's `name` must be 1 to {NAME_MAX} letters, digits, dashes and underscores")]
    Name,
    /// The pattern is not a regular expression.
    #[error("the `pattern` is not a regular expression: {0}")]
    Pattern(String),
    /// The list of hosts is empty, or a name in the list is empty or contains a slash. Without
    /// hosts, the rule would protect no live session.
    #[error(
        "`hosts` must name at least one program whose sessions are protected, such as `claude`"
    )]
    Hosts,
}

impl OrphanRule {
    /// Creates a rule after validating it.
    ///
    /// # Errors
    ///
    /// Returns a [`BadOrphanRule`] that names the invalid field.
    pub fn new(
        name: &str,
        pattern: &str,
        min_age: Option<Duration>,
        hosts: &[String],
    ) -> Result<Self, BadOrphanRule> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_plain) {
            return Err(BadOrphanRule::Name);
        }
        if let Err(error) = Regex::new(pattern) {
            // The parser's message has several lines, which show the position in the pattern. Only
            // the last line describes the error.
            let text = error.to_string();
            let last = text.lines().next_back().unwrap_or_default();
            return Err(BadOrphanRule::Pattern(last.trim_start_matches("error: ").to_owned()));
        }
        if hosts.is_empty() || hosts.iter().any(|host| host.is_empty() || host.contains('/')) {
            return Err(BadOrphanRule::Hosts);
        }
        let (name, pattern) = (name.to_owned(), pattern.to_owned());
        Ok(Self { name, pattern, min_age, hosts: hosts.to_vec() })
    }

    /// Returns the built-in rules.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        vec![Self {
            name: CLAUDE_SANDBOX_RULE_NAME.to_owned(),
            pattern: CLAUDE_SANDBOX_PATTERN.to_owned(),
            min_age: None,
            hosts: vec!["claude".to_owned()],
        }]
    }

    /// Returns the built-in rule with this name.
    #[must_use]
    pub fn built_in_named(name: &str) -> Option<Self> {
        Self::built_in().into_iter().find(|rule| rule.name == name)
    }

    /// Returns whether the rule is identical to a built-in rule.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        Self::built_in().contains(self)
    }

    /// Compiles the pattern; `None` if it is invalid. `.` also matches line breaks, because the
    /// text of a shell's `-c` may have several lines.
    pub(super) fn compile(&self) -> Option<Regex> {
        regex::RegexBuilder::new(&self.pattern).dot_matches_new_line(true).build().ok()
    }
}

/// Returns whether a command line, whose words are joined by blanks, may match a built-in rule.
/// This quick test rejects most processes without compiling a pattern.
#[must_use]
pub fn may_match_built_in(command_line: &str) -> bool {
    command_line.contains(".sock")
        && (command_line.contains("claude-") || command_line.contains("srt-mux-"))
}

/// Returns the regular expression for the names of socket files in the command lines that the
/// built-in rules match.
pub(super) fn socket_name_regex() -> Option<Regex> {
    Regex::new(CLAUDE_SOCKET_PATTERN).ok()
}
