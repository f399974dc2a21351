//! Adopts a process: identifies the process and its owner, marks the process, and hands it to a
//! shim.
//!
//! Claiming a process and handing it over are separate steps, so that a shell need not wait for a
//! shim. This module records nothing. The shim holds the facts about the process in memory, and
//! writes the task's record once the process has run long enough or has left other processes behind
//! (`docs/adr/0011-adoption.md`).

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siding_model::adopt::{command_from_argv, is_wrapper_program, session_for_host};
use siding_model::host::SandboxedCommand;
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::limits::{Limits, Thresholds};
use siding_model::net::NetPolicy;
use siding_model::outcome::Placement;
use siding_model::process::{MonotonicMs, ProcRef, UnixMs};
use siding_model::protocol::ShimMessage;
use siding_model::settings::Settings;
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, StdinMode, TaskCommand, TaskSpec};
use siding_model::terminal::DEFAULT_ATTACH_IDLE_MS;

use crate::output;
use crate::processes::pid_namespace::is_in_other_pid_namespace;
use crate::session::{self, SessionError};
use crate::store::StateDir;
use crate::sys::pidfd::PidFd;
use crate::sys::{birthmark, clock, process, procfs};
use crate::task::launch::{Adoption, IdleShim};
use crate::task::run::request::starter_trace_parent;
use crate::task::shim_client::RecvResult;

/// Timeout for a shim's confirmation that it supervises the process, in milliseconds.
const SHIM_REPLY_TIMEOUT_MS: u64 = 2_000;
/// Maximum number of bytes of a command line that are read.
const MAX_CMDLINE_BYTES: usize = 128 << 10;
/// Maximum number of ancestors that are searched for the host of a process.
const MAX_ANCESTORS: u32 = 64;

/// The reason why a process was not adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// No process has this ID, or the process has exited.
    #[error("no process {pid} runs")]
    NoProcess {
        /// The process ID that the caller gave.
        pid: i32,
    },
    /// The process is the init process of this machine or container.
    #[error(
        "process {pid} is the init process of this machine or container, whose exit would end every other process"
    )]
    InitProcess {
        /// The process ID of init, which is 1.
        pid: i32,
    },
    /// Another user owns the process, or the process has several user IDs.
    #[error("process {pid} belongs to another user, whose processes cannot be marked or ended")]
    OtherUser {
        /// The ID of the other user's process.
        pid: i32,
    },
    /// `/proc` shows another PID namespace, in which the number denotes a different process.
    #[error(
        "process {pid} cannot be identified: `/proc` shows the processes of a PID namespace other than this process's"
    )]
    OtherPidNamespace {
        /// The process ID that the caller gave, in the caller's namespace.
        pid: i32,
    },
    /// The process has a limit `RLIMIT_RTTIME` that is neither the mark of a task nor that of a
    /// host, for example because siding released the process.
    #[error(
        "process {pid} has its own limit on real-time CPU (RLIMIT_RTTIME {limit} µs), which siding's mark would replace"
    )]
    RttimeLimited {
        /// The ID of the process with the limit.
        pid: i32,
        /// The hard limit of the process, in microseconds.
        limit: u64,
    },
    /// The session that would own the task could not be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The shim cannot supervise the process, or did not answer in time.
    #[error("process {pid}: its shim {doing}")]
    Shim {
        /// The ID of the process, which is marked.
        pid: i32,
        /// The report of the shim; completes the sentence "its shim …".
        doing: String,
    },
    /// A system call on the process or on its shim failed.
    #[error("process {pid}: could not {doing}: {source}")]
    Io {
        /// The ID of the process that was to be adopted.
        pid: i32,
        /// The action that failed; completes the sentence "could not …".
        doing: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

/// The result of [`claim`], which marks a process unless it already carries the mark of a task.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// The process was marked by this call.
    Marked(Box<ClaimedProcess>),
    /// The process already carried the mark of a task, so nothing was changed.
    AlreadyMarked {
        /// The task whose mark the process carries. The task may have no record yet.
        task: TaskId,
    },
}

/// A process that is held by a pidfd, but that no shim supervises yet. [`claim`] has marked the
/// process; the caller of [`Self::from_sandboxed`] marks it afterwards. The process may exit at any
/// moment and leave other processes behind. The claim therefore reads everything that `/proc` shows
/// only while the process lives.
#[derive(Debug)]
pub struct ClaimedProcess {
    leader: PidFd,
    /// The task that the process becomes.
    pub task: TaskId,
    /// The session that owns the task.
    pub session: SessionId,
    command: TaskCommand,
    cwd: String,
    /// The file to which the process writes its standard output, and the name of the file. `None`
    /// if the file cannot be opened, the user does not own it, or it has no name.
    output: Option<(OwnedFd, String)>,
    /// The sandbox program that runs the process, if the process was claimed from outside the
    /// sandbox.
    sandbox: Option<&'static str>,
    marked_at: MonotonicMs,
    marked_at_wall: UnixMs,
}

/// The facts about a sandboxed command that are visible from outside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxView {
    /// The working directory of the command.
    pub cwd: String,
}

/// The settings that apply to adopted tasks. Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionSettings {
    keep_after_ms: u64,
    deadline_ms: u64,
    cap_ms: u64,
    signal: Signal,
    grace_ms: u64,
    on_leader_exit: OnLeaderExit,
    session_grace_ms: u64,
    stall_after_ms: u64,
    deadline_notice_ms: u64,
    limits: Limits,
    watch: Thresholds,
    #[serde(default)]
    log_journald: bool,
    /// The names of programs that the user wants to keep running.
    pub spare_programs: Vec<String>,
}

impl From<&Settings> for AdoptionSettings {
    fn from(settings: &Settings) -> Self {
        Self {
            keep_after_ms: duration_ms(settings.adopt_keep_after),
            deadline_ms: duration_ms(settings.deadline(None)),
            cap_ms: duration_ms(settings.max_elapsed_hard_cap),
            signal: settings.kill_signal,
            grace_ms: duration_ms(settings.kill_grace),
            on_leader_exit: settings.on_leader_exit,
            session_grace_ms: duration_ms(settings.session_grace),
            stall_after_ms: duration_ms(settings.stall_after),
            deadline_notice_ms: duration_ms(settings.deadline_notice),
            limits: settings.limits(),
            watch: settings.watchdog_thresholds(),
            log_journald: settings.log_journald,
            spare_programs: settings.spare_programs.clone(),
        }
    }
}

/// Marks a running process and, by inheritance, everything that it starts from then on. `named` is
/// the session that should own the task. A named session that is not open is ignored, and the
/// process that owns the conversation is looked up instead.
///
/// # Errors
///
/// [`AdoptError`]; the process is unchanged then.
pub fn claim(
    root: &StateDir,
    pid: i32,
    named: Option<&SessionId>,
) -> Result<ClaimOutcome, AdoptError> {
    let io = |doing| move |source| AdoptError::Io { pid, doing, source };
    let gone = || AdoptError::NoProcess { pid };
    if pid == 1 {
        return Err(AdoptError::InitProcess { pid });
    }
    if is_in_other_pid_namespace(None) {
        return Err(AdoptError::OtherPidNamespace { pid });
    }
    let process = procfs::identify(pid).ok_or_else(gone)?;
    let leader =
        PidFd::open_if_alive(process).map_err(io("open a pidfd for it"))?.ok_or_else(gone)?;
    if procfs::single_uid(pid) != Some(process::effective_uid()) {
        return Err(AdoptError::OtherUser { pid });
    }
    match procfs::birthmark(pid) {
        // The mark of the task replaces the mark of the host.
        Some(mark) if mark.host_mark().is_some() => {}
        Some(mark) => {
            let task = mark.task_id().ok_or(AdoptError::RttimeLimited { pid, limit: mark.0 })?;
            return Ok(ClaimOutcome::AlreadyMarked { task });
        }
        None => {}
    }
    let session = resolve_session(root, named, pid)?;
    let task = root.new_id(TaskKind::LocalBash).map_err(io("create a task id"))?;
    let words =
        procfs::command_words(pid, MAX_CMDLINE_BYTES).map_or_else(Vec::new, |(words, _)| words);
    let claim = ClaimedProcess {
        leader,
        task,
        session,
        command: command_from_argv(&words),
        cwd: procfs::working_directory(pid).unwrap_or_else(|| "/".to_owned()),
        output: user_output_file(pid),
        sandbox: None,
        marked_at: clock::monotonic_now(),
        marked_at_wall: clock::unix_now(),
    };
    // Marking is the last step, so that every error above leaves the process unchanged.
    birthmark::set_birthmark_of(pid, task.birthmark()).map_err(io("mark it"))?;
    Ok(ClaimOutcome::Marked(Box::new(claim)))
}

impl ClaimedProcess {
    /// Claims a command that a host runs in a sandbox. The command becomes `task`, which `session`
    /// owns. Unlike [`claim`], this function sets no birthmark: the caller must mark the command
    /// before it calls [`Self::hand_to_shim`].
    ///
    /// # Errors
    ///
    /// [`AdoptError`].
    pub fn from_sandboxed(
        command: &SandboxedCommand,
        (task, session): (TaskId, SessionId),
        SandboxView { cwd }: SandboxView,
    ) -> Result<Self, AdoptError> {
        let pid = command.leader.pid;
        let leader = PidFd::open_if_alive(command.leader)
            .map_err(|source| AdoptError::Io { pid, doing: "open a pidfd for it", source })?
            .ok_or(AdoptError::NoProcess { pid })?;
        if procfs::single_uid(pid) != Some(process::effective_uid()) {
            return Err(AdoptError::OtherUser { pid });
        }
        Ok(Self {
            leader,
            task,
            session,
            command: command.command.clone(),
            cwd,
            output: user_output_file(pid),
            sandbox: Some(command.sandbox),
            marked_at: clock::monotonic_now(),
            marked_at_wall: clock::unix_now(),
        })
    }

    /// Hands the process to `shim`, which supervises it from then on.
    ///
    /// # Errors
    ///
    /// [`AdoptError`]; the process is then marked, but no shim supervises it, unless the shim only
    /// answered too late.
    pub fn hand_to_shim(
        self,
        root: &StateDir,
        shim: io::Result<IdleShim>,
        terms: &AdoptionSettings,
    ) -> Result<(), AdoptError> {
        let pid = self.leader.process.pid;
        let io = |doing| move |source| AdoptError::Io { pid, doing, source };
        let adoption = Adoption {
            process: self.leader.process,
            root: std::path::absolute(root.path()).map_err(io("find the state directory"))?,
            keep_after_ms: terms.keep_after_ms,
            at: self.marked_at,
            wall: self.marked_at_wall,
            output: self.output.as_ref().map(|(_, name)| name.clone()),
            sandbox: self.sandbox.map(str::to_owned),
            spare_programs: terms.spare_programs.clone(),
            spec: adoption_spec(self.task, self.session, (self.command, self.cwd), terms),
        };
        let output = self.output.as_ref().map(|(file, _)| file.as_fd());
        let given = shim.and_then(|shim| shim.adopt(root, &adoption, self.leader.as_fd(), output));
        let link = given.map_err(io("start a shim"))?;
        match link
            .recv(Some(SHIM_REPLY_TIMEOUT_MS))
            .map_err(io("receive the answer of its shim"))?
        {
            RecvResult::Message(ShimMessage::Done) => Ok(()),
            RecvResult::Message(ShimMessage::CannotStart { doing, .. }) => {
                Err(AdoptError::Shim { pid, doing })
            }
            RecvResult::Message(_) | RecvResult::TimedOut | RecvResult::Disconnected => {
                Err(AdoptError::Shim { pid, doing: "did not answer".to_owned() })
            }
        }
    }
}

/// Returns the session that will own the task of an adopted process: the named session if it is
/// live, otherwise that of the process's host, otherwise the implicit session. Opens the session of
/// the host if necessary.
fn resolve_session(
    root: &StateDir,
    named: Option<&SessionId>,
    pid: i32,
) -> Result<SessionId, SessionError> {
    if let Some(named) = named
        && (named.is_implicit() || session::require_live(root, named).is_ok())
    {
        return Ok(named.clone());
    }
    let Some(host) = find_host(pid) else { return Ok(SessionId::implicit()) };
    let name = session_for_host(&procfs::process_name(host.pid).unwrap_or_default(), host);
    if session::require_live(root, &name).is_err() {
        session::open(root, &name, host.pid)?;
    }
    Ok(name)
}

/// Returns the process that owns the conversation: the nearest ancestor that is neither a shell nor
/// a wrapper that only starts another program. `None` if none of the nearest 64 ancestors below the
/// init process is such a process, or if `/proc` does not show one of them.
#[must_use]
pub fn find_host(pid: i32) -> Option<ProcRef> {
    let mut at = procfs::stat(pid)?.ppid;
    for _ in 0..MAX_ANCESTORS {
        if at <= 1 {
            return None;
        }
        let program = procfs::executable_name(at).or_else(|| procfs::process_name(at))?;
        let stat = procfs::stat(at)?;
        if !is_wrapper_program(&program) {
            return Some(ProcRef { pid: at, start_ticks: stat.start_ticks });
        }
        at = stat.ppid;
    }
    None
}

fn adoption_spec(
    task_id: TaskId,
    session_id: SessionId,
    (command, cwd): (TaskCommand, String),
    terms: &AdoptionSettings,
) -> TaskSpec {
    TaskSpec {
        task_id,
        session_id,
        parent_task: None,
        name: None,
        command,
        cwd,
        // siding does not control the standard input of an adopted process.
        stdin: StdinMode::Null,
        placement: Placement::Foreground,
        deadline_ms: terms.deadline_ms,
        cap_ms: terms.cap_ms,
        deadline_from_background: false,
        signal: terms.signal,
        grace_ms: terms.grace_ms,
        on_leader_exit: terms.on_leader_exit,
        keep: false,
        session_grace_ms: terms.session_grace_ms,
        // The output file is the host's: siding never releases any part of it.
        keep_head: u64::MAX,
        keep_tail: u64::MAX,
        stall_after_ms: terms.stall_after_ms,
        deadline_notice_ms: terms.deadline_notice_ms,
        limits: terms.limits,
        watch: terms.watch,
        // A running process keeps the network that its host gave it.
        net: NetPolicy::Unrestricted,
        // An adopted task takes no part in the detection of duplicates: its key is its id, which no
        // other task has.
        same_key: task_id.to_string(),
        duplicate_of: None,
        separate_stderr: false,
        terminal: None,
        terminal_attributes: None,
        attach_idle_ms: DEFAULT_ATTACH_IDLE_MS,
        executor: None,
        fetch: None,
        sent_by: None,
        trace_parent: starter_trace_parent(),
        log_journald: terms.log_journald,
        monitor: None,
        wait_for: Vec::new(),
    }
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the file to which a process writes its standard output, and the name of the file. `None`
/// if the file cannot be opened, the user does not own it, or it has no name by which other readers
/// could open it.
fn user_output_file(pid: i32) -> Option<(OwnedFd, String)> {
    let link = format!("/proc/{pid}/fd/1");
    let file = output::open_user_file(Path::new(&link), true).ok()?;
    let path = std::fs::read_link(link).ok()?.into_os_string().into_string().ok()?;
    Path::new(&path).exists().then_some((file, path))
}
