//! `siding guard explain`: explains a rule, or the findings of the guard in a command.

use std::ffi::OsString;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_guard::{ExecMode, GuardReport, Rules, Span, judge, resolve_commands};
use siding_model::text::one_line;

use super::judgement_text;
use super::rules::RuleView;
use crate::caller;
use crate::failure::Failure;
use crate::guard_rules;
use crate::render::{json, out};
use crate::stdout::text_columns;

/// Explains a rule, or shows what the guard sees in a command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding guard explain rm-root
  siding guard explain -- 'find . -name x -exec rm {} +'
  siding guard explain --json -- 'ssh host reboot'

`?` stands for text that is known only at run time.")]
pub(super) struct Args {
    /// Name of the rule
    #[arg(value_name = "RULE", required_unless_present = "text", conflicts_with = "text")]
    rule: Option<String>,
    /// Judge the command as one that will run in the background
    #[arg(long)]
    background: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Command: one string for the shell, or a program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    text: Vec<OsString>,
}

/// JSON output of `siding guard explain -- COMMAND`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "guard_explain")]
pub(in crate::cmd) struct Explanation {
    /// The verdict, with the findings that led to it.
    judgement: GuardReport,
    /// The programs that the command would run: wrappers such as `sudo`, and the programs that they
    /// start.
    calls: Vec<ObservedCall>,
}

/// A program that the command would run.
#[derive(Debug, Serialize, JsonSchema)]
struct ObservedCall {
    /// Position of the program's words in the command, in bytes.
    span: Span,
    /// Name and arguments of the program, with `?` for text that is known only at run time.
    words: String,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let rules = guard_rules::load_rules()?;
        if let Some(name) = &self.rule {
            let rule = rules.get(name).ok_or_else(|| {
                Failure::new(format!("no rule `{name}`"))
                    .with_hint("`siding guard rules` lists all rules; a command follows `--`")
            })?;
            if self.json {
                json::print(&RuleView::from(rule))?;
            } else {
                let is_person = caller::is_person_at_stdout();
                out::print(&judgement_text::format_rule(rule, is_person))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let text = super::shell_text(self.text)?;
        let exec_mode = if self.background { ExecMode::Background } else { ExecMode::Foreground };
        let calls =
            resolve_commands(&text).into_iter().map(|(span, words)| ObservedCall { span, words });
        let explanation =
            Explanation { judgement: judge(&text, &rules, exec_mode), calls: calls.collect() };
        if self.json {
            json::print(&explanation)?;
        } else {
            out::print(&format_explanation(&explanation, &rules))?;
        }
        Ok(super::exit_code(explanation.judgement.verdict))
    }
}

fn format_explanation(explanation: &Explanation, rules: &Rules) -> String {
    let mut text = "runs\n".to_owned();
    for call in &explanation.calls {
        text += &format!("      {}\n", one_line(&call.words, text_columns().saturating_sub(6)));
    }
    if explanation.calls.is_empty() {
        text += "      no program that can be determined\n";
    }
    let is_person = caller::is_person_at_stdout();
    text + "\n" + &judgement_text::format_judgement(&explanation.judgement, rules, is_person)
}
