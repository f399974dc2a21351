//! What a rule says.

use std::time::Duration;

use regex::Regex;

/// Name of the rule for what Claude Code's sandbox leaves.
const CLAUDE_SANDBOX: &str = "claude-sandbox";

/// Command lines of its helpers (anthropics/claude-code#51932): the relays between the sandbox and
/// the host's proxies, and the shells and `bwrap` around them, which have the relays' command or
/// the sockets among their arguments.
const CLAUDE_SANDBOX_PATTERN: &str =
    r"^(\S*/)?(socat|bwrap|(ba|da|z)?sh .*socat) .*claude-(http|socks)-[^\s/]*\.sock";

/// Longest name of a rule, in bytes: it stands in every line about a process.
const NAME_MAX: usize = 40;

/// One kind of foreign orphan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
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
pub enum BadRule {
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

impl Rule {
    /// Makes a rule.
    ///
    /// # Errors
    ///
    /// [`BadRule`].
    pub fn new(
        name: &str,
        pattern: &str,
        min_age: Option<Duration>,
        hosts: &[String],
    ) -> Result<Self, BadRule> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_plain) {
            return Err(BadRule::Name);
        }
        if let Err(error) = Regex::new(pattern) {
            // The parser draws the place on several lines; the last one says what is wrong.
            let text = error.to_string();
            let last = text.lines().next_back().unwrap_or_default();
            return Err(BadRule::Pattern(last.trim_start_matches("error: ").to_owned()));
        }
        if hosts.is_empty() || hosts.iter().any(|host| host.is_empty() || host.contains('/')) {
            return Err(BadRule::Hosts);
        }
        let (name, pattern) = (name.to_owned(), pattern.to_owned());
        Ok(Self { name, pattern, min_age, hosts: hosts.to_vec() })
    }

    /// Returns the rules that hold when nobody says otherwise.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        vec![Self {
            name: CLAUDE_SANDBOX.to_owned(),
            pattern: CLAUDE_SANDBOX_PATTERN.to_owned(),
            min_age: None,
            hosts: vec!["claude".to_owned()],
        }]
    }

    /// Returns the built-in rule of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::built_in().into_iter().find(|rule| rule.name == name)
    }

    /// Returns its pattern, ready to be used. `.` takes every character: a shell's text has lines.
    pub(super) fn compiled(&self) -> Option<Regex> {
        regex::RegexBuilder::new(&self.pattern).dot_matches_new_line(true).build().ok()
    }
}
