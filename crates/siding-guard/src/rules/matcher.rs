//! When a rule is about something.

use std::collections::BTreeMap;

use super::file::RawMatcher;
use super::glob::{Glob, Kind};
use super::operands::{Looked, path};
use crate::unwrap::{Call, Seen, Shape};

/// One way in which a rule is about something. Everything that is given holds.
#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    pub(super) program: Vec<Glob>,
    sub: Vec<Vec<Glob>>,
    flags: Vec<String>,
    without: Vec<String>,
    args: Vec<Glob>,
    not_args: Vec<Glob>,
    target: Vec<Glob>,
    words: Vec<Glob>,
    code: Vec<Glob>,
    from: Vec<Glob>,
    writes: Vec<Glob>,
    overwrites: Vec<Glob>,
    shape: Option<Shape>,
    no_args: bool,
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
            not_args: all(&raw.not_args, Kind::Path)?,
            target: all(&raw.target, Kind::Path)?,
            words: all(&raw.words, Kind::Text)?,
            code: all(&raw.code, Kind::Code)?,
            from: all(&raw.from, Kind::Text)?,
            writes: all(&raw.writes, Kind::Path)?,
            overwrites: all(&raw.overwrites, Kind::Path)?,
            shape: raw.shape,
            no_args: raw.no_args,
            unbounded: raw.unbounded,
        })
    }

    /// Whether there is anything that it can be about.
    pub(super) fn is_empty(&self) -> bool {
        self.program.is_empty()
            && self.writes.is_empty()
            && self.overwrites.is_empty()
            && self.shape.is_none()
    }

    pub(crate) fn is_about_shape(&self, wanted: Shape) -> bool {
        self.shape == Some(wanted)
    }

    pub(crate) fn is_about_write(&self, to: &str, directory: &str, appends: bool) -> bool {
        let to = path(to, directory);
        any(&self.writes, &to) || !appends && any(&self.overwrites, &to)
    }

    pub(crate) fn is_about_call(&self, looked: &Looked<'_>) -> bool {
        let call = looked.call;
        if !any(&self.program, &call.program) || self.unbounded && call.is_bounded {
            return false;
        }
        let Some(operands) = self.behind_sub(looked) else { return false };
        let shortened = |names: &String| looked.has(names, true);
        if !self.flags.iter().all(shortened)
            || self.without.iter().any(|names| looked.has(names, false))
            || self.no_args && !operands.is_empty()
        {
            return false;
        }
        self.has_words(call, operands)
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

    fn has_words(&self, call: &Call, operands: &[&str]) -> bool {
        let path = |word: &&str| path(word, &call.directory);
        // As it is too: an operand need not be a path.
        let is_one = |globs: &[Glob]| {
            operands
                .iter()
                .any(|word| any(globs, &path(word)) || call.directory == "." && any(globs, word))
        };
        let in_words = |globs: &[Glob]| call.args.iter().any(|arg| any(globs, &arg.text));
        let last = operands.last().filter(|_| operands.len() > 1);
        (self.args.is_empty() || is_one(&self.args))
            && !is_one(&self.not_args)
            && (self.target.is_empty() || last.is_some_and(|word| any(&self.target, &path(word))))
            && (self.words.is_empty() || in_words(&self.words))
            && (self.code.is_empty()
                || in_words(&self.code)
                || call.stdin.as_deref().is_some_and(|text| any(&self.code, text)))
            && (self.from.is_empty() || call.upstream.iter().any(|name| any(&self.from, name)))
    }
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
        Seen::Write { .. } => !matcher.writes.is_empty() || !matcher.overwrites.is_empty(),
        Seen::Shape { .. } => matcher.shape.is_some(),
    }
}
