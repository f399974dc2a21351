//! Whether a command may run: what the guard says, and who is asked.

use std::fmt;
use std::sync::Arc;

use siding_tools::ToolError;

use super::call_control::AgentCallContext;

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

/// What becomes of commands that somebody should look at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskPolicy {
    /// They are not run: nobody is there.
    Deny,
    /// They are run.
    Allow,
    /// A person is asked.
    AskPerson,
}

/// Judges a command, which is to run in the background or not.
pub type CommandGuard = Arc<dyn Fn(&str, bool) -> ApprovalDecision + Send + Sync>;

/// Has the guard judge, and a person where the guard wants that.
#[derive(Clone)]
pub(super) struct Approver {
    pub(super) guard: CommandGuard,
    pub(super) ask_policy: AskPolicy,
}

impl Approver {
    /// Makes sure that a command may run.
    pub(super) async fn approve(
        &self,
        call: &AgentCallContext,
        command: &str,
        background: bool,
    ) -> Result<(), ToolError> {
        self.apply_decision((self.guard)(command, background), call, command).await
    }

    /// Makes sure of it for what begins in the background, and that somebody has looked at it where there
    /// is a doubt beside what the guard says.
    pub(super) async fn approve_with_concern(
        &self,
        call: &AgentCallContext,
        command: &str,
        concern: Option<String>,
    ) -> Result<(), ToolError> {
        match ((self.guard)(command, true), concern) {
            (ApprovalDecision::Allow, Some(why)) => self.ask_person(call, command, why).await,
            (permit, _) => self.apply_decision(permit, call, command).await,
        }
    }

    /// Does as the guard says.
    async fn apply_decision(
        &self,
        decision: ApprovalDecision,
        call: &AgentCallContext,
        command: &str,
    ) -> Result<(), ToolError> {
        match decision {
            ApprovalDecision::Allow => Ok(()),
            ApprovalDecision::Ask { why } => self.ask_person(call, command, why).await,
            ApprovalDecision::Deny { why } => Err(ToolError::Arguments(format!("not run: {why}"))),
        }
    }

    /// Has it decided whether a command is run that somebody should look at first.
    async fn ask_person(
        &self,
        call: &AgentCallContext,
        command: &str,
        why: String,
    ) -> Result<(), ToolError> {
        let no = |who: &str| {
            Err(ToolError::Arguments(format!(
                "not run: a person has to say yes to this first, and {who}: {why}"
            )))
        };
        match self.ask_policy {
            AskPolicy::Allow => Ok(()),
            AskPolicy::Deny => no("none is asked here"),
            AskPolicy::AskPerson => match call.ask_approval(command, &why).await {
                Some(true) => Ok(()),
                Some(false) => no("has said no"),
                None => Err(ToolError::Cancelled),
            },
        }
    }
}

impl fmt::Debug for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warden").field("doubts", &self.ask_policy).finish_non_exhaustive()
    }
}
