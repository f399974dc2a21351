//! `siding guard rules`.

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

/// Lists the rules in force, each with its verdict and whose it is.
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

/// A rule. `docs/schema/guard_rules.schema.json` is the contract.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RuleView<'r> {
    /// Its name.
    name: &'r str,
    /// What happens to a command that it is about; `allow` switches it off.
    verdict: GuardVerdict,
    /// It is about commands alone that are about to run in the background.
    background: bool,
    /// Why.
    why: &'r str,
    /// What to do instead.
    instead: Option<&'r str>,
    /// Whose it is, or who set its verdict: `built-in`, `system`, `user` or `project`.
    layer: &'r str,
    /// The file, for those that are not built in.
    path: Option<String>,
    /// Commands that it is about, and some that it is not.
    examples: &'r Examples,
}

impl<'r> From<&'r Rule> for RuleView<'r> {
    fn from(rule: &'r Rule) -> Self {
        Self {
            name: &rule.name,
            verdict: rule.verdict,
            background: rule.background_only,
            why: &rule.reason,
            instead: rule.suggestion.as_deref(),
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
        out::print(&format_grid(titles, "WHY", &rows, ColorMode::for_stdout()))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::schema;

    #[test]
    fn committed_schema_matches_the_code() {
        schema::assert_committed::<Vec<RuleView<'_>>>("guard_rules");
    }
}
