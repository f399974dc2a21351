//! What the guard decides about a command.

use std::sync::Arc;

/// The guard's decision on a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// No rule objects.
    Allow,
    /// A person must approve the command first.
    Ask {
        /// The guard's objection.
        why: String,
    },
    /// It must not.
    Deny {
        /// The guard's objection.
        why: String,
    },
}

/// Decides whether a command may run. The second argument is true for a background command.
pub type CommandGuard = Arc<dyn Fn(&str, bool) -> ApprovalDecision + Send + Sync>;
