//! The judgement of a text.

use serde::{Deserialize, Serialize};

use crate::ast::Span;
use crate::parse::TEXT_MAX;
use crate::rules::{Rule, Rules};
use crate::unwrap::{ANY, Call, FOUND, NEXT, SURE, Seen, is_known, walk};

mod look;

use look::about;

/// What happens to a command.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing speaks against it.
    #[default]
    Allow,
    /// A person should look at it first.
    Ask,
    /// It must not run.
    Deny,
}

impl Verdict {
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
pub enum How {
    /// Somebody waits for it.
    Foreground,
    /// Nobody does.
    Background,
    /// Nobody does, and nobody is there to answer a question about it.
    Unattended,
}

impl How {
    /// Whether nobody waits for the command.
    #[must_use]
    pub const fn is_background(self) -> bool {
        matches!(self, Self::Background | Self::Unattended)
    }
}

/// What the guard says about a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judgement {
    /// The strictest of the findings, `allow` without any.
    pub verdict: Verdict,
    /// What speaks against it, in the order of the text.
    pub findings: Vec<Finding>,
    /// Whether all of the text was understood.
    pub parse: Parse,
}

/// Whether a text was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Parse {
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
    pub verdict: Verdict,
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
/// The text is read, never run. It takes at most [`TEXT_MAX`] bytes; a longer one is not
/// understood and asked about, and so is one that nests without end.
#[must_use]
pub fn judge(text: &str, rules: &Rules, how: How) -> Judgement {
    let (seen, is_understood) = walk(text);
    let mut findings: Vec<Finding> = vec![];
    for one in &seen {
        for rule in about(one, rules, how) {
            findings.push(finding(rule, one, text, how));
        }
    }
    findings.sort_by(|a, b| (a.span, &a.rule).cmp(&(b.span, &b.rule)));
    findings.dedup_by(|a, b| a.rule == b.rule && a.span == b.span);
    let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or_default();
    let is_clean = is_understood && text.len() <= TEXT_MAX;
    let parse = if is_clean { Parse::Clean } else { Parse::Partial };
    Judgement { verdict, findings, parse }
}

fn finding(rule: &Rule, seen: &Seen, text: &str, how: How) -> Finding {
    let (span, guess) = match seen {
        Seen::Call(call) => (call.span, call.guessed_from.as_deref()),
        Seen::Set { text } => (text.span, None),
        Seen::Read { from, .. } => (from.span, None),
        Seen::Write { to, .. } => (to.span, None),
        Seen::Shape { span, .. } => (*span, None),
    };
    let (verdict, why) = match (guess, seen) {
        (Some(wrapper), _) => {
            let why = format!("siding does not know what `{wrapper}` runs; if this: {}", rule.why);
            (rule.verdict.min(Verdict::Ask), why)
        }
        (None, Seen::Shape { detail: Some(detail), .. }) => {
            (rule.verdict, format!("{}: {detail}", rule.why))
        }
        // A question that nobody answers would hang, or be taken for a yes.
        (None, _) if rule.background && how == How::Unattended => (Verdict::Deny, rule.why.clone()),
        (None, _) => (rule.verdict, rule.why.clone()),
    };
    Finding {
        rule: rule.name.clone(),
        verdict,
        span,
        text: span.of(text).to_owned(),
        why,
        instead: rule.instead.clone(),
    }
}

/// Returns the programs that a text runs as far as it says so, with their words: what the guard
/// sees behind wrappers. `?` stands for what only the running shell knows.
#[must_use]
pub fn seen_calls(text: &str) -> Vec<(Span, String)> {
    let shown = |call: &Call| {
        let words = call.args.iter().map(|arg| arg.text.as_str());
        let line =
            std::iter::once(call.program.as_str()).chain(words).collect::<Vec<_>>().join(" ");
        line.replace([ANY, SURE, FOUND, NEXT], "?")
    };
    let (seen, _) = walk(text);
    let calls = seen.iter().filter_map(|seen| match seen {
        Seen::Call(call) if call.guessed_from.is_none() => Some((call.span, shown(call))),
        Seen::Call(_)
        | Seen::Set { .. }
        | Seen::Read { .. }
        | Seen::Write { .. }
        | Seen::Shape { .. } => None,
    });
    calls.collect()
}

/// Whether a rule or siding itself knows what a program does with its words.
fn knows(rules: &Rules, program: &str) -> bool {
    is_known(program) || rules.name(program)
}
