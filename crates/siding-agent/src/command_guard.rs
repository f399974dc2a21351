//! The guard's decision about a command, and the function that makes it.

use std::sync::Arc;

/// Whether a command may run, according to the guard's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The command may run, because no rule objects.
    Allow,
    /// A person must approve the command first.
    Ask {
        /// The guard's objection, which the question quotes.
        why: String,
    },
    /// The command must not run.
    Deny {
        /// The guard's objection, which the model receives.
        why: String,
    },
}

/// Decides whether a command may run. The second argument contains the variables that are added to
/// the command's environment, and the third is true for a background command.
pub type CommandGuard =
    Arc<dyn Fn(&str, &[(String, String)], bool) -> ApprovalDecision + Send + Sync>;
