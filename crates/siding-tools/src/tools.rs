//! The tools: what each is called, says of itself and takes.

mod input;
mod list;
mod output;
mod own;
mod run;
mod stop;
mod wait;
mod why;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::answer::{Answer, Refusal};
use crate::caller::Caller;
use crate::host::Host;
use crate::structured::{
    InputDetails, ListDetails, OutputDetails, RunDetails, StopDetails, WaitDetails, WhyDetails,
};
use crate::{arguments, schema};

pub use list::{Whose, views as tasks};
pub use own::{Own, begin as begin_own};
pub use run::Args as RunArgs;

/// A tool, as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name: that of the command of the program that does the same.
    pub name: &'static str,
    /// What it does and when to take it.
    pub about: &'static str,
    /// JSON Schema of its arguments.
    pub schema: Map<String, Value>,
    /// JSON Schema of its answer as data ([`Answer::structured`]).
    pub output_schema: Map<String, Value>,
}

/// Returns all tools.
#[must_use]
pub fn all() -> Vec<Tool> {
    vec![
        tool::<run::Args, RunDetails>("run", run::ABOUT),
        tool::<output::Args, OutputDetails>("output", output::ABOUT),
        tool::<wait::Args, WaitDetails>("wait", wait::ABOUT),
        tool::<stop::Args, StopDetails>("stop", stop::ABOUT),
        tool::<list::Args, ListDetails>("list", list::ABOUT),
        tool::<input::Args, InputDetails>("input", input::ABOUT),
        tool::<why::Args, WhyDetails>("why", why::ABOUT),
    ]
}

/// Runs a command, as the tool `run` does.
///
/// # Errors
///
/// [`Refusal`].
pub async fn run<C: Caller>(host: &Host, call: &mut C, args: RunArgs) -> Result<Answer, Refusal> {
    run::call(host, call, args).await
}

/// Calls a tool; `None` when there is none of that name.
pub async fn call<C: Caller>(
    host: &Arc<Host>,
    call: &mut C,
    name: &str,
    arguments: Map<String, Value>,
) -> Option<Result<Answer, Refusal>> {
    macro_rules! with {
        ($tool:ident) => {
            match read(arguments) {
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

/// Reads the arguments of a tool.
///
/// # Errors
///
/// [`Refusal::Arguments`].
pub fn read<T: DeserializeOwned + JsonSchema>(given: Map<String, Value>) -> Result<T, Refusal> {
    arguments::read(Value::Object(given)).map_err(Refusal::Arguments)
}

fn tool<Args: JsonSchema, Details: JsonSchema>(name: &'static str, about: &'static str) -> Tool {
    Tool {
        name,
        about,
        schema: schema::of::<Args>(),
        output_schema: schema::of_structured::<Details>(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse<T: DeserializeOwned + JsonSchema>(given: Value) -> Result<T, String> {
        let Value::Object(given) = given else { unreachable!("a test gives objects") };
        read(given).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn small_models_are_understood() {
        let run = json!({
            "command": "true", "cwd": null, "budget": "2.5", "stdin": null, "env": { "A": 1 },
            "wait_for": "port:80", "background": "true",
        });
        let run = parse::<run::Args>(run).expect("only one thing can be meant");
        assert_eq!((run.budget, run.background), (Some(2.5), true));
        assert_eq!((run.env["A"].as_str(), run.wait_for), ("1", vec!["port:80".to_owned()]));
        assert!(parse::<wait::Args>(json!({ "id": "b-1", "for": "exit" })).is_ok());
        assert!(parse::<stop::Args>(json!({ "id": ["b-1"] })).is_ok());
    }

    #[test]
    fn schemas_are_plain_objects_that_name_their_fields() {
        for tool in all() {
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
