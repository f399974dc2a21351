//! Real commands, sorted by whether a person should see them before they run.

use siding_guard::{ExecMode, GuardVerdict, Rules, judge};

use crate::corpus::unescaped;

const DANGEROUS: &str = include_str!("../corpus/dangerous.txt");
const HARMLESS: &str = include_str!("../corpus/harmless.txt");

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The text.
    pub text: String,
    /// How it is about to run.
    pub how: ExecMode,
}

impl Sample {
    /// Whether the guard asks about it or denies it.
    #[must_use]
    pub fn is_stopped(&self, rules: &Rules) -> bool {
        judge(&self.text, rules, self.how).verdict != GuardVerdict::Allow
    }
}

/// Returns commands that a person should see first.
#[must_use]
pub fn dangerous() -> Vec<Sample> {
    samples(DANGEROUS)
}

/// Returns commands that nobody needs to look at.
#[must_use]
pub fn harmless() -> Vec<Sample> {
    samples(HARMLESS)
}

fn samples(corpus: &str) -> Vec<Sample> {
    let lines = corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let sample = |line: &str| match line.strip_prefix("[bg] ") {
        Some(text) => Sample { text: unescaped(text), how: ExecMode::Background },
        None => Sample { text: unescaped(line), how: ExecMode::Foreground },
    };
    lines.map(sample).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn nothing_dangerous_passes_and_hardly_anything_harmless_is_stopped() {
        let (dangerous, harmless) = (dangerous(), harmless());
        assert!(dangerous.len() >= 300, "{}", dangerous.len());
        assert!(harmless.len() >= 600, "{}", harmless.len());
        let rules = Rules::builtin();
        let missed: Vec<_> = dangerous.iter().filter(|one| !one.is_stopped(&rules)).collect();
        assert!(missed.is_empty(), "{missed:#?}");
        let asked: Vec<_> = harmless.iter().filter(|one| one.is_stopped(&rules)).collect();
        assert!(asked.len() * 100 <= harmless.len(), "{asked:#?}");
    }

    #[test]
    fn no_command_stands_there_twice() {
        for samples in [dangerous(), harmless()] {
            let mut texts: Vec<_> =
                samples.iter().map(|one| (&one.text, one.how == ExecMode::Background)).collect();
            texts.sort_unstable();
            for pair in texts.windows(2) {
                assert_ne!(pair[0], pair[1]);
            }
        }
    }

    /// The parser and bash agree on what a text is, so that nothing is read as something else.
    #[test]
    fn what_parses_is_what_bash_takes() {
        let probe = Command::new("bash").arg("--version").stdout(Stdio::null()).status();
        if probe.is_err() {
            eprintln!("left out: there is no bash to compare with");
            return;
        }
        let rules = Rules::builtin();
        let mut samples = [dangerous(), harmless()].concat();
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
        samples.extend(broken.map(|text| Sample { text: text.into(), how: ExecMode::Foreground }));
        let mut differ = vec![];
        for sample in samples {
            let judgement = judge(&sample.text, &rules, sample.how);
            let is_clean = judgement.parse == siding_guard::ParseCompleteness::Clean;
            if is_clean != bash_takes(&sample.text) {
                differ.push((sample.text, is_clean));
            }
        }
        assert!(differ.is_empty(), "guard says clean: {differ:#?}");
    }

    fn bash_takes(text: &str) -> bool {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-n", "-c", text]).stdin(Stdio::null()).stderr(Stdio::piped());
        let done = bash.output().expect("bash starts");
        // An unclosed heredoc is only a warning, and so it is to us.
        done.status.success()
    }
}
