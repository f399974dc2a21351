//! The verdict of a rule and of the guard.

use serde::{Deserialize, Serialize};

/// The guard's decision about a command.
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
    /// Returns the name that rule files and output use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
