//! Rules: the data that determines which commands are denied or need a review by a person.
//!
//! Owns the format of rule files, the built-in rules, the combination of layers, and the test
//! whether a rule matches an [observation](crate::resolve::Observation). siding-core finds and
//! reads the files.
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
