//! The tools: their names, descriptions and arguments.

mod input;
mod keys;
mod list;
mod output;
mod run;
mod screen;
mod self_task;
mod stop;
mod wait;
mod why;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::answer::{ToolAnswer, ToolError};
use crate::arguments;
use crate::call_context::CallContext;
use crate::context::ToolContext;
use crate::schema::{self, for_structured_answer};
use crate::structured::{
    InputDetails, ListDetails, OutputDetails, RunDetails, StopDetails, WaitDetails, WhyDetails,
};

pub use list::{TaskScope, task_views as tasks};
pub use run::RunArgs;
pub use self_task::{SelfTask, start_self_task as begin_own};

/// A tool as it is offered to a model.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// The name of the tool. The command of the program with the same function usually has the same
    /// name.
    pub name: &'static str,
    /// Text for the model: what the tool does and when to use it.
    pub description: &'static str,
    /// The effect of a call.
    pub effect: ToolEffect,
    /// The name in siding's own agent; `None` if the agent uses a different tool instead.
    pub agent_name: Option<&'static str>,
    /// Returns the JSON Schema of the arguments.
    pub schema: fn() -> Map<String, Value>,
    /// Returns the JSON Schema of the structured content ([`ToolAnswer::structured`]); `None` for a
    /// tool whose answers are only text. Some clients show a model the structured content in place
    /// of the text, in which a screen would be one long line with escapes.
    pub output_schema: Option<fn() -> Map<String, Value>>,
}

/// The effect of a call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolEffect {
    /// A call changes no task. Clients may call the tool without asking the user. siding's own
    /// agent runs such calls concurrently, and repeats them after a crash.
    ReadOnly,
    /// A call adds data to a task, and removes nothing.
    Additive,
    /// A call ends tasks. A repeated call with the same arguments has no further effect.
    Destructive,
    /// A call runs a command that the model wrote. The tool itself does not check the command with
    /// the guard.
    RunsCommands,
}

/// Generates [`TOOLS`] and [`call`] from the table below. The module of each tool must define
/// `DESCRIPTION` and `call`.
macro_rules! tools {
    ($($module:ident($args:ident) -> $output_schema:expr, $effect:ident, $agent_name:expr;)+) => {
        /// All tools, in the order in which clients list them.
        pub const TOOLS: &[Tool] = &[$(Tool {
            name: stringify!($module),
            description: $module::DESCRIPTION,
            effect: ToolEffect::$effect,
            agent_name: $agent_name,
            schema: schema::for_arguments::<$module::$args>,
            output_schema: $output_schema,
        }),+];

        /// Calls a tool. Returns `None` when no tool has that name.
        pub async fn call<C: CallContext>(
            host: &Arc<ToolContext>,
            call: &mut C,
            name: &str,
            arguments: Map<String, Value>,
        ) -> Option<Result<ToolAnswer, ToolError>> {
            $(if name == stringify!($module) {
                return Some(match parse_arguments(arguments) {
                    Ok(args) => $module::call(host, call, args).await,
                    Err(refusal) => Err(refusal),
                });
            })+
            None
        }
    };
}

tools! {
    run(RunArgs) -> Some(for_structured_answer::<RunDetails>), RunsCommands, None;
    output(OutputArgs) -> Some(for_structured_answer::<OutputDetails>), ReadOnly, Some("task_output");
    wait(WaitArgs) -> Some(for_structured_answer::<WaitDetails>), ReadOnly, Some("task_wait");
    stop(StopArgs) -> Some(for_structured_answer::<StopDetails>), Destructive, Some("task_stop");
    list(ListArgs) -> Some(for_structured_answer::<ListDetails>), ReadOnly, Some("task_list");
    input(InputArgs) -> Some(for_structured_answer::<InputDetails>), Additive, Some("task_input");
    screen(ScreenArgs) -> None, ReadOnly, Some("task_screen");
    keys(KeysArgs) -> None, Additive, Some("task_keys");
    why(WhyArgs) -> Some(for_structured_answer::<WhyDetails>), ReadOnly, Some("task_why");
}

/// Runs a command with already parsed arguments, as a call of the tool `run` does.
///
/// # Errors
///
/// Returns [`ToolError`] when the command cannot be run, or the caller cancels the call.
pub async fn run<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    args: RunArgs,
) -> Result<ToolAnswer, ToolError> {
    run::call(context, call, args).await
}

/// Parses the arguments of a tool.
///
/// # Errors
///
/// Returns [`ToolError::Arguments`] with a message for the model.
pub fn parse_arguments<T: DeserializeOwned + JsonSchema>(
    arguments: Map<String, Value>,
) -> Result<T, ToolError> {
    arguments::parse(Value::Object(arguments)).map_err(ToolError::Arguments)
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
        for tool in TOOLS {
            let schema = Value::Object((tool.schema)());
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

    /// The documentation and the guard's matcher contain manual lists of the tools, in which a new
    /// tool could be forgotten.
    #[test]
    fn the_documents_list_every_tool() {
        let read = |name: &str| {
            let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let (readme, mcp, agent) = (read("README.md"), read("docs/mcp.md"), read("docs/agent.md"));
        let guarded = read("crates/siding-cli/src/install/hosts/claude_code.rs");
        let line = readme.lines().find(|line| line.starts_with("| **MCP server** |"));
        let line = line.expect("a row about the server");
        for Tool { name, agent_name, effect, .. } in TOOLS {
            let rows = mcp.lines().filter(|line| line.starts_with(&format!("| `{name}` |")));
            assert_eq!(rows.count(), 2, "docs/mcp.md: a row of each table has `{name}`");
            assert!(line.contains(&format!("`{name}`")), "README.md lacks `{name}`: {line}");
            let agent_name = agent_name.unwrap_or("bash");
            assert!(agent.contains(&format!("`{agent_name}`")), "docs/agent.md: `{agent_name}`");
            if *effect == ToolEffect::RunsCommands {
                assert!(guarded.contains(&format!("mcp__siding__{name}")), "COMMAND_TOOLS: {name}");
            }
        }
    }
}
