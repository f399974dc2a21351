//! Starts the supervision of a host: chooses its mark, writes its record, and starts its
//! supervisor, which sets the mark.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use siding_model::host::{BellByte, HOST_RECORD_FORMAT, HostRecord};
use siding_model::id::{HostMark, TaskId};
use siding_model::process::ProcRef;
use siding_model::protocol::ShimMessage;

use super::files::{HostContext, HostFiles};
use crate::processes::pid_namespace::is_in_other_pid_namespace;
use crate::store::{StateDir, StoreError};
use crate::sys::{clock, daemonize, file, process, procfs, unix_socket};
use crate::task::shim_client::{RecvResult, ShimConnection};

/// The first argument that makes the program a supervisor. The host's mark and the state directory
/// follow.
pub const SUPERVISOR_ARGUMENT: &str = "__host";

/// The process name of a supervisor.
pub const SUPERVISOR_NAME: &CStr = c"siding-host";

/// The number of the descriptor with the supervisor's lock. A supervisor inherits the descriptor,
/// and the kernel releases the lock when the supervisor exits.
pub const SUPERVISOR_LOCK_FD: i32 = 4;

/// Maximum time until a supervisor reports that it is ready, in milliseconds.
const SUPERVISOR_REPLY_TIMEOUT_MS: u64 = 2_000;

/// The reason why a host is not supervised.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The setting `supervise_hosts` is false.
    #[error("supervise_hosts is false in the settings")]
    Disabled,
    /// The host is the init process of the machine or container.
    #[error(
        "the agent's program is the init process of this machine or container, whose exit would end every other process"
    )]
    InitProcess,
    /// The host and this process are in different PID namespaces.
    #[error(
        "the agent's program and its hooks see different processes: they are in different PID namespaces"
    )]
    OtherPidNamespace,
    /// The host's user IDs differ from this process's effective one, or the host has exited.
    #[error(
        "the agent's program (process {pid}) belongs to another user, whose processes cannot be marked"
    )]
    OtherUser {
        /// The process ID of the host.
        pid: i32,
    },
    /// The host runs inside a task.
    #[error(
        "the agent's program itself runs inside task {task}, to which everything that it starts belongs"
    )]
    InTask {
        /// The task whose mark the host carries.
        task: TaskId,
    },
    /// The host already has a limit `RLIMIT_RTTIME`, which the mark would replace.
    #[error(
        "the agent's program has its own limit on real-time CPU (RLIMIT_RTTIME {limit} µs), which siding's mark would replace"
    )]
    RttimeLimited {
        /// The limit, in microseconds.
        limit: u64,
    },
    /// A nested host needs a lower mark than the host that started it, and no lower mark is left.
    #[error("agents that were started by agents are nested too deep for another mark")]
    TooDeep,
    /// The supervisor could not start.
    #[error("its supervisor process {doing}")]
    Supervisor {
        /// The failed action and its cause, as the supervisor reported them, or "did not answer".
        doing: String,
    },
    /// The state directory is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A system call failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// The action that failed; completes the sentence "could not …".
        doing: &'static str,
        /// The kernel's error, which the message contains.
        source: io::Error,
    },
}

/// Returns a host's mark, or `None` if the host is not marked or has no readable record in this
/// state directory.
#[must_use]
pub fn supervised_mark(root: &StateDir, host: ProcRef) -> Option<HostMark> {
    let mark = procfs::birthmark(host.pid)?.host_mark()?;
    let record = HostFiles::open(root, mark).ok()?.record().ok()?;
    (record.host == host).then_some(mark)
}

/// Ensures that a host is supervised, and stores the host's current session and settings. Wakes the
/// host's supervisor if one runs; otherwise executes `program` as the supervisor.
///
/// # Errors
///
/// [`SuperviseError`]. An error does not affect a supervisor that already runs for this host.
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
    // Without this lock, two concurrent hooks could create two marks for the host.
    file::lock_exclusive(&hosts).map_err(io("lock the directory of hosts"))?;
    let (files, is_new) = match supervised_mark(root, host) {
        Some(mark) => (HostFiles::open(root, mark)?, false),
        None => {
            let random = crate::sys::random_u64().map_err(io("choose its mark"))?;
            let mark = HostMark::from_random(random, check_supervisable(host)?)
                .ok_or(SuperviseError::TooDeep)?;
            let record =
                host_record(host, mark).map_err(io("read the data of the host's process"))?;
            let files = HostFiles::create(root, &record);
            (files.map_err(io("write the host's record"))?, true)
        }
    };
    files.set_context(current).map_err(io("store the host's session"))?;
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

/// Checks whether a host can be supervised, without changing anything. Returns the number that the
/// host's mark must stay below, because a mark can only be lowered.
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
            // The host was marked before, or was started by another host.
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

/// Starts the supervisor and waits until it is ready.
fn start_supervisor(
    root: &StateDir,
    files: &HostFiles,
    lock: &OwnedFd,
    program: &CStr,
) -> Result<(), SuperviseError> {
    let io = |source| SuperviseError::Io { doing: "start its supervisor process", source };
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
