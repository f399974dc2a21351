//! The format of a rule file, as it is deserialized from TOML.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::RuleError;
use super::guard_verdict::GuardVerdict;
use super::layers::RuleSource;
use super::matcher::Matcher;
use crate::resolve::Construct;

/// A rule, which matches commands and defines the verdict on them, the reason, and an alternative.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The unique name, in lower case with hyphens.
    pub name: String,
    /// The verdict on commands that the rule matches.
    pub verdict: GuardVerdict,
    /// The effect of the command that needs a review, as a phrase for the message.
    pub reason: String,
    /// An action to take instead of the command; `None` if there is no general alternative.
    pub suggestion: Option<String>,
    /// The suggestion in the words for a person who runs the command; `None` if `suggestion` suits
    /// a person too.
    pub suggestion_for_person: Option<String>,
    /// Whether the rule matches only commands that run in the background.
    pub background_only: bool,
    /// The file that set the verdict with `[verdicts]`, or the file that defined the rule if no
    /// file set the verdict.
    pub source: RuleSource,
    /// Commands that the rule must match, and similar commands that it must not match.
    pub examples: Examples,
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) exceptions: Vec<Matcher>,
}

/// Commands with which a rule is tested, and which document the commands that the rule matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Examples {
    /// Commands that the rule must match.
    #[serde(rename = "match")]
    pub matching: Vec<String>,
    /// Similar commands that the rule must not match.
    pub mismatch: Vec<String>,
}

/// The contents of a rule file, before names and patterns are resolved.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawRuleFile {
    /// Names of the rules that no higher layer may make less strict.
    pub(super) locked: Vec<String>,
    pub(super) verdicts: BTreeMap<String, GuardVerdict>,
    /// Named lists of patterns, to which the rules of this file refer as `@name`. The sets of the
    /// built-in files are available in all files.
    pub(super) sets: BTreeMap<String, Vec<String>>,
    /// For each program, the options that have the next word as their value. This table has an
    /// effect only in built-in files.
    pub(super) values: BTreeMap<String, Vec<String>>,
    pub(super) rule: Vec<RawRule>,
    pub(super) except: Vec<RawException>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    pub(super) name: String,
    pub(super) verdict: GuardVerdict,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) suggestion: Option<String>,
    #[serde(default)]
    pub(super) suggestion_for_person: Option<String>,
    #[serde(default)]
    pub(super) background: bool,
    pub(super) when: Vec<RawMatcher>,
    #[serde(default)]
    pub(super) examples: Examples,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawException {
    pub(super) rule: String,
    pub(super) when: Vec<RawMatcher>,
}

/// The conditions of a match, all of which are about the same kind of observation. All conditions
/// that are present must hold. Unless the comment of a field says otherwise, a list holds if at
/// least one of its entries holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawMatcher {
    /// The program's name without directories.
    pub(super) program: Vec<String>,
    /// The first operands: `push`, `compose down`.
    pub(super) sub: Vec<String>,
    /// Options that must all be present; `-f|--force` are two names of one option.
    pub(super) flags: Vec<String>,
    /// Options that must all be absent.
    pub(super) without: Vec<String>,
    /// Operands, which are the words other than options and their values.
    pub(super) args: Vec<String>,
    /// Operands with which `args` is not compared.
    pub(super) args_except: Vec<String>,
    /// Operands that must all be absent. With `writes` or `overwrites`, files that the redirection
    /// must not write.
    pub(super) not_args: Vec<String>,
    /// The last of several operands, or the value of `--target-directory`: the destination of `cp`.
    pub(super) target: Vec<String>,
    /// The operands before the target: the files that `mv` moves.
    pub(super) sources: Vec<String>,
    /// Words of any kind, including options.
    pub(super) words: Vec<String>,
    /// Words that must all be absent, including options.
    pub(super) not_words: Vec<String>,
    /// Files that a word names, including a name after `@`, `=`, `:` or `<` in the word, and the
    /// file that is standard input. Key files that the program itself uses are ignored.
    pub(super) mentions: Vec<String>,
    /// Words of any kind, and the content of standard input. Letter case is ignored.
    pub(super) code: Vec<String>,
    /// A second condition like `code`. If both conditions are present, both must hold.
    pub(super) code_too: Vec<String>,
    /// A condition like `code` for SQL. Strings that are only an operand of a comparison are
    /// ignored.
    pub(super) sql: Vec<String>,
    /// Programs that precede the call in its pipeline.
    pub(super) from: Vec<String>,
    /// Programs that read the output of the call.
    pub(super) to: Vec<String>,
    /// Programs that must not read the output of the call.
    pub(super) not_to: Vec<String>,
    /// Variables that are set, as `NAME=value`.
    pub(super) sets: Vec<String>,
    /// Files that a redirection reads.
    pub(super) reads: Vec<String>,
    /// Files that a redirection writes.
    pub(super) writes: Vec<String>,
    /// Files that a redirection truncates.
    pub(super) overwrites: Vec<String>,
    /// A construct of the text. A construct has no program and no words, so no other condition can
    /// hold for it.
    pub(super) shape: Option<Construct>,
    /// Whether the call must have no operands.
    pub(super) no_args: bool,
    /// Maximum number of operands of the call; `None` means no maximum.
    pub(super) at_most: Option<usize>,
    /// Whether standard input must be neither a pipe nor a file.
    pub(super) terminal: bool,
    /// Whether the call must have no wrapper that limits its run time.
    pub(super) unbounded: bool,
}

impl RawMatcher {
    /// Returns whether the matcher has conditions on several kinds of observations. An observation
    /// has only one kind, so these conditions could never hold together.
    pub(super) fn combines_kinds(&self) -> bool {
        let call = Self {
            sets: vec![],
            reads: vec![],
            writes: vec![],
            overwrites: vec![],
            shape: None,
            ..self.clone()
        };
        let assignment = Self { sets: self.sets.clone(), ..Self::default() };
        let read = Self { reads: self.reads.clone(), ..Self::default() };
        let write = Self {
            writes: self.writes.clone(),
            overwrites: self.overwrites.clone(),
            not_args: self.not_args.clone(),
            ..Self::default()
        };
        let construct = Self { shape: self.shape, ..Self::default() };
        [call, assignment, read, write, construct].iter().all(|alone| alone != self)
    }
}

impl RawRuleFile {
    pub(super) fn parse(text: &str, source: &RuleSource) -> Result<Self, RuleError> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| {
                let before = &text.as_bytes()[..span.start.min(text.len())];
                before.iter().filter(|byte| **byte == b'\n').count() + 1
            });
            let message = match renamed_field(error.message()) {
                Some((old, new)) => format!("the field `{old}` is now called `{new}`"),
                None => siding_model::text::one_line(error.message(), 200),
            };
            RuleError::InvalidFile { source_: source.clone(), line, message }
        })
    }
}

/// Earlier names of the fields of a rule, each with the current name.
const RENAMED_FIELDS: [(&str, &str); 4] =
    [("why", "reason"), ("instead", "suggestion"), ("hit", "match"), ("miss", "mismatch")];

/// Returns the earlier and the current name of a renamed field, if a parser message is about its
/// earlier name.
fn renamed_field(message: &str) -> Option<(&'static str, &'static str)> {
    let is_named = |(old, _): &(&str, &str)| message.starts_with(&format!("unknown field `{old}`"));
    RENAMED_FIELDS.into_iter().find(is_named)
}
