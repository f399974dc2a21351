//! The description of the addresses for programs, in OpenAPI 3.1.

use serde_json::{Map, Value, json};

/// The path of the document with the schemas of the types, which the OpenAPI description mentions.
const SCHEMA_PAGE: &str = "docs/schema/siding.schema.json";
/// The types of the answers, as `siding schema` names them.
const ANSWER_TYPES: [&str; 3] = [TASK_TYPE, OUTPUT_TYPE, WHY_TYPE];
const TASK_TYPE: &str = "task";
const OUTPUT_TYPE: &str = "output";
const WHY_TYPE: &str = "why";
/// Smallest size of a page of output that can be requested, in bytes. The line about output that is
/// no longer stored fits into this size, so no text is larger than requested.
pub(crate) const MIN_REQUESTED_BYTES: u64 = 128;
/// The prefix of a reference to a type: in a JSON Schema, and in an OpenAPI document.
const DEFINITIONS: &str = "#/$defs/";
const COMPONENTS: &str = "#/components/schemas/";

/// Returns the JSON Schemas of the types with these names, and of the types that they use, by name.
/// These are the definitions of `siding schema`.
pub type SchemaSource = fn(&[&str]) -> Map<String, Value>;

/// The content of an answer.
#[derive(Debug, Clone, Copy)]
enum AnswerContent {
    /// A value of a type of `siding schema`.
    Typed(&'static str),
    /// A list of values of such a type.
    ListOf(&'static str),
    /// A JSON object without a schema of its own.
    Object,
    /// Text of this media type.
    Text(&'static str),
}

impl AnswerContent {
    /// Returns the media type with its schema.
    fn describe(self) -> Value {
        let schema_of = |name: &str| json!({ "$ref": format!("{COMPONENTS}{name}") });
        let (media_type, schema) = match self {
            Self::Typed(name) => ("application/json", schema_of(name)),
            Self::ListOf(name) => {
                ("application/json", json!({ "type": "array", "items": schema_of(name) }))
            }
            Self::Object => ("application/json", json!({ "type": "object" })),
            Self::Text(media_type) => (media_type, json!({ "type": "string" })),
        };
        json!({ media_type: { "schema": schema } })
    }
}

/// Returns the OpenAPI document.
pub(crate) fn document(schemas: SchemaSource) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "siding web",
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!(
                "Tasks of siding. The types are those of `siding schema` ({SCHEMA_PAGE}). \
                 The token is in $SIDING_WEB_TOKEN or in the file that `siding web` names."
            ),
        },
        "security": [{ "token": [] }],
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": {
                "Error": {
                    "description": "the cause of the error",
                    "content": { "application/json": { "schema": {
                        "type": "object",
                        "required": ["error"],
                        "properties": { "error": { "type": "string" } },
                    } } },
                },
            },
            "schemas": component_schemas(schemas),
        },
        "paths": add_path_parameters(paths()),
    })
}

/// Returns the types of the answers, with references to the places in this document.
fn component_schemas(schemas: SchemaSource) -> Value {
    let mut components = Value::Object(schemas(&ANSWER_TYPES));
    move_references(&mut components);
    components
}

fn move_references(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get_mut("$ref")
                && let Some(name) = target.strip_prefix(DEFINITIONS)
            {
                *target = format!("{COMPONENTS}{name}");
            }
            fields.values_mut().for_each(move_references);
        }
        Value::Array(all) => all.iter_mut().for_each(move_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Declares the parameter of each path that has one.
fn add_path_parameters(mut paths: Value) -> Value {
    let entries = paths.as_object_mut().into_iter().flatten();
    for (_, operations) in entries.filter(|(path, _)| path.contains("{id}")) {
        operations["parameters"] = json!([{
            "name": "id", "in": "path", "required": true,
            "description": "the id of a task, the beginning of an id that only one task has, or the \
                            name of a task",
            "schema": { "type": "string" },
        }]);
    }
    paths
}

fn paths() -> Value {
    let (mut paths, acts) = (read_paths(), act_paths());
    if let (Some(paths), Value::Object(acts)) = (paths.as_object_mut(), acts) {
        paths.extend(acts);
    }
    paths
}

fn read_paths() -> Value {
    use AnswerContent::{ListOf, Object, Text, Typed};
    let about_max = format!("maximum size of the text in bytes, at least {MIN_REQUESTED_BYTES}");
    json!({
        "/api/v1/tasks": read("all tasks, without text", ListOf(TASK_TYPE), &[
            ("running", "boolean", "only tasks that have not ended; 1 and 0 are accepted too"),
            ("session", "string", "only tasks of this session"),
            ("q", "string", "only tasks with these words"),
        ]),
        "/api/v1/tasks/{id}": read(
            "one task with its processes and output text",
            Typed(TASK_TYPE),
            &[],
        ),
        "/api/v1/tasks/{id}/output": read("a page of readable output", Typed(OUTPUT_TYPE), &[
            ("from", "integer", "offset of the first byte"),
            ("max", "integer", &about_max),
        ]),
        "/api/v1/tasks/{id}/why": read(
            "why a task is quiet, or how it ended",
            Typed(WHY_TYPE),
            &[],
        ),
        "/api/v1/tasks/{id}/usage": read(
            "what a running task uses now: `elapsed_ms`, `cpu_percent`, `memory_bytes`, \
             `processes`, `ports`, `output_bytes` and `output_rate` (bytes per second); 409 if the \
             task has ended",
            Object,
            &[],
        ),
        "/api/v1/events": read(
            "changes as server-sent events: `task` (a `task`), `removed`, `session`, and `reset` \
             when events are missing; `Last-Event-ID` resumes",
            Text("text/event-stream"),
            &[("after", "string", "id of the last received event")],
        ),
        "/api/v1/openapi.json": read("this document", Object, &[]),
        "/metrics": read(
            "the metrics of all tasks, as `siding metrics` prints them; with --metrics without the \
             token",
            Text("text/plain"),
            &[],
        ),
    })
}

fn act_paths() -> Value {
    use AnswerContent::{Object, Typed};
    json!({
        "/api/v1/tasks/{id}/stop": act(
            "ends the task with everything that it started",
            &json!({}),
            Typed(TASK_TYPE),
        ),
        "/api/v1/tasks/{id}/extend": act(
            "moves the deadline",
            &json!({ "by": "string" }),
            Typed(TASK_TYPE),
        ),
        "/api/v1/tasks/{id}/input": act(
            "writes to the input of a task that was started with `--stdin pipe`; 409 for a task with a \
             terminal, into which `/keys` types",
            &json!({ "text": "string", "eof": "boolean" }),
            Typed(TASK_TYPE),
        ),
        "/api/v1/tasks/{id}/release": act(
            "ends the supervision of an adopted task",
            &json!({}),
            Typed(TASK_TYPE),
        ),
        "/api/v1/tasks/{id}/keys": act(
            "types keys, in the spelling of `siding keys`, into the task's terminal; with `literal` \
             every word is text; with the token they are an agent's keys, which are refused (409) \
             while a person has the terminal or a program asks for a secret",
            &json!({ "keys": "array", "literal": "boolean" }),
            Object,
        ),
        "/api/v1/notices/acknowledge": act(
            "acknowledges notices for a person",
            &json!({ "notice_ids": "array" }),
            Object,
        ),
    })
}

fn read(summary: &str, content: AnswerContent, parameters: &[(&str, &str, &str)]) -> Value {
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, kind, about)| {
            json!({ "name": name, "in": "query", "description": about, "schema": { "type": kind } })
        })
        .collect();
    json!({ "get": {
        "summary": summary,
        "parameters": parameters,
        "responses": responses("the answer", content),
    } })
}

/// Describes an act. It needs `--control`, and a body of the type `application/json`.
fn act(summary: &str, fields: &Value, content: AnswerContent) -> Value {
    let fields = fields.as_object().cloned().unwrap_or_default();
    let properties: Map<String, Value> =
        fields.into_iter().map(|(name, kind)| (name, json!({ "type": kind }))).collect();
    json!({ "post": {
        "summary": format!("{summary}; needs --control"),
        "requestBody": { "required": true, "content": { "application/json": { "schema": {
            "type": "object", "properties": properties, "additionalProperties": false,
        } } } },
        "responses": responses("the state after the action", content),
    } })
}

fn responses(description: &str, content: AnswerContent) -> Value {
    json!({
        "200": { "description": description, "content": content.describe() },
        "default": { "$ref": "#/components/responses/Error" },
    })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use siding_model::id::TaskId;

    use super::*;
    use crate::route::{Act, ApiRoute, Route, StreamRoute, TerminalAct};

    const ID: &str = "b-4k7q0n2m8x5t";

    /// The schema of each type refers to another type.
    fn sample_schemas(names: &[&str]) -> Map<String, Value> {
        let schema = json!({ "properties": { "id": { "$ref": "#/$defs/TaskId" } } });
        let other = ("TaskId".to_owned(), json!({ "type": "string" }));
        names.iter().map(|name| ((*name).to_owned(), schema.clone())).chain([other]).collect()
    }

    /// Returns the targets of all references in a part of the document.
    fn list_references(part: &Value) -> Vec<String> {
        match part {
            Value::Object(fields) => {
                let own = fields.get("$ref").and_then(Value::as_str).map(str::to_owned);
                own.into_iter().chain(fields.values().flat_map(list_references)).collect()
            }
            Value::Array(all) => all.iter().flat_map(list_references).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        }
    }

    fn routes(id: TaskId) -> Vec<Route<'static>> {
        vec![
            Route::Api(ApiRoute::Tasks),
            Route::Api(ApiRoute::Task(id)),
            Route::Api(ApiRoute::Output(id)),
            Route::Api(ApiRoute::Why(id)),
            Route::Api(ApiRoute::Usage(id)),
            Route::Api(ApiRoute::OpenApi),
            Route::Metrics,
            Route::Stream(StreamRoute::Tasks),
            Route::Act(id, Act::Stop),
            Route::Act(id, Act::Extend),
            Route::Act(id, Act::Input),
            Route::Act(id, Act::Release),
            Route::Terminal(id, TerminalAct::Keys),
            Route::Acknowledge,
        ]
    }

    /// Returns whether a route is for programs. The match does not compile for a new route, as a
    /// reminder to add the route to the list above.
    const fn is_for_programs(route: Route<'_>) -> bool {
        match route {
            // Only a person may answer with a secret or has a terminal to give back, and a person
            // uses a browser.
            Route::Terminal(_, TerminalAct::Answer | TerminalAct::Return)
            | Route::Page(_)
            | Route::NamedTask(_)
            // The document describes the same addresses with an id.
            | Route::NamedApi { .. }
            | Route::Asset(_)
            | Route::Stream(StreamRoute::Output(_)) => false,
            Route::Api(
                ApiRoute::Tasks
                | ApiRoute::Task(_)
                | ApiRoute::Output(_)
                | ApiRoute::Why(_)
                | ApiRoute::Usage(_)
                | ApiRoute::OpenApi,
            )
            | Route::Metrics
            | Route::Stream(StreamRoute::Tasks)
            | Route::Act(_, Act::Stop | Act::Extend | Act::Input | Act::Release)
            | Route::Terminal(_, TerminalAct::Keys)
            | Route::Acknowledge => true,
        }
    }

    #[test]
    fn the_document_has_exactly_the_routes_for_programs() {
        let mut described = Vec::new();
        for (path, operations) in document(sample_schemas)["paths"].as_object().expect("paths") {
            let path = path.replace("{id}", ID);
            let methods = operations.as_object().expect("methods").keys();
            for method in methods.filter(|key| *key != "parameters") {
                let method: Method = method.to_uppercase().parse().expect("a method");
                let route = Route::parse(&method, &path);
                let route = route.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"));
                assert!(is_for_programs(route), "{method} {path}");
                described.push(format!("{route:?}"));
            }
        }
        let mut expected: Vec<String> =
            routes(ID.parse().expect("an id")).iter().map(|route| format!("{route:?}")).collect();
        described.sort();
        expected.sort();
        assert_eq!(described, expected);
    }

    #[test]
    fn every_reference_has_a_target_in_the_document() {
        let document = document(sample_schemas);
        let references = list_references(&document);
        for name in [&ANSWER_TYPES[..], &["TaskId"]].concat() {
            assert!(references.contains(&format!("{COMPONENTS}{name}")), "{name}");
        }
        for reference in references {
            let target = reference.strip_prefix('#').and_then(|path| document.pointer(path));
            assert!(target.is_some(), "{reference}");
        }
    }

    #[test]
    fn every_parameter_of_a_path_is_declared() {
        for (path, operations) in document(sample_schemas)["paths"].as_object().expect("paths") {
            let declared = operations["parameters"][0]["name"].as_str();
            assert_eq!(declared, path.contains("{id}").then_some("id"), "{path}");
        }
    }
}
