//! The rsync process of a mirror, which copies files back when the command has ended.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use siding_core::remote::rsync;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{file, poll, signals};
use siding_model::record::{OutputTotals, Record};
use siding_model::remote::{FetchError, MirrorAction};
use siding_model::signal::Signal;

use super::Mirror;

/// Number of bytes of the messages that are kept.
const MAX_MESSAGE_BYTES: usize = 4096;
/// Time in which rsync removes its temporary file after a SIGTERM, in milliseconds.
const EXIT_TIMEOUT_MS: u64 = 1_000;

/// A running rsync. Dropping the value ends rsync.
#[derive(Debug)]
pub(super) struct FetchProcess {
    rsync: Child,
    end: PidFd,
    /// The pipe of the messages. It may stay open after the end of rsync, because ssh may leave a
    /// shared connection behind that holds it.
    stderr: Option<OwnedFd>,
    /// The end of the messages.
    messages: Vec<u8>,
}

impl FetchProcess {
    /// Starts rsync. The command must have a pipe as its standard error.
    fn start(command: &mut Command) -> io::Result<Self> {
        signals::unblock_in_child(command);
        let mut rsync = command.spawn()?;
        match PidFd::open_pid(i32::try_from(rsync.id()).unwrap_or(0)) {
            Ok(end) => {
                let stderr = rsync.stderr.take().map(OwnedFd::from);
                Ok(Self { rsync, end, stderr, messages: Vec::new() })
            }
            Err(error) => {
                let _already_ended = rsync.kill();
                let _status = rsync.wait();
                Err(error)
            }
        }
    }

    /// Returns the descriptors that become readable when rsync writes a message or exits.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.end.as_fd()).chain(self.stderr.as_ref().map(OwnedFd::as_fd))
    }

    /// Receives messages. Returns the exit status once rsync has exited.
    fn receive(&mut self) -> Option<io::Result<ExitStatus>> {
        // Everything that rsync has written is in the pipe when it has exited.
        let has_exited = self.end.is_dead();
        while self.receive_message() && has_exited {}
        has_exited.then(|| self.rsync.wait())
    }

    /// Receives a part of the messages. Returns false if none has arrived.
    fn receive_message(&mut self) -> bool {
        let is_readable = |stderr: &&OwnedFd| poll::is_readable(stderr.as_fd());
        let Some(stderr) = self.stderr.as_ref().filter(is_readable) else { return false };
        let mut bytes = [0; MAX_MESSAGE_BYTES];
        let count = file::read(stderr, &mut bytes).unwrap_or(0);
        if count == 0 {
            self.stderr = None;
        }
        self.messages.extend_from_slice(&bytes[..count]);
        let excess = self.messages.len().saturating_sub(MAX_MESSAGE_BYTES);
        self.messages.drain(..excess);
        count > 0
    }
}

impl Drop for FetchProcess {
    fn drop(&mut self) {
        if !self.end.is_dead() {
            let _already_ended = self.end.send_signal(Signal::TERM);
            let _ended_or_not = poll::wait_readable(&[self.end.as_fd()], Some(EXIT_TIMEOUT_MS));
        }
        let _already_ended = self.rsync.kill();
        let _status = self.rsync.wait();
    }
}

impl Mirror {
    /// Starts to copy a path to this machine.
    pub(super) fn start_fetch(&mut self, path: &str) {
        let spec = self.task.spec();
        let directory = spec.fetch.as_ref().map_or("", |fetch| fetch.directory.as_str());
        let directories = (Path::new(directory), spec.cwd.as_str());
        let started = rsync::fetch_command(self.connection.executor(), directories, path)
            .and_then(|mut command| FetchProcess::start(&mut command));
        match started {
            Ok(process) => self.fetch = Some(process),
            Err(_) if !Path::new(directory).is_dir() => {
                let why = format!("the directory {directory} does not exist any more");
                self.on_fetched(Err(FetchError { why, is_interruption: false }));
            }
            Err(error) => {
                let why = rsync::cannot_start("rsync", &error);
                self.on_fetched(Err(FetchError { why, is_interruption: false }));
            }
        }
    }

    /// Receives messages of rsync, or its end.
    pub(super) fn on_fetch_readable(&mut self) {
        let Some(process) = &mut self.fetch else { return };
        let Some(status) = process.receive() else { return };
        let messages = std::mem::take(&mut process.messages);
        self.fetch = None;
        let status = status.ok();
        let result = if status.is_some_and(|status| status.success()) {
            Ok(())
        } else {
            Err(rsync::describe_failure(self.connection.executor(), status, &messages))
        };
        self.on_fetched(result);
    }

    fn on_fetched(&mut self, result: Result<(), FetchError>) {
        if self.task.is_live() {
            self.step(|machine, context| machine.on_fetched(context, result));
        }
    }

    /// Appends lines to the output that ends at `at`, on a new line, and carries out the actions
    /// that follow. While output cannot be stored, all of them are deferred.
    pub(super) fn append_output(&mut self, (at, text): (u64, String), rest: Vec<MirrorAction>) {
        if self.unstored.is_some() {
            let append = MirrorAction::AppendOutput { at, text };
            self.deferred = std::iter::once(append).chain(rest).collect();
            return;
        }
        let mut last = [b'\n'];
        // The offset counts from the beginning of the present attempt.
        let earlier = self.task.state().remote.as_ref();
        let earlier = earlier.map_or(0, |remote| remote.earlier_output_bytes);
        if let Some(before) = at.saturating_add(earlier).checked_sub(1) {
            // A byte that was released reads as zero, and one line break too many does no harm.
            let _best_effort = file::read_at(self.output.fd(), &mut last, before);
        }
        let start = if last == *b"\n" { "" } else { "\n" };
        self.store(at, format!("{start}{text}").as_bytes());
        self.deferred = rest;
        self.carry_out_deferred();
    }

    /// Carries out the actions that were deferred until the output is stored.
    pub(super) fn carry_out_deferred(&mut self) {
        if self.unstored.is_none() {
            let deferred = std::mem::take(&mut self.deferred);
            self.carry_out(deferred);
        }
    }

    /// Replaces the size of the output in the summary of the remote machine, which counts neither
    /// the lines about files that could not be copied nor the output of interrupted attempts.
    pub(super) fn with_own_totals(&self, mut records: Vec<Record>) -> Vec<Record> {
        let remote = self.task.state().remote.as_ref();
        let failed = remote.and_then(|remote| remote.failed_fetches.as_deref());
        let is_first_attempt = remote.is_none_or(|remote| remote.attempt == 0);
        if is_first_attempt && failed.is_none_or(<[_]>::is_empty) {
            return records;
        }
        for record in &mut records {
            if let Record::Closed(closed) = record {
                let lost = closed.output.lost;
                closed.output = OutputTotals { lost, ..self.output_totals() };
            }
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn start(script: &str) -> FetchProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        FetchProcess::start(&mut command).expect("sh")
    }

    fn wait_for_end(process: &mut FetchProcess) -> ExitStatus {
        loop {
            let sources: Vec<BorrowedFd<'_>> = process.sources().collect();
            let _ready = poll::wait_readable(&sources, None).expect("open descriptors");
            if let Some(status) = process.receive() {
                return status.expect("a child");
            }
        }
    }

    #[test]
    fn the_end_is_noticed_while_another_process_keeps_the_pipe() {
        let mut process = start("echo message >&2; sleep 60 & echo $! >&2; exit 23");
        assert_eq!(wait_for_end(&mut process).code(), Some(23));
        let text = String::from_utf8(process.messages.clone()).expect("UTF-8");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("message"));
        let sleep: i32 = lines.next().and_then(|pid| pid.parse().ok()).expect("a pid");
        let sleep = PidFd::open_pid(sleep).expect("it runs");
        sleep.send_signal(Signal::KILL).expect("it runs");
    }

    #[test]
    fn only_the_end_of_many_messages_is_kept() {
        let script = "i=0; while [ $i -lt 3000 ]; do echo message $i >&2; i=$((i+1)); done; exit 1";
        let mut process = start(script);
        assert!(!wait_for_end(&mut process).success());
        assert!(process.messages.len() <= MAX_MESSAGE_BYTES);
        assert!(process.messages.ends_with(b"message 2999\n"));
    }

    #[test]
    fn a_dropped_process_is_asked_to_exit() {
        let temporary = tempfile::tempdir().expect("a directory");
        let (ready, cleaned) = (temporary.path().join("ready"), temporary.path().join("cleaned"));
        let script = format!(
            "trap 'touch {}; exit' TERM; touch {}; echo >&2; while :; do sleep .01; done",
            cleaned.display(),
            ready.display()
        );
        let mut process = start(&script);
        while process.messages.is_empty() {
            let sources: Vec<BorrowedFd<'_>> = process.sources().collect();
            let _ready = poll::wait_readable(&sources, None).expect("open descriptors");
            assert!(process.receive().is_none());
        }
        drop(process);
        assert!(ready.exists() && cleaned.exists());
    }
}
