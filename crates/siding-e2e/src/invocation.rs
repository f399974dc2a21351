//! Prepares a call of a program, starts it and waits for its end.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::child_stdio::ChildStdio;
use crate::processes::Process;
use crate::program_output::{ProgramOutput, transcript};
use crate::terminal::Terminal;

/// Time after which the test fails if the called program has not exited.
const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// Maximum time for which another process may hold the output open after the program's end, unless
/// the test sets another time.
const OUTPUT_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A program call that has not been started yet. [`crate::Sandbox::siding`],
/// [`crate::Sandbox::puppet`] and [`crate::Sandbox::host`] create it. Unless the test changes the
/// call, the program gets the sandbox's environment and no other variables, its own process group,
/// and `/dev/null` as stdin.
#[derive(Debug)]
pub struct Invocation {
    command: Command,
    command_text: String,
    input: Option<Vec<u8>>,
    keeps_stdin_open: bool,
    /// Maximum time for which another process may hold the output open after the program's end;
    /// `None` without a limit.
    held_output_limit: Option<Duration>,
}

impl Invocation {
    pub(crate) fn new(mut command: Command, shown: String) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        Self {
            command,
            command_text: shown,
            input: None,
            keeps_stdin_open: false,
            held_output_limit: Some(OUTPUT_CLOSE_TIMEOUT),
        }
    }

    /// Appends an argument after the existing ones.
    pub fn arg(mut self, value: impl AsRef<OsStr>) -> Self {
        self.command_text.push_str(&format!(" {}", value.as_ref().display()));
        self.command.arg(value);
        self
    }

    /// Sets an environment variable, in addition to those of the sandbox or instead of one of them.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable, including one that the sandbox sets.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets the working directory; the default is the sandbox's.
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sends these bytes to the program's stdin and then closes it.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Makes stdin a pipe that stays open until [`RunningProgram::close_stdin`].
    pub fn stdin_pipe(mut self) -> Self {
        self.keeps_stdin_open = true;
        self.stdin("")
    }

    /// Sends stdout to `target` instead of collecting it.
    pub fn stdout_to(mut self, target: impl Into<Stdio>) -> Self {
        self.command.stdout(target);
        self
    }

    /// Connects stdin, stdout and stderr to this terminal. The terminal does not become the
    /// controlling terminal of the process, so closing it sends no SIGHUP.
    pub fn on_terminal(mut self, terminal: &Terminal) -> Self {
        let command = self.command.stdin(terminal.device_stdio()).stdout(terminal.device_stdio());
        command.stderr(terminal.device_stdio()).env("TERM", "xterm-256color");
        self
    }

    /// Runs the call as another user and group, without supplementary groups. Works only as root.
    /// That user has no access to the sandbox's directories, so the call fails to start without a
    /// [`Invocation::cwd`] that the user can enter. See [`crate::Sandbox::new_for_uid`] for a
    /// sandbox of that user.
    pub fn as_user(mut self, uid: u32, gid: u32) -> Self {
        self.command.uid(uid).gid(gid);
        self
    }

    /// Makes these system calls (`libc::SYS_…`) fail in the program and all its descendants, as on
    /// a kernel that lacks them.
    pub fn without_syscalls(mut self, calls: &[libc::c_long]) -> Self {
        crate::seccomp::deny_syscalls(&mut self.command, calls);
        self
    }

    /// Stops the shim at the named failpoint (`SIDING_PAUSE_AT`).
    pub fn pause_at(self, point: &str) -> Self {
        self.env("SIDING_PAUSE_AT", point)
    }

    /// Allows a descendant to hold stdout or stderr open after the program has ended. By default,
    /// [`RunningProgram::wait`] fails in this case, because such a descendant would block a host
    /// that reads until the end of file.
    pub fn allow_held_output(mut self) -> Self {
        self.held_output_limit = None;
        self
    }

    /// Reverts [`Invocation::allow_held_output`], with which the calls from
    /// [`crate::Sandbox::puppet`] and [`crate::Sandbox::host`] start.
    pub fn forbid_held_output(self) -> Self {
        self.limit_held_output(OUTPUT_CLOSE_TIMEOUT)
    }

    /// Like [`Invocation::forbid_held_output`], with another time, for a test whose program leaves
    /// a process with its output behind.
    pub fn limit_held_output(mut self, limit: Duration) -> Self {
        self.held_output_limit = Some(limit);
        self
    }

    /// Starts the program and waits for its end; see [`RunningProgram::wait`].
    ///
    /// # Panics
    ///
    /// Under the conditions of [`Invocation::spawn`] and [`RunningProgram::wait`].
    #[track_caller]
    pub fn run(self) -> ProgramOutput {
        self.spawn().wait()
    }

    /// Starts the program, without waiting for its end.
    ///
    /// # Panics
    ///
    /// When the program cannot be started.
    #[track_caller]
    pub fn spawn(mut self) -> RunningProgram {
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        let started = Instant::now();
        let mut child = match self.command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("`{}` does not start: {error}", self.command_text),
        };
        let pid = rustix::process::Pid::from_child(&child);
        let exit = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            .expect("an unreaped child has a pidfd");
        let process = Process::from_pid(child.id()).expect("an unreaped child is in /proc");
        let mut streams = ChildStdio::from_child(&mut child);
        if let Some(input) = self.input {
            streams.queue_stdin(&input);
            if !self.keeps_stdin_open {
                streams.close_stdin();
            }
        }
        RunningProgram {
            child,
            process,
            exit,
            streams,
            started,
            command_text: self.command_text,
            held_output_limit: self.held_output_limit,
        }
    }
}

/// A program that [`Invocation::spawn`] has started. Dropping this value kills only the program, as
/// in a crash; dropping the sandbox kills its descendants.
#[derive(Debug)]
pub struct RunningProgram {
    child: Child,
    process: Process,
    exit: OwnedFd,
    streams: ChildStdio,
    started: Instant,
    command_text: String,
    held_output_limit: Option<Duration>,
}

impl RunningProgram {
    /// Returns the started process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: rustix::process::Signal) {
        self.process.signal(signal);
    }

    /// Writes bytes to stdin. Those that the pipe does not accept now are written while a method of
    /// this value waits.
    pub fn write_stdin(&mut self, bytes: &[u8]) {
        self.streams.queue_stdin(bytes);
        self.streams.pump(None, Duration::ZERO);
    }

    /// Closes stdin as soon as all queued bytes are written.
    pub fn close_stdin(&mut self) {
        self.streams.close_stdin();
    }

    /// Closes the test's ends of stdin and stdout immediately, as the kernel does when a host dies.
    pub fn hang_up(&mut self) {
        self.streams.hang_up();
    }

    /// Returns all stdout received so far, with invalid UTF-8 replaced.
    pub fn stdout_text(&mut self) -> String {
        self.streams.read_output();
        String::from_utf8_lossy(&self.streams.stdout_bytes).into_owned()
    }

    /// Waits until stdout contains `part`, and returns all of stdout so far.
    ///
    /// # Panics
    ///
    /// When `part` has not appeared within [`crate::POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_stdout(&mut self, part: &str) -> String {
        let deadline = Instant::now() + crate::POLL_DEADLINE;
        loop {
            let text = self.stdout_text();
            if text.contains(part) {
                return text;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                panic!("`{}` did not print {part:?}{}", self.command_text, self.transcript());
            }
            self.streams.pump(None, left.min(Duration::from_millis(100)));
        }
    }

    /// Waits for the program's end, collecting its output.
    ///
    /// # Panics
    /// When the program has not ended 60 s after its start, or when another process still holds the
    /// program's stdout or stderr 10 s after the end (unless [`Invocation::allow_held_output`]
    /// permits that).
    #[track_caller]
    pub fn wait(mut self) -> ProgramOutput {
        let deadline = self.started + CALL_DEADLINE;
        let elapsed = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.streams.pump(Some(self.exit.as_fd()), left) {
                break self.started.elapsed();
            }
            if left.is_zero() {
                panic!(
                    "`{}` is not done after {CALL_DEADLINE:?}{}",
                    self.command_text,
                    self.transcript()
                );
            }
        };
        let status = self.child.wait().expect("waiting for the child succeeded");
        self.streams.read_output();
        if let Some(limit) = self.held_output_limit {
            self.assert_output_closed(limit);
        }
        let streams = std::mem::take(&mut self.streams);
        ProgramOutput::new(
            status,
            streams.stdout_bytes,
            streams.stderr_bytes,
            elapsed,
            self.command_text.clone(),
        )
    }

    #[track_caller]
    fn assert_output_closed(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.streams.is_output_open() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let text = self.transcript();
                panic!(
                    "`{}` has ended, but its output is still held open{text}",
                    self.command_text
                );
            }
            self.streams.pump(None, left);
        }
    }

    fn transcript(&self) -> String {
        transcript(&self.streams.stdout_bytes, &self.streams.stderr_bytes)
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // If `wait` has already reaped the child, both calls have no effect.
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
    }
}
