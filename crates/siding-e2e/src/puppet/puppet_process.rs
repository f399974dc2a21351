//! What a puppet process knows about itself: where it announces, and when it must be gone.

use std::path::PathBuf;

use siding_e2e::{Announcement, Process};

use super::parser::PuppetOptions;
use super::syscalls;

const DEFAULT_TTL_MS: u64 = 60_000;
/// Exit code of a puppet that could not do its verb.
const VERB_FAILED_CODE: i32 = 70;

/// The acting process. A forked child goes on with its own copy; see [`Actor::born`].
#[derive(Debug)]
pub(super) struct PuppetProcess {
    program: String,
    log: Option<PathBuf>,
    /// Whether descriptor 1 is (still) the stdout that was given.
    stdout_usable: bool,
    quiet: bool,
    deadline_ms: u64,
    identity: Process,
}

impl PuppetProcess {
    pub(super) fn new(program: String, options: PuppetOptions) -> Self {
        let log = options.log.or_else(|| std::env::var_os("PUPPET_LOG").map(PathBuf::from));
        let ttl_ms = std::env::var("PUPPET_TTL_MS").ok().and_then(|value| value.parse().ok());
        let until_ms = options
            .deadline_ms
            .unwrap_or_else(|| syscalls::monotonic_ms() + ttl_ms.unwrap_or(DEFAULT_TTL_MS));
        let log = log.and_then(|path| std::path::absolute(path).ok());
        let me = Process { pid: 0, start: 0 };
        let mut actor = Self {
            program,
            log,
            stdout_usable: true,
            quiet: options.quiet,
            deadline_ms: until_ms,
            identity: me,
        };
        actor.init_after_fork();
        actor
    }

    /// Must be the first thing a new process does: binds its life, and learns who it is.
    pub(super) fn init_after_fork(&mut self) {
        // Timers are not inherited by fork and do not survive exec, so each process sets its
        // own; one that cannot must not live.
        if syscalls::set_kill_timer(self.deadline_ms).is_err() {
            syscalls::exit(VERB_FAILED_CODE);
        }
        self.identity = Process::current();
    }

    pub(super) fn identity(&self) -> Process {
        self.identity
    }

    /// Words of the command line that makes an exec go on as this actor.
    pub(super) fn command_line(&self, verbs: Vec<String>) -> Vec<String> {
        let mut words = vec![self.program.clone()];
        if let Some(log) = &self.log {
            words.extend(["--log".to_owned(), log.display().to_string()]);
        }
        if self.quiet || !self.stdout_usable {
            words.push("--quiet".to_owned());
        }
        words.extend(["--until".to_owned(), self.deadline_ms.to_string()]);
        words.extend(verbs);
        words
    }

    /// Whether the sandbox is being cleared away. Those that no signal can catch, since their
    /// number changes faster than it is read, look here and end by themselves.
    pub(super) fn shutdown_requested(&self) -> bool {
        self.log.as_ref().is_some_and(|log| siding_e2e::shutdown_marker(log).exists())
    }

    /// Never announces on stdout again: after `closefds`, number 1 may be anything.
    pub(super) fn mute_stdout(&mut self) {
        self.stdout_usable = false;
    }

    /// Announces a step on stdout and in the log. Nobody needs to read stdout any more.
    pub(super) fn announce(&self, verb: &str, fields: &[(&str, String)]) {
        if self.stdout_usable && !self.quiet {
            syscalls::write_ignoring_sigpipe(
                1,
                Announcement::render(verb, self.identity, fields).as_bytes(),
            );
        }
        self.log_step(verb, fields);
    }

    /// Announces a step in the log alone.
    pub(super) fn log_step(&self, verb: &str, fields: &[(&str, String)]) {
        let Some(log) = &self.log else { return };
        // Opened each time, since the script may close any descriptor. One write with O_APPEND
        // keeps the lines of many processes whole.
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(log);
        if let Ok(mut file) = opened {
            let line = Announcement::render(verb, self.identity, fields);
            let _best_effort = std::io::Write::write_all(&mut file, line.as_bytes());
        }
    }

    /// Gives up: a verb cannot do its work.
    pub(super) fn fail_verb(&self, verb: &str, why: &dyn std::fmt::Display) -> ! {
        let fields = [("text", format!("{verb}: {why}"))];
        self.log_step("cannot", &fields);
        syscalls::write_all(2, Announcement::render("cannot", self.identity, &fields).as_bytes());
        syscalls::exit(VERB_FAILED_CODE)
    }
}
