//! The form of a rule file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::RuleError;
use super::layers::RuleSource;
use super::matcher::Matcher;
use crate::resolve::Construct;
use crate::verdict::GuardVerdict;

/// A rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its name, in lower case with hyphens.
    pub name: String,
    /// What happens to a command that it is about.
    pub verdict: GuardVerdict,
    /// Why.
    pub reason: String,
    /// What to do instead.
    pub suggestion: Option<String>,
    /// It is about commands alone that are about to run in the background.
    pub background_only: bool,
    /// Who made it, and who set its verdict.
    pub source: RuleSource,
    /// Commands that it is about, and some that look like them and that no rule is about.
    pub examples: Examples,
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) exceptions: Vec<Matcher>,
}

/// Commands that show what a rule does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Examples {
    /// The rule is about these.
    pub hit: Vec<String>,
    /// It is not about these.
    pub miss: Vec<String>,
}

/// A file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawRuleFile {
    /// Rules that nobody else may loosen.
    pub(super) locked: Vec<String>,
    pub(super) verdicts: BTreeMap<String, GuardVerdict>,
    /// Lists of patterns with names.
    pub(super) sets: BTreeMap<String, Vec<String>>,
    /// Options of programs whose value is the next word. Built-in alone.
    pub(super) values: BTreeMap<String, Vec<String>>,
    pub(super) rule: Vec<RawRule>,
    pub(super) except: Vec<RawException>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    pub(super) name: String,
    pub(super) verdict: GuardVerdict,
    pub(super) why: String,
    #[serde(default)]
    pub(super) instead: Option<String>,
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

/// All that is given must hold; of each list one entry.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawMatcher {
    /// Name without directories.
    pub(super) program: Vec<String>,
    /// First words: `push`, `compose down`.
    pub(super) sub: Vec<String>,
    /// Options that all must be there; `-f|--force` is one by two names.
    pub(super) flags: Vec<String>,
    /// Options of which none may be there.
    pub(super) without: Vec<String>,
    /// Words that are no options.
    pub(super) args: Vec<String>,
    /// Words that do not count for `args`.
    pub(super) args_except: Vec<String>,
    /// None of the words may be one of these.
    pub(super) not_args: Vec<String>,
    /// The last of several words that are no options, or the value of `--target-directory`: where
    /// `cp` copies to.
    pub(super) target: Vec<String>,
    /// The words before that one: what `mv` moves away.
    pub(super) sources: Vec<String>,
    /// Any words, options too.
    pub(super) words: Vec<String>,
    /// None of the words, options too, may be one of these.
    pub(super) not_words: Vec<String>,
    /// Files that a word names, also behind `@`, `=` or `:` in it, or that are standard input. What
    /// an option takes for a key of its own does not count.
    pub(super) mentions: Vec<String>,
    /// Any words, and what is given on standard input, in any case.
    pub(super) code: Vec<String>,
    /// The same once more: one of `code` and one of these.
    pub(super) code_too: Vec<String>,
    /// As `code`, but not in a string that SQL only compares with.
    pub(super) sql: Vec<String>,
    /// Programs that write into its standard input.
    pub(super) from: Vec<String>,
    /// Programs that read what it writes.
    pub(super) to: Vec<String>,
    /// Programs of which none reads what it writes.
    pub(super) not_to: Vec<String>,
    /// Variables that are set, `NAME=value`.
    pub(super) sets: Vec<String>,
    /// Files that a redirection reads.
    pub(super) reads: Vec<String>,
    /// Files that a redirection writes.
    pub(super) writes: Vec<String>,
    /// Files that a redirection empties first.
    pub(super) overwrites: Vec<String>,
    pub(super) shape: Option<Construct>,
    /// No words but options.
    pub(super) no_args: bool,
    /// Words that are no options, at most.
    pub(super) at_most: Option<usize>,
    /// Its standard input is neither a pipe nor a file.
    pub(super) terminal: bool,
    /// No `timeout` around it.
    pub(super) unbounded: bool,
}

impl RawRuleFile {
    pub(super) fn parse(text: &str, source: &RuleSource) -> Result<Self, RuleError> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| {
                let before = &text.as_bytes()[..span.start.min(text.len())];
                before.iter().filter(|byte| **byte == b'\n').count() + 1
            });
            let message = siding_model::text::one_line(error.message(), 200);
            RuleError::InvalidFile { source_: source.clone(), line, message }
        })
    }
}
