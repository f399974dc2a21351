//! Rules: what is asked about and what is denied, as data.
//!
//! Owns the form of a rule file, the built-in rules, how layers are laid over each other, and when
//! a rule is about what was [seen](crate::resolve::Observation). Finding and reading the files belongs to
//! siding-core.
//!
//! ```text
//! built-in < system < user < project
//! ```
//! The system may lock rules. A project can add rules and raise verdicts, and nothing else: its
//! file comes with a repository that somebody else may have written.

mod builtin;
mod error;
mod examples;
mod file;
mod glob;
mod layers;
mod matcher;
mod operands;
mod sql;

pub use error::{RuleError, RuleWarning};
pub use examples::{ExampleResults, FailedExample};
pub use file::{Examples, Rule};
pub use layers::{Layer, RuleSource, Rules};

pub(crate) use matcher::{Matcher, can_match};
pub(crate) use operands::MatchInput;
