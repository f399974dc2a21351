//! Detects whether a process ID denotes different processes for this program and for the host
//! (pid_namespaces(7)).

use siding_model::host::HostRecord;

use crate::sys::procfs;

/// Returns whether this process is in another PID namespace than its host's supervisor, or sees a
/// `/proc` of another PID namespace than its own. In the first case, a process ID denotes another
/// process for the host; in the second, a process ID in `/proc` denotes another process in a system
/// call. Without the supervisor's namespace in `record`, checks only the second case.
#[must_use]
pub fn is_in_other_pid_namespace(record: Option<&HostRecord>) -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let is_seen_otherwise = procfs::self_ref().is_some_and(|shown| shown.pid != own)
        || procfs::self_pid_in_proc().is_some_and(|shown| shown != own);
    let hosts = record.and_then(|record| record.pid_namespace);
    is_seen_otherwise || hosts.is_some_and(|hosts| procfs::pid_namespace() != Some(hosts))
}
