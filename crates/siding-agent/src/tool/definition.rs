//! What a tool is.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use siding_tools::{arguments, schema};

use super::{AgentToolContext, ToolOutcome, ToolSpec};
use crate::provider::CancelFlag;

/// Whether a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only looks, so several of its kind may run at once.
    ReadOnly,
    /// It changes something: it runs alone and in its turn.
    Modifying,
}

/// Something that a model may call.
pub trait Tool: Send + Sync {
    /// Its arguments. Their documentation is what the model reads.
    type Args: DeserializeOwned + JsonSchema;
    /// The name by which it is called.
    const NAME: &'static str;
    /// What it does and when to take it, for a model.
    const DESCRIPTION: &'static str;
    /// Whether it changes anything.
    const ACCESS: Access;

    /// Does it. May be asked to give up by `cancel`, which it hears soon or not at all.
    ///
    /// # Errors
    ///
    /// What the model reads in place of a result: what is wrong and what to do instead.
    fn call(
        &self,
        context: &AgentToolContext,
        args: Self::Args,
        cancel: &CancelFlag,
    ) -> ToolOutcome;
}

/// A [`Tool`] whatever its arguments.
pub trait AnyTool: Send + Sync {
    /// Returns it as a model is told of it.
    fn spec(&self) -> ToolSpec;

    /// Whether it changes anything.
    fn access(&self) -> Access;

    /// Reads its arguments and does it.
    ///
    /// # Errors
    ///
    /// What the model reads in place of a result: also which argument is wrong, and how.
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
