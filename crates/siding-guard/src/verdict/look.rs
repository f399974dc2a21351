//! Which rules are about what was seen.

use super::{How, Verdict, knows};
use crate::rules::{Looked, Matcher, Rule, Rules, concerns};
use crate::unwrap::{Call, Seen, runs_words};

/// Returns the rules that are about something.
pub(super) fn about<'r>(seen: &Seen, rules: &'r Rules, how: How) -> Vec<&'r Rule> {
    let applies =
        |rule: &&Rule| rule.verdict != Verdict::Allow && (!rule.background || how.is_background());
    match seen {
        Seen::Call(call) => {
            // A wrapper with a rule of its own is known, and not guessed about.
            if call.guessed_from.as_deref().is_some_and(|wrapper| knows(rules, wrapper)) {
                return vec![];
            }
            if asks_for_help(call) {
                return vec![];
            }
            let looked = Looked::new(call, &rules.values);
            let mut found: Vec<&Rule> = vec![];
            for (rule, matcher) in rules.about_program(&call.program) {
                let is_known = found.iter().any(|one| std::ptr::eq(*one, rule));
                if !is_known && applies(&rule) && matcher.is_about_call(&looked) {
                    found.push(rule);
                }
            }
            let is_excepted = |rule: &Rule| {
                let excepts =
                    |except: &Matcher| except.names(&call.program) && except.is_about_call(&looked);
                rule.exceptions.iter().any(excepts)
            };
            found.retain(|rule| !is_excepted(rule));
            found
        }
        Seen::Set { .. } | Seen::Read { .. } | Seen::Write { .. } => {
            let is_about = |rule: &&Rule| {
                let about =
                    |matcher: &Matcher| concerns(matcher, seen) && is_about_file(matcher, seen);
                rule.matchers.iter().any(about) && !rule.exceptions.iter().any(about)
            };
            rules.rules.iter().filter(applies).filter(is_about).collect()
        }
        Seen::Shape { shape, .. } => {
            let is_about =
                |rule: &&Rule| rule.matchers.iter().any(|matcher| matcher.is_about_shape(*shape));
            rules.rules.iter().filter(applies).filter(is_about).collect()
        }
    }
}

/// Whether a program only says what it can or would do: `kubectl delete --help`, `aws s3 rb help`,
/// `helm uninstall x --dry-run`. Not for programs that give such words to others.
fn asks_for_help(call: &Call) -> bool {
    let mut own = call.args.iter().map(|arg| arg.text.as_str()).take_while(|word| *word != "--");
    let operands = || call.args.iter().map(|arg| arg.text.as_str()).filter(|w| !w.starts_with('-'));
    let is_first =
        matches!(call.program.as_str(), "apt" | "docker" | "gh" | "git" | "kubectl" | "npm");
    // `cargo yank --version 1.0.0`: there it has a value.
    let is_version = call.args.last().is_some_and(|last| last.text == "--version");
    let is_dry = |word: &str| {
        matches!(word, "--dry-run" | "--dryrun" | "--dry-run=client" | "--dry-run=server")
    };
    let asks = own.any(|word| matches!(word, "--help" | "-help") || is_dry(word))
        || is_version
        || is_first && operands().next() == Some("help")
        || call.program == "aws" && operands().next_back() == Some("help");
    asks && !runs_words(&call.program, call.args.iter().map(|arg| arg.text.as_str()))
}

fn is_about_file(matcher: &Matcher, seen: &Seen) -> bool {
    match seen {
        Seen::Set { text } => matcher.is_about_set(&text.text),
        Seen::Read { from, directory } => matcher.is_about_read(&from.text, directory),
        Seen::Write { to, appends, directory } => {
            matcher.is_about_write(&to.text, directory, *appends)
        }
        Seen::Call(_) | Seen::Shape { .. } => false,
    }
}
