//! The arguments, descriptors and names with which siding's own processes are started and
//! recognized.

use std::ffi::CStr;

/// The first argument that makes the program a shim.
pub const SHIM_ARGUMENT: &str = "__shim";

/// The process name that each shim sets for itself, so that other processes recognize it.
pub const SHIM_NAME: &CStr = c"siding-shim";

/// The descriptor that a shim, a proxy or a host supervisor inherits after 0, 1 and 2: its socket
/// to the process that started it.
pub const STARTER_FD: i32 = 3;

/// The path of the running program, to be executed as a shim, a proxy or a host supervisor. The
/// path refers to the running program even if another version has been installed over its file
/// (proc_pid_exe(5)).
pub const SELF_EXE: &CStr = c"/proc/self/exe";
