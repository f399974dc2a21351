//! `siding guard test`: tests the examples of rules.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use siding_guard::{ExampleResults, Layer, RuleSource, Rules};
use siding_model::text::one_line;

use crate::failure::Failure;
use crate::guard_rules;
use crate::render::{json, out};
use crate::stdout::text_columns;

/// Exit code if a rule fails on one of its examples.
const EXAMPLES_FAILED_EXIT_CODE: u8 = 1;

/// Tests the examples of rules: the rule must match each `match` and no `mismatch`.
///
/// With a file, adds its rules to the built-in ones and tests the examples of the file's rules.
/// Without one, tests all rules that apply in this directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding guard test
  siding guard test ~/.config/siding/guard.toml
  siding guard test --layer project .siding/guard.toml

Exit codes: 0 if all examples pass, 1 if one fails, 125 if the file is
unreadable or not a rule file.")]
pub(super) struct Args {
    /// Rule file to test (default: all rules that apply here)
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Layer whose rules the file must follow
    #[arg(long, value_enum, default_value_t = RuleFileLayer::User, requires = "file")]
    layer: RuleFileLayer,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Layer that decides what a rule file may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RuleFileLayer {
    /// The administrator's file: may lock rules
    System,
    /// The user's file
    User,
    /// A project's file: can only make the guard stricter
    Project,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let result = match &self.file {
            Some(file) => test_file(file, self.layer)?,
            None => guard_rules::load_rules()?.check_examples(|_| true),
        };
        if self.json {
            json::print(&result)?;
        } else {
            out::print(&format_result(&result))?;
        }
        Ok(if result.failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(EXAMPLES_FAILED_EXIT_CODE)
        })
    }
}

fn test_file(file: &Path, layer: RuleFileLayer) -> Result<ExampleResults, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("could not read `{}`: {error}", file.display())))?;
    let layer = match layer {
        RuleFileLayer::System => Layer::System,
        RuleFileLayer::User => Layer::User,
        RuleFileLayer::Project => Layer::Project,
    };
    let source = RuleSource { layer, path: Some(file.to_owned()) };
    let mut rules = Rules::builtin();
    // A project's file is first loaded as a user's file: mistakes in it must be errors here, but
    // the loader only warns about mistakes in a project's file.
    if layer == Layer::Project {
        Rules::builtin()
            .add_layer(&text, RuleSource { layer: Layer::User, path: Some(file.to_owned()) })
            .map_err(Failure::new)?;
    }
    rules.add_layer(&text, source.clone()).map_err(Failure::new)?;
    for warning in rules.warnings() {
        errln!("siding: {warning}");
    }
    Ok(rules.check_examples(|rule| rule.source == source))
}

fn format_result(result: &ExampleResults) -> String {
    let mut text = String::new();
    for failed in &result.failed {
        let how = if failed.should_match {
            "does not match, but should"
        } else {
            "matches, but should not"
        };
        let command = one_line(&failed.command, text_columns().saturating_sub(8));
        text += &format!("{} {how}\n      | {command}\n", failed.rule);
    }
    for rule in &result.rules_without_examples {
        text += &format!("{rule} has no example of a match\n");
    }
    text + &format!("{} examples tried, {} wrong\n", result.count, result.failed.len())
}
