//! The verbs: reads them from the command line, and only all of them or none.

use std::path::PathBuf;
use std::time::Duration;

use siding_e2e::fill::Shape;

use super::signals::{signal, signals};
use super::steps::{Child, Disposition, Reopen, Step};

/// What stands before the verbs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) log: Option<PathBuf>,
    pub(super) quiet: bool,
    /// End of all puppets of this call, in milliseconds of the monotonic clock.
    pub(super) until_ms: Option<u64>,
}

/// Splits the options off; gives them and the verbs.
pub(super) fn options(words: Vec<String>) -> Result<(Options, Vec<String>), String> {
    let mut options = Options::default();
    let mut words = Words { words: &words, at: 0 };
    loop {
        if words.flag("--quiet") {
            options.quiet = true;
        } else if words.flag("--log") {
            options.log = Some(words.path("--log")?);
        } else if words.flag("--until") {
            options.until_ms = Some(words.number("--until")?);
        } else {
            return Ok((options, words.words[words.at..].to_vec()));
        }
    }
}

/// Reads a whole script.
pub(super) fn parse(words: &[String]) -> Result<Vec<Step>, String> {
    let mut words = Words { words, at: 0 };
    let steps = words.block()?;
    match words.words.get(words.at) {
        Some(_) => Err("a `--` ends no block".to_owned()),
        None => Ok(steps),
    }
}

struct Words<'w> {
    words: &'w [String],
    at: usize,
}

impl Words<'_> {
    /// Reads steps up to the `--` that ends this block, or to the end.
    fn block(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = vec![];
        while let Some(verb) = self.words.get(self.at).filter(|word| *word != "--") {
            let verb = verb.clone();
            self.at += 1;
            steps.push(self.step(&verb)?);
        }
        Ok(steps)
    }

    fn child(&mut self, verb: &str, kind: Child) -> Result<Step, String> {
        let steps = self.block()?;
        match self.flag("--") {
            true => Ok(Step::Child(kind, steps)),
            false => Err(format!("`{verb}` needs a `--` after the verbs of its child")),
        }
    }

    fn step(&mut self, verb: &str) -> Result<Step, String> {
        Ok(match verb {
            "say" => Step::Say(self.word(verb)?),
            "err" => Step::Err(self.word(verb)?),
            "write" => Step::Write(self.word(verb)?),
            "mark" => Step::Mark(self.word(verb)?),
            "report" => Step::Report,
            "env" => Step::Env(self.word(verb)?),
            "exit" => Step::Exit(self.number(verb)?),
            "die" => Step::Die(signal(&self.word(verb)?)?),
            "hang" => Step::Hang,
            "sleep" => Step::Sleep(self.millis(verb)?),
            "ignore" => Step::Signals(Disposition::Ignore, signals(&self.word(verb)?)?),
            "default" => Step::Signals(Disposition::Default, signals(&self.word(verb)?)?),
            "fork" => self.child(verb, Child::Fork)?,
            "vfork" => self.child(verb, Child::Vfork)?,
            "relaunch" => self.child(verb, Child::Relaunch)?,
            "wait" => Step::Wait,
            "setsid" => Step::Setsid,
            "setpgid" => Step::Setpgid,
            "daemon" => Step::Daemon,
            "orphan" => Step::Orphan,
            "clearenv" => Step::ClearEnv,
            "closefds" => Step::CloseFds,
            "rename" => Step::Rename(self.word(verb)?),
            "chdir" => Step::Chdir(self.path(verb)?),
            "subreaper" => Step::Subreaper,
            "exec-self" => self.exec_self()?,
            "stop-self" => Step::StopSelf,
            "leader-exits" => Step::LeaderExits,
            "lower-rttime" => Step::LowerRttime,
            other => return self.work(other),
        })
    }

    /// The verbs that do something to files, streams, memory and other processes.
    fn work(&mut self, verb: &str) -> Result<Step, String> {
        Ok(match verb {
            "beat" => Step::Beat(self.path(verb)?),
            "burn" if self.flag("--for") => Step::Burn(Some(self.millis(verb)?)),
            "burn" => Step::Burn(None),
            "grow" => Step::Grow(self.size(verb)?),
            "hold-fds" => Step::HoldFds(self.number(verb)?),
            "listen" => {
                let file = self.path(verb)?;
                let port = if self.flag("--port") { self.number(verb)? } else { 0 };
                Step::Listen(file, port)
            }
            "fill" => Step::Fill(self.size(verb)?, self.shape(verb)?),
            "read-stdin" => Step::ReadStdin,
            "reopen" => Step::Reopen(Reopen::Truncate, self.path(verb)?, self.word(verb)?),
            "reopen-append" => Step::Reopen(Reopen::Append, self.path(verb)?, self.word(verb)?),
            "reopen-rw" => Step::Reopen(Reopen::ReadWrite, self.path(verb)?, self.word(verb)?),
            "truncate" => Step::Truncate(self.path(verb)?),
            "ftruncate" => Step::Ftruncate(self.number(verb)?),
            "rewind" => Step::Rewind(self.number(verb)?, self.word(verb)?),
            "remove" => Step::Remove(self.path(verb)?),
            "chmod" => {
                let mode = self.word(verb)?;
                let mode = u32::from_str_radix(&mode, 8)
                    .map_err(|_| format!("`chmod` wants octal rights, not `{mode}`"))?;
                Step::Chmod(mode, self.path(verb)?)
            }
            "hop" => Step::Hop(self.millis(verb)?, self.optional_path("--beat")?),
            "bomb" => self.bomb(verb)?,
            "tree" => Step::Tree {
                seed: self.number(verb)?,
                depth: self.number(verb)?,
                width: self.number(verb)?,
                beats: self.optional_path("--beats")?,
            },
            unknown => return Err(format!("there is no verb `{unknown}`")),
        })
    }

    /// Checks the verbs now, and keeps the words for the command line.
    fn exec_self(&mut self) -> Result<Step, String> {
        let from = self.at;
        let _checked = self.block()?;
        Ok(Step::ExecSelf(self.words[from..self.at].to_vec()))
    }

    fn bomb(&mut self, verb: &str) -> Result<Step, String> {
        let most = self.number(verb)?;
        let (mut setsid, mut refill) = (false, false);
        loop {
            if self.flag("--setsid") {
                setsid = true;
            } else if self.flag("--refill") {
                refill = true;
            } else {
                return Ok(Step::Bomb { most, setsid, refill });
            }
        }
    }

    fn shape(&mut self, verb: &str) -> Result<Shape, String> {
        let shape = if self.flag("--line") {
            Shape::Lines(self.size(verb)? as usize)
        } else if self.flag("--block") {
            Shape::Blocks(self.size(verb)? as usize)
        } else {
            Shape::Lines(80)
        };
        match shape.chunk() {
            0 => Err(format!("`{verb}` wants a length of at least 1")),
            _ => Ok(shape),
        }
    }

    fn flag(&mut self, flag: &str) -> bool {
        let found = self.words.get(self.at).is_some_and(|word| word == flag);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, verb: &str) -> Result<String, String> {
        let word = self.words.get(self.at).ok_or_else(|| format!("`{verb}` lacks an argument"))?;
        self.at += 1;
        Ok(word.clone())
    }

    /// A path, made absolute at once, since a later verb may change the directory.
    fn path(&mut self, verb: &str) -> Result<PathBuf, String> {
        let word = self.word(verb)?;
        std::path::absolute(&word).map_err(|error| format!("`{verb}` path `{word}`: {error}"))
    }

    fn optional_path(&mut self, flag: &str) -> Result<Option<PathBuf>, String> {
        if self.flag(flag) { self.path(flag).map(Some) } else { Ok(None) }
    }

    fn number<T: std::str::FromStr>(&mut self, verb: &str) -> Result<T, String> {
        let word = self.word(verb)?;
        word.parse().map_err(|_| format!("`{verb}` wants a number, not `{word}`"))
    }

    fn millis(&mut self, verb: &str) -> Result<Duration, String> {
        self.number(verb).map(Duration::from_millis)
    }

    fn size(&mut self, verb: &str) -> Result<u64, String> {
        let word = self.word(verb)?;
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

    fn read(line: &str) -> Result<Vec<Step>, String> {
        parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn blocks_nest() {
        let inner = Step::Child(Child::Fork, vec![Step::Hang]);
        let outer = Step::Child(Child::Fork, vec![inner, Step::Exit(1)]);
        assert_eq!(read("fork fork hang -- exit 1 -- wait"), Ok(vec![outer, Step::Wait]));
    }

    #[test]
    fn exec_self_takes_its_block() {
        let words = ["fork", "hang", "--", "hang"].map(str::to_owned).to_vec();
        let child = Step::Child(Child::Fork, vec![Step::ExecSelf(words)]);
        assert_eq!(
            read("fork exec-self fork hang -- hang -- exit 2"),
            Ok(vec![child, Step::Exit(2)])
        );
    }

    #[test]
    fn sizes_and_signals() {
        assert_eq!(read("fill 2k --line 3"), Ok(vec![Step::Fill(2048, Shape::Lines(3))]));
        assert_eq!(read("die SIGTERM die TERM die 15"), Ok(vec![Step::Die(15); 3]));
    }

    #[test]
    fn a_wrong_script_is_refused_whole() {
        for line in ["fork hang", "hang --", "say", "dance", "die 65", "fill 1T", "fill 1 --line 0"]
        {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
