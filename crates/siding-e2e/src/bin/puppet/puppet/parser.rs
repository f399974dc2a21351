//! Parses the verbs of the command line. A script with an invalid verb is rejected before any step
//! runs.

use std::path::PathBuf;
use std::time::Duration;

use siding_e2e::fill_pattern::FillPattern;

use super::signal_names::{parse_signal, parse_signals};
use super::steps::{ChildKind, Disposition, ReopenMode, Step};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PuppetOptions {
    pub(super) log: Option<PathBuf>,
    pub(super) quiet: bool,
    /// The time at which the kernel kills all processes of this puppet, in milliseconds of the
    /// monotonic clock; `None` derives it from `PUPPET_TTL_MS`.
    pub(super) deadline_ms: Option<u64>,
}

/// Parses the options, and returns them with the remaining words, which are the verbs.
pub(super) fn parse_options(words: Vec<String>) -> Result<(PuppetOptions, Vec<String>), String> {
    let mut options = PuppetOptions::default();
    let mut words = WordReader { words: &words, position: 0 };
    loop {
        if words.take_flag("--quiet") {
            options.quiet = true;
        } else if words.take_flag("--log") {
            options.log = Some(words.take_path("--log")?);
        } else if words.take_flag("--until") {
            options.deadline_ms = Some(words.take_number("--until")?);
        } else {
            return Ok((options, words.words[words.position..].to_vec()));
        }
    }
}

/// Parses a whole script; fails on an unknown verb, an invalid argument, or a missing or extra
/// `--`.
pub(super) fn parse_script(words: &[String]) -> Result<Vec<Step>, String> {
    let mut words = WordReader { words, position: 0 };
    let steps = words.parse_block()?;
    match words.words.get(words.position) {
        Some(_) => Err("a `--` ends no block".to_owned()),
        None => Ok(steps),
    }
}

struct WordReader<'w> {
    words: &'w [String],
    position: usize,
}

impl WordReader<'_> {
    /// Parses steps up to the `--` that ends this block, or to the end of the script.
    fn parse_block(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = vec![];
        while let Some(verb) = self.words.get(self.position).filter(|word| *word != "--") {
            let verb = verb.clone();
            self.position += 1;
            steps.push(self.parse_step(&verb)?);
        }
        Ok(steps)
    }

    fn parse_child(&mut self, verb: &str, kind: ChildKind) -> Result<Step, String> {
        let steps = self.parse_block()?;
        match self.take_flag("--") {
            true => Ok(Step::Child(kind, steps)),
            false => Err(format!("`{verb}` needs a `--` after the verbs of its child")),
        }
    }

    fn parse_step(&mut self, verb: &str) -> Result<Step, String> {
        Ok(match verb {
            "say" => Step::Say(self.take_word(verb)?),
            "err" => Step::Err(self.take_word(verb)?),
            "write" => Step::Write(self.take_word(verb)?),
            "mark" => Step::Mark(self.take_word(verb)?),
            "report" => Step::Report,
            "env" => Step::Env(self.take_word(verb)?),
            "exit" => Step::Exit(self.take_number(verb)?),
            "die" => Step::Die(parse_signal(&self.take_word(verb)?)?),
            "hang" => Step::Hang,
            "sleep" => Step::Sleep(self.take_millis(verb)?),
            "ignore" => Step::Signals(Disposition::Ignore, parse_signals(&self.take_word(verb)?)?),
            "default" => {
                Step::Signals(Disposition::Default, parse_signals(&self.take_word(verb)?)?)
            }
            "fork" => self.parse_child(verb, ChildKind::Fork)?,
            "vfork" => self.parse_child(verb, ChildKind::Vfork)?,
            "relaunch" => self.parse_child(verb, ChildKind::Relaunch)?,
            "wait" => Step::Wait,
            "setsid" => Step::Setsid,
            "setpgid" => Step::Setpgid,
            "daemon" => Step::Daemon,
            "orphan" => Step::Orphan,
            "clearenv" => Step::ClearEnv,
            "closefds" => Step::CloseFds,
            "rename" => Step::Rename(self.take_word(verb)?),
            "chdir" => Step::Chdir(self.take_path(verb)?),
            "subreaper" => Step::Subreaper,
            "exec-self" => self.parse_exec_self()?,
            "stop-self" => Step::StopSelf,
            "leader-exits" => Step::LeaderExits,
            "lower-rttime" => Step::LowerRttime,
            other => return self.parse_io_verb(other),
        })
    }

    /// Parses the verbs that [`Self::parse_step`] does not parse itself.
    fn parse_io_verb(&mut self, verb: &str) -> Result<Step, String> {
        Ok(match verb {
            "beat" => Step::Beat(self.take_path(verb)?),
            "burn" if self.take_flag("--for") => Step::Burn(Some(self.take_millis(verb)?)),
            "burn" => Step::Burn(None),
            "grow" => Step::Grow(self.take_size(verb)?),
            "hold-fds" => Step::HoldFds(self.take_number(verb)?),
            "listen" => {
                let file = self.take_path(verb)?;
                let port = if self.take_flag("--port") { self.take_number(verb)? } else { 0 };
                Step::Listen(file, port)
            }
            "fill" => Step::Fill(self.take_size(verb)?, self.parse_fill_pattern(verb)?),
            "read-stdin" => Step::ReadStdin,
            "reopen" => {
                Step::Reopen(ReopenMode::Truncate, self.take_path(verb)?, self.take_word(verb)?)
            }
            "reopen-append" => {
                Step::Reopen(ReopenMode::Append, self.take_path(verb)?, self.take_word(verb)?)
            }
            "reopen-rw" => {
                Step::Reopen(ReopenMode::ReadWrite, self.take_path(verb)?, self.take_word(verb)?)
            }
            "truncate" => Step::Truncate(self.take_path(verb)?),
            "ftruncate" => Step::Ftruncate(self.take_number(verb)?),
            "rewind" => Step::Rewind(self.take_number(verb)?, self.take_word(verb)?),
            "remove" => Step::Remove(self.take_path(verb)?),
            "chmod" => {
                let mode = self.take_word(verb)?;
                let mode = u32::from_str_radix(&mode, 8)
                    .map_err(|_| format!("`chmod` wants octal rights, not `{mode}`"))?;
                Step::Chmod(mode, self.take_path(verb)?)
            }
            "hop" => Step::Hop(self.take_millis(verb)?, self.take_optional_path("--beat")?),
            "bomb" => self.parse_bomb(verb)?,
            "tree" => Step::Tree {
                seed: self.take_number(verb)?,
                depth: self.take_number(verb)?,
                width: self.take_number(verb)?,
                beats: self.take_optional_path("--beats")?,
            },
            unknown => return Err(format!("there is no verb `{unknown}`")),
        })
    }

    /// Parses the verbs of `exec-self` now, so that an error is found before any step runs, and
    /// keeps their words for the new command line.
    fn parse_exec_self(&mut self) -> Result<Step, String> {
        let from = self.position;
        let _checked = self.parse_block()?;
        Ok(Step::ExecSelf(self.words[from..self.position].to_vec()))
    }

    fn parse_bomb(&mut self, verb: &str) -> Result<Step, String> {
        let max_processes = self.take_number(verb)?;
        let (mut setsid, mut refill) = (false, false);
        loop {
            if self.take_flag("--setsid") {
                setsid = true;
            } else if self.take_flag("--refill") {
                refill = true;
            } else {
                return Ok(Step::Bomb { max_processes, setsid, refill });
            }
        }
    }

    fn parse_fill_pattern(&mut self, verb: &str) -> Result<FillPattern, String> {
        let shape = if self.take_flag("--line") {
            FillPattern::Lines(self.take_size(verb)? as usize)
        } else if self.take_flag("--block") {
            FillPattern::Blocks(self.take_size(verb)? as usize)
        } else {
            FillPattern::Lines(80)
        };
        match shape.write_len() {
            0 => Err(format!("`{verb}` wants a length of at least 1")),
            _ => Ok(shape),
        }
    }

    fn take_flag(&mut self, flag: &str) -> bool {
        let found = self.words.get(self.position).is_some_and(|word| word == flag);
        self.position += usize::from(found);
        found
    }

    fn take_word(&mut self, verb: &str) -> Result<String, String> {
        let word =
            self.words.get(self.position).ok_or_else(|| format!("`{verb}` lacks an argument"))?;
        self.position += 1;
        Ok(word.clone())
    }

    /// Reads a path and makes it absolute immediately, because a later verb may change the
    /// directory.
    fn take_path(&mut self, verb: &str) -> Result<PathBuf, String> {
        let word = self.take_word(verb)?;
        std::path::absolute(&word).map_err(|error| format!("`{verb}` path `{word}`: {error}"))
    }

    fn take_optional_path(&mut self, flag: &str) -> Result<Option<PathBuf>, String> {
        if self.take_flag(flag) { self.take_path(flag).map(Some) } else { Ok(None) }
    }

    fn take_number<T: std::str::FromStr>(&mut self, verb: &str) -> Result<T, String> {
        let word = self.take_word(verb)?;
        word.parse().map_err(|_| format!("`{verb}` wants a number, not `{word}`"))
    }

    fn take_millis(&mut self, verb: &str) -> Result<Duration, String> {
        self.take_number(verb).map(Duration::from_millis)
    }

    fn take_size(&mut self, verb: &str) -> Result<u64, String> {
        let word = self.take_word(verb)?;
        let (digits, unit) = match word.strip_suffix(['k', 'M', 'G']) {
            Some(digits) if word.ends_with('k') => (digits, 1 << 10),
            Some(digits) if word.ends_with('M') => (digits, 1 << 20),
            Some(digits) => (digits, 1 << 30),
            None => (word.as_str(), 1),
        };
        let number: u64 =
            digits.parse().map_err(|_| format!("`{verb}` wants a size, not `{word}`"))?;
        number.checked_mul(unit).ok_or_else(|| format!("`{verb}`: `{word}` is too much"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Vec<Step>, String> {
        parse_script(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn blocks_nest() {
        let inner = Step::Child(ChildKind::Fork, vec![Step::Hang]);
        let outer = Step::Child(ChildKind::Fork, vec![inner, Step::Exit(1)]);
        assert_eq!(parse_line("fork fork hang -- exit 1 -- wait"), Ok(vec![outer, Step::Wait]));
    }

    #[test]
    fn exec_self_keeps_the_words_of_its_block() {
        let words = ["fork", "hang", "--", "hang"].map(str::to_owned).to_vec();
        let child = Step::Child(ChildKind::Fork, vec![Step::ExecSelf(words)]);
        assert_eq!(
            parse_line("fork exec-self fork hang -- hang -- exit 2"),
            Ok(vec![child, Step::Exit(2)])
        );
    }

    #[test]
    fn sizes_and_signal_names_are_parsed() {
        assert_eq!(
            parse_line("fill 2k --line 3"),
            Ok(vec![Step::Fill(2048, FillPattern::Lines(3))])
        );
        assert_eq!(parse_line("die SIGTERM die TERM die 15"), Ok(vec![Step::Die(15); 3]));
    }

    #[test]
    fn an_invalid_script_is_rejected() {
        for line in ["fork hang", "hang --", "say", "dance", "die 65", "fill 1T", "fill 1 --line 0"]
        {
            assert!(parse_line(line).is_err(), "{line}");
        }
    }
}
