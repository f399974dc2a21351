//! Having a host watched: its mark, its record, and the process that watches it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use siding_model::host::{BellByte, HOST_RECORD_FORMAT, HostRecord};
use siding_model::id::{HostMark, TaskId};
use siding_model::process::ProcRef;
use siding_model::protocol::ShimMessage;

use super::files::{Current, HostFiles, is_beyond_this_namespace};
use crate::link::{Heard, Link};
use crate::store::{Root, StoreError};
use crate::sys::{clock, detached, file, process, procfs, socket};

/// First argument by which the program knows that it is to watch a host. The host's mark and the
/// state directory follow.
pub const SUPERVISOR_ARGUMENT: &str = "__host";

/// Name of a supervisor's process.
pub const SUPERVISOR_NAME: &CStr = c"siding-host";

/// The descriptor with which a supervisor is started, after its starter's socket: the lock that
/// says that it lives.
pub const SUPERVISOR_LOCK: i32 = 4;

/// How long a supervisor may take to say that it watches, in milliseconds.
const ANSWER_MS: u64 = 2_000;

/// Why a host is not watched.
#[derive(Debug, thiserror::Error)]
pub enum Unsupervised {
    /// The settings say so.
    #[error("supervise_hosts is false in the settings")]
    Off,
    /// It is the first process of the machine or container.
    #[error(
        "the agent's program is the first process of this machine or container, and everything would end with it"
    )]
    First,
    /// It is in another PID namespace than this process.
    #[error(
        "the agent's program and its hooks see different processes: they are in different PID namespaces"
    )]
    Elsewhere,
    /// It is another user's.
    #[error(
        "the agent's program (process {pid}) belongs to another user, whose processes cannot be marked"
    )]
    Foreign {
        /// Its process.
        pid: i32,
    },
    /// It runs inside a task.
    #[error(
        "the agent's program itself runs inside task {task}, and all that it starts is that task's"
    )]
    InTask {
        /// The task.
        task: TaskId,
    },
    /// It has a limit of its own where the mark would be.
    #[error(
        "the agent's program has a limit on real-time CPU of its own (RLIMIT_RTTIME {limit} µs), which a mark would replace"
    )]
    Limited {
        /// The limit.
        limit: u64,
    },
    /// Hosts are nested too deep.
    #[error("agents that were started by agents are nested too deep for another mark")]
    TooDeep,
    /// The process that was to watch it could not.
    #[error("the process that was to watch it {doing}")]
    Supervisor {
        /// What it could not do, and why.
        doing: String,
    },
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Returns the mark of a host that is on record here.
#[must_use]
pub fn watched_mark(root: &Root, host: ProcRef) -> Option<HostMark> {
    let mark = procfs::birthmark(host.pid)?.host_mark()?;
    let record = HostFiles::open(root, mark).ok()?.record().ok()?;
    (record.host == host).then_some(mark)
}

/// Has a host watched, and notes what it does now. One that is watched already stays as it is. By
/// executing `program` another process is started, unless one watches.
///
/// # Errors
///
/// [`Unsupervised`]: then nothing watches it.
pub fn supervise(
    root: &Root,
    host: ProcRef,
    current: &Current,
    program: &CStr,
) -> Result<HostMark, Unsupervised> {
    let io = |doing| move |source| Unsupervised::Io { doing, source };
    can_be_watched(host)?;
    let missing = || io("open the directory of hosts")(io::ErrorKind::NotFound.into());
    let hosts = root.hosts_dir(true)?.ok_or_else(missing)?;
    // Two hooks at once must not give it two marks.
    file::lock(&hosts).map_err(io("lock the directory of hosts"))?;
    let (files, is_new) = match watched_mark(root, host) {
        Some(mark) => (HostFiles::open(root, mark)?, false),
        None => {
            let random = crate::sys::random().map_err(io("draw a mark"))?;
            let mark = HostMark::from_random(random, can_be_watched(host)?)
                .ok_or(Unsupervised::TooDeep)?;
            let record = record(host, mark).map_err(io("read about the host"))?;
            let files = HostFiles::create(root, &record);
            (files.map_err(io("put the host on record"))?, true)
        }
    };
    files.set_current(current).map_err(io("note the host's session"))?;
    if let Some(lock) = files.try_lock().map_err(io("lock the host's record"))? {
        let started = start(root, &files, &lock, program);
        if is_new && started.is_err() {
            let _removed_by_the_reaper = root.remove_host(files.mark);
        }
        started?;
    } else {
        let _gone_again = files.ring(BellByte::Scan);
    }
    Ok(files.mark)
}

/// Finds out whether a host can be watched, and changes nothing. Returns the number below which its
/// mark must be.
///
/// # Errors
///
/// [`Unsupervised`].
pub fn can_be_watched(host: ProcRef) -> Result<u64, Unsupervised> {
    if host.pid == 1 {
        return Err(Unsupervised::First);
    }
    if is_beyond_this_namespace(None) {
        return Err(Unsupervised::Elsewhere);
    }
    if procfs::only_uid(host.pid) != Some(process::effective_uid()) {
        return Err(Unsupervised::Foreign { pid: host.pid });
    }
    match procfs::birthmark(host.pid) {
        None => Ok(u64::MAX),
        Some(mark) => match (mark.task_id(), mark.host_mark()) {
            (Some(task), _) => Err(Unsupervised::InTask { task }),
            // It has been given that, or was started by another host.
            (None, Some(_)) => Ok(mark.0),
            (None, None) => Err(Unsupervised::Limited { limit: mark.0 }),
        },
    }
}

fn record(host: ProcRef, mark: HostMark) -> io::Result<HostRecord> {
    Ok(HostRecord {
        format: HOST_RECORD_FORMAT,
        mark,
        host,
        name: procfs::name(host.pid).unwrap_or_default(),
        program: procfs::program(host.pid),
        boot: procfs::boot_id()?,
        pid_namespace: procfs::pid_namespace(),
        wall: clock::wall(),
    })
}

/// Starts the process that watches, and waits until it does.
fn start(
    root: &Root,
    files: &HostFiles,
    lock: &OwnedFd,
    program: &CStr,
) -> Result<(), Unsupervised> {
    let io = |source| Unsupervised::Io { doing: "start the process that watches it", source };
    let path = std::path::absolute(root.path()).map_err(io)?;
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|error| io(error.into()))?;
    let mark = CString::new(files.mark.to_string()).map_err(|error| io(error.into()))?;
    let null = file::open_null().map_err(io)?;
    let null = null.as_fd();
    let (ours, theirs) = socket::pair().map_err(io)?;
    detached::detached(&detached::Detached {
        program,
        argv: &[c"siding", c"__host", &mark, &path],
        descriptors: &[null, null, null, theirs.as_fd(), lock.as_fd()],
    })
    .map_err(io)?;
    drop(theirs);
    match Link::over(ours).hear(Some(ANSWER_MS)).map_err(io)? {
        Heard::Message(ShimMessage::Done) => Ok(()),
        Heard::Message(ShimMessage::CannotStart { doing, .. }) => {
            Err(Unsupervised::Supervisor { doing })
        }
        Heard::Message(_) | Heard::Nothing | Heard::Gone => {
            Err(Unsupervised::Supervisor { doing: "did not answer".to_owned() })
        }
    }
}
