//! The state of a puppet process: where it announces its steps, and when it must end.

use std::path::PathBuf;

use siding_e2e::{Announcement, Process};

use super::parser::PuppetOptions;
use super::syscalls;

const DEFAULT_TTL_MS: u64 = 60_000;
/// Exit code of a puppet that could not execute a verb.
const VERB_FAILED_CODE: i32 = 70;

/// The state of the running puppet process. After a fork the child has a copy, which it must update
/// with [`PuppetProcess::init_after_fork`].
#[derive(Debug)]
pub(super) struct PuppetProcess {
    program: String,
    log: Option<PathBuf>,
    /// Whether steps can be announced on stdout, too; false once descriptor 1 may be another file
    /// or a pipe that no process reads.
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

    /// Limits the lifetime of a new process and reads its identity. A new process must call this
    /// function before it does anything else.
    pub(super) fn init_after_fork(&mut self) {
        // A child does not inherit timers, and exec deletes them (timer_create(2)), so each process
        // sets its own. A process without a timer could outlive the test, so it exits.
        if syscalls::set_kill_timer(self.deadline_ms).is_err() {
            syscalls::exit(VERB_FAILED_CODE);
        }
        self.identity = Process::current();
    }

    pub(super) fn identity(&self) -> Process {
        self.identity
    }

    /// Returns the command line for an exec that continues this puppet, with its options and
    /// `verbs`.
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

    /// Returns whether the sandbox is being cleaned up; always false for a puppet without a log.
    /// Verbs that fork repeatedly check this flag and exit, because the cleanup could kill each
    /// process too late to prevent the next fork.
    pub(super) fn shutdown_requested(&self) -> bool {
        self.log.as_ref().is_some_and(|log| siding_e2e::shutdown_marker(log).exists())
    }

    /// Stops announcing on stdout. After `closefds`, descriptor 1 may be any file; the members of a
    /// `tree` could fill a pipe that no process reads.
    pub(super) fn mute_stdout(&mut self) {
        self.stdout_usable = false;
    }

    /// Announces a step on stdout and in the log. A closed stdout is not an error.
    pub(super) fn announce(&self, verb: &str, fields: &[(&str, String)]) {
        if self.stdout_usable && !self.quiet {
            syscalls::write_ignoring_sigpipe(
                1,
                Announcement::render(verb, self.identity, fields).as_bytes(),
            );
        }
        self.log_step(verb, fields);
    }

    /// Announces a step only in the log.
    pub(super) fn log_step(&self, verb: &str, fields: &[(&str, String)]) {
        let Some(log) = &self.log else { return };
        // Opened for each line, because the script may close any descriptor. A single write with
        // O_APPEND keeps the lines of concurrent processes intact.
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(log);
        if let Ok(mut file) = opened {
            let line = Announcement::render(verb, self.identity, fields);
            let _best_effort = std::io::Write::write_all(&mut file, line.as_bytes());
        }
    }

    /// Announces that a verb failed, and exits.
    pub(super) fn fail_verb(&self, verb: &str, why: &dyn std::fmt::Display) -> ! {
        let fields = [("text", format!("{verb}: {why}"))];
        self.log_step("cannot", &fields);
        syscalls::write_all(2, Announcement::render("cannot", self.identity, &fields).as_bytes());
        syscalls::exit(VERB_FAILED_CODE)
    }
}
