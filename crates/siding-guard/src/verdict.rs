//! Judges a text: collects the rules that match and determines their strictest verdict.

use serde::Serialize;

use crate::ast::Span;
use crate::parse::MAX_SCRIPT_BYTES;
use crate::resolve::{
    Call, FIELD_SEPARATOR, NONEMPTY_MARKER, Observation, PID_LOOKUP_MARKER, UNKNOWN_MARKER,
    is_known, text_with_environment, walk,
};
use crate::rules::{GuardVerdict, Rule, Rules};

mod rule_match;

use rule_match::matching_rules;

/// Whether a caller waits for the judged command, and whether a person can answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecMode {
    /// A caller waits for the command.
    Foreground,
    /// No caller waits for the command.
    Background,
    /// No caller waits for the command, and no person can answer a question about it.
    Unattended,
}

impl ExecMode {
    /// Returns whether no caller waits for the command.
    #[must_use]
    pub const fn is_background(self) -> bool {
        matches!(self, Self::Background | Self::Unattended)
    }
}

/// The guard's findings about a command, and the verdict on the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "guard"))]
pub struct GuardReport {
    /// The strictest verdict of the findings, or `allow` if there are no findings.
    pub verdict: GuardVerdict,
    /// The matches of rules, in the order of their spans in the text.
    pub findings: Vec<Finding>,
    /// Whether the whole text could be parsed.
    pub parse: ParseCompleteness,
}

/// Whether a text could be parsed completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ParseCompleteness {
    /// The whole text was parsed, so no command in it was missed because of a syntax error.
    Clean,
    /// A part of the text could not be parsed. The findings are about the parts that could be
    /// parsed.
    Partial,
}

/// A part of the text that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the rule, which `[verdicts]` and `[[except]]` in rule files use.
    pub rule: String,
    /// `ask` or `deny`.
    pub verdict: GuardVerdict,
    /// The span of the match, in bytes of the command.
    pub span: Span,
    /// The part of the command that the rule matches.
    pub text: String,
    /// The reason for the verdict, for the person who reviews the command.
    pub why: String,
    /// An action to take instead of the command; null if the rule has no suggestion.
    pub instead: Option<String>,
}

/// Judges a bash text.
///
/// The text is only parsed, never run. A text that exceeds a limit of the parser, such as
/// [`MAX_SCRIPT_BYTES`], is not parsed, and the built-in rules judge it as `ask`.
#[must_use]
pub fn judge(text: &str, rules: &Rules, mode: ExecMode) -> GuardReport {
    judge_with_environment(text, &[], rules, mode)
}

/// Judges a bash text that runs with these additional variables in its environment, which are
/// judged like assignments before the text.
///
/// The spans of the findings refer to the variables, each in a line `NAME=value`, followed by the
/// text. In all other respects, the function behaves like [`judge`].
#[must_use]
pub fn judge_with_environment(
    text: &str,
    environment: &[(String, String)],
    rules: &Rules,
    mode: ExecMode,
) -> GuardReport {
    let (observations, is_understood) = walk(text, environment);
    let judged = text_with_environment(text, environment);
    let mut findings: Vec<Finding> = vec![];
    for observation in &observations {
        for rule in matching_rules(observation, rules, mode) {
            findings.push(build_finding(rule, observation, &judged, mode));
        }
    }
    findings.sort_by(|a, b| (a.span, &a.rule).cmp(&(b.span, &b.rule)));
    findings.dedup_by(|a, b| a.rule == b.rule && a.span == b.span);
    let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or_default();
    let is_clean = is_understood && text.len() <= MAX_SCRIPT_BYTES;
    let parse = if is_clean { ParseCompleteness::Clean } else { ParseCompleteness::Partial };
    GuardReport { verdict, findings, parse }
}

fn build_finding(rule: &Rule, observation: &Observation, text: &str, mode: ExecMode) -> Finding {
    let (span, guess) = match observation {
        Observation::Call(call) => (call.span, call.unknown_wrapper.as_deref()),
        Observation::Assignment { text } => (text.span, None),
        Observation::FileRead { from, .. } => (from.span, None),
        Observation::FileWrite { to, .. } => (to.span, None),
        Observation::Construct { span, .. } => (*span, None),
    };
    let (verdict, why) = match (guess, observation) {
        (Some(wrapper), _) => {
            let why = format!(
                "siding does not know which command `{wrapper}` runs; if it runs this: {}",
                rule.reason
            );
            (rule.verdict.min(GuardVerdict::Ask), why)
        }
        (None, Observation::Construct { detail: Some(detail), .. }) => {
            (rule.verdict, format!("{}: {detail}", rule.reason))
        }
        // If no person can answer, a question would remain open forever or would count as answered
        // with yes.
        (None, _) if rule.background_only && mode == ExecMode::Unattended => {
            (GuardVerdict::Deny, rule.reason.clone())
        }
        (None, _) => (rule.verdict, rule.reason.clone()),
    };
    Finding {
        rule: rule.name.clone(),
        verdict,
        span,
        text: span.slice(text).to_owned(),
        why,
        instead: rule.suggestion.clone(),
    }
}

/// Returns the spans and command lines of all programs that a text runs, including those that known
/// wrappers run. Guesses about unknown programs and about code of other languages are omitted. `?`
/// represents a value that only the running shell knows.
#[must_use]
pub fn resolve_commands(text: &str) -> Vec<(Span, String)> {
    let command_line = |call: &Call| {
        let words = call.args.iter().map(|arg| arg.text.as_str());
        let line =
            std::iter::once(call.program.as_str()).chain(words).collect::<Vec<_>>().join(" ");
        line.replace([UNKNOWN_MARKER, NONEMPTY_MARKER, PID_LOOKUP_MARKER, FIELD_SEPARATOR], "?")
    };
    let (observations, _) = walk(text, &[]);
    let calls = observations.iter().filter_map(|seen| match seen {
        Observation::Call(call) if call.unknown_wrapper.is_none() => {
            Some((call.span, command_line(call)))
        }
        Observation::Call(_)
        | Observation::Assignment { .. }
        | Observation::FileRead { .. }
        | Observation::FileWrite { .. }
        | Observation::Construct { .. } => None,
    });
    calls.collect()
}

/// Returns whether siding knows how a program uses its arguments, or a rule names the program.
fn is_known_or_has_rule(rules: &Rules, program: &str) -> bool {
    is_known(program) || rules.has_rule_for(program)
}
