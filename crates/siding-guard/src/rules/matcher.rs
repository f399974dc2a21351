//! When a rule is about something.

use std::collections::BTreeMap;

use super::file::RawMatcher;
use super::glob::{Glob, Kind};
use super::operands::{Looked, forms};
use super::sql::without_compared_strings;
use crate::unwrap::{Seen, Shape};

/// One way in which a rule is about something. Everything that is given holds.
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
    shape: Option<Shape>,
    no_args: bool,
    at_most: Option<usize>,
    terminal: bool,
    unbounded: bool,
}

impl Matcher {
    /// Compiles one. The name of a set that is nowhere is the error.
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
                    globs.extend(compiled(pattern, kind));
                    continue;
                };
                let set = sets.iter().find_map(|sets| sets.get(name)).ok_or(name)?;
                globs.extend(set.iter().flat_map(|pattern| compiled(pattern, kind)));
            }
            Ok::<_, String>(globs)
        };
        let words = |sub: &String| sub.split(' ').map(|word| Glob::new(word, Kind::Text)).collect();
        Ok(Self {
            program: all(&raw.program, Kind::Text)?,
            sub: raw.sub.iter().map(words).collect(),
            flags: raw.flags.clone(),
            without: raw.without.clone(),
            args: all(&raw.args, Kind::Path)?,
            args_except: all(&raw.args_except, Kind::Path)?,
            not_args: all(&raw.not_args, Kind::Path)?,
            target: all(&raw.target, Kind::Path)?,
            sources: all(&raw.sources, Kind::Path)?,
            words: all(&raw.words, Kind::Text)?,
            not_words: all(&raw.not_words, Kind::Text)?,
            mentions: all(&raw.mentions, Kind::Path)?,
            code: all(&raw.code, Kind::Code)?,
            code_too: all(&raw.code_too, Kind::Code)?,
            sql: all(&raw.sql, Kind::Code)?,
            from: all(&raw.from, Kind::Text)?,
            to: all(&raw.to, Kind::Text)?,
            not_to: all(&raw.not_to, Kind::Text)?,
            sets: all(&raw.sets, Kind::Text)?,
            reads: all(&raw.reads, Kind::Path)?,
            writes: all(&raw.writes, Kind::Path)?,
            overwrites: all(&raw.overwrites, Kind::Path)?,
            shape: raw.shape,
            no_args: raw.no_args,
            at_most: raw.at_most,
            terminal: raw.terminal,
            unbounded: raw.unbounded,
        })
    }

    /// Whether there is anything that it can be about.
    pub(super) fn is_empty(&self) -> bool {
        self.program.is_empty()
            && self.sets.is_empty()
            && self.reads.is_empty()
            && self.writes.is_empty()
            && self.overwrites.is_empty()
            && self.shape.is_none()
    }

    pub(crate) fn is_about_shape(&self, wanted: Shape) -> bool {
        self.shape == Some(wanted)
    }

    pub(crate) fn is_about_set(&self, text: &str) -> bool {
        any(&self.sets, text)
    }

    pub(crate) fn is_about_read(&self, from: &str, directory: &str) -> bool {
        forms(from, directory).iter().any(|from| any(&self.reads, from))
    }

    pub(crate) fn is_about_write(&self, to: &str, directory: &str, appends: bool) -> bool {
        let forms = forms(to, directory);
        let is_one = |to: &String| any(&self.writes, to) || !appends && any(&self.overwrites, to);
        forms.iter().any(is_one) && !forms.iter().any(|to| any(&self.not_args, to))
    }

    /// Whether it names a program.
    pub(crate) fn names(&self, program: &str) -> bool {
        any(&self.program, program)
    }

    /// Whether it is about a call of a program that it names.
    pub(crate) fn is_about_call(&self, looked: &Looked<'_>) -> bool {
        let call = looked.call;
        if self.unbounded && call.is_bounded {
            return false;
        }
        let Some(operands) = self.behind_sub(looked) else { return false };
        let shortened = |names: &String| looked.has(names, true);
        if !self.flags.iter().all(shortened)
            || self.without.iter().any(|names| looked.has(names, false))
            || self.no_args && named(operands) > 0
            || self.at_most.is_some_and(|most| named(operands) > most)
            // The cheap ones first: most rules about any program are about what reads its output.
            || !self.to.is_empty() && !call.downstream.iter().any(|name| any(&self.to, name))
            || call.downstream.iter().any(|name| any(&self.not_to, name))
            || self.terminal && call.has_input
        {
            return false;
        }
        self.has_words(looked, operands)
    }

    /// Returns the operands behind the subcommand, `None` for another one.
    fn behind_sub<'l>(&self, looked: &'l Looked<'_>) -> Option<&'l [&'l str]> {
        let operands = looked.operands.as_slice();
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

    fn has_words<'l>(&self, looked: &'l Looked<'_>, operands: &[&'l str]) -> bool {
        let call = looked.call;
        let forms = |word: &str| looked.forms(word);
        // As it is too: an operand need not be a path, but a name, a number, a mode. `*` is always
        // a place, and another one elsewhere.
        let is_plain = |glob: &Glob| call.directory == "." || !glob.is_place();
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
        let in_words = |globs: &[Glob]| call.args.iter().any(|arg| any(globs, &arg.text));
        let texts = || call.args.iter().map(|arg| arg.text.as_str()).chain(call.stdin.as_deref());
        let in_code = |globs: &[Glob]| texts().any(|text| any(globs, &squeezed(text)));
        let in_sql = |globs: &[Glob]| {
            texts().any(|text| any(globs, &squeezed(&without_compared_strings(text))))
        };
        let is_place = |globs: &[Glob], word: &str| forms(word).iter().any(|form| any(globs, form));
        let (sources, target) = looked.moved(operands);
        (self.args.is_empty() || is_arg())
            && !is_one(&self.not_args, operands)
            && (self.target.is_empty() || target.is_some_and(|word| is_place(&self.target, word)))
            && (self.sources.is_empty() || is_one(&self.sources, sources))
            && (self.words.is_empty() || in_words(&self.words))
            && !in_words(&self.not_words)
            && (self.code.is_empty() || in_code(&self.code))
            && (self.code_too.is_empty() || in_code(&self.code_too))
            && (self.sql.is_empty() || in_sql(&self.sql))
            && (self.from.is_empty() || call.upstream.iter().any(|name| any(&self.from, name)))
            && (self.mentions.is_empty()
                || looked.mentioned().any(|word| is_place(&self.mentions, word)))
    }
}

/// Returns how many words name something: `-` is standard input.
fn named(operands: &[&str]) -> usize {
    operands.iter().filter(|word| **word != "-").count()
}

/// Returns code with one blank for each row of them, and for the comments of SQL and C.
fn squeezed(code: &str) -> String {
    code.replace("/**/", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn any(globs: &[Glob], text: &str) -> bool {
    globs.iter().any(|glob| glob.matches(text))
}

/// Compiles a pattern; the path `x/**` is also about `x` itself.
fn compiled(pattern: &str, kind: Kind) -> impl Iterator<Item = Glob> {
    let stem = pattern.strip_suffix("/**").filter(|stem| kind == Kind::Path && !stem.is_empty());
    let stem = stem.map(|stem| Glob::new(stem, kind));
    std::iter::once(Glob::new(pattern, kind)).chain(stem)
}

/// Whether a matcher can be about what was seen at all.
pub(crate) fn concerns(matcher: &Matcher, seen: &Seen) -> bool {
    match seen {
        Seen::Call(_) => !matcher.program.is_empty(),
        Seen::Set { .. } => !matcher.sets.is_empty(),
        Seen::Read { .. } => !matcher.reads.is_empty(),
        Seen::Write { .. } => !matcher.writes.is_empty() || !matcher.overwrites.is_empty(),
        Seen::Shape { .. } => matcher.shape.is_some(),
    }
}
