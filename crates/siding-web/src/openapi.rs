//! The description of the addresses for programs, in OpenAPI 3.1.

use serde_json::{Value, json};

/// The names of the types in `siding schema`, which describes them.
const SCHEMA_PAGE: &str = "docs/schema/siding.schema.json";

/// Returns the document.
pub(crate) fn document() -> Value {
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
                    "description": "what is wrong",
                    "content": { "application/json": { "schema": {
                        "type": "object",
                        "required": ["error"],
                        "properties": { "error": { "type": "string" } },
                    } } },
                },
            },
        },
        "paths": add_path_parameters(paths()),
    })
}

/// Declares the parameter of each path that has one.
fn add_path_parameters(mut paths: Value) -> Value {
    let entries = paths.as_object_mut().into_iter().flatten();
    for (_, operations) in entries.filter(|(path, _)| path.contains("{id}")) {
        operations["parameters"] = json!([{
            "name": "id", "in": "path", "required": true, "description": "the complete id of a task",
            "schema": { "type": "string" },
        }]);
    }
    paths
}

fn paths() -> Value {
    json!({
        "/api/v1/tasks": read("all tasks, without text", "a list of `task`", &[
            ("running", "boolean", "only tasks that have not ended"),
            ("session", "string", "only tasks of this session"),
            ("q", "string", "only tasks with these words"),
        ]),
        "/api/v1/tasks/{id}": read("one task with its processes and output text", "`task`", &[]),
        "/api/v1/tasks/{id}/output": read("a page of readable output", "`output`", &[
            ("from", "integer", "offset of the first byte"),
            ("max", "integer", "maximum size of the text in bytes"),
        ]),
        "/api/v1/tasks/{id}/why": read(
            "why a task is quiet, or how it ended",
            "`why`",
            &[],
        ),
        "/api/v1/tasks/{id}/usage": read(
            "what a running task uses now",
            "an object with `elapsed_ms`, `cpu_percent`, `memory_bytes`, `processes`, `ports`, \
             `output_bytes` and `output_rate` (bytes per second); 409 if the task has ended",
            &[],
        ),
        "/api/v1/events": read(
            "changes as server-sent events: `task` (a `task`), `removed`, `session`, and `reset` \
             when events are missing; `Last-Event-ID` resumes",
            "an event stream",
            &[("after", "string", "id of the last received event")],
        ),
        "/api/v1/tasks/{id}/stop": act("ends the task with everything that it started", &json!({})),
        "/api/v1/tasks/{id}/extend": act("moves the deadline", &json!({ "by": "string" })),
        "/api/v1/tasks/{id}/input": act(
            "writes to the task's standard input",
            &json!({ "text": "string", "eof": "boolean" }),
        ),
        "/api/v1/tasks/{id}/release": act("ends the supervision of an adopted task", &json!({})),
        "/api/v1/notices/acknowledge": act(
            "acknowledges notices for a person",
            &json!({ "notice_ids": "array" }),
        ),
        "/api/v1/openapi.json": read("this document", "an OpenAPI 3.1 document", &[]),
        "/metrics": read(
            "the metrics of all tasks; with --metrics without the token",
            "text for Prometheus, as `siding metrics` prints it",
            &[],
        ),
    })
}

fn read(summary: &str, result: &str, parameters: &[(&str, &str, &str)]) -> Value {
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, kind, about)| {
            json!({ "name": name, "in": "query", "description": about, "schema": { "type": kind } })
        })
        .collect();
    json!({ "get": {
        "summary": summary,
        "parameters": parameters,
        "responses": { "200": { "description": result }, "default": error_reference() },
    } })
}

/// Describes an act. It needs `--control`, and a body of the type `application/json`.
fn act(summary: &str, fields: &Value) -> Value {
    let fields = fields.as_object().cloned().unwrap_or_default();
    let properties: serde_json::Map<String, Value> =
        fields.into_iter().map(|(name, kind)| (name, json!({ "type": kind }))).collect();
    json!({ "post": {
        "summary": format!("{summary}; needs --control"),
        "requestBody": { "required": true, "content": { "application/json": { "schema": {
            "type": "object", "properties": properties, "additionalProperties": false,
        } } } },
        "responses": { "200": { "description": "the task afterwards" }, "default": error_reference() },
    } })
}

fn error_reference() -> Value {
    json!({ "$ref": "#/components/responses/Error" })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use siding_model::id::TaskId;

    use super::*;
    use crate::route::{Act, ApiRoute, Route, StreamRoute};

    const ID: &str = "b-4k7q0n2m8x5t";

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
            Route::Acknowledge,
        ]
    }

    /// Returns whether a route is for programs. The match does not compile for a new route, as a
    /// reminder to add the route to the list above.
    const fn is_for_programs(route: Route<'_>) -> bool {
        match route {
            Route::Page(_) | Route::Asset(_) | Route::Stream(StreamRoute::Output(_)) => false,
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
            | Route::Acknowledge => true,
        }
    }

    #[test]
    fn the_document_has_exactly_the_routes_for_programs() {
        let mut described = Vec::new();
        for (path, operations) in document()["paths"].as_object().expect("paths") {
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
    fn every_parameter_of_a_path_is_declared() {
        for (path, operations) in document()["paths"].as_object().expect("paths") {
            let declared = operations["parameters"][0]["name"].as_str();
            assert_eq!(declared, path.contains("{id}").then_some("id"), "{path}");
        }
    }
}
