//! Errors and warnings about rule files.

use super::layers::RuleSource;

/// An error that prevents the use of a rule file. The message names the file and the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The file is not valid TOML or has an unknown field or a wrong type.
    #[error("{source_}{}: {message}", line.map(|line| format!(" line {line}")).unwrap_or_default())]
    InvalidFile {
        /// The file that could not be parsed.
        source_: RuleSource,
        /// The line of the error, starting at 1; `None` if the parser reports no line.
        line: Option<usize>,
        /// The message of the TOML parser, joined into one line.
        message: String,
    },
    /// A rule has the same name as another rule of this layer or of a lower layer.
    #[error("{source_}: a rule `{name}` already exists; change its verdict with `[verdicts]`")]
    DuplicateRule {
        /// The file with the second rule of this name.
        source_: RuleSource,
        /// The name that both rules have.
        name: String,
    },
    /// The file refers to a rule that does not exist.
    #[error("{source_}: there is no rule `{name}`; `siding guard rules` lists all")]
    UnknownRule {
        /// The file that names the unknown rule.
        source_: RuleSource,
        /// The name that no rule of this layer or of a lower layer has.
        name: String,
    },
    /// A pattern refers to a set that does not exist.
    #[error("{source_}: rule `{rule}`: there is no set `@{set}`")]
    UnknownSet {
        /// The file with the rule.
        source_: RuleSource,
        /// Name of the rule that contains the pattern.
        rule: String,
        /// The unknown name, without `@`.
        set: String,
    },
    /// A rule or an exception has no matcher, or a matcher has none of the conditions that select
    /// observations, such as a program.
    #[error(
        "{source_}: rule `{rule}`: each `when` needs a program, sets, reads, writes, overwrites or shape"
    )]
    EmptyMatcher {
        /// The file with the rule.
        source_: RuleSource,
        /// Name of the rule that contains the matcher.
        rule: String,
    },
    /// A matcher has conditions on several kinds of observations, which cannot all hold: calls,
    /// assignments, reads, writes, and constructs of the text.
    #[error(
        "{source_}: rule `{rule}`: `sets`, `reads`, `writes` with `overwrites`, `shape`, and the other keys each need a `when` of their own"
    )]
    CombinedKinds {
        /// The file with the rule or the exception.
        source_: RuleSource,
        /// Name of the rule that contains the matcher, or to which the exception belongs.
        rule: String,
    },
    /// A file other than the system file locks a rule.
    #[error("{source_}: `locked` is allowed in the system file only")]
    LockNotAllowed {
        /// The file with the entry `locked`.
        source_: RuleSource,
    },
}

/// A rule file, or a part of it, that is ignored. All other rules remain in effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleWarning {
    /// A part of a project file that would make the guard less strict.
    #[error("{source_}: `{what}` is ignored: a project can only make the guard stricter")]
    LooseningIgnored {
        /// The project file that contains the ignored part.
        source_: RuleSource,
        /// The setting or rule that the file would make less strict.
        what: String,
    },
    /// The file would make a rule less strict that the system file locks.
    #[error("{source_}: rule `{name}` keeps its verdict: the system file locks it")]
    RuleLocked {
        /// The file that contains the ignored part.
        source_: RuleSource,
        /// Name of the locked rule.
        name: String,
    },
    /// A project file has an error and is ignored.
    #[error("{0}; the file is ignored, the other rules stay in effect")]
    ProjectUnusable(RuleError),
}
