//! What can be wrong with a rule file.

use super::layers::RuleSource;

/// A mistake in a rule file. Its text names the place and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The file is no TOML, or not what a rule file holds.
    #[error("{source_}{}: {message}", line.map(|line| format!(" line {line}")).unwrap_or_default())]
    InvalidFile {
        /// The file.
        source_: RuleSource,
        /// Line, from 1.
        line: Option<usize>,
        /// What the reader says.
        message: String,
    },
    /// A rule has a name that a rule of this or a lower layer has.
    #[error("{source_}: there is a rule `{name}` already; `[verdicts]` changes its verdict")]
    DuplicateRule {
        /// The file.
        source_: RuleSource,
        /// The name.
        name: String,
    },
    /// There is no such rule.
    #[error("{source_}: there is no rule `{name}`; `siding guard rules` lists all")]
    UnknownRule {
        /// The file.
        source_: RuleSource,
        /// The name.
        name: String,
    },
    /// A pattern names a set that is nowhere.
    #[error("{source_}: rule `{rule}`: there is no set `@{set}`")]
    UnknownSet {
        /// The file.
        source_: RuleSource,
        /// The rule.
        rule: String,
        /// The set.
        set: String,
    },
    /// A rule without anything that it is about.
    #[error("{source_}: rule `{rule}`: each `when` needs a program, code, writes or shape")]
    EmptyMatcher {
        /// The file.
        source_: RuleSource,
        /// The rule.
        rule: String,
    },
    /// Somebody else than the administrator locks a rule.
    #[error("{source_}: `locked` is allowed in the system file only")]
    LockNotAllowed {
        /// The file.
        source_: RuleSource,
    },
}

/// Something that was not applied and need not stop anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleWarning {
    /// A project loosens.
    #[error("{source_}: `{what}` is not used: a project can only make the guard stricter")]
    LooseningIgnored {
        /// The file.
        source_: RuleSource,
        /// What it would change.
        what: String,
    },
    /// A rule is locked.
    #[error("{source_}: rule `{name}` keeps its verdict: the system file locks it")]
    RuleLocked {
        /// The file.
        source_: RuleSource,
        /// The rule.
        name: String,
    },
    /// A project's file has mistakes and is left out.
    #[error("{0}; the file is not used, the other rules are")]
    ProjectUnusable(RuleError),
}
