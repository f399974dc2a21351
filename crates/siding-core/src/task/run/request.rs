//! The request for a task. The settings supply everything that the request does not specify.

use std::ffi::OsStr;
use std::time::Duration;

use siding_model::executor::RemoteExecutor;
use siding_model::file_sync::FetchRequest;
use siding_model::fnv::Fnv1a;
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::limits::Thresholds;
use siding_model::monitor::Monitor;
use siding_model::net::NetPolicy;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::process::ProcRef;
use siding_model::record;
use siding_model::settings::Settings;
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, TaskCommand, TaskSpec};
use siding_model::terminal::TerminalAttributes;
use siding_model::trace_parent::TraceParent;
use siding_model::wait::Condition;

use super::environment::BaseEnvironment;
use super::error::RunError;
use super::executor::ExecutorChoice;
use super::start::PreparedTask;
use super::stdin::TaskStdin;
pub use super::working_directory::WorkingDirectory;
use crate::net::policy;
use crate::session;
use crate::store::StateDir;
use crate::sys::{birthmark, file, procfs};

/// A request to run a command: a builder whose defaults come from the settings.
///
/// ```no_run
/// # use siding_core::store::StateDir;
/// # use siding_core::task::run::request::{TaskRequest, WorkingDirectory};
/// # use siding_model::id::SessionId;
/// # use siding_model::outcome::{BackgroundReason, Placement};
/// # use siding_model::settings::Settings;
/// # use siding_model::spec::TaskCommand;
/// # fn example(root: &StateDir, settings: &Settings) -> Result<(), siding_core::task::run::RunError> {
/// let command = TaskCommand::Shell { text: "make".to_owned(), shell: settings.shell.clone() };
/// let cwd = WorkingDirectory::resolve(None)?;
/// let task = TaskRequest::new(command, cwd, SessionId::implicit(), Placement::Foreground)
///     .name("build".to_owned())
///     .prepare(root, settings)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct TaskRequest {
    command: TaskCommand,
    cwd: WorkingDirectory,
    session_id: SessionId,
    placement: Placement,
    identity: Identity,
    name: Option<String>,
    stdin: TaskStdin,
    terminal_attributes: Option<Box<TerminalAttributes>>,
    timeout: Option<Duration>,
    deadline_from_background: bool,
    keep: bool,
    monitor: Option<Monitor>,
    wait_for: Vec<Condition>,
    env: Vec<(String, String)>,
    base_environment: BaseEnvironment,
    label_env: Vec<(String, String)>,
    stop: Option<(Signal, Duration)>,
    on_leader_exit: Option<OnLeaderExit>,
    net: Option<NetPolicy>,
    is_quiet_by_design: bool,
    separate_stderr: bool,
    executor: Option<ExecutorChoice>,
    fetch: Vec<String>,
}

/// Whether the task receives a new id or an existing one.
#[derive(Debug, Clone, Copy)]
enum Identity {
    /// A new id of this kind.
    New(TaskKind),
    /// An id that exists already, which determines the kind.
    Existing(TaskId),
}

impl TaskRequest {
    /// Creates a request for a command, which becomes a task of this session.
    pub fn new(
        command: TaskCommand,
        cwd: WorkingDirectory,
        session_id: SessionId,
        placement: Placement,
    ) -> Self {
        Self {
            command,
            cwd,
            session_id,
            placement,
            identity: Identity::New(TaskKind::LocalBash),
            name: None,
            stdin: TaskStdin::Null,
            terminal_attributes: None,
            timeout: None,
            deadline_from_background: false,
            keep: false,
            monitor: None,
            wait_for: Vec::new(),
            env: Vec::new(),
            base_environment: BaseEnvironment::default(),
            label_env: Vec::new(),
            stop: None,
            on_leader_exit: None,
            net: None,
            is_quiet_by_design: false,
            separate_stderr: false,
            executor: None,
            fetch: Vec::new(),
        }
    }

    /// Creates a request for a command that runs in the background from the start.
    pub fn in_background(
        command: TaskCommand,
        cwd: WorkingDirectory,
        session_id: SessionId,
    ) -> Self {
        let placement = Placement::Background { why: BackgroundReason::Asked };
        Self::new(command, cwd, session_id, placement)
    }

    /// Sets the kind of the task; the default is a shell command or program.
    pub const fn kind(mut self, kind: TaskKind) -> Self {
        self.identity = Identity::New(kind);
        self
    }

    /// Sets an id that was created before, so that the command line can contain it. The id
    /// determines the kind of the task.
    pub const fn id(mut self, id: TaskId) -> Self {
        self.identity = Identity::Existing(id);
        self
    }

    /// Sets a name by which people recognize the task.
    pub fn name(mut self, name: impl Into<Option<String>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the source of the standard input, which is empty by default.
    pub fn stdin(mut self, stdin: TaskStdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets the attributes of the command's terminal, for a person whose terminal is connected with
    /// it.
    pub fn terminal_attributes(mut self, attributes: Option<TerminalAttributes>) -> Self {
        self.terminal_attributes = attributes.map(Box::new);
        self
    }

    /// Sets whether the task's standard error is recorded as separate from its standard output:
    /// see [`StderrSpans`](crate::output::StderrSpans).
    pub const fn separate_stderr(mut self, separate: bool) -> Self {
        self.separate_stderr = separate;
        self
    }

    /// Sets the remote machine that runs the command. The working directory is then mapped to a
    /// directory of that machine. The command receives the variables of its login there, those that
    /// the settings send, and those of [`Self::env`] and [`Self::label_env`].
    pub fn executor(mut self, executor: Option<ExecutorChoice>) -> Self {
        self.executor = executor;
        self
    }

    /// Sets the paths that are copied back to the working directory when a command on a remote machine
    /// has ended, in the form that [`parse_relative_path`] returns.
    ///
    /// [`parse_relative_path`]: siding_model::file_sync::parse_relative_path
    pub fn fetch(mut self, paths: Vec<String>) -> Self {
        self.fetch = paths;
        self
    }

    /// Sets the time to the deadline; the default is `max_elapsed`. `max_elapsed_hard_cap` limits
    /// both.
    pub const fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets whether the deadline of a task in the foreground counts from its move to the background
    /// instead of from the start.
    pub const fn deadline_from_background(mut self, counts_later: bool) -> Self {
        self.deadline_from_background = counts_later;
        self
    }

    /// Sets whether the task outlives its session.
    pub const fn keep(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the monitor that reports lines of the output.
    pub fn monitor(mut self, monitor: Option<Monitor>) -> Self {
        self.monitor = monitor;
        self
    }

    /// Sets the conditions that must be met for the task to be ready.
    pub fn wait_for(mut self, conditions: Vec<Condition>) -> Self {
        self.wait_for = conditions;
        self
    }

    /// Sets variables of the command. A command with different variables is not a duplicate.
    pub fn env(mut self, variables: Vec<(String, String)>) -> Self {
        self.env = variables;
        self
    }

    /// Sets the variables to which those of [`Self::env`] are added; the default is for an agent's
    /// command. A command with [`BaseEnvironment::Empty`] is a duplicate only of a command that
    /// also has it.
    pub const fn base_environment(mut self, base: BaseEnvironment) -> Self {
        self.base_environment = base;
        self
    }

    /// Sets variables that inform the command about its starter. They replace variables of
    /// [`Self::env`] with the same name. Two commands that differ only in these labels are
    /// duplicates.
    pub fn label_env(mut self, variables: Vec<(String, String)>) -> Self {
        self.label_env = variables;
        self
    }

    /// Replaces the configured polite signal and the grace after which the task is killed.
    pub const fn stop_with(mut self, signal: Signal, grace: Duration) -> Self {
        self.stop = Some((signal, grace));
        self
    }

    /// Replaces the setting for processes that outlive the leader.
    pub const fn on_leader_exit(mut self, action: OnLeaderExit) -> Self {
        self.on_leader_exit = Some(action);
        self
    }

    /// Exempts the task from the network policy. siding's own programs need the access of their
    /// starter, and apply the policy to the commands that they run.
    pub fn without_net_policy(mut self) -> Self {
        self.net = Some(NetPolicy::Unrestricted);
        self
    }

    /// Disables stall detection, for a program that is silent while it waits for a model or for
    /// other tasks.
    pub const fn without_stalls(mut self) -> Self {
        self.is_quiet_by_design = true;
        self
    }

    /// Combines the request with the settings, and creates the id of the task, unless
    /// [`Self::id`] has set one. Nothing is written to disk.
    ///
    /// # Errors
    ///
    /// [`RunError::Id`]; [`RunError::Net`] if the network policy of the settings cannot be enforced
    /// on this system, even if the task is exempt from this policy; [`RunError::RemoteEnvironment`]
    /// for a task that runs on another machine.
    pub fn prepare(
        mut self,
        root: &StateDir,
        settings: &Settings,
    ) -> Result<PreparedTask, RunError> {
        let task_id = match self.identity {
            Identity::New(kind) => root.new_id(kind).map_err(RunError::Id)?,
            Identity::Existing(id) => id,
        };
        let fetch = self.fetch_request();
        let executor = self.apply_executor()?;
        let same_key = self.same_key(task_id);
        let Self { command, cwd, session_id, name, stdin, placement, keep, .. } = self;
        let (signal, grace) = self.stop.unwrap_or((settings.kill_signal, settings.kill_grace));
        let stall_after =
            if self.is_quiet_by_design { Duration::ZERO } else { settings.stall_after };
        if executor.is_none() {
            policy::check_enforceable(&settings.net)?;
        }
        let spec = TaskSpec {
            task_id,
            session_id,
            parent_task: enclosing_task(root),
            name,
            same_key,
            command,
            cwd: cwd.into(),
            stdin: stdin.mode(),
            terminal: stdin.terminal_size(),
            terminal_attributes: self.terminal_attributes,
            attach_idle_ms: duration_ms(settings.attach_idle),
            placement,
            deadline_ms: duration_ms(settings.deadline(self.timeout)),
            cap_ms: duration_ms(settings.max_elapsed_hard_cap),
            deadline_from_background: self.deadline_from_background,
            signal,
            grace_ms: duration_ms(grace),
            on_leader_exit: self.on_leader_exit.unwrap_or(settings.on_leader_exit),
            keep,
            session_grace_ms: duration_ms(settings.session_grace),
            stall_after_ms: duration_ms(stall_after),
            deadline_notice_ms: duration_ms(settings.deadline_notice),
            limits: settings.limits(),
            // Tasks of other kinds, above all agents, constantly exchange data with a model and
            // would trip a watchdog.
            watch: if task_id.kind() == TaskKind::LocalBash {
                settings.watchdog_thresholds()
            } else {
                Thresholds::default()
            },
            net: self.net.unwrap_or_else(|| settings.net.clone()),
            keep_head: settings.output_keep_head.0,
            keep_tail: settings.output_keep_tail.0,
            duplicate_of: None,
            separate_stderr: self.separate_stderr,
            executor: executor.map(Box::new),
            fetch: fetch.map(Box::new),
            sent_by: None,
            trace_parent: starter_trace_parent(),
            log_journald: settings.log_journald,
            monitor: self.monitor,
            wait_for: self.wait_for,
        };
        let env = self.env.into_iter().chain(self.label_env).collect();
        Ok(PreparedTask { spec, env, base_environment: self.base_environment, stdin })
    }

    /// Returns the files to copy back to the local working directory.
    fn fetch_request(&self) -> Option<FetchRequest> {
        let is_wanted = self.executor.is_some() && !self.fetch.is_empty();
        let directory = self.cwd.as_str().to_owned();
        is_wanted.then(|| FetchRequest { directory, paths: self.fetch.clone() })
    }

    /// Adapts the directory and the variables to the remote machine, if there is one. Returns the
    /// machine as the task records it.
    fn apply_executor(&mut self) -> Result<Option<RemoteExecutor>, RunError> {
        let Some(choice) = &self.executor else { return Ok(None) };
        choice.check_stdin(&self.stdin)?;
        self.env.splice(..0, choice.sent_variables(self.base_environment)?);
        self.cwd = choice.directory(&self.cwd);
        Ok(Some(choice.to_remote()))
    }

    /// Returns the key by which a second launch of the command is detected. The key depends on the
    /// variables, input, shell, executor and resources of a job, because two commands that differ
    /// in one of these are not duplicates. The key contains only a checksum of these values. The
    /// content of an inherited input is unknown, so a task with such an input is never a duplicate:
    /// its own id is part of its key.
    fn same_key(&self, task_id: TaskId) -> String {
        /// The default shell adds nothing to the key.
        const DEFAULT_SHELL: &str = "bash";
        let mut key = same_key(&self.command, self.cwd.as_str());
        let mut differences = Vec::new();
        let mut add = |name: &str, value: &str| {
            differences.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        };
        self.env.iter().for_each(|(name, value)| add(name, value));
        // The variables against prompts are not part of the key: if a person and an agent start the
        // same server, the second start is a duplicate.
        match self.base_environment {
            BaseEnvironment::Unattended | BaseEnvironment::Inherited => {}
            BaseEnvironment::Empty => add("", "clear"),
        }
        match self.stdin {
            TaskStdin::Null => {}
            TaskStdin::Pipe => add("", "stdin"),
            TaskStdin::Terminal(_) => add("", "terminal"),
            TaskStdin::Inherit(_) => add("stdin", &task_id.to_string()),
        }
        if let Some(executor) = &self.executor {
            add("on", executor.name());
            // The time limit follows from the deadline, which does not distinguish other tasks
            // either.
            let options = executor.settings().slurm.as_ref();
            let options = options.map(|slurm| slurm.sbatch_arguments(0, 0)).unwrap_or_default();
            options.iter().for_each(|option| add("job", option));
        }
        match &self.command {
            TaskCommand::Shell { shell, .. } if shell != DEFAULT_SHELL => add("", shell),
            TaskCommand::Shell { .. } | TaskCommand::Argv { .. } => {}
        }
        if !differences.is_empty() {
            key.push_str(&format!("-{:08x}", record::checksum(&differences)));
        }
        key
    }
}

/// Returns the trace span of this process's caller, which OpenTelemetry passes in the variable
/// `TRACEPARENT`. An invalid value is ignored, because other programs read this variable too.
pub(crate) fn starter_trace_parent() -> Option<TraceParent> {
    std::env::var("TRACEPARENT").ok()?.parse().ok()
}

/// Returns a command that runs this program with these arguments.
#[must_use]
pub fn self_command(arguments: Vec<String>) -> TaskCommand {
    TaskCommand::Argv { argv: std::iter::once(self_program_path()).chain(arguments).collect() }
}

/// Returns the path by which a task executes this program: its installed path, or `/proc/self/exe`
/// if the file was replaced or removed since, or its path is not UTF-8.
#[must_use]
pub fn self_program_path() -> String {
    /// A task's process executes its shim's program, which is this one, until it calls execve(2).
    const PROC_SELF_EXE: &str = "/proc/self/exe";
    let path = std::env::current_exe().ok().filter(|path| file::is_program(path));
    let path = path.and_then(|path| path.into_os_string().into_string().ok());
    path.unwrap_or_else(|| PROC_SELF_EXE.to_owned())
}

/// Returns the session that will own a task: the named session, otherwise the session that
/// `SIDING_SESSION` names, otherwise the implicit session.
///
/// # Errors
///
/// [`RunError::Session`], [`RunError::SessionName`].
pub fn resolve_session(root: &StateDir, named: Option<&str>) -> Result<SessionId, RunError> {
    // In a value that is not UTF-8, the replacement characters break the rules for names.
    let inherited = std::env::var_os("SIDING_SESSION");
    let inherited = inherited.as_deref().map(OsStr::to_string_lossy);
    let given = named.or(inherited.as_deref());
    let Some(text) = given.filter(|text| !text.is_empty()) else {
        return Ok(SessionId::implicit());
    };
    let id: SessionId = text.parse()?;
    if !id.is_implicit() {
        session::require_live(root, &id)?;
    }
    Ok(id)
}

/// Returns the session that `SIDING_SESSION` names, if this session is live and `owner` owns it. If
/// another process owns the session, the variable was inherited from an outer process or is
/// outdated, and does not name the session of this caller.
#[must_use]
pub fn inherited_session(root: &StateDir, owner: ProcRef) -> Option<SessionId> {
    let id: SessionId = std::env::var("SIDING_SESSION").ok()?.parse().ok()?;
    let boot = procfs::boot_id().ok()?;
    let session = session::require_live(root, &id).ok()?;
    session.is_owned_by(owner, &boot).then_some(id)
}

/// Returns the task inside which this process runs: the live task whose birthmark the process
/// carries.
fn enclosing_task(root: &StateDir) -> Option<TaskId> {
    birthmark::own_birthmark()
        .and_then(|mark| mark.task_id())
        .filter(|task| root.is_marked_live(*task))
}

/// Returns the tasks inside which this process runs, the innermost first.
pub(crate) fn enclosing_tasks(root: &StateDir) -> Vec<TaskId> {
    // A nested task has a smaller id than the task that started it. A forged journal could name a
    // smaller or equal id, and the search would not end.
    let parent = |id: &TaskId| {
        let state = root.task_dir(*id).ok()?.read().ok()?.state;
        state.spec.parent_task.filter(|parent| parent > id)
    };
    std::iter::successors(enclosing_task(root), parent).collect()
}

/// Returns the key by which a second launch of a command is detected. Commands with colliding keys
/// are distinguished by their journals.
fn same_key(command: &TaskCommand, cwd: &str) -> String {
    // The byte 0xff never occurs in UTF-8, so no other pair of text and directory results in the
    // same input.
    const KEY_SEPARATOR: &[u8] = &[0xff];
    let text = command.display_text();
    Fnv1a::default()
        .with_bytes(text.trim().as_bytes())
        .with_bytes(KEY_SEPARATOR)
        .with_bytes(cwd.as_bytes())
        .to_hex()
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use siding_model::executor::SlurmOptions;

    use super::*;

    /// The key is a file name that later builds must find: a different key would start a second
    /// instance of a running command.
    #[test]
    fn the_same_key_of_a_command_is_stable_across_builds() {
        let shell =
            |text: &str| TaskCommand::Shell { text: text.to_owned(), shell: "bash".to_owned() };
        assert_eq!(same_key(&shell(" make test\n"), "/work"), "d584925b17579e66");
        assert_ne!(same_key(&shell("make"), "/a"), same_key(&shell("make/"), "a"));
    }

    #[test]
    fn jobs_with_different_resources_are_not_duplicates() {
        let settings = Settings::default();
        let key = |on: &str, options: SlurmOptions| {
            let choice = ExecutorChoice::find(Some(on), &settings).expect("a known name");
            let choice = choice.expect("a cluster").with_job_options(options).expect("a cluster");
            let text = "make".to_owned();
            let command = TaskCommand::Shell { text, shell: "bash".to_owned() };
            let cwd = WorkingDirectory::on_remote_machine("/work".to_owned());
            let request = TaskRequest::in_background(command, cwd, SessionId::implicit());
            let id = TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS).expect("an id");
            request.executor(Some(choice)).same_key(id)
        };
        let plain = key("slurm", SlurmOptions::default());
        assert_eq!(key("slurm", SlurmOptions::default()), plain);
        let cpus = SlurmOptions { cpus: Some(2), ..SlurmOptions::default() };
        let memory = SlurmOptions { memory_mib: Some(512), ..SlurmOptions::default() };
        let keys = [
            plain,
            key("slurm:gpu", SlurmOptions::default()),
            key("slurm", cpus),
            key("slurm", memory),
        ];
        let distinct: std::collections::HashSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:?}");
    }
}
