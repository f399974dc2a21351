//! Adopting a process: finding out what it is and whose, and giving it to a shim.
//!
//! Nothing is recorded here. The shim holds the process in memory and puts it on record when it
//! has lasted, or has left something behind (`docs/adr/0011-adoption.md`).

use std::io;
use std::path::Path;
use std::time::Duration;

use siding_model::adopt::{command_of, is_between, session_of};
use siding_model::id::{SessionId, TaskId};
use siding_model::net::NetPolicy;
use siding_model::outcome::Placement;
use siding_model::process::ProcRef;
use siding_model::protocol::Message;
use siding_model::settings::Settings;
use siding_model::spec::{Stdin, TaskSpec};

use crate::launch::{Adoption, Shim};
use crate::link::Heard;
use crate::session::{self, SessionError};
use crate::store::Root;
use crate::sys::{clock, process, procfs};
use crate::tree;

/// How long a shim may take to say that it holds the process, in milliseconds. The shell that asks
/// waits a tenth of a second and goes on.
const ANSWER_MS: u64 = 2_000;
/// Most of a command line that is read, in bytes.
const WORDS_MAX: usize = 128 << 10;
/// Processes above one that are looked at for its host.
const ABOVE_MOST: u32 = 64;

/// Why a process was not adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// There is none.
    #[error("no process {pid} runs")]
    NoProcess {
        /// The number.
        pid: i32,
    },
    /// It is another user's.
    #[error("process {pid} belongs to another user, whose processes cannot be marked or ended")]
    Foreign {
        /// The number.
        pid: i32,
    },
    /// Its mark is needed for something else.
    #[error(
        "process {pid} has a limit on real-time CPU of its own (RLIMIT_RTTIME {limit} µs), which a mark would replace"
    )]
    Limited {
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

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopted {
    /// A shim holds it now.
    Taken {
        /// The task that it is.
        task: TaskId,
        /// The session that owns it.
        session: SessionId,
    },
    /// It carries the mark of a task.
    Already {
        /// That task. There need not be a record of it.
        task: TaskId,
    },
}

/// Has `shim` take on a process that runs. `named` is the session that it is to belong to; one that
/// is not open is passed by, and the process that owns the conversation is looked for.
///
/// # Errors
///
/// [`AdoptError`]. Then nothing was changed.
pub fn begin(
    root: &Root,
    shim: io::Result<Shim>,
    pid: i32,
    named: Option<&SessionId>,
    settings: &Settings,
) -> Result<Adopted, AdoptError> {
    let io = |doing| move |source| AdoptError::Io { pid, doing, source };
    let process = procfs::identify(pid).filter(|process| tree::lives(*process));
    let process = process.ok_or(AdoptError::NoProcess { pid })?;
    if procfs::only_uid(pid) != Some(process::effective_uid()) {
        return Err(AdoptError::Foreign { pid });
    }
    if let Some(mark) = procfs::birthmark(pid) {
        let task = mark.task().ok_or(AdoptError::Limited { pid, limit: mark.0 })?;
        return Ok(Adopted::Already { task });
    }
    let session = session(root, named, pid)?;
    let task = root.new_id().map_err(io("make an id"))?;
    let adoption = Adoption {
        process,
        spec: spec(task, session.clone(), pid, settings),
        root: std::path::absolute(root.path()).map_err(io("find the state directory"))?,
        keep_after_ms: millis(settings.adopt_keep_after),
        at: clock::mono(),
        wall: clock::wall(),
    };
    let link = shim.and_then(|shim| shim.adopt(root, &adoption)).map_err(io("start a shim"))?;
    match link.hear(Some(ANSWER_MS)).map_err(io("hear from the shim"))? {
        Heard::Message(Message::Done) => Ok(Adopted::Taken { task, session }),
        Heard::Message(Message::CannotStart { doing, .. }) => Err(AdoptError::Shim { pid, doing }),
        Heard::Message(_) | Heard::Nothing | Heard::Gone => {
            Err(AdoptError::Shim { pid, doing: "did not answer".to_owned() })
        }
    }
}

/// Returns the session that a process is to belong to.
fn session(root: &Root, named: Option<&SessionId>, pid: i32) -> Result<SessionId, SessionError> {
    if let Some(named) = named
        && (named.is_implicit() || session::live(root, named).is_ok())
    {
        return Ok(named.clone());
    }
    let Some(host) = host_of(pid) else { return Ok(SessionId::implicit()) };
    let name = session_of(&procfs::name(host.pid).unwrap_or_default(), host);
    if session::live(root, &name).is_err() {
        session::open(root, &name, host.pid)?;
    }
    Ok(name)
}

/// Returns the process that owns the conversation: the first above this one that is no shell and
/// does more than to start another program. `None` when only the machine's first process is left.
#[must_use]
pub fn host_of(pid: i32) -> Option<ProcRef> {
    let mut at = procfs::stat(pid)?.ppid;
    for _ in 0..ABOVE_MOST {
        if at <= 1 {
            return None;
        }
        let program = procfs::program_name(at).or_else(|| procfs::name(at))?;
        let stat = procfs::stat(at)?;
        if !is_between(&program) {
            return Some(ProcRef { pid: at, start_ticks: stat.start_ticks });
        }
        at = stat.ppid;
    }
    None
}

fn spec(task_id: TaskId, session_id: SessionId, pid: i32, settings: &Settings) -> TaskSpec {
    let words = procfs::words(pid, WORDS_MAX).map_or_else(Vec::new, |(words, _)| words);
    TaskSpec {
        task_id,
        session_id,
        parent_task: None,
        name: None,
        command: command_of(&words),
        cwd: procfs::directory(pid).unwrap_or_else(|| "/".to_owned()),
        // Whatever it reads, siding has no hold on it.
        stdin: Stdin::Null,
        placement: Placement::Foreground,
        deadline_ms: millis(settings.max_elapsed.min(settings.max_elapsed_hard_cap)),
        cap_ms: millis(settings.max_elapsed_hard_cap),
        signal: settings.kill_signal,
        grace_ms: millis(settings.kill_grace),
        on_leader_exit: settings.on_leader_exit,
        keep: false,
        session_grace_ms: millis(settings.session_grace),
        // The host's file is the host's: nothing of it is ever released.
        keep_head: u64::MAX,
        keep_tail: u64::MAX,
        stall_after_ms: millis(settings.stall_after),
        limits: settings.limits(),
        // What runs already has the network that its host gave it.
        net: NetPolicy::Host,
        // It claims no command.
        same_key: task_id.to_string(),
        duplicate_of: None,
        monitor: None,
        wait_for: Vec::new(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the path that names what a process's standard output is.
#[must_use]
pub fn stdout_of(pid: i32) -> String {
    format!("/proc/{pid}/fd/1")
}

/// Returns where a link of `/proc` leads, `None` when that has no name any more.
#[must_use]
pub fn named_by(link: &str) -> Option<String> {
    let path = std::fs::read_link(link).ok()?.into_os_string().into_string().ok()?;
    Path::new(&path).exists().then_some(path)
}
