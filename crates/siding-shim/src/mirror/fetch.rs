//! The rsync process of a mirror, which copies files back when the command has ended.
//!
//! rsync consists of several processes here: the one that the mirror starts, its receiver, which
//! writes the files, and ssh. When the mirror is killed, the kernel sends SIGTERM to the first one,
//! which terminates the others within about half a second. All of them except ssh hold the lock of
//! the task's copies. The next mirror connects only when they have exited, and only then receives
//! the end of the command and starts another copy.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use siding_core::remote::rsync;
use siding_core::store::{TaskDir, task_files};
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, descriptor, file, poll, signals};
use siding_model::file_sync::{SkippedLinkReader, SkippedLinks};
use siding_model::outcome::LeaderEnd;
use siding_model::process::MonotonicMs;
use siding_model::record::{OutputTotals, Record};
use siding_model::remote::{FetchError, MirrorAction};
use siding_model::signal::Signal;

use super::Mirror;

/// Maximum number of bytes of rsync's messages that are kept.
const MAX_MESSAGE_BYTES: usize = 4096;
/// Time in which rsync removes its temporary file after a SIGTERM, in milliseconds.
const EXIT_TIMEOUT_MS: u64 = 1_000;
/// Pause between two attempts to start a copy while an earlier rsync exits, in milliseconds.
const LOCK_RETRY_MS: u64 = 500;

/// A path whose copy waits for the end of an earlier rsync of the task.
#[derive(Debug)]
pub(super) struct WaitingFetch {
    path: String,
    /// Time of the next attempt.
    retry_at: MonotonicMs,
}

impl WaitingFetch {
    pub(super) const fn retry_at(&self) -> MonotonicMs {
        self.retry_at
    }
}

/// Acquires the lock of a task's copies for the rsync that this process starts next. Returns `None`
/// if a process of an earlier rsync holds the lock.
fn lock_copies(task: &TaskDir) -> io::Result<Option<OwnedFd>> {
    let lock = file::open_or_create(task.endpoint_dir()?, task_files::FETCH_LOCK_FILE)?;
    if !file::try_lock_exclusive(&lock)? {
        return Ok(None);
    }
    // The processes of rsync inherit the descriptor, and thereby the lock. ssh closes the
    // descriptor, so that the shared connection, which may stay open, does not hold the lock.
    descriptor::set_close_on_exec(&lock, false)?;
    Ok(Some(lock))
}

/// Returns whether a process of an earlier rsync holds the lock of the task's copies.
fn is_locked(task: &TaskDir) -> bool {
    lock_copies(task).is_ok_and(|lock| lock.is_none())
}

/// A running rsync. Dropping the value terminates rsync.
#[derive(Debug)]
pub(super) struct FetchProcess {
    rsync: Child,
    is_reaped: bool,
    end: PidFd,
    /// The pipe of the lines about links that are not copied.
    stdout: Option<OwnedFd>,
    links: SkippedLinkReader,
    /// The pipe of the messages. It may stay open after rsync has exited, because ssh may leave
    /// behind a shared connection that holds the pipe.
    stderr: Option<OwnedFd>,
    /// The last part of the messages.
    messages: Vec<u8>,
}

impl FetchProcess {
    /// Starts rsync. The command must have pipes as its standard output and standard error.
    fn start(command: &mut Command) -> io::Result<Self> {
        // rsync would inherit a blocked SIGTERM, which could not terminate it.
        signals::unblock_in_child(command);
        signals::terminate_child_with_thread(command);
        command.process_group(0);
        let mut rsync = command.spawn()?;
        match PidFd::open_pid(i32::try_from(rsync.id()).unwrap_or(0)) {
            Ok(end) => {
                let stdout = rsync.stdout.take().map(OwnedFd::from);
                let stderr = rsync.stderr.take().map(OwnedFd::from);
                let (links, messages) = (SkippedLinkReader::default(), Vec::new());
                Ok(Self { rsync, is_reaped: false, end, stdout, links, stderr, messages })
            }
            Err(error) => {
                let _already_ended = rsync.kill();
                let _status = rsync.wait();
                Err(error)
            }
        }
    }

    /// Returns the descriptors that become readable when rsync writes a line or exits.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let pipes = [&self.stdout, &self.stderr].into_iter().flatten();
        std::iter::once(self.end.as_fd()).chain(pipes.map(OwnedFd::as_fd))
    }

    /// Receives messages. Returns the exit status once rsync has exited.
    fn receive(&mut self) -> Option<io::Result<ExitStatus>> {
        // When rsync has exited, all its messages are in the pipes.
        let has_exited = self.end.is_dead();
        while self.receive_message() && has_exited {}
        while self.receive_links() && has_exited {}
        has_exited.then(|| self.reap())
    }

    /// Terminates rsync unless it has exited. A killed rsync cannot terminate its receiver, so the
    /// whole group is killed. An rsync that exits has already terminated its processes; the rest of
    /// the group may belong to a shared connection, such as the `ProxyCommand` of
    /// ssh.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        let has_exited = matches!(self.end.exit_status(), Some(LeaderEnd::Exited { .. }));
        if !self.is_reaped && !has_exited {
            // The kernel does not reuse the number of the group before rsync, its leader, is
            // reaped.
            let group = i32::try_from(self.rsync.id()).unwrap_or(0);
            let _already_ended = signals::send_to_group(group, Signal::KILL);
        }
        self.is_reaped = true;
        self.rsync.wait()
    }

    /// Reads a part of the messages. Returns false if none has arrived.
    fn receive_message(&mut self) -> bool {
        let mut bytes = [0; MAX_MESSAGE_BYTES];
        let count = receive_from(&mut self.stderr, &mut bytes);
        self.messages.extend_from_slice(&bytes[..count]);
        let excess = self.messages.len().saturating_sub(MAX_MESSAGE_BYTES);
        self.messages.drain(..excess);
        count > 0
    }

    /// Reads a part of the lines about links. Returns false if none has arrived.
    fn receive_links(&mut self) -> bool {
        let mut bytes = [0; MAX_MESSAGE_BYTES];
        let count = receive_from(&mut self.stdout, &mut bytes);
        self.links.push(&bytes[..count]);
        count > 0
    }
}

/// Reads the available bytes of a pipe, and closes the pipe at its end. Returns the number of
/// bytes.
fn receive_from(pipe: &mut Option<OwnedFd>, bytes: &mut [u8]) -> usize {
    let is_readable = |fd: &&OwnedFd| poll::is_readable(fd.as_fd());
    let Some(fd) = pipe.as_ref().filter(is_readable) else { return 0 };
    let count = file::read(fd, bytes).unwrap_or(0);
    if count == 0 {
        *pipe = None;
    }
    count
}

impl Drop for FetchProcess {
    fn drop(&mut self) {
        if !self.end.is_dead() {
            let _already_ended = self.end.send_signal(Signal::TERM);
            let _ended_or_not = poll::wait_readable(&[self.end.as_fd()], Some(EXIT_TIMEOUT_MS));
        }
        let _status = self.reap();
    }
}

impl Mirror {
    /// Starts to copy a path to this machine, or defers the copy until an earlier one has ended.
    pub(super) fn start_fetch(&mut self, path: String) {
        let started = match lock_copies(self.task.dir()) {
            Ok(Some(lock)) => self.start_rsync(&path, lock),
            Ok(None) => {
                let retry_at = clock::monotonic_now().plus_ms(LOCK_RETRY_MS);
                self.waiting_fetch = Some(WaitingFetch { path, retry_at });
                return;
            }
            Err(error) => Err(format!("the lock of the copies cannot be used: {error}")),
        };
        match started {
            Ok(process) => self.fetch = Some(process),
            Err(why) => self.on_fetched(Err(FetchError { why, is_interruption: false })),
        }
    }

    /// Returns whether a copy that a killed mirror started may still write files. The end of the
    /// task must be received only after that copy, because a stop records the end without another
    /// copy.
    pub(super) fn has_earlier_copy(&self) -> bool {
        let is_first = self.fetch.is_none() && self.waiting_fetch.is_none();
        is_first && self.task.spec().fetch.is_some() && is_locked(self.task.dir())
    }

    /// Tries again to start a deferred copy.
    pub(super) fn start_waiting_fetch(&mut self, now: MonotonicMs) {
        if let Some(waiting) = self.waiting_fetch.take_if(|waiting| waiting.retry_at <= now) {
            self.start_fetch(waiting.path);
        }
    }

    /// Terminates the running copy, or cancels the deferred one.
    pub(super) fn cancel_fetch(&mut self) {
        self.fetch = None;
        self.waiting_fetch = None;
    }

    /// Starts rsync, which inherits the lock. Returns the reason if it cannot be started.
    fn start_rsync(&self, path: &str, lock: OwnedFd) -> Result<FetchProcess, String> {
        let spec = self.task.spec();
        let directory = spec.fetch.as_ref().map_or("", |fetch| fetch.directory.as_str());
        let directories = (Path::new(directory), spec.cwd.as_str());
        let started = rsync::fetch_command(self.connection.executor(), directories, path)
            .and_then(|mut command| FetchProcess::start(&mut command));
        // From here on, only the processes of rsync hold the lock.
        drop(lock);
        started.map_err(|error| {
            if Path::new(directory).is_dir() {
                rsync::cannot_start("rsync", &error)
            } else {
                format!("the directory {directory} does not exist any more")
            }
        })
    }

    /// Reads messages of rsync, or handles its exit.
    pub(super) fn on_fetch_readable(&mut self) {
        let Some(process) = &mut self.fetch else { return };
        let Some(status) = process.receive() else { return };
        let messages = std::mem::take(&mut process.messages);
        let links = std::mem::take(&mut process.links).into_links();
        self.fetch = None;
        let status = status.ok();
        let result = if status.is_some_and(|status| status.success()) {
            Ok(links)
        } else {
            Err(rsync::describe_failure(self.connection.executor(), status, &messages))
        };
        self.on_fetched(result);
    }

    fn on_fetched(&mut self, result: Result<SkippedLinks, FetchError>) {
        if self.task.is_live() {
            self.step(|machine, context| machine.on_fetched(context, result));
        }
    }

    /// Appends lines, starting on a new line, to the output, which ends at `at`, and carries out
    /// the actions that follow. While output cannot be stored, all these actions are deferred.
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
            // A released byte reads as zero, and then causes a superfluous line break, which does
            // no harm.
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

    /// Corrects the size of the output in the summary of the remote machine. That size excludes the
    /// lines about files and links that were not copied, and the output of interrupted attempts.
    pub(super) fn with_own_totals(&self, mut records: Vec<Record>) -> Vec<Record> {
        let remote = self.task.state().remote.as_ref();
        let is_own = remote.is_some_and(|remote| {
            let failed = remote.failed_fetches.as_deref().unwrap_or_default();
            remote.attempt > 0 || !failed.is_empty() || !remote.skipped_links.is_empty()
        });
        if !is_own {
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
        // Like the shared connection of ssh, the other process has a session of its own.
        let mut process = start(
            "echo message >&2; pid=$(setsid sh -c 'echo $$; exec sleep 60 >/dev/null' &); \
             echo $pid >&2; exit 23",
        );
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
    fn the_end_of_the_thread_that_has_started_rsync_ends_rsync() {
        let thread = std::thread::spawn(|| {
            let mut process = start("trap 'exit 20' TERM; echo >&2; while :; do sleep .01; done");
            wait_for_message(&mut process);
            process
        });
        let mut process = thread.join().expect("it does not panic");
        assert_eq!(wait_for_end(&mut process).code(), Some(20));
    }

    #[test]
    fn a_killed_rsync_leaves_no_receiver() {
        let mut process = start("sleep 60 & echo $! >&2; kill -KILL $$");
        assert!(wait_for_end(&mut process).code().is_none());
        let text = String::from_utf8(process.messages.clone()).expect("UTF-8");
        let receiver: i32 = text.trim().parse().expect("a pid");
        // The kernel terminates the process shortly after the signal, and then init reaps it.
        if let Ok(receiver) = PidFd::open_pid(receiver) {
            let ended = poll::wait_readable(&[receiver.as_fd()], Some(10_000));
            assert!(ended.is_ok() && receiver.is_dead());
        }
    }

    #[test]
    fn copies_of_a_task_are_locked_until_each_process_of_rsync_has_ended() {
        let temporary = tempfile::tempdir().expect("a directory");
        let open = || {
            let id = "b-4k7q0n2m8x5t".parse().expect("an id");
            let dir = file::open_directory(temporary.path()).expect("it exists");
            TaskDir::from_fd(id, dir, None)
        };
        let lock = lock_copies(&open()).expect("own directory").expect("it is free");
        let mut process = start("echo >&2; exec sleep 60");
        wait_for_message(&mut process);
        drop(lock);
        assert!(lock_copies(&open()).expect("own directory").is_none());
        drop(process);
        // A process that another test forks at this moment may hold the descriptor until its
        // exec.
        while lock_copies(&open()).expect("own directory").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn wait_for_message(process: &mut FetchProcess) {
        while process.messages.is_empty() {
            let sources: Vec<BorrowedFd<'_>> = process.sources().collect();
            let _ready = poll::wait_readable(&sources, None).expect("open descriptors");
            assert!(process.receive().is_none());
        }
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
        wait_for_message(&mut process);
        drop(process);
        assert!(ready.exists() && cleaned.exists());
    }
}
