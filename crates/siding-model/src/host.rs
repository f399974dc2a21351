//! Hosts: the agent programs that call siding, and the rules for the processes that a host starts.
//!
//! A host's process carries a [`HostMark`], and the processes that the host starts outside of tasks
//! inherit the mark. The host supervisor, a small process of siding, sets the mark, adopts the
//! commands that the host runs in a sandbox, and terminates the marked processes that are left when
//! the host has ended (`docs/adr/0020-host-supervisor.md`).

mod excluded_programs;
mod sandboxed;
mod scan_schedule;

use serde::{Deserialize, Serialize};

use crate::id::HostMark;
use crate::process::{BootId, ProcRef, UnixMs};

pub use excluded_programs::{
    BROWSERS, EDITORS, default_excluded_programs, is_excluded_program, is_interpreter,
};
pub use sandboxed::{MarkedProcess, SandboxedCommand, sandboxed_commands};
pub use scan_schedule::{BellByte, ScanSchedule};

/// Newest format of a [`HostRecord`].
pub const HOST_RECORD_FORMAT: u32 = 1;

/// The record of a host in the state directory. The record is removed once the host has ended and
/// the processes that the host left are terminated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Format version of the record, at most [`HOST_RECORD_FORMAT`] when written by this build.
    pub format: u32,
    /// The mark that the host's process carries.
    pub mark: HostMark,
    /// Pid and start time of the host's process.
    pub host: ProcRef,
    /// Name of the host's program, as the kernel reports it.
    pub name: String,
    /// Path of the host's executable, if `/proc` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Boot in which the host runs. In any other boot, the host has ended.
    pub boot: BootId,
    /// PID namespace of the host's pid, if `/proc` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// Time at which the host was marked.
    pub wall: UnixMs,
}
