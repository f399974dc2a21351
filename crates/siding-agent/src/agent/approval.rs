//! Approval of commands: the guard's decision, and the question to a person.

use std::fmt;

use siding_tools::ToolError;

use super::call_control::AgentCallContext;
use crate::command_guard::{ApprovalDecision, CommandGuard};

/// The policy for commands that need a person's approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskPolicy {
    /// Refuses such commands, because this agent cannot ask a person.
    Deny,
    /// Runs such commands without a question.
    Allow,
    /// Asks a person, and runs the command only if the answer is yes.
    AskPerson,
}

/// Decides whether a command may run: asks the guard, and also a person if the guard requires
/// approval.
#[derive(Clone)]
pub(super) struct Approver {
    pub(super) guard: CommandGuard,
    pub(super) ask_policy: AskPolicy,
}

impl Approver {
    /// Asks the guard about a command, and applies its decision. Succeeds if the command may run.
    pub(super) async fn approve(
        &self,
        call: &AgentCallContext,
        command: &str,
        background: bool,
    ) -> Result<(), ToolError> {
        self.apply_decision((self.guard)(command, &[], background), call, command).await
    }

    /// Approves a background command as [`Self::approve`] does. A `concern` requires a person's
    /// approval even when the guard allows the command.
    pub(super) async fn approve_with_concern(
        &self,
        call: &AgentCallContext,
        command: &str,
        concern: Option<String>,
    ) -> Result<(), ToolError> {
        match ((self.guard)(command, &[], true), concern) {
            (ApprovalDecision::Allow, Some(why)) => self.ask_person(call, command, why).await,
            (permit, _) => self.apply_decision(permit, call, command).await,
        }
    }

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

    /// Applies the policy for commands that need a person's approval, and asks a person if the
    /// policy is [`AskPolicy::AskPerson`].
    async fn ask_person(
        &self,
        call: &AgentCallContext,
        command: &str,
        why: String,
    ) -> Result<(), ToolError> {
        let no = |who: &str| {
            Err(ToolError::Arguments(format!(
                "not run: a person must approve this command first, and {who}: {why}"
            )))
        };
        match self.ask_policy {
            AskPolicy::Allow => Ok(()),
            AskPolicy::Deny => no("no person can answer here"),
            AskPolicy::AskPerson => match call.ask_approval(command, &why).await {
                Some(true) => Ok(()),
                Some(false) => no("the person has refused"),
                None => Err(ToolError::Cancelled),
            },
        }
    }
}

impl fmt::Debug for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approver").field("ask_policy", &self.ask_policy).finish_non_exhaustive()
    }
}
