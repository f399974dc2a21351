//! Compiles the conditions of rules, and compares them with observations.

use std::collections::BTreeMap;

use super::file::RawMatcher;
use super::glob::{Glob, GlobKind};
use super::operands::{MatchInput, normalized_forms};
use super::sql::strip_compared_strings;
use crate::resolve::{Construct, Observation};

/// A compiled entry of a rule's `when` list. All of its conditions apply to one kind of
/// observation, and each condition that is set must hold.
#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    pub(super) program: Vec<Glob>,
    sub: Vec<Vec<Glob>>,
    flags: Vec<String>,
    without: Vec<String>,
    args: Vec<Glob>,
    args_except: Vec<Glob>,
    not_args: Vec<Glob>,
    target: Vec<Glob>,
    sources: Vec<Glob>,
    words: Vec<Glob>,
    not_words: Vec<Glob>,
    mentions: Vec<Glob>,
    code: Vec<Glob>,
    code_too: Vec<Glob>,
    sql: Vec<Glob>,
    from: Vec<Glob>,
    to: Vec<Glob>,
    not_to: Vec<Glob>,
    sets: Vec<Glob>,
    reads: Vec<Glob>,
    writes: Vec<Glob>,
    overwrites: Vec<Glob>,
    shape: Option<Construct>,
    no_args: bool,
    at_most: Option<usize>,
    terminal: bool,
    unbounded: bool,
}

impl Matcher {
    /// Compiles a matcher whose patterns may name the sets in `sets`. The error is the name of a
    /// set that does not exist.
    pub(super) fn new(
        raw: &RawMatcher,
        sets: &[&BTreeMap<String, Vec<String>>],
    ) -> Result<Self, String> {
        let all = |patterns: &[String], kind| {
            let mut globs = vec![];
            for pattern in patterns {
                let is_name =
                    |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                let Some(name) = pattern.strip_prefix('@').filter(is_name) else {
                    globs.extend(compile_pattern(pattern, kind));
                    continue;
                };
                let set = sets.iter().find_map(|sets| sets.get(name)).ok_or(name)?;
                globs.extend(set.iter().flat_map(|pattern| compile_pattern(pattern, kind)));
            }
            Ok::<_, String>(globs)
        };
        let words =
            |sub: &String| sub.split(' ').map(|word| Glob::new(word, GlobKind::Text)).collect();
        Ok(Self {
            program: all(&raw.program, GlobKind::Text)?,
            sub: raw.sub.iter().map(words).collect(),
            flags: raw.flags.clone(),
            without: raw.without.clone(),
            args: all(&raw.args, GlobKind::Path)?,
            args_except: all(&raw.args_except, GlobKind::Path)?,
            not_args: all(&raw.not_args, GlobKind::Path)?,
            target: all(&raw.target, GlobKind::Path)?,
            sources: all(&raw.sources, GlobKind::Path)?,
            words: all(&raw.words, GlobKind::Text)?,
            not_words: all(&raw.not_words, GlobKind::Text)?,
            mentions: all(&raw.mentions, GlobKind::Path)?,
            code: all(&raw.code, GlobKind::Code)?,
            code_too: all(&raw.code_too, GlobKind::Code)?,
            sql: all(&raw.sql, GlobKind::Code)?,
            from: all(&raw.from, GlobKind::Text)?,
            to: all(&raw.to, GlobKind::Text)?,
            not_to: all(&raw.not_to, GlobKind::Text)?,
            sets: all(&raw.sets, GlobKind::Text)?,
            reads: all(&raw.reads, GlobKind::Path)?,
            writes: all(&raw.writes, GlobKind::Path)?,
            overwrites: all(&raw.overwrites, GlobKind::Path)?,
            shape: raw.shape,
            no_args: raw.no_args,
            at_most: raw.at_most,
            terminal: raw.terminal,
            unbounded: raw.unbounded,
        })
    }

    /// Returns whether the matcher has no condition that selects observations, so that it would
    /// match no observation.
    pub(super) fn is_empty(&self) -> bool {
        self.program.is_empty()
            && self.sets.is_empty()
            && self.reads.is_empty()
            && self.writes.is_empty()
            && self.overwrites.is_empty()
            && self.shape.is_none()
    }

    pub(crate) fn matches_construct(&self, wanted: Construct) -> bool {
        self.shape == Some(wanted)
    }

    pub(crate) fn matches_assignment(&self, text: &str) -> bool {
        any_glob_matches(&self.sets, text)
    }

    pub(crate) fn matches_read(&self, from: &str, directory: &str) -> bool {
        normalized_forms(from, directory).iter().any(|from| any_glob_matches(&self.reads, from))
    }

    pub(crate) fn matches_write(&self, to: &str, directory: &str, appends: bool) -> bool {
        let forms = normalized_forms(to, directory);
        let is_one = |to: &String| {
            any_glob_matches(&self.writes, to) || !appends && any_glob_matches(&self.overwrites, to)
        };
        forms.iter().any(is_one) && !forms.iter().any(|to| any_glob_matches(&self.not_args, to))
    }

    /// Returns whether the matcher names a program.
    pub(crate) fn names_program(&self, program: &str) -> bool {
        any_glob_matches(&self.program, program)
    }

    /// Returns whether the matcher matches a call. The caller must have checked the program's name.
    pub(crate) fn matches_call(&self, input: &MatchInput<'_>) -> bool {
        let call = input.call;
        if self.unbounded && call.has_timeout {
            return false;
        }
        let Some(operands) = self.operands_after_subcommand(input) else { return false };
        let has_flag = |names: &String| input.has_option(names, true);
        if !self.flags.iter().all(has_flag)
            || self.without.iter().any(|names| input.has_option(names, false))
            || self.no_args && count_named_operands(operands) > 0
            || self.at_most.is_some_and(|most| count_named_operands(operands) > most)
            // The conditions that are cheap to check come first. Most rules that match every
            // program have the condition `to`, which rejects most calls.
            || !self.to.is_empty() && !call.downstream.iter().any(|name| any_glob_matches(&self.to, name))
            || call.downstream.iter().any(|name| any_glob_matches(&self.not_to, name))
            || self.terminal && call.has_redirected_stdin
        {
            return false;
        }
        self.matches_words(input, operands)
    }

    /// Returns the operands after the subcommand, or `None` if the call has another subcommand.
    fn operands_after_subcommand<'l>(&self, input: &'l MatchInput<'_>) -> Option<&'l [&'l str]> {
        let operands = input.operands.as_slice();
        if self.sub.is_empty() {
            return Some(operands);
        }
        let is_it = |sub: &&Vec<Glob>| {
            sub.len() <= operands.len()
                && sub.iter().zip(operands).all(|(glob, word)| glob.matches(word))
        };
        let sub = self.sub.iter().find(is_it)?;
        Some(&operands[sub.len()..])
    }

    fn matches_words<'l>(&self, input: &'l MatchInput<'_>, operands: &[&'l str]) -> bool {
        let call = input.call;
        let forms = |word: &str| input.path_forms(word);
        // The unchanged word is also compared, because an operand may be a name, a number or a mode
        // instead of a path. After a `cd`, the unchanged word is not compared with patterns that
        // depend on the working directory.
        let is_plain = |glob: &Glob| call.directory == "." || !glob.depends_on_cwd();
        let fits = |globs: &[Glob], word: &str| {
            let forms = forms(word);
            let is_form = |glob: &Glob| forms.iter().any(|form| glob.matches(form));
            globs.iter().any(|glob| is_form(glob) || is_plain(glob) && glob.matches(word))
        };
        let is_one = |globs: &[Glob], words: &[&str]| {
            !globs.is_empty() && words.iter().any(|word| fits(globs, word))
        };
        let is_arg = || {
            let counts =
                |word: &&&str| self.args_except.is_empty() || !fits(&self.args_except, word);
            operands.iter().filter(counts).any(|word| fits(&self.args, word))
        };
        let in_words =
            |globs: &[Glob]| call.args.iter().any(|arg| any_glob_matches(globs, &arg.text));
        let texts =
            || call.args.iter().map(|arg| arg.text.as_str()).chain(call.stdin_text.as_deref());
        let in_code = |globs: &[Glob]| {
            texts().any(|text| any_glob_matches(globs, &collapse_whitespace(text)))
        };
        let in_sql = |globs: &[Glob]| {
            texts().any(|text| {
                any_glob_matches(globs, &collapse_whitespace(&strip_compared_strings(text)))
            })
        };
        let matches_path = |globs: &[Glob], word: &str| {
            forms(word).iter().any(|form| any_glob_matches(globs, form))
        };
        let (sources, target) = input.sources_and_target(operands);
        (self.args.is_empty() || is_arg())
            && !is_one(&self.not_args, operands)
            && (self.target.is_empty()
                || target.is_some_and(|word| matches_path(&self.target, word)))
            && (self.sources.is_empty() || is_one(&self.sources, sources))
            && (self.words.is_empty() || in_words(&self.words))
            && !in_words(&self.not_words)
            && (self.code.is_empty() || in_code(&self.code))
            && (self.code_too.is_empty() || in_code(&self.code_too))
            && (self.sql.is_empty() || in_sql(&self.sql))
            && (self.from.is_empty()
                || call.upstream.iter().any(|name| any_glob_matches(&self.from, name)))
            && (self.mentions.is_empty()
                || input.file_candidates().any(|word| matches_path(&self.mentions, word)))
    }
}

/// Returns the number of operands without `-`, which denotes standard input.
fn count_named_operands(operands: &[&str]) -> usize {
    operands.iter().filter(|word| **word != "-").count()
}

/// Replaces consecutive whitespace and empty comments (`/**/`) by one space.
fn collapse_whitespace(code: &str) -> String {
    code.replace("/**/", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn any_glob_matches(globs: &[Glob], text: &str) -> bool {
    globs.iter().any(|glob| glob.matches(text))
}

/// Compiles a pattern. A path pattern `x/**` yields a second pattern for `x` itself.
fn compile_pattern(pattern: &str, kind: GlobKind) -> impl Iterator<Item = Glob> {
    let stem =
        pattern.strip_suffix("/**").filter(|stem| kind == GlobKind::Path && !stem.is_empty());
    let stem = stem.map(|stem| Glob::new(stem, kind));
    std::iter::once(Glob::new(pattern, kind)).chain(stem)
}

/// Returns whether a matcher has a condition on this kind of observation.
pub(crate) fn can_match(matcher: &Matcher, observation: &Observation) -> bool {
    match observation {
        Observation::Call(_) => !matcher.program.is_empty(),
        Observation::Assignment { .. } => !matcher.sets.is_empty(),
        Observation::FileRead { .. } => !matcher.reads.is_empty(),
        Observation::FileWrite { .. } => {
            !matcher.writes.is_empty() || !matcher.overwrites.is_empty()
        }
        Observation::Construct { .. } => matcher.shape.is_some(),
    }
}
