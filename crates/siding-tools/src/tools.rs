//! The tools: their names, descriptions and arguments.

mod input;
mod list;
mod output;
mod run;
mod self_task;
mod stop;
mod wait;
mod why;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::answer::{ToolAnswer, ToolError};
use crate::call_context::CallContext;
use crate::context::ToolContext;
use crate::structured::{
    InputDetails, ListDetails, OutputDetails, RunDetails, StopDetails, WaitDetails, WhyDetails,
};
use crate::{arguments, schema};

pub use list::{TaskScope, task_views as tasks};
pub use run::RunArgs;
pub use self_task::{SelfTask, start_self_task as begin_own};

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name, which is also that of the program's command that does the same.
    pub name: &'static str,
    /// What the tool does and when to use it.
    pub description: &'static str,
    /// JSON Schema of the arguments.
    pub schema: Map<String, Value>,
    /// JSON Schema of the structured content ([`ToolAnswer::structured`]).
    pub output_schema: Map<String, Value>,
}

/// Returns all tools.
#[must_use]
pub fn all_tools() -> Vec<Tool> {
    vec![
        define_tool::<run::RunArgs, RunDetails>("run", run::DESCRIPTION),
        define_tool::<output::OutputArgs, OutputDetails>("output", output::DESCRIPTION),
        define_tool::<wait::WaitArgs, WaitDetails>("wait", wait::DESCRIPTION),
        define_tool::<stop::StopArgs, StopDetails>("stop", stop::DESCRIPTION),
        define_tool::<list::ListArgs, ListDetails>("list", list::DESCRIPTION),
        define_tool::<input::InputArgs, InputDetails>("input", input::DESCRIPTION),
        define_tool::<why::WhyArgs, WhyDetails>("why", why::DESCRIPTION),
    ]
}

/// Runs a command, as the tool `run` does.
///
/// # Errors
///
/// [`ToolError`] when the command cannot be run, or the caller cancels the call.
pub async fn run<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    args: RunArgs,
) -> Result<ToolAnswer, ToolError> {
    run::call(context, call, args).await
}

/// Calls a tool; `None` when no tool has that name.
pub async fn call<C: CallContext>(
    host: &Arc<ToolContext>,
    call: &mut C,
    name: &str,
    arguments: Map<String, Value>,
) -> Option<Result<ToolAnswer, ToolError>> {
    macro_rules! with {
        ($tool:ident) => {
            match parse_arguments(arguments) {
                Ok(args) => $tool::call(host, call, args).await,
                Err(refusal) => Err(refusal),
            }
        };
    }
    Some(match name {
        "run" => with!(run),
        "output" => with!(output),
        "wait" => with!(wait),
        "stop" => with!(stop),
        "list" => with!(list),
        "input" => with!(input),
        "why" => with!(why),
        _ => return None,
    })
}

/// Parses the arguments of a tool.
///
/// # Errors
///
/// [`ToolError::Arguments`] with a message for the model.
pub fn parse_arguments<T: DeserializeOwned + JsonSchema>(
    arguments: Map<String, Value>,
) -> Result<T, ToolError> {
    arguments::parse(Value::Object(arguments)).map_err(ToolError::Arguments)
}

fn define_tool<Args: JsonSchema, Details: JsonSchema>(
    name: &'static str,
    description: &'static str,
) -> Tool {
    Tool {
        name,
        description,
        schema: schema::for_arguments::<Args>(),
        output_schema: schema::for_structured_answer::<Details>(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse<T: DeserializeOwned + JsonSchema>(given: Value) -> Result<T, String> {
        let Value::Object(given) = given else { unreachable!("a test gives objects") };
        parse_arguments(given).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn loosely_typed_arguments_are_accepted() {
        let run = json!({
            "command": "true", "cwd": null, "budget": "2.5", "stdin": null, "env": { "A": 1 },
            "wait_for": "port:80", "background": "true",
        });
        let run = parse::<run::RunArgs>(run).expect("only one thing can be meant");
        assert_eq!((run.budget, run.background), (Some(2.5), true));
        assert_eq!((run.env["A"].as_str(), run.wait_for), ("1", vec!["port:80".to_owned()]));
        assert!(parse::<wait::WaitArgs>(json!({ "id": "b-1", "for": "exit" })).is_ok());
        assert!(parse::<stop::StopArgs>(json!({ "id": ["b-1"] })).is_ok());
    }

    #[test]
    fn schemas_are_plain_objects_that_name_their_fields() {
        for tool in all_tools() {
            let schema = Value::Object(tool.schema);
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let fields = schema["properties"].as_object().expect("has fields");
            for (name, field) in fields {
                assert!(field["description"].is_string(), "{} {name}: {field}", tool.name);
                assert!(field.get("$ref").is_none(), "{} {name}: {field}", tool.name);
                assert!(field["type"].is_string(), "{} {name}: {field}", tool.name);
            }
        }
    }
}
