//! The interface that each tool of the agent implements.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use siding_tools::{arguments, schema};

use super::{AgentToolContext, ToolOutcome, ToolSpec};
use crate::cancel_flag::CancelFlag;

/// Whether a tool has side effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The tool has no side effects, so several calls of such tools may run concurrently.
    ReadOnly,
    /// The tool has side effects, so its call runs alone and in order.
    Modifying,
}

/// A tool that a model may call.
pub trait Tool: Send + Sync {
    /// The type of the arguments. The documentation of its fields is part of the schema that the
    /// model receives.
    type Args: DeserializeOwned + JsonSchema;
    /// The name by which a model calls the tool.
    const NAME: &'static str;
    /// A description of what the tool does and when to use it.
    const DESCRIPTION: &'static str;
    /// Whether the tool has side effects.
    const ACCESS: Access;

    /// Performs a call. A tool whose calls may take a long time checks `cancel`; other tools ignore
    /// the flag.
    ///
    /// # Errors
    ///
    /// The message for the model: what is wrong and what to do instead.
    fn call(
        &self,
        context: &AgentToolContext,
        args: Self::Args,
        cancel: &CancelFlag,
    ) -> ToolOutcome;
}

/// A [`Tool`] with its type of arguments erased.
pub trait AnyTool: Send + Sync {
    /// Returns the name, description and schema for a model.
    fn spec(&self) -> ToolSpec;

    /// Returns whether the tool has side effects.
    fn access(&self) -> Access;

    /// Parses the arguments and performs the call.
    ///
    /// # Errors
    ///
    /// The message for the model about an invalid argument, or about the failed call.
    fn run(&self, context: &AgentToolContext, input: Value, cancel: &CancelFlag) -> ToolOutcome;
}

impl<T: Tool> AnyTool for T {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: T::NAME,
            description: T::DESCRIPTION,
            schema: schema::for_arguments::<T::Args>().into(),
        }
    }

    fn access(&self) -> Access {
        T::ACCESS
    }

    fn run(&self, context: &AgentToolContext, input: Value, cancel: &CancelFlag) -> ToolOutcome {
        self.call(context, arguments::parse(input)?, cancel)
    }
}
