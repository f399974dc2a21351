//! `siding guard rules`: lists the rules in force.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_guard::{Examples, GuardVerdict, Rule};

use super::judgement_text;
use crate::failure::Failure;
use crate::guard_rules;
use crate::render::color::ColorMode;
use crate::render::table_layout::{Align, format_grid};
use crate::render::{json, out};
use crate::stdout;

/// Lists the rules in force, each with its verdict and origin.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding guard rules
  siding guard rules --json | jq -r '.[].name'")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding guard rules` for one rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "guard_rule")]
pub(in crate::cmd) struct RuleView<'r> {
    /// Name of the rule, as `siding guard explain NAME` accepts it.
    name: &'r str,
    /// The verdict on a command that the rule matches; `allow` disables the rule.
    verdict: GuardVerdict,
    /// Whether the rule applies only to commands that will run in the background.
    background: bool,
    /// The reason for the verdict, as text for an agent or a person.
    reason: &'r str,
    /// Advice on what to run instead; null if the rule has none.
    suggestion: Option<&'r str>,
    /// The layer that defined the rule or set its verdict: `built-in`, `system`, `user` or
    /// `project`.
    layer: &'r str,
    /// Path of the rule file; null for a built-in rule.
    path: Option<String>,
    /// Example commands: those that the rule must match, and those that it must not match.
    examples: &'r Examples,
}

impl<'r> From<&'r Rule> for RuleView<'r> {
    fn from(rule: &'r Rule) -> Self {
        Self {
            name: &rule.name,
            verdict: rule.verdict,
            background: rule.background_only,
            reason: &rule.reason,
            suggestion: rule.suggestion.as_deref(),
            layer: rule.source.layer.name(),
            path: rule.source.path.as_ref().map(|path| path.display().to_string()),
            examples: &rule.examples,
        }
    }
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let rules = guard_rules::load_rules()?;
        if self.json {
            json::print(&rules.iter().map(RuleView::from).collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        let row = |rule: &Rule| {
            let cells = [
                rule.name.clone(),
                rule.verdict.name().to_owned(),
                judgement_text::format_source(rule),
            ];
            (cells, rule.reason.clone())
        };
        let rows: Vec<_> = rules.iter().map(row).collect();
        let titles = [("RULE", Align::Left), ("VERDICT", Align::Left), ("FROM", Align::Left)];
        let color = ColorMode::for_stdout();
        out::print(&format_grid(titles, "WHY", &rows, color, stdout::text_columns()))?;
        Ok(ExitCode::SUCCESS)
    }
}
