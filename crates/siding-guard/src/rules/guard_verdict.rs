//! The type of the verdicts of rules and of the guard.

use serde::{Deserialize, Serialize};

/// The decision of a rule or of the guard about a command.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GuardVerdict {
    /// The command may run.
    #[default]
    Allow,
    /// A person should review the command first.
    Ask,
    /// The command must not run.
    Deny,
}

impl GuardVerdict {
    /// Returns the verdict's name, as it is written in rule files and in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
