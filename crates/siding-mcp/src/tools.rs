//! The tools: what each is called, says of itself and takes.

mod arguments;
mod input;
mod list;
mod output;
mod run;
mod stop;
mod wait;
mod why;

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::answer::{Answer, Refusal};
use crate::call::Call;
use crate::host::Host;

pub(crate) use list::{Whose, views as tasks};

/// Returns all tools.
pub(crate) fn all() -> Vec<Tool> {
    let hints = ToolAnnotations::new;
    vec![
        tool::<run::Args>("run", run::ABOUT, hints().destructive(true).open_world(true)),
        tool::<output::Args>("output", output::ABOUT, hints().read_only(true)),
        tool::<wait::Args>("wait", wait::ABOUT, hints().read_only(true)),
        tool::<stop::Args>("stop", stop::ABOUT, hints().destructive(true).idempotent(true)),
        tool::<list::Args>("list", list::ABOUT, hints().read_only(true)),
        tool::<input::Args>("input", input::ABOUT, hints().destructive(false)),
        tool::<why::Args>("why", why::ABOUT, hints().read_only(true)),
    ]
}

/// Calls a tool; `None` when there is none of that name.
pub(crate) async fn call(
    host: &Arc<Host>,
    call: &mut Call,
    name: &str,
    arguments: JsonObject,
) -> Option<Result<Answer, Refusal>> {
    macro_rules! with {
        ($tool:ident) => {
            match arguments::read(arguments) {
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

fn tool<T: JsonSchema>(name: &'static str, about: &'static str, hints: ToolAnnotations) -> Tool {
    Tool::new(name, about, Arc::new(schema::<T>())).with_annotations(hints)
}

/// Returns the schema of arguments, whole and without what a model does not need: each word of it
/// is read at the beginning of every conversation.
fn schema<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    let Value::Object(mut schema) = Value::from(schema) else {
        // A type with fields has no other.
        return JsonObject::new();
    };
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.values_mut().filter_map(Value::as_object_mut).for_each(plain);
    }
    schema
}

/// Leaves out of a field that it may be null, which is what leaving it out is for, and what it is
/// when it is left out: not every client understands the former, and the words say the latter.
fn plain(field: &mut JsonObject) {
    for noise in ["default", "format"] {
        field.remove(noise);
    }
    if let Some(Value::Array(types)) = field.get("type")
        && let Some(kind) = types.iter().find(|kind| *kind != "null").cloned()
    {
        field.insert("type".to_owned(), kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_plain_objects_that_name_their_fields() {
        for tool in all() {
            let schema = Value::Object((*tool.input_schema).clone());
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
