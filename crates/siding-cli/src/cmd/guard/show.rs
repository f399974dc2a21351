//! Judgements and rules as text.

use siding_guard::{Finding, GuardReport, ParseCompleteness, Rule};
use siding_model::text::one_line;

use crate::print::{WIDTH, wrapped};

/// Columns before the text of a finding.
const INDENT: usize = 6;

/// Returns what the guard says.
pub(super) fn judgement(judgement: &GuardReport) -> String {
    let mut text = format!("{}\n", judgement.verdict.name());
    for finding in &judgement.findings {
        text += &of(finding);
    }
    if judgement.parse == ParseCompleteness::Partial {
        text += "\nNot all of it was understood.\n";
    }
    text
}

fn of(finding: &Finding) -> String {
    let Finding { rule, verdict, span, text, why, instead } = finding;
    let head = format!("\n{:<INDENT$}{rule} at {}–{}", verdict.name(), span.start, span.end);
    let shown = one_line(text, WIDTH - INDENT - 2);
    let mut lines = format!("{head}\n{:INDENT$}| {shown}\n{}\n", "", said(why));
    if let Some(instead) = instead {
        lines += &format!("{}\n", said(&format!("instead: {instead}")));
    }
    lines
}

fn said(text: &str) -> String {
    wrapped(&one_line(text, usize::MAX), INDENT, WIDTH)
}

/// Returns all about a rule.
pub(super) fn rule(rule: &Rule) -> String {
    let how = if rule.background_only { ", for commands in the background" } else { "" };
    let mut text = format!("{}: {}{how}\n", rule.name, rule.verdict.name());
    text += &format!("{:INDENT$}from {}\n{}\n", "", source(rule), said(&rule.reason));
    if let Some(instead) = &rule.suggestion {
        text += &format!("{}\n", said(&format!("instead: {instead}")));
    }
    for (title, examples) in [("about", &rule.examples.hit), ("not about", &rule.examples.miss)] {
        if !examples.is_empty() {
            text += &format!("\n{title}\n");
        }
        for example in examples {
            text += &format!("{:INDENT$}{}\n", "", one_line(example, WIDTH - INDENT));
        }
    }
    text
}

/// Returns whose a rule is.
pub(super) fn source(rule: &Rule) -> String {
    let layer = rule.source.layer.name();
    match &rule.source.path {
        Some(path) => format!("{layer} {}", one_line(&path.display().to_string(), usize::MAX)),
        None => layer.to_owned(),
    }
}
