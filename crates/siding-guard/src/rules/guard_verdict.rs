//! The verdict of a rule, and of the guard.

use serde::{Deserialize, Serialize};

/// What happens to a command.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GuardVerdict {
    /// Nothing speaks against it.
    #[default]
    Allow,
    /// A person should look at it first.
    Ask,
    /// It must not run.
    Deny,
}

impl GuardVerdict {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
