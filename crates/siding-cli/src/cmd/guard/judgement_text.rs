//! Formats verdicts and rules as text.

use siding_guard::{Finding, GuardReport, GuardVerdict, ParseCompleteness, Rule, Rules};
use siding_model::text::one_line;

use crate::stdout::{text_columns, wrap_indented};

/// Columns of indentation before the text of a finding.
const INDENT_COLUMNS: usize = 6;

/// Formats a verdict of these rules with its findings. Appends a note if the guard could not parse
/// the complete command, and for a person the effect of the verdict.
pub(super) fn format_judgement(judgement: &GuardReport, rules: &Rules, is_person: bool) -> String {
    let mut text = format!("{}\n", judgement.verdict.name());
    for finding in &judgement.findings {
        let rule = rules.get(&finding.rule).filter(|_| is_person);
        let for_person = rule.and_then(|rule| rule.suggestion_for_person.as_deref());
        text += &format_finding(finding, for_person.or(finding.instead.as_deref()));
    }
    if judgement.parse == ParseCompleteness::Partial {
        text += "\nThe command was not completely understood.\n";
    }
    text += match judgement.verdict {
        GuardVerdict::Ask if is_person => {
            "\nAn agent has to ask you before it runs this command.\n"
        }
        GuardVerdict::Deny if is_person => {
            "\nAn agent is not allowed to run this command; you can run it yourself.\n"
        }
        GuardVerdict::Allow | GuardVerdict::Ask | GuardVerdict::Deny => "",
    };
    text
}

fn format_finding(finding: &Finding, instead: Option<&str>) -> String {
    let Finding { rule, verdict, span, text, why, instead: _ } = finding;
    let head =
        format!("\n{:<INDENT_COLUMNS$}{rule} at {}–{}", verdict.name(), span.start, span.end);
    let shown = one_line(text, text_columns().saturating_sub(INDENT_COLUMNS + 2));
    let mut lines = format!("{head}\n{:INDENT_COLUMNS$}| {shown}\n{}\n", "", wrap_reason(why));
    if let Some(instead) = instead {
        lines += &format!("{}\n", wrap_reason(&format!("instead: {instead}")));
    }
    lines
}

fn wrap_reason(text: &str) -> String {
    wrap_indented(&one_line(text, usize::MAX), INDENT_COLUMNS, text_columns())
}

/// Formats a rule with its verdict, origin, reason and examples.
pub(super) fn format_rule(rule: &Rule, is_person: bool) -> String {
    let how = if rule.background_only { ", for commands in the background" } else { "" };
    let mut text = format!("{}: {}{how}\n", rule.name, rule.verdict.name());
    text += &format!(
        "{:INDENT_COLUMNS$}from {}\n{}\n",
        "",
        format_source(rule),
        wrap_reason(&rule.reason)
    );
    let for_person = rule.suggestion_for_person.as_ref().filter(|_| is_person);
    if let Some(instead) = for_person.or(rule.suggestion.as_ref()) {
        text += &format!("{}\n", wrap_reason(&format!("instead: {instead}")));
    }
    for (title, examples) in
        [("about", &rule.examples.matching), ("not about", &rule.examples.mismatch)]
    {
        if !examples.is_empty() {
            text += &format!("\n{title}\n");
        }
        for example in examples {
            text += &format!(
                "{:INDENT_COLUMNS$}{}\n",
                "",
                one_line(example, text_columns().saturating_sub(INDENT_COLUMNS))
            );
        }
    }
    text
}

/// Returns the layer that defined a rule or set its verdict, followed by the path of the rule file
/// if there is one.
pub(super) fn format_source(rule: &Rule) -> String {
    let layer = rule.source.layer.name();
    match &rule.source.path {
        Some(path) => format!("{layer} {}", one_line(&path.display().to_string(), usize::MAX)),
        None => layer.to_owned(),
    }
}
