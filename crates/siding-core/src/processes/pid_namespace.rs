//! Detects whether a process ID denotes different processes for this program and for the host
//! (pid_namespaces(7)).

use siding_model::host::HostRecord;

use crate::sys::procfs;

/// Returns whether the PID namespace of this process differs from that of its host's supervisor, or
/// from that of the mounted `/proc`. In the first case, one process ID means different processes to
/// the host and to this process; in the second, to `/proc` and to system calls. Without the
/// supervisor's namespace in `record`, checks only the second case.
#[must_use]
pub fn is_in_other_pid_namespace(record: Option<&HostRecord>) -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let is_seen_otherwise = procfs::self_ref().is_some_and(|shown| shown.pid != own)
        || procfs::self_pid_in_proc().is_some_and(|shown| shown != own);
    let hosts = record.and_then(|record| record.pid_namespace);
    is_seen_otherwise || hosts.is_some_and(|hosts| procfs::pid_namespace() != Some(hosts))
}
