//! Errors and warnings of rule files.

use super::layers::RuleSource;

/// An error in a rule file. The message names the file and what is wrong in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The file is not valid TOML or has an unknown field or a wrong type.
    #[error("{source_}{}: {message}", line.map(|line| format!(" line {line}")).unwrap_or_default())]
    InvalidFile {
        /// The file.
        source_: RuleSource,
        /// The line number, starting at 1.
        line: Option<usize>,
        /// The message of the TOML parser.
        message: String,
    },
    /// A rule has the name of another rule of this or a lower layer.
    #[error("{source_}: a rule `{name}` already exists; change its verdict with `[verdicts]`")]
    DuplicateRule {
        /// The file.
        source_: RuleSource,
        /// The rule's name.
        name: String,
    },
    /// The file refers to a rule that does not exist.
    #[error("{source_}: there is no rule `{name}`; `siding guard rules` lists all")]
    UnknownRule {
        /// The file.
        source_: RuleSource,
        /// The rule's name.
        name: String,
    },
    /// A pattern refers to a set that does not exist.
    #[error("{source_}: rule `{rule}`: there is no set `@{set}`")]
    UnknownSet {
        /// The file.
        source_: RuleSource,
        /// The rule.
        rule: String,
        /// The name of the set.
        set: String,
    },
    /// A matcher has no condition and would match every command.
    #[error("{source_}: rule `{rule}`: each `when` needs a program, code, writes or shape")]
    EmptyMatcher {
        /// The file.
        source_: RuleSource,
        /// The rule.
        rule: String,
    },
    /// A file other than the system file locks a rule.
    #[error("{source_}: `locked` is allowed in the system file only")]
    LockNotAllowed {
        /// The file.
        source_: RuleSource,
    },
}

/// A part of a rule file that is ignored. The other rules remain in effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleWarning {
    /// A part of a project file that would make the guard less strict.
    #[error("{source_}: `{what}` is ignored: a project can only make the guard stricter")]
    LooseningIgnored {
        /// The file.
        source_: RuleSource,
        /// The setting or rule that the file would make less strict.
        what: String,
    },
    /// The file changes a rule that the system file locks.
    #[error("{source_}: rule `{name}` keeps its verdict: the system file locks it")]
    RuleLocked {
        /// The file.
        source_: RuleSource,
        /// The rule's name.
        name: String,
    },
    /// A project file has an error and is ignored.
    #[error("{0}; the file is ignored, the other rules stay in effect")]
    ProjectUnusable(RuleError),
}
