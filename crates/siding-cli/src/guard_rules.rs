//! Loads the guard's rules that apply in the working directory: the built-in ones and the files of
//! each layer.

use std::fmt::Write as _;

use siding_core::settings::{self, Environment};
use siding_guard::{Finding, GuardReport, Layer, RuleSource, Rules};
use siding_model::settings::Origin;
use siding_model::text::one_line;

use crate::failure::Failure;

/// Maximum width in columns of the command text in a finding.
const FINDING_COLUMNS: usize = 200;

/// Returns the rules in force, and prints a warning for each file that was ignored.
///
/// A mistake in the administrator's or the user's file is a failure, because a command must not
/// pass while rules that protect the user are missing. A mistake in a project's file excludes only
/// that file: its rules could only have made the guard stricter.
pub(crate) fn load_rules() -> Result<Rules, Failure> {
    let found = settings::read_rule_files(&Environment::from_process());
    for warning in &found.warnings {
        errln!("siding: {warning}");
    }
    for (origin, mistake) in found.mistakes {
        match layer_of_origin(&origin) {
            Layer::Project => errln!("siding: {mistake}; the file is ignored"),
            Layer::BuiltIn | Layer::System | Layer::User => return Err(mistake.into()),
        }
    }
    let mut rules = Rules::builtin();
    for file in found.files {
        let source = RuleSource { layer: layer_of_origin(&file.origin), path: Some(file.path) };
        rules.add_layer(&file.text, source).map_err(|error| {
            Failure::new(error).with_hint("`siding guard test FILE` checks a rule file")
        })?;
    }
    for warning in rules.warnings() {
        errln!("siding: {warning}");
    }
    Ok(rules)
}

const fn layer_of_origin(origin: &Origin) -> Layer {
    match origin {
        Origin::System { .. } => Layer::System,
        Origin::User { .. } => Layer::User,
        // Any other origin is treated as a project, whose rules can only make the guard stricter.
        Origin::BuiltIn
        | Origin::Host { .. }
        | Origin::Project { .. }
        | Origin::Environment { .. }
        | Origin::Call { .. }
        | _ => Layer::Project,
    }
}

/// Formats the findings that led to the verdict, one per line.
pub(crate) fn format_reason(judgement: &GuardReport) -> String {
    let mut text = String::new();
    let strictest = |finding: &&Finding| finding.verdict == judgement.verdict;
    for finding in judgement.findings.iter().filter(strictest) {
        if !text.is_empty() {
            text.push('\n');
        }
        let (rule, what) = (&finding.rule, one_line(&finding.text, FINDING_COLUMNS));
        let verdict = finding.verdict.name();
        let _writing_to_string =
            write!(text, "siding guard, rule {rule} ({verdict}): `{what}`: {}", finding.why);
        if let Some(instead) = &finding.instead {
            let _writing_to_string = write!(text, ". Instead: {instead}");
        }
    }
    text
}
