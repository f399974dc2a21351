//! Finds the rules that match an observation.

use super::{ExecMode, is_known_or_has_rule};
use crate::resolve::{Call, Observation, runs_arguments};
use crate::rules::{GuardVerdict, MatchInput, Matcher, Rule, Rules, can_match};

/// Returns the rules that match an observation. Omits rules whose verdict is `allow`, and in the
/// foreground also the rules that match only commands in the background.
pub(super) fn matching_rules<'r>(
    observation: &Observation,
    rules: &'r Rules,
    mode: ExecMode,
) -> Vec<&'r Rule> {
    let applies = |rule: &&Rule| {
        rule.verdict != GuardVerdict::Allow && (!rule.background_only || mode.is_background())
    };
    match observation {
        Observation::Call(call) => {
            // A call with `unknown_wrapper` is a guess. It was found in the code of another
            // language, or in the arguments of a program that may not run its arguments. A program
            // that siding knows or that a rule names needs no guess about its arguments, so the
            // call is ignored.
            if call
                .unknown_wrapper
                .as_deref()
                .is_some_and(|wrapper| is_known_or_has_rule(rules, wrapper))
            {
                return vec![];
            }
            if is_help_or_dry_run(call) {
                return vec![];
            }
            let input = MatchInput::new(call, &rules.value_options);
            let mut found: Vec<&Rule> = vec![];
            for (rule, matcher) in rules.rules_for_program(&call.program) {
                let is_known = found.iter().any(|one| std::ptr::eq(*one, rule));
                if !is_known && applies(&rule) && matcher.matches_call(&input) {
                    found.push(rule);
                }
            }
            let is_excepted = |rule: &Rule| {
                let excepts = |except: &Matcher| {
                    except.names_program(&call.program) && except.matches_call(&input)
                };
                rule.exceptions.iter().any(excepts)
            };
            found.retain(|rule| !is_excepted(rule));
            found
        }
        Observation::Assignment { .. }
        | Observation::FileRead { .. }
        | Observation::FileWrite { .. } => {
            let is_about = |rule: &&Rule| {
                let about = |matcher: &Matcher| {
                    can_match(matcher, observation) && matches_file(matcher, observation)
                };
                rule.matchers.iter().any(about) && !rule.exceptions.iter().any(about)
            };
            rules.rules.iter().filter(applies).filter(is_about).collect()
        }
        Observation::Construct { construct: shape, .. } => {
            let is_about = |rule: &&Rule| {
                let about = |matcher: &Matcher| matcher.matches_construct(*shape);
                rule.matchers.iter().any(about) && !rule.exceptions.iter().any(about)
            };
            rules.rules.iter().filter(applies).filter(is_about).collect()
        }
    }
}

/// Returns whether a program only prints its help, its version or a plan: `kubectl delete --help`,
/// `aws s3 rb help`, `helm uninstall x --dry-run`. The result is false for a program that runs its
/// arguments, because the option may be part of them.
fn is_help_or_dry_run(call: &Call) -> bool {
    let mut own_words =
        call.args.iter().map(|arg| arg.text.as_str()).take_while(|word| *word != "--");
    let operands = || call.args.iter().map(|arg| arg.text.as_str()).filter(|w| !w.starts_with('-'));
    let is_first =
        matches!(call.program.as_str(), "apt" | "docker" | "gh" | "git" | "kubectl" | "npm");
    // `--version` must be the last word: in `cargo yank --version 1.0.0` it is an option with a
    // value.
    let is_version = call.args.last().is_some_and(|last| last.text == "--version");
    let is_dry = |word: &str| {
        matches!(word, "--dry-run" | "--dryrun" | "--dry-run=client" | "--dry-run=server")
    };
    let asks = own_words.any(|word| matches!(word, "--help" | "-help") || is_dry(word))
        || is_version
        || is_first && operands().next() == Some("help")
        || call.program == "aws" && operands().next_back() == Some("help");
    asks && !runs_arguments(&call.program, call.args.iter().map(|arg| arg.text.as_str()))
}

fn matches_file(matcher: &Matcher, observation: &Observation) -> bool {
    match observation {
        Observation::Assignment { text } => matcher.matches_assignment(&text.text),
        Observation::FileRead { from, directory } => matcher.matches_read(&from.text, directory),
        Observation::FileWrite { to, is_append: appends, directory } => {
            matcher.matches_write(&to.text, directory, *appends)
        }
        Observation::Call(_) | Observation::Construct { .. } => false,
    }
}
