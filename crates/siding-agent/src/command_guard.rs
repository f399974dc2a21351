//! What the guard decides about a command.

use std::sync::Arc;

/// Whether a command may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// Nothing speaks against it.
    Allow,
    /// Somebody should look first.
    Ask {
        /// What speaks against it.
        why: String,
    },
    /// It must not.
    Deny {
        /// What speaks against it.
        why: String,
    },
}

/// Judges a command, which is to run in the background or not.
pub type CommandGuard = Arc<dyn Fn(&str, bool) -> ApprovalDecision + Send + Sync>;
