//! The rules, which determine the commands that are denied or need a review by a person.
//!
//! Owns the format of rule files, the built-in rules, the combination of layers, and the comparison
//! of rules with [observations](crate::resolve::Observation). siding-core finds and reads the rule
//! files.
//!
//! ```text
//! built-in < system < user < project
//! ```
//! The system file may lock rules. A project's file may only add rules and make verdicts stricter,
//! because it comes with a repository that may be untrusted.

mod builtin;
mod error;
mod file;
mod glob;
mod guard_verdict;
mod layers;
mod matcher;
mod operands;
mod sql;

pub use error::{RuleError, RuleWarning};
pub use file::{Examples, Rule};
pub use guard_verdict::GuardVerdict;
pub use layers::{Layer, RuleSource, Rules};

pub(crate) use matcher::{Matcher, can_match};
pub(crate) use operands::MatchInput;
