//! Names of the files in a task's directory, and in its runtime directory.

/// Name of the file that holds the output, in the task's directory.
pub const OUTPUT_FILE: &str = "output";
/// Name of the FIFO that the task writes its output to.
pub const OUTPUT_FIFO: &str = "out.fifo";
/// Name of the FIFO that the task reads its input from, if it has one.
pub const INPUT_FIFO: &str = "in.fifo";
/// Name of the marker file next to the output FIFO, which records the bytes that are in both the
/// FIFO and the output file while a burst of output is stored.
pub const SPLICE_MARKER_FILE: &str = "taking";
/// Name of the shim's socket.
pub const SOCKET_NAME: &str = "ctl";
