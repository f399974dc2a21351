//! One call of a program: prepared, started, waited for.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::capture::Streams;
use crate::finished::{Finished, transcript};
use crate::processes::Process;
use crate::terminal::Terminal;

/// Longest time one call may take before the test fails.
const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// How long after a program's end its output may still be held open by somebody else.
const HOLD_PATIENCE: Duration = Duration::from_secs(10);

/// A call that is being prepared. Made by [`crate::Sandbox::siding`] and
/// [`crate::Sandbox::puppet`]; it has the sandbox's environment and nothing else, its own
/// process group, and `/dev/null` as stdin.
#[derive(Debug)]
pub struct Invocation {
    command: Command,
    shown: String,
    input: Option<Vec<u8>>,
    input_stays_open: bool,
    may_be_held: bool,
}

impl Invocation {
    pub(crate) fn new(mut command: Command, shown: String) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        Self { command, shown, input: None, input_stays_open: false, may_be_held: false }
    }

    /// Adds an argument at the end.
    pub fn arg(mut self, value: impl AsRef<OsStr>) -> Self {
        self.shown.push_str(&format!(" {}", value.as_ref().display()));
        self.command.arg(value);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable, also one that the sandbox sets.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Runs it in this directory instead of the sandbox's.
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sends these bytes to stdin, then the end of file.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Gives it a pipe as stdin that stays open: see [`Running::write_stdin`].
    pub fn stdin_open(mut self) -> Self {
        self.input_stays_open = true;
        self.stdin("")
    }

    /// Lets stdout go to `target` instead of being collected.
    pub fn stdout_to(mut self, target: impl Into<Stdio>) -> Self {
        self.command.stdout(target);
        self
    }

    /// Gives it this terminal as stdin, stdout and stderr. It does not control the process, so that
    /// closing it sends no SIGHUP.
    pub fn on_terminal(mut self, terminal: &Terminal) -> Self {
        let command = self.command.stdin(terminal.device()).stdout(terminal.device());
        command.stderr(terminal.device()).env("TERM", "xterm-256color");
        self
    }

    /// Runs it as another user and group, without supplementary groups. Works as root only.
    ///
    /// The sandbox's directories stay closed to that user: without [`Invocation::cwd`] the call
    /// does not even start. See [`crate::Sandbox::new_for_uid`] for a sandbox of that user.
    pub fn as_user(mut self, uid: u32, gid: u32) -> Self {
        self.command.uid(uid).gid(gid);
        self
    }

    /// Runs it as on a kernel without these system calls (`libc::SYS_…`).
    pub fn without_calls(mut self, calls: &[libc::c_long]) -> Self {
        crate::denied::deny(&mut self.command, calls);
        self
    }

    /// Stops the shim at the named pause point (`SIDING_PAUSE_AT`).
    pub fn pause_at(self, point: &str) -> Self {
        self.env("SIDING_PAUSE_AT", point)
    }

    /// Allows that a descendant still holds stdout or stderr when the program has ended.
    ///
    /// Without this [`Running::wait`] fails then, since a host that reads to the end of file
    /// would be kept waiting by it.
    pub fn may_be_held(mut self) -> Self {
        self.may_be_held = true;
        self
    }

    /// Takes [`Invocation::may_be_held`] back, which calls of `puppet` have from the start.
    pub fn must_not_be_held(mut self) -> Self {
        self.may_be_held = false;
        self
    }

    /// Starts it and waits for its end; see [`Running::wait`].
    ///
    /// # Panics
    ///
    /// As [`Invocation::spawn`] and [`Running::wait`] do.
    #[track_caller]
    pub fn run(self) -> Finished {
        self.spawn().wait()
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    pub fn spawn(mut self) -> Running {
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        let started = Instant::now();
        let mut child = match self.command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("`{}` does not start: {error}", self.shown),
        };
        let pid = rustix::process::Pid::from_child(&child);
        let exit = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            .expect("an own child that nobody has waited for has a pidfd");
        let process = Process::of(child.id()).expect("such a child is in /proc");
        let mut streams = Streams::of(&mut child);
        if let Some(input) = self.input {
            streams.queue(&input);
            if !self.input_stays_open {
                streams.close_stdin();
            }
        }
        Running {
            child,
            process,
            exit,
            streams,
            started,
            shown: self.shown,
            may_be_held: self.may_be_held,
        }
    }
}

/// A call that was started. It is killed when this value is dropped (the program alone, as a
/// crash would; the sandbox ends what it leaves).
#[derive(Debug)]
pub struct Running {
    child: Child,
    process: Process,
    exit: OwnedFd,
    streams: Streams,
    started: Instant,
    shown: String,
    may_be_held: bool,
}

impl Running {
    /// The started process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        self.process.signal(signal);
    }

    /// Queues bytes for its stdin; they go out while something waits for this call.
    pub fn write_stdin(&mut self, bytes: &[u8]) {
        self.streams.queue(bytes);
        self.streams.pump(None, Duration::ZERO);
    }

    /// Ends its stdin after what was queued.
    pub fn close_stdin(&mut self) {
        self.streams.close_stdin();
    }

    /// Closes this end of its stdin and its stdout at once, as a host that dies does.
    pub fn hang_up(&mut self) {
        self.streams.hang_up();
    }

    /// What it has written to stdout so far, unreadable bytes replaced.
    pub fn out(&mut self) -> String {
        self.streams.read();
        String::from_utf8_lossy(&self.streams.out).into_owned()
    }

    /// Waits until its stdout contains `part`, and returns all of it so far.
    ///
    /// # Panics
    ///
    /// When that has not come within [`crate::POLL_DEADLINE`].
    #[track_caller]
    pub fn until_out_has(&mut self, part: &str) -> String {
        let deadline = Instant::now() + crate::POLL_DEADLINE;
        loop {
            let text = self.out();
            if text.contains(part) {
                return text;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                panic!("`{}` did not print {part:?}{}", self.shown, self.transcript());
            }
            self.streams.pump(None, left.min(Duration::from_millis(100)));
        }
    }

    /// Waits for its end, collecting its output.
    ///
    /// # Panics
    ///
    /// When it has not ended within 60 s, or when somebody still holds its stdout or stderr
    /// 2 s after its end (unless [`Invocation::may_be_held`] allows that).
    #[track_caller]
    pub fn wait(mut self) -> Finished {
        let deadline = self.started + CALL_DEADLINE;
        let elapsed = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.streams.pump(Some(self.exit.as_fd()), left) {
                break self.started.elapsed();
            }
            if left.is_zero() {
                panic!("`{}` is not done after {CALL_DEADLINE:?}{}", self.shown, self.transcript());
            }
        };
        let status = self.child.wait().expect("an own child can be waited for");
        self.streams.read();
        if !self.may_be_held {
            self.expect_streams_closed();
        }
        let streams = std::mem::take(&mut self.streams);
        Finished::new(status, streams.out, streams.err, elapsed, self.shown.clone())
    }

    #[track_caller]
    fn expect_streams_closed(&mut self) {
        let deadline = Instant::now() + HOLD_PATIENCE;
        while self.streams.held() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let text = self.transcript();
                panic!("`{}` has ended, but its output is still held open{text}", self.shown);
            }
            self.streams.pump(None, left);
        }
    }

    fn transcript(&self) -> String {
        transcript(&self.streams.out, &self.streams.err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when the child was waited for before.
        let _already_gone = self.child.kill();
        let _already_reaped = self.child.wait();
    }
}
