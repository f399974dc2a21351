//! What a tool is.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use siding_tools::{arguments, schema};

use super::{Outcome, Scene, ToolSpec};
use crate::provider::Cancel;

/// Whether a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only looks, so several of its kind may run at once.
    Reads,
    /// It changes something: it runs alone and in its turn.
    Changes,
}

/// Something that a model may call.
pub trait Tool: Send + Sync {
    /// Its arguments. Their documentation is what the model reads.
    type Args: DeserializeOwned + JsonSchema;
    /// The name by which it is called.
    const NAME: &'static str;
    /// What it does and when to take it, for a model.
    const ABOUT: &'static str;
    /// Whether it changes anything.
    const ACCESS: Access;

    /// Does it. May be asked to give up by `cancel`, which it hears soon or not at all.
    ///
    /// # Errors
    ///
    /// What the model reads in place of a result: what is wrong and what to do instead.
    fn call(&self, scene: &Scene, args: Self::Args, cancel: &Cancel) -> Outcome;
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
    fn run(&self, scene: &Scene, input: Value, cancel: &Cancel) -> Outcome;
}

impl<T: Tool> AnyTool for T {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: T::NAME,
            about: T::ABOUT,
            schema: schema::for_arguments::<T::Args>().into(),
        }
    }

    fn access(&self) -> Access {
        T::ACCESS
    }

    fn run(&self, scene: &Scene, input: Value, cancel: &Cancel) -> Outcome {
        self.call(scene, arguments::parse(input)?, cancel)
    }
}
