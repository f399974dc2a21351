//! Real commands, classified by whether a person should see them before they run.

use siding_guard::{ExecMode, GuardVerdict, Rules, judge};

use crate::prompt_corpus::unescape;

const DANGEROUS: &str = include_str!("../corpus/dangerous.txt");
const HARMLESS: &str = include_str!("../corpus/harmless.txt");

/// A command of a corpus, with the mode in which the guard judges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardSample {
    /// The shell text, with escapes decoded.
    pub text: String,
    /// Where the command would run; lines that start with `[bg] ` are background commands.
    pub mode: ExecMode,
}

impl GuardSample {
    /// Returns whether the guard asks about the command or denies it.
    #[must_use]
    pub fn is_stopped(&self, rules: &Rules) -> bool {
        judge(&self.text, rules, self.mode).verdict != GuardVerdict::Allow
    }
}

/// Returns the commands that a person should see before they run.
#[must_use]
pub fn dangerous_commands() -> Vec<GuardSample> {
    parse_samples(DANGEROUS)
}

/// Returns the commands that need no review.
#[must_use]
pub fn harmless_commands() -> Vec<GuardSample> {
    parse_samples(HARMLESS)
}

fn parse_samples(corpus: &str) -> Vec<GuardSample> {
    let lines = corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let sample = |line: &str| match line.strip_prefix("[bg] ") {
        Some(text) => GuardSample { text: unescape(text), mode: ExecMode::Background },
        None => GuardSample { text: unescape(line), mode: ExecMode::Foreground },
    };
    lines.map(sample).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn rules_stop_all_dangerous_and_at_most_1_percent_of_harmless_samples() {
        let (dangerous, harmless) = (dangerous_commands(), harmless_commands());
        assert!(dangerous.len() >= 300, "{}", dangerous.len());
        assert!(harmless.len() >= 600, "{}", harmless.len());
        let rules = Rules::builtin();
        let missed: Vec<_> = dangerous.iter().filter(|one| !one.is_stopped(&rules)).collect();
        assert!(missed.is_empty(), "{missed:#?}");
        let stopped: Vec<_> = harmless.iter().filter(|one| one.is_stopped(&rules)).collect();
        assert!(stopped.len() * 100 <= harmless.len(), "{stopped:#?}");
    }

    #[test]
    fn the_corpus_has_no_duplicate_commands() {
        for samples in [dangerous_commands(), harmless_commands()] {
            let mut texts: Vec<_> =
                samples.iter().map(|one| (&one.text, one.mode == ExecMode::Background)).collect();
            texts.sort_unstable();
            for pair in texts.windows(2) {
                assert_ne!(pair[0], pair[1]);
            }
        }
    }

    /// If only one of the guard's parser and bash accepts a text, the guard may judge a different
    /// command from the one that bash runs.
    #[test]
    fn the_parser_and_bash_accept_the_same_texts() {
        let probe = Command::new("bash").arg("--version").stdout(Stdio::null()).status();
        if probe.is_err() {
            eprintln!("left out: there is no bash to compare with");
            return;
        }
        let rules = Rules::builtin();
        let mut samples = [dangerous_commands(), harmless_commands()].concat();
        let broken = [
            "echo \"",
            "fi",
            "if ls",
            "case x in",
            "f() {",
            "( ls",
            "ls )",
            "{ ls",
            "ls | | cat",
            "ls &&",
            "&& ls",
            "for",
            "do ls; done",
            "[[ a",
            "<<",
            "ls > ",
            ";;",
            "echo $(",
            "a=(b",
        ];
        samples.extend(
            broken.map(|text| GuardSample { text: text.into(), mode: ExecMode::Foreground }),
        );
        let accepted = texts_accepted_by_bash(&samples);
        assert_eq!(accepted.len(), samples.len());
        let mut mismatches = vec![];
        for (sample, is_accepted) in samples.iter().zip(accepted) {
            let judgement = judge(&sample.text, &rules, sample.mode);
            let is_clean = judgement.parse == siding_guard::ParseCompleteness::Clean;
            if is_clean != is_accepted {
                mismatches.push((&sample.text, is_clean));
            }
        }
        assert!(mismatches.is_empty(), "the guard and bash disagree: {mismatches:#?}");
    }

    /// Returns for each text whether bash can parse it. One bash checks all of them, each in a
    /// subshell that executes nothing (`set -n`), because starting a thousand of them takes long.
    fn texts_accepted_by_bash(samples: &[GuardSample]) -> Vec<bool> {
        // bash only warns about an unclosed heredoc, and the parser accepts it too.
        const CHECK_EACH: &str =
            "for text; do (eval $'set -n\n'\"$text\") 2>/dev/null; echo $?; done";
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", CHECK_EACH, "bash"]).stdin(Stdio::null());
        bash.args(samples.iter().map(|sample| &sample.text));
        let done = bash.output().expect("bash can be started");
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        let codes = String::from_utf8(done.stdout).expect("numbers");
        codes.lines().map(|code| code == "0").collect()
    }
}
