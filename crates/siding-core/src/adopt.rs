//! Adopting a process: finding out what it is and whose, marking it, and giving it to a shim.
//!
//! The two are apart, so that a shell need not wait for a shim. Nothing is recorded here. The shim holds
//! the process in memory and puts it on record when it has lasted, or has left something behind
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

use crate::launch::{Adoption, IdleShim};
use crate::output;
use crate::pid_namespace::is_in_other_pid_namespace;
use crate::session::{self, SessionError};
use crate::shim_client::RecvResult;
use crate::store::StateDir;
use crate::sys::pidfd::PidFd;
use crate::sys::{birthmark, clock, process, procfs};

/// How long a shim may take to say that it keeps the process, in milliseconds.
const SHIM_REPLY_TIMEOUT_MS: u64 = 2_000;
/// Most of a command line that is read, in bytes.
const MAX_CMDLINE_BYTES: usize = 128 << 10;
/// Processes above one that are looked at for its host.
const MAX_ANCESTORS: u32 = 64;

/// Why a process was not adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// There is none.
    #[error("no process {pid} runs")]
    NoProcess {
        /// The number.
        pid: i32,
    },
    /// It is the first.
    #[error(
        "process {pid} is the first of this machine or container, and everything would end with it"
    )]
    InitProcess {
        /// The number.
        pid: i32,
    },
    /// It is another user's.
    #[error("process {pid} belongs to another user, whose processes cannot be marked or ended")]
    OtherUser {
        /// The number.
        pid: i32,
    },
    /// Its number means another process here.
    #[error(
        "process {pid} cannot be found from here: `/proc` shows the processes of another PID namespace than this one"
    )]
    OtherPidNamespace {
        /// The number.
        pid: i32,
    },
    /// Its mark is needed for something else.
    #[error(
        "process {pid} has a limit on real-time CPU of its own (RLIMIT_RTTIME {limit} µs), which a mark would replace"
    )]
    RttimeLimited {
        /// The number.
        pid: i32,
        /// The limit.
        limit: u64,
    },
    /// Its session cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The shim could not take it on.
    #[error("process {pid}: its shim {doing}")]
    Shim {
        /// The number.
        pid: i32,
        /// What it did when it failed.
        doing: String,
    },
    /// The operating system refused.
    #[error("process {pid}: could not {doing}: {source}")]
    Io {
        /// The number.
        pid: i32,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// What a process that is to be adopted turns out to be.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// It carries a mark since now.
    Marked(Box<ClaimedProcess>),
    /// It carries the mark of a task.
    AlreadyMarked {
        /// That task. There need not be a record of it.
        task: TaskId,
    },
}

/// A process that is marked and held, and that no shim keeps yet. Whatever would be gone with it is
/// known: it may end at any moment, and leave something behind.
#[derive(Debug)]
pub struct ClaimedProcess {
    leader: PidFd,
    /// The task that it is.
    pub task: TaskId,
    /// The session that owns it.
    pub session: SessionId,
    command: TaskCommand,
    cwd: String,
    /// The file that it writes to, where that is the user's and has a name.
    output: Option<(OwnedFd, String)>,
    /// Program of the sandbox that it is in.
    sandbox: Option<&'static str>,
    marked_at: MonotonicMs,
    marked_at_wall: UnixMs,
}

/// What a command in a sandbox shows of itself to who is outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxView {
    /// The directory in which it runs.
    pub cwd: String,
}

/// What the settings say of whatever is adopted.
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
    /// Programs that a person wants to keep, by their names.
    pub spare_programs: Vec<String>,
}

impl From<&Settings> for AdoptionSettings {
    fn from(settings: &Settings) -> Self {
        Self {
            keep_after_ms: duration_ms(settings.adopt_keep_after),
            deadline_ms: duration_ms(settings.max_elapsed.min(settings.max_elapsed_hard_cap)),
            cap_ms: duration_ms(settings.max_elapsed_hard_cap),
            signal: settings.kill_signal,
            grace_ms: duration_ms(settings.kill_grace),
            on_leader_exit: settings.on_leader_exit,
            session_grace_ms: duration_ms(settings.session_grace),
            stall_after_ms: duration_ms(settings.stall_after),
            deadline_notice_ms: duration_ms(settings.deadline_notice),
            limits: settings.limits(),
            watch: settings.watchdog_thresholds(),
            spare_programs: settings.spare_programs.clone(),
        }
    }
}

/// Marks a process that runs, and all that it will start. `named` is the session that it is to belong
/// to; one that is not open is passed by, and the process that owns the conversation is looked for.
///
/// # Errors
///
/// [`AdoptError`]. Then nothing was changed.
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
    let leader = PidFd::open_if_alive(process).map_err(io("hold it"))?.ok_or_else(gone)?;
    if procfs::single_uid(pid) != Some(process::effective_uid()) {
        return Err(AdoptError::OtherUser { pid });
    }
    match procfs::birthmark(pid) {
        // Its task's mark takes the place of its host's.
        Some(mark) if mark.host_mark().is_some() => {}
        Some(mark) => {
            let task = mark.task_id().ok_or(AdoptError::RttimeLimited { pid, limit: mark.0 })?;
            return Ok(ClaimOutcome::AlreadyMarked { task });
        }
        None => {}
    }
    let session = resolve_session(root, named, pid)?;
    let task = root.new_id(TaskKind::LocalBash).map_err(io("make an id"))?;
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
    birthmark::set_birthmark_of(pid, task.birthmark()).map_err(io("mark it"))?;
    Ok(ClaimOutcome::Marked(Box::new(claim)))
}

impl ClaimedProcess {
    /// Holds a command that a host runs in a sandbox, which is to become this task of this session.
    /// Nothing is marked.
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
            .map_err(|source| AdoptError::Io { pid, doing: "hold it", source })?
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

    /// Has `shim` keep the process.
    ///
    /// # Errors
    ///
    /// [`AdoptError`]. Then the process has its mark, and nobody keeps it.
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
        match link.recv(Some(SHIM_REPLY_TIMEOUT_MS)).map_err(io("hear from the shim"))? {
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

/// Returns the session that a process is to belong to.
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

/// Returns the process that owns the conversation: the first above this one that is no shell and
/// does more than to start another program. `None` when only the machine's first process is left.
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
        // Whatever it reads, siding has no hold on it.
        stdin: StdinMode::Null,
        placement: Placement::Foreground,
        deadline_ms: terms.deadline_ms,
        cap_ms: terms.cap_ms,
        signal: terms.signal,
        grace_ms: terms.grace_ms,
        on_leader_exit: terms.on_leader_exit,
        keep: false,
        session_grace_ms: terms.session_grace_ms,
        // The host's file is the host's: nothing of it is ever released.
        keep_head: u64::MAX,
        keep_tail: u64::MAX,
        stall_after_ms: terms.stall_after_ms,
        deadline_notice_ms: terms.deadline_notice_ms,
        limits: terms.limits,
        watch: terms.watch,
        // What runs already has the network that its host gave it.
        net: NetPolicy::Unrestricted,
        // It claims no command.
        same_key: task_id.to_string(),
        duplicate_of: None,
        monitor: None,
        wait_for: Vec::new(),
    }
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the file that a process writes to, and its name, where it is the user's and has one: a
/// file without a name can be read by nobody else.
fn user_output_file(pid: i32) -> Option<(OwnedFd, String)> {
    let link = format!("/proc/{pid}/fd/1");
    let file = output::open_user_file(Path::new(&link), true).ok()?;
    let path = std::fs::read_link(link).ok()?.into_os_string().into_string().ok()?;
    Path::new(&path).exists().then_some((file, path))
}
