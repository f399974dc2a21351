//! How a process of siding is started, and how another one recognizes it.

use std::ffi::CStr;

/// First argument by which the program knows that it is to be a shim.
pub const SHIM_ARGUMENT: &str = "__shim";

/// Name of a shim's process.
pub const SHIM_NAME: &CStr = c"siding-shim";

/// The descriptor with which a shim is started, after 0, 1 and 2: its socket to whoever started it.
pub const STARTER_FD: i32 = 3;

/// The program that is executed to become a shim: the one that runs now, even if another has
/// been installed in its place since.
pub const SELF_EXE: &CStr = c"/proc/self/exe";
