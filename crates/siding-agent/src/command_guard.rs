//! The guard's decision about a command, and the function that makes it.

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
    /// The command must not run.
    Deny {
        /// The guard's objection.
        why: String,
    },
}

/// Decides whether a command may run. The second argument is true for a background command.
pub type CommandGuard = Arc<dyn Fn(&str, bool) -> ApprovalDecision + Send + Sync>;
