//! What a rule says.

use std::time::Duration;

use regex::Regex;

/// Name of the rule for what Claude Code's sandbox leaves.
const CLAUDE_SANDBOX_RULE_NAME: &str = "claude-sandbox";

/// Command lines of its helpers (anthropics/claude-code#51932): the relays between the sandbox and
/// the host's proxies, and the shells and `bwrap` around them, which have the relays' command or
/// the sockets among their arguments. Claude Code 2.1.330 runs one relay outside of the sandbox
/// (`socat UNIX-LISTEN:/tmp/claude-http-….sock,fork TCP:localhost:…`), which outlives it.
const CLAUDE_SANDBOX_PATTERN: &str = concat!(
    r"^(\S*/)?(socat|bwrap|(ba|da|z)?sh .*socat) ",
    r".*(claude-(http|socks)-[^\s/]*|srt-mux-[0-9]+-[0-9]+)\.sock"
);

/// Names of the socket files in those command lines.
const CLAUDE_SOCKET_PATTERN: &str =
    r#"(claude-(http|socks)-[^\s/,:;"']*?|srt-mux-[0-9]+-[0-9]+)\.sock"#;

/// Longest name of a rule, in bytes: it stands in every line about a process.
const NAME_MAX: usize = 40;

/// One kind of foreign orphan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanRule {
    /// What it is called in reports.
    pub name: String,
    /// Regular expression on the command line, its words joined by blanks. Legal.
    pub pattern: String,
    /// Age from which on it applies; `None` is the hard cap of tasks in force.
    pub min_age: Option<Duration>,
    /// Names of the programs that count as a live host. At least one.
    pub hosts: Vec<String>,
}

/// Why a rule is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadOrphanRule {
    /// Its name cannot stand in a line.
    #[error("a rule's `name` is 1 to {NAME_MAX} letters, digits, dashes and underscores")]
    Name,
    /// Its pattern is no regular expression.
    #[error("the `pattern` is not a regular expression: {0}")]
    Pattern(String),
    /// It would spare nobody's session.
    #[error("`hosts` names at least one program whose sessions are spared, such as `claude`")]
    Hosts,
}

impl OrphanRule {
    /// Makes a rule.
    ///
    /// # Errors
    ///
    /// [`BadOrphanRule`].
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
            // The parser draws the place on several lines; the last one says what is wrong.
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

    /// Returns the rules that hold when nobody says otherwise.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        vec![Self {
            name: CLAUDE_SANDBOX_RULE_NAME.to_owned(),
            pattern: CLAUDE_SANDBOX_PATTERN.to_owned(),
            min_age: None,
            hosts: vec!["claude".to_owned()],
        }]
    }

    /// Returns the built-in rule of this name.
    #[must_use]
    pub fn built_in_named(name: &str) -> Option<Self> {
        Self::built_in().into_iter().find(|rule| rule.name == name)
    }

    /// Whether it is exactly one of the built-in rules.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        Self::built_in().contains(self)
    }

    /// Returns its pattern, ready to be used. `.` takes every character: a shell's text has lines.
    pub(super) fn compile(&self) -> Option<Regex> {
        regex::RegexBuilder::new(&self.pattern).dot_matches_new_line(true).build().ok()
    }
}

/// Whether a command line, its words joined by blanks, may fit a built-in rule. A quick test by which
/// nearly every process is passed over without compiling a pattern.
#[must_use]
pub fn may_match_built_in(command_line: &str) -> bool {
    command_line.contains(".sock")
        && (command_line.contains("claude-") || command_line.contains("srt-mux-"))
}

/// Returns a finder for the socket files that the built-in rules are about.
pub(super) fn socket_name_regex() -> Option<Regex> {
    Regex::new(CLAUDE_SOCKET_PATTERN).ok()
}
