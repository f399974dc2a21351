//! Combines the layers of rules, and checks which layer may add, change or lock a rule.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;

use super::error::{RuleError, RuleWarning};
use super::file::{RawException, RawMatcher, RawRule, RawRuleFile, Rule};
use super::glob::Glob;
use super::guard_verdict::GuardVerdict;
use super::matcher::Matcher;
use super::operands::ValueOptions;

/// The layers of rules, in order from the lowest to the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Rules that are compiled into the program.
    BuiltIn,
    /// The administrator's rules, which apply to every user and may lock rules.
    System,
    /// The user's rules, which may make any rule less strict unless it is locked.
    User,
    /// The rules of the repository, which may only make the guard stricter.
    Project,
}

impl Layer {
    /// Returns the name of the layer in listings: `built-in`, `system`, `user` or `project`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::System => "system",
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// The place where a rule was defined or its verdict was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSource {
    /// The layer, which determines what the file may change.
    pub layer: Layer,
    /// Path of the rule file; `None` for built-in rules.
    pub path: Option<PathBuf>,
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "`{}`", path.display()),
            None => write!(f, "{}", self.layer.name()),
        }
    }
}

/// The rules of all layers, with the verdicts and exceptions in effect.
#[derive(Debug, Clone)]
pub struct Rules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) value_options: ValueOptions,
    sets: BTreeMap<String, Vec<String>>,
    locked: Vec<String>,
    warnings: Vec<RuleWarning>,
    /// The matchers by program name. Matchers with a wildcard in the program name are in
    /// `glob_matchers`.
    index: HashMap<String, Vec<MatcherIndex>>,
    glob_matchers: Vec<MatcherIndex>,
}

/// The index of a rule in `rules`, and the index of one of its matchers in the rule.
type MatcherIndex = (usize, usize);

impl Rules {
    /// Returns an empty set of rules.
    pub(super) fn empty() -> Self {
        Self {
            rules: vec![],
            value_options: ValueOptions::default(),
            sets: BTreeMap::new(),
            locked: vec![],
            warnings: vec![],
            index: HashMap::new(),
            glob_matchers: vec![],
        }
    }

    /// Adds the rules, verdicts, exceptions and locks of a file. Files must be added from the
    /// lowest layer to the highest.
    ///
    /// A project file with an error is ignored with a warning. Ignoring the file is safe, because a
    /// project's rules can only make the guard stricter. If this function returned an error
    /// instead, a repository could disable the guard.
    ///
    /// # Errors
    ///
    /// Returns the first error in a file of a layer other than the project layer. If there is an
    /// error, no part of the file takes effect.
    pub fn add_layer(&mut self, text: &str, source: RuleSource) -> Result<(), RuleError> {
        let mut new = self.clone();
        match new.add_file(text, &source) {
            Ok(()) => *self = new,
            Err(error) if source.layer == Layer::Project => {
                self.warnings.push(RuleWarning::ProjectUnusable(error));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn add_file(&mut self, text: &str, source: &RuleSource) -> Result<(), RuleError> {
        let file = RawRuleFile::parse(text, source)?;
        if source.layer == Layer::BuiltIn {
            self.sets.extend(file.sets.clone());
            self.value_options.extend(file.values.clone());
        }
        if !file.locked.is_empty() && source.layer != Layer::System {
            return Err(RuleError::LockNotAllowed { source_: source.clone() });
        }
        for raw in &file.rule {
            let rule = self.compile_rule(raw, &file.sets, source)?;
            self.rules.push(rule);
        }
        for (name, verdict) in &file.verdicts {
            self.set_verdict(name, *verdict, source)?;
        }
        for exception in &file.except {
            self.add_exception(exception, &file.sets, source)?;
        }
        for name in file.locked {
            self.position(&name, source)?;
            self.locked.push(name);
        }
        if source.layer != Layer::BuiltIn {
            self.build_index();
        }
        Ok(())
    }

    fn compile_rule(
        &self,
        raw: &RawRule,
        sets: &BTreeMap<String, Vec<String>>,
        source: &RuleSource,
    ) -> Result<Rule, RuleError> {
        let name = raw.name.clone();
        if self.get(&name).is_some() {
            return Err(RuleError::DuplicateRule { source_: source.clone(), name });
        }
        let matchers = self.compile_matchers(&raw.when, &name, sets, source)?;
        Ok(Rule {
            name,
            verdict: raw.verdict,
            reason: raw.reason.clone(),
            suggestion: raw.suggestion.clone(),
            suggestion_for_person: raw.suggestion_for_person.clone(),
            background_only: raw.background,
            source: source.clone(),
            examples: raw.examples.clone(),
            matchers,
            exceptions: vec![],
        })
    }

    fn compile_matchers(
        &self,
        raw: &[RawMatcher],
        rule: &str,
        file_sets: &BTreeMap<String, Vec<String>>,
        source: &RuleSource,
    ) -> Result<Vec<Matcher>, RuleError> {
        // The sets of a file are visible only in this file, and built-in sets have precedence.
        // Therefore no file can change the meaning of a rule in another file.
        let compiled = raw.iter().map(|raw| Matcher::new(raw, &[&self.sets, file_sets]));
        let (source_, rule) = (source.clone(), rule.to_owned());
        match compiled.collect::<Result<Vec<_>, _>>() {
            Err(set) => Err(RuleError::UnknownSet { source_, rule, set }),
            Ok(matchers) if matchers.is_empty() || matchers.iter().any(Matcher::is_empty) => {
                Err(RuleError::EmptyMatcher { source_, rule })
            }
            Ok(_) if raw.iter().any(RawMatcher::combines_kinds) => {
                Err(RuleError::CombinedKinds { source_, rule })
            }
            Ok(matchers) => Ok(matchers),
        }
    }

    fn set_verdict(
        &mut self,
        name: &str,
        verdict: GuardVerdict,
        source: &RuleSource,
    ) -> Result<(), RuleError> {
        let at = self.position(name, source)?;
        let loosens = verdict < self.rules[at].verdict;
        if loosens && !self.may_loosen(name, name, source) {
            return Ok(());
        }
        self.rules[at].verdict = verdict;
        self.rules[at].source = source.clone();
        Ok(())
    }

    fn add_exception(
        &mut self,
        raw: &RawException,
        sets: &BTreeMap<String, Vec<String>>,
        source: &RuleSource,
    ) -> Result<(), RuleError> {
        let at = self.position(&raw.rule, source)?;
        let matchers = self.compile_matchers(&raw.when, &raw.rule, sets, source)?;
        let what = format!("except {}", raw.rule);
        if self.may_loosen(&raw.rule, &what, source) {
            self.rules[at].exceptions.extend(matchers);
        }
        Ok(())
    }

    fn may_loosen(&mut self, rule: &str, what: &str, source: &RuleSource) -> bool {
        let source_ = source.clone();
        if source.layer == Layer::Project {
            self.warnings.push(RuleWarning::LooseningIgnored { source_, what: what.to_owned() });
            return false;
        }
        if self.locked.iter().any(|locked| locked == rule) {
            self.warnings.push(RuleWarning::RuleLocked { source_, name: rule.to_owned() });
            return false;
        }
        true
    }

    fn position(&self, name: &str, source: &RuleSource) -> Result<usize, RuleError> {
        self.rules.iter().position(|rule| rule.name == name).ok_or_else(|| RuleError::UnknownRule {
            source_: source.clone(),
            name: name.to_owned(),
        })
    }

    pub(super) fn build_index(&mut self) {
        self.index.clear();
        self.glob_matchers.clear();
        for (rule, one) in self.rules.iter().enumerate() {
            for (matcher, globs) in one.matchers.iter().map(|one| &one.program).enumerate() {
                for name in globs.iter().filter_map(Glob::as_literal) {
                    let places = self.index.entry(name.to_owned()).or_default();
                    places.push((rule, matcher));
                }
                if globs.iter().any(|glob| glob.as_literal().is_none()) {
                    self.glob_matchers.push((rule, matcher));
                }
            }
        }
    }

    /// Returns the rules that may match a call of a program, each with a matcher that names the
    /// program.
    pub(crate) fn rules_for_program<'r>(
        &'r self,
        name: &str,
    ) -> impl Iterator<Item = (&'r Rule, &'r Matcher)> {
        let named = self.index.get(name).into_iter().flatten();
        let matches_program = move |place: &&MatcherIndex| {
            let globs = &self.rules[place.0].matchers[place.1].program;
            globs.iter().any(|glob| glob.as_literal().is_none() && glob.matches(name))
        };
        let candidates = named.chain(self.glob_matchers.iter().filter(matches_program));
        candidates
            .map(|(rule, matcher)| (&self.rules[*rule], &self.rules[*rule].matchers[*matcher]))
    }

    /// Returns whether a rule names a program. Rules that match every program do not count.
    pub(crate) fn has_rule_for(&self, program: &str) -> bool {
        let names = |glob: &Glob| glob.matches(program) && !glob.matches("");
        self.rules_for_program(program).any(|(_, matcher)| matcher.program.iter().any(names))
    }

    /// Returns the rule with this name, or `None` if no layer defines such a rule.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    /// Returns all rules, from the lowest layer to the highest.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Returns the warnings about ignored parts of the files.
    #[must_use]
    pub fn warnings(&self) -> &[RuleWarning] {
        &self.warnings
    }
}
