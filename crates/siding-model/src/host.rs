//! Hosts: the programs that people talk to an agent with, and what siding decides about all that
//! such a process starts.
//!
//! A host's process carries a [`HostMark`], and so does everything it starts outside of tasks. A
//! small process of siding's, the host's supervisor, holds it, takes on the commands that it runs
//! in a sandbox, and ends what is left when it has ended (`docs/adr/0020-host-supervisor.md`).

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

/// What is on record of a host while a supervisor watches it, and until what it left has been
/// ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Format of the record.
    pub format: u32,
    /// The mark that the host's process carries.
    pub mark: HostMark,
    /// The host's process.
    pub host: ProcRef,
    /// Name of its program, as the kernel has it.
    pub name: String,
    /// Path of the program that it executes, where `/proc` tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Boot in which it runs.
    pub boot: BootId,
    /// PID namespace in which its number counts, where `/proc` tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// When it was marked.
    pub wall: UnixMs,
}
