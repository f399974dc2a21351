//! A program that uses siding as a library, as an agent's host would.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use siding_core::store::StateDir;
use siding_core::task::launch::IdleShim;
use siding_core::task::shim_client::{RecvResult, ShimConnection};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::journal::TaskState;
use siding_model::lifecycle::{Phase, TaskEvent};
use siding_model::outcome::{BackgroundReason, Outcome, Placement};
use siding_model::process::ProcRef;
use siding_model::protocol::ShimMessage;
use siding_model::record::Record;
use siding_model::settings::Settings;
use siding_model::spec::{StdinMode, TaskCommand, TaskSpec};
use siding_model::terminal::{DEFAULT_ATTACH_IDLE_MS, TerminalSize};

/// Longest wait for a single event, in milliseconds. The value is much larger than every measured
/// time, so the wait expires only when a task or shim hangs.
const RECV_TIMEOUT_MS: u64 = 120_000;
/// Deadline of every task, in milliseconds, so that a killed bench leaves no tasks running for
/// long.
const DEADLINE_MS: u64 = 900_000;

/// A client of the siding library with everything that a task start needs: the state directory, the
/// shim program, the environment and the settings.
#[derive(Debug)]
pub(super) struct BenchClient {
    root: StateDir,
    program: CString,
    environment: Vec<CString>,
    cwd: String,
    settings: Settings,
    /// Number of bytes that siding retains at the end of the output; `None` uses the setting.
    pub(super) keep_tail: Option<u64>,
    /// The session of every task; `None` uses the implicit session, which never ends. The tasks of
    /// a session are stopped when its owner exits, without a grace period.
    pub(super) session: Option<SessionId>,
    /// Whether tasks start in the background, where the shim watches them for stalls.
    pub(super) is_background: bool,
    /// The size of the terminal of each task; `None` for tasks with pipes.
    pub(super) terminal: Option<TerminalSize>,
}

/// A started task, with the connection to its shim.
#[derive(Debug)]
pub(super) struct BenchTask {
    pub(super) id: TaskId,
    link: ShimConnection,
}

pub(super) fn shell_command(text: impl Into<String>) -> TaskCommand {
    TaskCommand::Shell { text: text.into(), shell: "bash".to_owned() }
}

/// Returns a command that runs a program without a shell.
pub(super) fn argv_command<const N: usize>(words: [&str; N]) -> TaskCommand {
    TaskCommand::Argv { argv: words.map(str::to_owned).to_vec() }
}

impl BenchClient {
    /// Opens the state directory `state`. The shims of the tasks run the program `siding`.
    pub(super) fn open(state: &Path, work: &Path, siding: &Path) -> Result<Self> {
        let environment = std::env::vars_os()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        Ok(Self {
            root: StateDir::open(state)?,
            program: CString::new(siding.as_os_str().as_bytes())?,
            environment: environment.collect::<Result<_, _>>()?,
            cwd: work.to_str().context("the workspace path is not UTF-8")?.to_owned(),
            settings: Settings::default(),
            keep_tail: None,
            session: None,
            is_background: false,
            terminal: None,
        })
    }

    fn spec(&self, task_id: TaskId, command: TaskCommand) -> TaskSpec {
        let settings = &self.settings;
        TaskSpec {
            task_id,
            session_id: self.session.clone().unwrap_or_else(SessionId::implicit),
            parent_task: None,
            name: None,
            command,
            cwd: self.cwd.clone(),
            stdin: match self.terminal {
                Some(_) => StdinMode::Terminal,
                None => StdinMode::Null,
            },
            placement: if self.is_background {
                Placement::Background { why: BackgroundReason::Asked }
            } else {
                Placement::Foreground
            },
            deadline_ms: DEADLINE_MS,
            cap_ms: DEADLINE_MS,
            deadline_from_background: false,
            signal: settings.kill_signal,
            grace_ms: settings.kill_grace.as_millis() as u64,
            on_leader_exit: settings.on_leader_exit,
            keep: false,
            session_grace_ms: match self.session {
                Some(_) => 0,
                None => settings.session_grace.as_millis() as u64,
            },
            keep_head: settings.output_keep_head.0,
            keep_tail: self.keep_tail.unwrap_or(settings.output_keep_tail.0),
            stall_after_ms: 45_000,
            deadline_notice_ms: settings.deadline_notice.as_millis() as u64,
            watch: settings.watchdog_thresholds(),
            limits: siding_model::limits::Limits::default(),
            net: siding_model::net::NetPolicy::Unrestricted,
            same_key: format!("{:016x}", task_id.birthmark().0),
            duplicate_of: None,
            separate_stderr: false,
            terminal: self.terminal,
            terminal_attributes: None,
            attach_idle_ms: DEFAULT_ATTACH_IDLE_MS,
            executor: None,
            fetch: None,
            sent_by: None,
            trace_parent: None,
            log_journald: false,
            monitor: None,
            wait_for: Vec::new(),
        }
    }

    /// Starts a task as `siding run` does, but with the built-in settings instead of the settings
    /// file.
    pub(super) fn start(&self, command: TaskCommand) -> Result<BenchTask> {
        let shim = IdleShim::start(&self.program).context("could not start a shim")?;
        let id = self.root.new_id(TaskKind::LocalBash)?;
        let mut spec = self.spec(id, command);
        let dir = self.root.create_task(id)?;
        self.root.mark_live(id)?;
        spec.duplicate_of = self.root.claim_command(&spec.same_key, id, |_| false)?;
        let link = shim.start_task(&self.root, dir, &spec, &self.environment, None)?;
        Ok(BenchTask { id, link })
    }

    /// Runs a task to its end and returns the time until this process detected the end. A task that
    /// does not exit with code 0 is an error.
    ///
    /// Returns only when the shim has exited, because the shim's final work must not run during the
    /// measurement of another contender.
    pub(super) fn run(&self, command: TaskCommand) -> Result<CompletedTask> {
        let started = std::time::Instant::now();
        let task = self.start(command)?;
        task.wait_until_closed()?;
        let known = started.elapsed();
        task.wait_for_shim_exit()?;
        self.ensure_success(task.id)?;
        Ok(CompletedTask { id: task.id, until_end_known: known })
    }

    /// Opens a session whose owner is the process `owner`. All tasks that are started later belong
    /// to this session.
    pub(super) fn open_session(&mut self, name: &str, owner: u32) -> Result<()> {
        let id: SessionId = name.parse()?;
        siding_core::session::open(&self.root, &id, i32::try_from(owner)?)?;
        self.session = Some(id);
        Ok(())
    }

    /// Returns the state directory and the shim program, which are arguments of the library's
    /// observer functions.
    pub(super) fn root_and_program(&self) -> (&StateDir, &CStr) {
        (&self.root, &self.program)
    }

    /// Replays a task's journal and returns the resulting state.
    pub(super) fn state(&self, id: TaskId) -> Result<TaskState> {
        Ok(self.root.task_dir(id)?.read()?.state)
    }

    pub(super) fn shim_process(&self, id: TaskId) -> Result<ProcRef> {
        Ok(self.state(id)?.shim)
    }

    /// Returns an error unless a task has ended with exit code 0.
    pub(super) fn ensure_success(&self, id: TaskId) -> Result<()> {
        let state = self.state(id)?;
        if let Phase::Ended { outcome: Outcome::Exited { code: 0 }, .. } = state.lifecycle.phase() {
            return Ok(());
        }
        bail!("task {id} failed: {:?}", state.lifecycle.phase())
    }

    pub(super) fn task_dir(&self, id: TaskId) -> PathBuf {
        self.root.path().join("tasks").join(id.to_string())
    }

    /// Returns the number of tasks that are marked live in the state directory.
    pub(super) fn live_count(&self) -> Result<usize> {
        Ok(self.root.live_tasks()?.len())
    }
}

/// A task that has ended with exit code 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompletedTask {
    pub(super) id: TaskId,
    /// Time from the start of the task until this process detected the end.
    pub(super) until_end_known: Duration,
}

impl BenchTask {
    /// Waits until the shim has recorded the start of the command.
    pub(super) fn wait_until_running(&self) -> Result<()> {
        self.wait_for_record(|record| {
            matches!(record, Record::Event { event: TaskEvent::Spawned { .. }, .. })
        })
    }

    /// Waits for the final record, which closes the journal.
    pub(super) fn wait_until_closed(&self) -> Result<()> {
        self.wait_for_record(|record| matches!(record, Record::Closed(_)))
    }

    fn wait_for_record(&self, wanted: impl Fn(&Record) -> bool) -> Result<()> {
        loop {
            match self.link.recv(Some(RECV_TIMEOUT_MS))? {
                RecvResult::Message(ShimMessage::Record { record: Some(record), .. })
                    if wanted(&record) =>
                {
                    return Ok(());
                }
                RecvResult::Message(ShimMessage::CannotStart { doing, .. }) => bail!(doing),
                RecvResult::Message(_) => {}
                RecvResult::TimedOut => bail!("task {} was silent for two minutes", self.id),
                RecvResult::Disconnected => bail!("the shim of task {} exited too early", self.id),
            }
        }
    }

    /// Waits until the shim has closed the connection, which it does at its exit.
    pub(super) fn wait_for_shim_exit(&self) -> Result<()> {
        loop {
            match self.link.recv(Some(RECV_TIMEOUT_MS))? {
                RecvResult::Disconnected => return Ok(()),
                RecvResult::Message(_) => {}
                RecvResult::TimedOut => bail!("the shim of task {} does not exit", self.id),
            }
        }
    }

    /// Waits at most `ms` milliseconds for one message and returns whether the message is the final
    /// record.
    pub(super) fn poll_closed(&self, ms: u64) -> Result<bool> {
        match self.link.recv(Some(ms))? {
            RecvResult::Message(ShimMessage::Record { record: Some(record), .. }) => {
                Ok(matches!(*record, Record::Closed(_)))
            }
            RecvResult::Message(_) | RecvResult::TimedOut => Ok(false),
            RecvResult::Disconnected => bail!("the shim of task {} exited too early", self.id),
        }
    }
}
