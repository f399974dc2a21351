//! When a rule is about something.

use std::collections::BTreeMap;

use super::file::RawMatcher;
use super::glob::{Glob, Kind};
use super::operands::{Looked, path};
use crate::unwrap::{Seen, Shape};

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
    sources: Vec<Glob>,
    words: Vec<Glob>,
    code: Vec<Glob>,
    from: Vec<Glob>,
    to: Vec<Glob>,
    sets: Vec<Glob>,
    reads: Vec<Glob>,
    writes: Vec<Glob>,
    overwrites: Vec<Glob>,
    shape: Option<Shape>,
    no_args: bool,
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
            not_args: all(&raw.not_args, Kind::Path)?,
            target: all(&raw.target, Kind::Path)?,
            sources: all(&raw.sources, Kind::Path)?,
            words: all(&raw.words, Kind::Text)?,
            code: all(&raw.code, Kind::Code)?,
            from: all(&raw.from, Kind::Text)?,
            to: all(&raw.to, Kind::Text)?,
            sets: all(&raw.sets, Kind::Text)?,
            reads: all(&raw.reads, Kind::Path)?,
            writes: all(&raw.writes, Kind::Path)?,
            overwrites: all(&raw.overwrites, Kind::Path)?,
            shape: raw.shape,
            no_args: raw.no_args,
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
        any(&self.reads, &path(from, directory))
    }

    pub(crate) fn is_about_write(&self, to: &str, directory: &str, appends: bool) -> bool {
        let to = path(to, directory);
        let is_one = any(&self.writes, &to) || !appends && any(&self.overwrites, &to);
        is_one && !any(&self.not_args, &to)
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
        let path = |word: &str| path(word, &call.directory);
        // As it is too: an operand need not be a path, but a name, a number, a mode. `*` is always
        // a place, and another one elsewhere.
        let is_plain = |glob: &Glob| call.directory == "." || !glob.is_place();
        let is_one = |globs: &[Glob], words: &[&str]| {
            let fits = |word: &&str| {
                let path = path(word);
                globs.iter().any(|glob| glob.matches(&path) || is_plain(glob) && glob.matches(word))
            };
            !globs.is_empty() && words.iter().any(fits)
        };
        let in_words = |globs: &[Glob]| call.args.iter().any(|arg| any(globs, &arg.text));
        let in_code = |text: &str| any(&self.code, &squeezed(text));
        let (sources, target) = looked.moved(operands);
        (self.args.is_empty() || is_one(&self.args, operands))
            && !is_one(&self.not_args, operands)
            && (self.target.is_empty() || target.is_some_and(|word| any(&self.target, &path(word))))
            && (self.sources.is_empty() || is_one(&self.sources, sources))
            && (self.words.is_empty() || in_words(&self.words))
            && (self.code.is_empty()
                || call.args.iter().any(|arg| in_code(&arg.text))
                || call.stdin.as_deref().is_some_and(in_code))
            && (self.from.is_empty() || call.upstream.iter().any(|name| any(&self.from, name)))
            && (self.to.is_empty() || call.downstream.iter().any(|name| any(&self.to, name)))
    }
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
