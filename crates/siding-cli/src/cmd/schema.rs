//! `siding schema`: prints the JSON Schemas of all JSON output.

#[cfg(test)]
mod compatibility;

use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use siding_agent::agent::{AgentReport, StreamLine};
use siding_guard::{ExampleResults, GuardReport};
use siding_model::activity::ActivityReport;
use siding_model::evidence::WhyView;
use siding_model::history::{RunView, StatsView};
use siding_model::notice::NoticeView;
use siding_model::task_view::{TaskView, WaitView};
use siding_workflow::WorkflowView;

use super::{adopt, config, doctor, guard, input, install, output, reap, session};
use crate::failure::Failure;
use crate::{render, stdout};

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
        let schema = output_schema(self.output.as_deref());
        stdout::print_text(&render::schema::schema_text(schema))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A type that siding prints as JSON.
struct JsonOutput {
    /// Its name in the schema.
    name: &'static str,
    /// The commands that print it.
    printed_by: &'static str,
    /// Adds the type and its parts to a generator, and returns a reference to it.
    add_to: fn(&mut SchemaGenerator) -> Schema,
}

const fn json_output<T: JsonSchema>(name: &'static str, printed_by: &'static str) -> JsonOutput {
    JsonOutput { name, printed_by, add_to: SchemaGenerator::subschema_for::<T> }
}

/// Every JSON output, sorted by name.
const OUTPUTS: [JsonOutput; 24] = [
    json_output::<adopt::AdoptView>("adopt", "adopt"),
    json_output::<AgentReport>("agent", "agent --output-format json"),
    json_output::<StreamLine<'_>>("agent_stream", "agent --output-format stream-json: each line"),
    json_output::<doctor::DoctorReport>("doctor", "doctor"),
    json_output::<doctor::WatchTable>("doctor_watch", "doctor --watch"),
    json_output::<GuardReport>("guard", "guard"),
    json_output::<guard::explain::Explanation>("guard_explain", "guard explain with a command"),
    json_output::<guard::rules::RuleView<'_>>("guard_rule", "guard rules: each; guard explain"),
    json_output::<ExampleResults>("guard_test", "guard test"),
    json_output::<RunView>("history", "history: each"),
    json_output::<input::InputView>("input", "input"),
    json_output::<install::InstallReport>("install", "install, uninstall"),
    json_output::<NoticeView>("notice", "notices: each"),
    json_output::<output::view::OutputView>("output", "output"),
    json_output::<reap::ReapReport<'_>>("reap", "reap"),
    json_output::<ActivityReport>("report", "report"),
    json_output::<session::SessionView>("session", "session open; session list: each"),
    json_output::<session::close::CloseReport>("session_close", "session close"),
    json_output::<config::show::SettingView>("setting", "config show: each"),
    json_output::<StatsView>("stats", "stats: each"),
    json_output::<TaskView>("task", "run, show, stop, extend, release; ps: each"),
    json_output::<WaitView>("wait", "wait"),
    json_output::<WhyView>("why", "why"),
    json_output::<WorkflowView>("workflow", "workflow show, check"),
];

fn output_names() -> PossibleValuesParser {
    let name = |output: &JsonOutput| PossibleValue::new(output.name).help(output.printed_by);
    PossibleValuesParser::new(OUTPUTS.iter().map(name))
}

/// Returns the schema of one output, or the definitions of all.
fn output_schema(name: Option<&str>) -> Schema {
    // The schema of serialized values, in which an optional field is present and null.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let meta_schema = settings.meta_schema.clone();
    let mut generator = settings.into_generator();
    let mut schema = json_schema!({ "title": "JSON output of siding" });
    for output in OUTPUTS.iter().filter(|output| name.is_none_or(|name| name == output.name)) {
        let reference = (output.add_to)(&mut generator);
        if name.is_some() {
            schema = reference;
        }
    }
    schema.insert("$schema".to_owned(), meta_schema.into());
    schema.insert("$defs".to_owned(), generator.take_definitions(true).into());
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The output of `siding schema`.
    const COMMITTED: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/siding.schema.json");

    /// If `UPDATE_SCHEMAS` is set, writes the file. A change that breaks a reader of the output is
    /// written only with `UPDATE_SCHEMAS=breaking`.
    #[test]
    fn committed_schema_matches_the_code() {
        let text = render::schema::schema_text(output_schema(None));
        if let Some(mode) = std::env::var_os("UPDATE_SCHEMAS") {
            let committed = std::fs::read_to_string(COMMITTED).unwrap_or_else(|_| "{}".to_owned());
            let committed: Value = serde_json::from_str(&committed).expect("a schema");
            let breaks = compatibility::find_all(&committed, &output_schema(None).to_value());
            assert!(breaks.is_empty() || mode == "breaking", "{breaks:#?}");
            std::fs::write(COMMITTED, &text).expect("the schema can be written");
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
        assert_eq!(committed, text, "run this test once with UPDATE_SCHEMAS=1 to write it");
    }

    /// [`compatibility::find_all`] relies on it.
    #[test]
    fn exactly_the_names_of_outputs_begin_with_a_lower_case_letter() {
        let schema = output_schema(None).to_value();
        let mut outputs = definition_names(&schema);
        outputs.retain(|name| name.starts_with(char::is_lowercase));
        assert_eq!(outputs, OUTPUTS.map(|output| output.name));
    }

    #[test]
    fn the_schema_of_one_output_has_only_its_definitions() {
        let schema = output_schema(Some("input")).to_value();
        assert_eq!(schema["$ref"], "#/$defs/input");
        assert_eq!(definition_names(&schema), ["TaskId", "input"]);
    }

    fn definition_names(schema: &Value) -> Vec<&str> {
        let definitions = schema["$defs"].as_object().expect("definitions");
        let mut names: Vec<_> = definitions.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// A script can read `.outcome` of every task: an unknown value is null.
    #[test]
    fn every_field_of_a_task_a_wait_and_a_notice_is_present() {
        let schema = output_schema(None).to_value();
        for name in ["task", "wait", "notice"] {
            let definition = &schema["$defs"][name];
            let fields = definition["properties"].as_object().expect("fields").len();
            assert_eq!(definition["required"].as_array().map(Vec::len), Some(fields), "{name}");
        }
    }
}
