//! Names of the files in a task's directory, and in its runtime directory.

/// Name of the file that holds the output, in the task's directory.
pub const OUTPUT_FILE: &str = "output";
/// Name of the FIFO the task writes to.
pub const OUTPUT_FIFO: &str = "out.fifo";
/// Name of the FIFO the task reads from, where it has one.
pub const INPUT_FIFO: &str = "in.fifo";
/// Name of the mark of what is in both places, beside the FIFO, while output comes in a flood.
pub const SPLICE_MARKER_FILE: &str = "taking";
/// Name of the shim's socket.
pub const SOCKET_NAME: &str = "ctl";
