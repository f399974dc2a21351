//! Completes the words of a command line, for the scripts of `siding completions`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, ValueHint};
use clap_complete::engine::{self, CompletionCandidate};

use super::values::{self, DESCRIBED_TAG};
use crate::failure::Failure;
use crate::stdout;

/// The argument with which the scripts call this program: `siding __complete SHELL INDEX TYPE WORD…`.
/// INDEX is the position of the incomplete word, and TYPE the value of bash's `COMP_TYPE`, otherwise
/// 0. Prints a candidate on each line.
pub(crate) const COMPLETE_ARGUMENT: &str = "__complete";

/// The values of `COMP_TYPE` with which bash replaces the word by a whole candidate, not only by the
/// beginning that all candidates share: `%` (menu-complete) and `*` (insert-completions).
const INSERTING_TYPES: [&str; 2] = ["37", "42"];
/// Space between a candidate and its description in bash.
const DESCRIPTION_SEPARATOR: &str = "  ";

/// The shell of the calling script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallingShell {
    /// Shows descriptions only as a part of the candidates. `inserts` is true if a candidate will
    /// be inserted.
    Bash { inserts: bool },
    /// Reads `VALUE:DESCRIPTION`.
    Zsh,
    /// Reads `VALUE`, a tab and the description.
    Fish,
}

impl CallingShell {
    fn from_arguments(shell: &str, comp_type: &str) -> Option<Self> {
        match shell {
            "bash" => Some(Self::Bash { inserts: INSERTING_TYPES.contains(&comp_type) }),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            _ => None,
        }
    }

    /// Formats the candidates, one on each line. `word_prefix` is the beginning of the incomplete
    /// word that the shell does not replace.
    fn format_candidates(self, candidates: &[Candidate], word_prefix: &str) -> String {
        let mut text = String::new();
        for candidate in candidates {
            let value = candidate.value.strip_prefix(word_prefix).unwrap_or(&candidate.value);
            let description = candidate.description.as_deref().unwrap_or_default();
            let line = match self {
                Self::Bash { inserts: false } if candidate.is_described && candidates.len() > 1 => {
                    format!("{value}{DESCRIPTION_SEPARATOR}{description}")
                }
                Self::Bash { .. } => value.to_owned(),
                Self::Zsh if description.is_empty() => escape_for_zsh(value),
                Self::Zsh => {
                    format!("{}:{}", escape_for_zsh(value), description.replace('\\', "\\\\"))
                }
                Self::Fish => format!("{value}\t{description}"),
            };
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn escape_for_zsh(value: &str) -> String {
    value.replace('\\', "\\\\").replace(':', "\\:")
}

/// A possible word.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    value: String,
    description: Option<String>,
    /// Whether the description distinguishes the candidate from others.
    is_described: bool,
}

impl Candidate {
    /// Returns `None` for a value that does not fit into one line.
    fn from_engine(candidate: &CompletionCandidate) -> Option<Self> {
        let value = candidate.get_value().to_str()?;
        let is_one_line = !value.chars().any(char::is_control);
        let description = candidate.get_help().map(ToString::to_string);
        is_one_line.then(|| Self {
            value: value.to_owned(),
            description: description.and_then(|text| text.lines().next().map(str::to_owned)),
            is_described: candidate.get_tag().is_some_and(|tag| tag.to_string() == DESCRIBED_TAG),
        })
    }
}

/// Prints the candidates for the words in this process's arguments.
pub(crate) fn main() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned());
    let usage = || Failure::new("__complete is for the scripts of `siding completions`");
    let mut next = || arguments.next().ok_or_else(usage);
    let (shell, index, comp_type) = (next()?, next()?, next()?);
    let shell = CallingShell::from_arguments(&shell, &comp_type).ok_or_else(usage)?;
    let line = CommandLine::new(arguments.collect(), index.parse().map_err(|_| usage())?);
    stdout::print_text(&shell.format_candidates(&line.complete(shell), &line.word_prefix))?;
    Ok(ExitCode::SUCCESS)
}

/// The words of a command line.
#[derive(Debug, PartialEq, Eq)]
struct CommandLine {
    words: Vec<String>,
    /// Position of the incomplete word.
    index: usize,
    /// The part of the incomplete word that bash has passed as earlier words; empty if there is
    /// none.
    word_prefix: String,
}

impl CommandLine {
    /// Joins the words that bash has split at `=` and `:` (`COMP_WORDBREAKS`, bash(1)): the option
    /// `--session=web` is three words there.
    fn new(mut split: Vec<String>, index: usize) -> Self {
        if split.len() <= index {
            // An empty word at the end may be missing.
            split.push(String::new());
        }
        let mut line = Self { words: Vec::new(), index: 0, word_prefix: String::new() };
        let mut joins_next = false;
        for (at, word) in split.into_iter().enumerate() {
            let is_break = word == "=" || word == ":";
            let joins = line.words.len() > 1 && (is_break || joins_next);
            joins_next = is_break;
            match line.words.last_mut().filter(|_| joins) {
                Some(last) => {
                    if at == index && !is_break {
                        line.word_prefix.clone_from(last);
                    }
                    last.push_str(&word);
                }
                None => line.words.push(word),
            }
            if at <= index {
                line.index = line.words.len() - 1;
            }
        }
        line
    }

    /// Returns the candidates for the incomplete word.
    fn complete(&self, shell: CallingShell) -> Vec<Candidate> {
        let mut command = values::add_values(crate::cmd::Cli::command());
        if shell != CallingShell::Fish {
            // If there is no candidate, the other shells themselves complete and quote paths.
            command = without_paths(command);
        }
        let words = self.words.iter().map(OsString::from).collect();
        let directory = std::env::current_dir().ok();
        let found = engine::complete(&mut command, words, self.index, directory.as_deref());
        let wants_flag = self.words.get(self.index).is_some_and(|word| word.starts_with('-'));
        let candidates = found.unwrap_or_default();
        let candidates = candidates.iter().filter_map(Candidate::from_engine);
        candidates.filter(|candidate| wants_flag || !candidate.value.starts_with('-')).collect()
    }
}

/// Removes the hints that an argument is a path.
fn without_paths(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true => arg.value_hint(ValueHint::Other),
        false => arg,
    });
    command.mut_subcommands(without_paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str], index: usize) -> CommandLine {
        CommandLine::new(words.iter().map(|word| (*word).to_owned()).collect(), index)
    }

    fn candidate(value: &str, description: &str, is_described: bool) -> Candidate {
        let description = Some(description.to_owned());
        Candidate { value: value.to_owned(), description, is_described }
    }

    #[test]
    fn words_that_bash_has_split_are_joined() {
        let joined = line(&["siding", "ps", "--session", "=", "we"], 4);
        assert_eq!(joined.words, ["siding", "ps", "--session=we"]);
        assert_eq!((joined.index, joined.word_prefix.as_str()), (2, "--session="));
        let plain = line(&["siding", "wait", "b-4"], 2);
        assert_eq!((plain.index, plain.word_prefix.as_str()), (2, ""));
        let missing = line(&["siding", "wait"], 2);
        assert_eq!((missing.words.len(), missing.index), (3, 2));
        let before = line(&["siding", "wait", "--for", "port", ":", "80", "b"], 6);
        assert_eq!(before.words, ["siding", "wait", "--for", "port:80", "b"]);
        assert_eq!(before.index, 4);
    }

    #[test]
    fn each_shell_gets_descriptions_in_its_form() {
        let two = [candidate("b-1", "running: a\\b", true), candidate("x:y", "about", false)];
        let bash = CallingShell::Bash { inserts: false };
        assert_eq!(bash.format_candidates(&two, ""), "b-1  running: a\\b\nx:y\n");
        assert_eq!(bash.format_candidates(&two[..1], ""), "b-1\n", "a single one is inserted");
        let menu = CallingShell::from_arguments("bash", "37").expect("a shell");
        assert_eq!(menu.format_candidates(&two, ""), "b-1\nx:y\n");
        assert_eq!(
            CallingShell::Zsh.format_candidates(&two, ""),
            "b-1:running: a\\\\b\nx\\:y:about\n"
        );
        assert_eq!(
            CallingShell::Fish.format_candidates(&two, ""),
            "b-1\trunning: a\\b\nx:y\tabout\n"
        );
        assert_eq!(bash.format_candidates(&[candidate("--a=b", "", false)], "--a="), "b\n");
    }

    #[test]
    fn commands_flags_and_keys_are_completed() {
        let complete = |words: &[&str]| -> Vec<String> {
            let shell = CallingShell::Bash { inserts: false };
            let found = line(words, words.len() - 1).complete(shell);
            found.into_iter().map(|candidate| candidate.value).collect()
        };
        assert_eq!(complete(&["siding", "sess"]), ["session"]);
        assert_eq!(complete(&["siding", "session", "o"]), ["open"]);
        assert_eq!(complete(&["siding", "output", "--fol"]), ["--follow"]);
        assert_eq!(complete(&["siding", "run", "--on-timeout", "s"]), ["stop"]);
        assert_eq!(complete(&["siding", "config", "set", "kill_g"]), ["kill_grace"]);
        assert_eq!(complete(&["siding", "install", "cod"]), ["codex"]);
        assert_eq!(complete(&["siding", "run", "--cwd", ""]), [""; 0], "the shell completes paths");
    }
}
