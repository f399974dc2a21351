//! `siding guard explain`.

use std::ffi::OsString;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_guard::{ExecMode, GuardReport, Span, judge, resolve_commands};
use siding_model::text::one_line;

use super::rules::RuleView;
use super::show;
use crate::failure::Failure;
use crate::guarding;
use crate::print::WIDTH;
use crate::render::{json, out};

/// Says what a rule is about, or what the guard sees in a command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding guard explain rm-root
  siding guard explain -- 'find . -name x -exec rm {} +'
  siding guard explain --json -- 'ssh host reboot'

`?` stands for what is known only when the command runs.")]
pub(super) struct Args {
    /// The rule
    #[arg(value_name = "RULE", required_unless_present = "text", conflicts_with = "text")]
    rule: Option<String>,
    /// The command is about to run in the background
    #[arg(long)]
    background: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    text: Vec<OsString>,
}

/// What the guard sees. `docs/schema/guard_explain.schema.json` is the contract.
#[derive(Debug, Serialize, JsonSchema)]
struct Explanation {
    /// What it says.
    judgement: GuardReport,
    /// The programs that run, behind all wrappers, wrappers included.
    calls: Vec<SeenCall>,
}

/// One program with its arguments.
#[derive(Debug, Serialize, JsonSchema)]
struct SeenCall {
    /// Where it stands, in bytes of the command.
    span: Span,
    /// Its words, `?` for what is known only when it runs.
    words: String,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let rules = guarding::rules()?;
        if let Some(name) = &self.rule {
            let rule = rules.get(name).ok_or_else(|| {
                Failure::new(format!("there is no rule `{name}`"))
                    .with_hint("`siding guard rules` lists all")
            })?;
            if self.json {
                json::print(&RuleView::from(rule))?;
            } else {
                out::print(&show::rule(rule))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let text = super::text(self.text)?;
        let how = if self.background { ExecMode::Background } else { ExecMode::Foreground };
        let calls =
            resolve_commands(&text).into_iter().map(|(span, words)| SeenCall { span, words });
        let seen = Explanation { judgement: judge(&text, &rules, how), calls: calls.collect() };
        if self.json {
            json::print(&seen)?;
        } else {
            out::print(&shown(&seen))?;
        }
        Ok(super::code(seen.judgement.verdict))
    }
}

fn shown(seen: &Explanation) -> String {
    let mut text = "runs\n".to_owned();
    for call in &seen.calls {
        text += &format!("      {}\n", one_line(&call.words, WIDTH - 6));
    }
    if seen.calls.is_empty() {
        text += "      no program that can be told\n";
    }
    text + "\n" + &show::judgement(&seen.judgement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::schema;

    #[test]
    fn the_committed_schema_is_that_of_the_code() {
        schema::assert_committed::<Explanation>("guard_explain");
    }
}
