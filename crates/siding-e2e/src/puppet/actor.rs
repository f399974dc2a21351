//! What a puppet process knows about itself: where it announces, and when it must be gone.

use std::path::PathBuf;

use siding_e2e::{Announced, Process};

use super::kernel;
use super::script::Options;

const DEFAULT_TTL_MS: u64 = 60_000;
/// Exit code of a puppet that could not do its verb.
const CANNOT: i32 = 70;

/// The acting process. A forked child goes on with its own copy; see [`Actor::born`].
#[derive(Debug)]
pub(super) struct Actor {
    program: String,
    log: Option<PathBuf>,
    /// Whether descriptor 1 is (still) the stdout that was given.
    speaks: bool,
    quiet: bool,
    until_ms: u64,
    me: Process,
}

impl Actor {
    pub(super) fn new(program: String, options: Options) -> Self {
        let log = options.log.or_else(|| std::env::var_os("PUPPET_LOG").map(PathBuf::from));
        let ttl_ms = std::env::var("PUPPET_TTL_MS").ok().and_then(|value| value.parse().ok());
        let until_ms = options
            .until_ms
            .unwrap_or_else(|| kernel::monotonic_ms() + ttl_ms.unwrap_or(DEFAULT_TTL_MS));
        let log = log.and_then(|path| std::path::absolute(path).ok());
        let me = Process { pid: 0, start: 0 };
        let mut actor = Self { program, log, speaks: true, quiet: options.quiet, until_ms, me };
        actor.born();
        actor
    }

    /// Must be the first thing a new process does: binds its life, and learns who it is.
    pub(super) fn born(&mut self) {
        // Timers are not inherited by fork and do not survive exec, so each process sets its
        // own; one that cannot must not live.
        if kernel::die_at(self.until_ms).is_err() {
            kernel::exit(CANNOT);
        }
        self.me = Process::me();
    }

    pub(super) fn me(&self) -> Process {
        self.me
    }

    /// Words of the command line that makes an exec go on as this actor.
    pub(super) fn command_line(&self, verbs: Vec<String>) -> Vec<String> {
        let mut words = vec![self.program.clone()];
        if let Some(log) = &self.log {
            words.extend(["--log".to_owned(), log.display().to_string()]);
        }
        if self.quiet || !self.speaks {
            words.push("--quiet".to_owned());
        }
        words.extend(["--until".to_owned(), self.until_ms.to_string()]);
        words.extend(verbs);
        words
    }

    /// Whether the sandbox is being cleared away. Those that no signal can catch, since their
    /// number changes faster than it is read, look here and end by themselves.
    pub(super) fn must_end(&self) -> bool {
        self.log.as_ref().is_some_and(|log| siding_e2e::ending_marker(log).exists())
    }

    /// Never announces on stdout again: after `closefds`, number 1 may be anything.
    pub(super) fn fall_silent(&mut self) {
        self.speaks = false;
    }

    /// Announces a step on stdout and in the log. Nobody needs to read stdout any more.
    pub(super) fn announce(&self, verb: &str, fields: &[(&str, String)]) {
        if self.speaks && !self.quiet {
            kernel::write_unharmed(1, Announced::render(verb, self.me, fields).as_bytes());
        }
        self.note(verb, fields);
    }

    /// Announces a step in the log alone.
    pub(super) fn note(&self, verb: &str, fields: &[(&str, String)]) {
        let Some(log) = &self.log else { return };
        // Opened each time, since the script may close any descriptor. One write with O_APPEND
        // keeps the lines of many processes whole.
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(log);
        if let Ok(mut file) = opened {
            let line = Announced::render(verb, self.me, fields);
            let _lost = std::io::Write::write_all(&mut file, line.as_bytes());
        }
    }

    /// Gives up: a verb cannot do its work.
    pub(super) fn cannot(&self, verb: &str, why: &dyn std::fmt::Display) -> ! {
        let fields = [("text", format!("{verb}: {why}"))];
        self.note("cannot", &fields);
        kernel::write_all(2, Announced::render("cannot", self.me, &fields).as_bytes());
        kernel::exit(CANNOT)
    }
}
