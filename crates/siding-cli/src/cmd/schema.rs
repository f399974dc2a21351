//! `siding schema`: prints the JSON Schemas of all JSON output.

#[cfg(test)]
mod compatibility;

use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use siding_agent::agent::{AgentReport, StreamLine};
use siding_guard::{ExampleResults, GuardReport};
use siding_model::activity::ActivityReport;
use siding_model::evidence::WhyView;
use siding_model::history::{RunView, StatsView};
use siding_model::notice::NoticeView;
use siding_model::task_view::{ScreenView, TaskView, WaitView};
use siding_model::timeline::Timeline;
use siding_workflow::WorkflowView;

use super::{
    adopt, config, doctor, executors, guard, input, install, keys, output, reap, rm, session,
};
use crate::failure::Failure;
use crate::stdout;

/// The schema of all outputs. A test generates the file from the types, because the code that
/// generates it would enlarge the program by three times the file's size.
const DOCUMENT: &str = include_str!("../../../../docs/schema/siding.schema.json");

/// Prints the JSON Schema of what `--json` prints.
///
/// Without an argument, prints one document with a definition in `$defs` for each output and for
/// the parts that outputs share. Fields may be added in later versions; an existing field is never
/// renamed, removed or given another meaning. `siding config schema` describes settings files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding schema task > task.schema.json
  siding schema | jq '.\"$defs\".task.required'")]
pub(crate) struct Args {
    /// Output to describe (default: all)
    #[arg(value_name = "OUTPUT", value_parser = output_names())]
    output: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.output {
            None => stdout::print_text(DOCUMENT)?,
            Some(name) => stdout::print_text(&format!("{:#}\n", output_schema(&name)))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A type that siding prints as JSON.
struct JsonOutput {
    /// Name of the type's definition in `$defs`.
    name: &'static str,
    /// Commands that print the type, as shown in `siding schema --help`.
    printed_by: &'static str,
    /// Adds the type, and the types of its fields, to a generator.
    #[cfg(test)]
    add_to: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

#[cfg_attr(
    not(test),
    expect(clippy::extra_unused_type_parameters, reason = "only a test generates the schema")
)]
const fn json_output<T: JsonSchema>(name: &'static str, printed_by: &'static str) -> JsonOutput {
    JsonOutput {
        name,
        printed_by,
        #[cfg(test)]
        add_to: schemars::SchemaGenerator::subschema_for::<T>,
    }
}

/// Every JSON output, sorted by name.
const OUTPUTS: [JsonOutput; 29] = [
    json_output::<adopt::AdoptView>("adopt", "adopt"),
    json_output::<AgentReport>("agent", "agent --output-format json"),
    json_output::<StreamLine<'_>>("agent_stream", "agent --output-format stream-json: each line"),
    json_output::<doctor::DoctorReport>("doctor", "doctor"),
    json_output::<doctor::WatchTable>("doctor_watch", "doctor --watch"),
    json_output::<executors::ExecutorView<'_>>("executor", "executors: each"),
    json_output::<GuardReport>("guard", "guard"),
    json_output::<guard::explain::Explanation>("guard_explain", "guard explain with a command"),
    json_output::<guard::rules::RuleView<'_>>("guard_rule", "guard rules: each; guard explain"),
    json_output::<ExampleResults>("guard_test", "guard test"),
    json_output::<RunView>("history", "history: each"),
    json_output::<input::InputView>("input", "input"),
    json_output::<install::InstallReport>("install", "install, uninstall"),
    json_output::<keys::KeysView>("keys", "keys"),
    json_output::<NoticeView>("notice", "notices: each"),
    json_output::<output::view::OutputView>("output", "output"),
    json_output::<reap::ReapReport<'_>>("reap", "reap"),
    json_output::<rm::RemovalView>("removal", "rm: each"),
    json_output::<ActivityReport>("report", "report"),
    json_output::<ScreenView>("screen", "screen"),
    json_output::<session::SessionView>("session", "session open; session list: each"),
    json_output::<session::close::CloseReport>("session_close", "session close"),
    json_output::<config::show::SettingView>("setting", "config show: each; config get"),
    json_output::<StatsView>("stats", "stats: each"),
    json_output::<TaskView>("task", "run, show, stop, extend, release; ps: each"),
    json_output::<Timeline>("timeline", "timeline"),
    json_output::<WaitView>("wait", "wait"),
    json_output::<WhyView>("why", "why"),
    json_output::<WorkflowView>("workflow", "workflow show, check"),
];

fn output_names() -> PossibleValuesParser {
    let name = |output: &JsonOutput| PossibleValue::new(output.name).help(output.printed_by);
    PossibleValuesParser::new(OUTPUTS.iter().map(name))
}

/// Returns the schema of one output, with only the definitions that it uses.
fn output_schema(name: &str) -> Value {
    let document = parse_document();
    let used = used_definitions(&document, &[name]);
    json!({ "$schema": document["$schema"], "$ref": definition_reference(name), "$defs": used })
}

/// Returns the definitions of some outputs and of the types that they use, by name.
pub(super) fn output_definitions(names: &[&str]) -> Map<String, Value> {
    used_definitions(&parse_document(), names)
}

fn parse_document() -> Value {
    serde_json::from_str(DOCUMENT).expect("the document is JSON")
}

fn definition_reference(name: &str) -> String {
    format!("#/$defs/{name}")
}

fn used_definitions(document: &Value, names: &[&str]) -> Map<String, Value> {
    let mut used = Map::new();
    for name in names {
        let reference = json!({ "$ref": definition_reference(name) });
        collect_definitions(&reference, document, &mut used);
    }
    used
}

/// Adds the definitions that a part of the document refers to, directly or indirectly.
fn collect_definitions(part: &Value, document: &Value, used: &mut Map<String, Value>) {
    match part {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str).unwrap_or_default();
            if let Some(name) = reference.strip_prefix("#/$defs/")
                && !used.contains_key(name)
            {
                let definition = &document["$defs"][name];
                used.insert(name.to_owned(), definition.clone());
                collect_definitions(definition, document, used);
            }
            fields.values().for_each(|field| collect_definitions(field, document, used));
        }
        Value::Array(all) => all.iter().for_each(|one| collect_definitions(one, document, used)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Generates the schema of all outputs from their types.
#[cfg(test)]
fn generate_document() -> schemars::Schema {
    // The schema describes serialized values, in which a field that is `None` is null and not
    // missing, unless serde skips it.
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let mut schema = schemars::json_schema!({ "title": "JSON output of siding" });
    schema.insert("$schema".to_owned(), settings.meta_schema.clone().into());
    let mut generator = settings.into_generator();
    for output in &OUTPUTS {
        (output.add_to)(&mut generator);
    }
    schema.insert("$defs".to_owned(), generator.take_definitions(true).into());
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;

    const COMMITTED: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/siding.schema.json");

    /// Writes the committed schema if `UPDATE_SCHEMAS` is set. A change that breaks a reader of the
    /// output is written only with `UPDATE_SCHEMAS=breaking`.
    #[test]
    fn committed_schema_matches_the_code() {
        let text = render::schema::schema_text(generate_document());
        if let Some(mode) = std::env::var_os("UPDATE_SCHEMAS") {
            let committed = std::fs::read_to_string(COMMITTED).unwrap_or_else(|_| "{}".to_owned());
            let committed: Value = serde_json::from_str(&committed).expect("a schema");
            let breaks = compatibility::find_all(&committed, &generate_document().to_value());
            assert!(breaks.is_empty() || mode == "breaking", "{breaks:#?}");
            std::fs::write(COMMITTED, &text).expect("the schema can be written");
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
        assert_eq!(committed, text, "run this test once with UPDATE_SCHEMAS=1 to write it");
    }

    /// [`compatibility::find_all`] distinguishes outputs from shared definitions by the case of the
    /// first letter.
    #[test]
    fn exactly_the_names_of_outputs_begin_with_a_lower_case_letter() {
        let schema = generate_document().to_value();
        let mut outputs = definition_names(&schema);
        outputs.retain(|name| name.starts_with(char::is_lowercase));
        assert_eq!(outputs, OUTPUTS.map(|output| output.name));
    }

    #[test]
    fn the_schema_of_one_output_has_only_its_definitions() {
        let schema = output_schema("input");
        assert_eq!(schema["$ref"], "#/$defs/input");
        assert_eq!(definition_names(&schema), ["TaskId", "input"]);
    }

    fn definition_names(schema: &Value) -> Vec<&str> {
        let definitions = schema["$defs"].as_object().expect("definitions");
        let mut names: Vec<_> = definitions.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// A script can rely on the presence of every field of these outputs, such as `.outcome` of a
    /// task; an unknown value is null.
    #[test]
    fn every_field_of_a_task_a_wait_and_a_notice_is_present() {
        let schema = generate_document().to_value();
        for name in ["task", "wait", "notice"] {
            let definition = &schema["$defs"][name];
            let fields = definition["properties"].as_object().expect("fields").len();
            assert_eq!(definition["required"].as_array().map(Vec::len), Some(fields), "{name}");
        }
    }
}
