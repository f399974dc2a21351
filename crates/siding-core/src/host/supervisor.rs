//! Having a host watched: its mark, its record, and the process that watches it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use siding_model::host::{BellByte, HOST_RECORD_FORMAT, HostRecord};
use siding_model::id::{HostMark, TaskId};
use siding_model::process::ProcRef;
use siding_model::protocol::ShimMessage;

use super::files::{HostContext, HostFiles};
use crate::pid_namespace::is_in_other_pid_namespace;
use crate::shim_client::{RecvResult, ShimConnection};
use crate::store::{StateDir, StoreError};
use crate::sys::{clock, daemonize, file, process, procfs, unix_socket};

/// First argument by which the program knows that it is to watch a host. The host's mark and the
/// state directory follow.
pub const SUPERVISOR_ARGUMENT: &str = "__host";

/// Name of a supervisor's process.
pub const SUPERVISOR_NAME: &CStr = c"siding-host";

/// The descriptor with which a supervisor is started, after its starter's socket: the lock that
/// says that it lives.
pub const SUPERVISOR_LOCK_FD: i32 = 4;

/// How long a supervisor may take to say that it watches, in milliseconds.
const SUPERVISOR_REPLY_TIMEOUT_MS: u64 = 2_000;

/// Why a host is not watched.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The settings say so.
    #[error("supervise_hosts is false in the settings")]
    Disabled,
    /// It is the first process of the machine or container.
    #[error(
        "the agent's program is the first process of this machine or container, and everything would end with it"
    )]
    InitProcess,
    /// It is in another PID namespace than this process.
    #[error(
        "the agent's program and its hooks see different processes: they are in different PID namespaces"
    )]
    OtherPidNamespace,
    /// It is another user's.
    #[error(
        "the agent's program (process {pid}) belongs to another user, whose processes cannot be marked"
    )]
    OtherUser {
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
    RttimeLimited {
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
pub fn supervised_mark(root: &StateDir, host: ProcRef) -> Option<HostMark> {
    let mark = procfs::birthmark(host.pid)?.host_mark()?;
    let record = HostFiles::open(root, mark).ok()?.record().ok()?;
    (record.host == host).then_some(mark)
}

/// Has a host watched, and notes what it does now. One that is watched already stays as it is. By
/// executing `program` another process is started, unless one watches.
///
/// # Errors
///
/// [`SuperviseError`]: then nothing watches it.
pub fn supervise(
    root: &StateDir,
    host: ProcRef,
    current: &HostContext,
    program: &CStr,
) -> Result<HostMark, SuperviseError> {
    let io = |doing| move |source| SuperviseError::Io { doing, source };
    check_supervisable(host)?;
    let missing = || io("open the directory of hosts")(io::ErrorKind::NotFound.into());
    let hosts = root.hosts_dir(true)?.ok_or_else(missing)?;
    // Two hooks at once must not give it two marks.
    file::lock_exclusive(&hosts).map_err(io("lock the directory of hosts"))?;
    let (files, is_new) = match supervised_mark(root, host) {
        Some(mark) => (HostFiles::open(root, mark)?, false),
        None => {
            let random = crate::sys::random_u64().map_err(io("draw a mark"))?;
            let mark = HostMark::from_random(random, check_supervisable(host)?)
                .ok_or(SuperviseError::TooDeep)?;
            let record = host_record(host, mark).map_err(io("read about the host"))?;
            let files = HostFiles::create(root, &record);
            (files.map_err(io("put the host on record"))?, true)
        }
    };
    files.set_context(current).map_err(io("note the host's session"))?;
    if let Some(lock) = files.try_lock().map_err(io("lock the host's record"))? {
        let started = start_supervisor(root, &files, &lock, program);
        if is_new && started.is_err() {
            let _best_effort = root.remove_host(files.mark);
        }
        started?;
    } else {
        let _peer_gone = files.ring_bell(BellByte::Scan);
    }
    Ok(files.mark)
}

/// Finds out whether a host can be watched, and changes nothing. Returns the number below which its
/// mark must be.
///
/// # Errors
///
/// [`SuperviseError`].
pub fn check_supervisable(host: ProcRef) -> Result<u64, SuperviseError> {
    if host.pid == 1 {
        return Err(SuperviseError::InitProcess);
    }
    if is_in_other_pid_namespace(None) {
        return Err(SuperviseError::OtherPidNamespace);
    }
    if procfs::single_uid(host.pid) != Some(process::effective_uid()) {
        return Err(SuperviseError::OtherUser { pid: host.pid });
    }
    match procfs::birthmark(host.pid) {
        None => Ok(u64::MAX),
        Some(mark) => match (mark.task_id(), mark.host_mark()) {
            (Some(task), _) => Err(SuperviseError::InTask { task }),
            // It has been given that, or was started by another host.
            (None, Some(_)) => Ok(mark.0),
            (None, None) => Err(SuperviseError::RttimeLimited { limit: mark.0 }),
        },
    }
}

fn host_record(host: ProcRef, mark: HostMark) -> io::Result<HostRecord> {
    Ok(HostRecord {
        format: HOST_RECORD_FORMAT,
        mark,
        host,
        name: procfs::process_name(host.pid).unwrap_or_default(),
        program: procfs::executable_path(host.pid),
        boot: procfs::boot_id()?,
        pid_namespace: procfs::pid_namespace(),
        wall: clock::unix_now(),
    })
}

/// Starts the process that watches, and waits until it does.
fn start_supervisor(
    root: &StateDir,
    files: &HostFiles,
    lock: &OwnedFd,
    program: &CStr,
) -> Result<(), SuperviseError> {
    let io = |source| SuperviseError::Io { doing: "start the process that watches it", source };
    let path = std::path::absolute(root.path()).map_err(io)?;
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|error| io(error.into()))?;
    let mark = CString::new(files.mark.to_string()).map_err(|error| io(error.into()))?;
    let null = file::open_null().map_err(io)?;
    let null = null.as_fd();
    let (ours, theirs) = unix_socket::pair().map_err(io)?;
    daemonize::spawn_daemon(&daemonize::DaemonCommand {
        program,
        argv: &[c"siding", c"__host", &mark, &path],
        descriptors: &[null, null, null, theirs.as_fd(), lock.as_fd()],
    })
    .map_err(io)?;
    drop(theirs);
    match ShimConnection::from_socket(ours).recv(Some(SUPERVISOR_REPLY_TIMEOUT_MS)).map_err(io)? {
        RecvResult::Message(ShimMessage::Done) => Ok(()),
        RecvResult::Message(ShimMessage::CannotStart { doing, .. }) => {
            Err(SuperviseError::Supervisor { doing })
        }
        RecvResult::Message(_) | RecvResult::TimedOut | RecvResult::Disconnected => {
            Err(SuperviseError::Supervisor { doing: "did not answer".to_owned() })
        }
    }
}
