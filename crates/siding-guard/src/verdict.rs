//! The judgement of a text.

use serde::{Deserialize, Serialize};

use crate::ast::Span;
use crate::parse::MAX_SCRIPT_BYTES;
use crate::resolve::{
    Call, FIELD_SEPARATOR, NONEMPTY_MARKER, Observation, PID_LOOKUP_MARKER, UNKNOWN_MARKER,
    is_known, walk,
};
use crate::rules::{Rule, Rules};

mod rule_match;

use rule_match::matching_rules;

/// What happens to a command.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GuardVerdict {
    /// Nothing speaks against it.
    #[default]
    Allow,
    /// A person should look at it first.
    Ask,
    /// It must not run.
    Deny,
}

impl GuardVerdict {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// How a command is about to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecMode {
    /// Somebody waits for it.
    Foreground,
    /// Nobody does.
    Background,
    /// Nobody does, and nobody is there to answer a question about it.
    Unattended,
}

impl ExecMode {
    /// Whether nobody waits for the command.
    #[must_use]
    pub const fn is_background(self) -> bool {
        matches!(self, Self::Background | Self::Unattended)
    }
}

/// What the guard says about a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardReport {
    /// The strictest of the findings, `allow` without any.
    pub verdict: GuardVerdict,
    /// What speaks against it, in the order of the text.
    pub findings: Vec<Finding>,
    /// Whether all of the text was understood.
    pub parse: ParseCompleteness,
}

/// Whether a text was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ParseCompleteness {
    /// All of it.
    Clean,
    /// Not all of it.
    Partial,
}

/// Something that speaks against a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the rule.
    pub rule: String,
    /// `ask` or `deny`.
    pub verdict: GuardVerdict,
    /// Where, in bytes of the command.
    pub span: Span,
    /// What stands there.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
    /// What to do instead.
    pub instead: Option<String>,
}

/// Judges a text for bash.
///
/// The text is read, never run. It takes at most [`MAX_SCRIPT_BYTES`] bytes; a longer one is not
/// understood and asked about, and so is one that nests without end.
#[must_use]
pub fn judge(text: &str, rules: &Rules, mode: ExecMode) -> GuardReport {
    let (observations, is_understood) = walk(text);
    let mut findings: Vec<Finding> = vec![];
    for observation in &observations {
        for rule in matching_rules(observation, rules, mode) {
            findings.push(build_finding(rule, observation, text, mode));
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
            let why =
                format!("siding does not know what `{wrapper}` runs; if this: {}", rule.reason);
            (rule.verdict.min(GuardVerdict::Ask), why)
        }
        (None, Observation::Construct { detail: Some(detail), .. }) => {
            (rule.verdict, format!("{}: {detail}", rule.reason))
        }
        // A question that nobody answers would hang, or be taken for a yes.
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

/// Returns the programs that a text runs as far as it says so, with their words: what the guard
/// sees behind wrappers. `?` stands for what only the running shell knows.
#[must_use]
pub fn resolve_commands(text: &str) -> Vec<(Span, String)> {
    let command_line = |call: &Call| {
        let words = call.args.iter().map(|arg| arg.text.as_str());
        let line =
            std::iter::once(call.program.as_str()).chain(words).collect::<Vec<_>>().join(" ");
        line.replace([UNKNOWN_MARKER, NONEMPTY_MARKER, PID_LOOKUP_MARKER, FIELD_SEPARATOR], "?")
    };
    let (observations, _) = walk(text);
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

/// Whether a rule or siding itself knows what a program does with its words.
fn is_known_or_has_rule(rules: &Rules, program: &str) -> bool {
    is_known(program) || rules.has_rule_for(program)
}
