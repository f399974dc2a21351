//! Names of the files in a task's directory, and in its runtime directory.

use siding_model::record::FORMAT_WITH_LIMIT_KIND;

/// Name of the file with the output, in the task's directory.
pub const OUTPUT_FILE: &str = "output";
/// Name of the FIFO to which the task writes its output.
pub const OUTPUT_FIFO: &str = "out.fifo";
/// Name of the FIFO to which the task writes its standard error, if that is separate from its
/// output.
pub const STDERR_FIFO: &str = "err.fifo";
/// Name of the file that lists which bytes of the output were written to the standard error, in the
/// task's directory.
pub const STDERR_SPANS_FILE: &str = "stderr";
/// Name of the file in the task's directory with the times at which the output of the task's
/// terminal was stored.
pub const OUTPUT_TIMES_FILE: &str = "output.times";
/// Name of the FIFO from which the task reads its input, if the task has one.
pub const INPUT_FIFO: &str = "in.fifo";
/// Name of the file next to [`INPUT_FIFO`] with the number of bytes that another machine has
/// written to the FIFO.
pub const INPUT_POSITION_FILE: &str = "in.position";
/// Name of the file that a mirror locks while it copies files back from another machine.
pub const FETCH_LOCK_FILE: &str = "fetch.lock";
/// Name of the marker file next to the output FIFO, which records the bytes that are in both the
/// FIFO and the output file while a burst of output is stored.
pub const SPLICE_MARKER_FILE: &str = "inflight";
/// Name of the socket, next to [`SOCKET_NAME`], over which the holder of the task's terminal passes
/// the terminal to another shim.
pub const TERMINAL_SOCKET: &str = "tty";
/// Name of the splice marker in tasks of a format before [`FORMAT_WITH_LIMIT_KIND`].
pub(super) const OLD_SPLICE_MARKER_FILE: &str = "taking";
/// Name of the file with the state of the task's terminal at one offset of the output, which
/// readers write. The file is a cache that avoids reading the output again.
pub const SCREEN_CACHE_FILE: &str = "screen.cache";
/// Name of a new [`SCREEN_CACHE_FILE`] until it replaces the old one.
pub const SCREEN_CACHE_TEMP_FILE: &str = "screen.cache.new";
/// Name of the socket on which the task's shim accepts requests.
pub const SOCKET_NAME: &str = "ctl";

/// Returns the name of the splice marker of a task whose journal has this format.
#[must_use]
pub const fn splice_marker_file(format: u32) -> &'static str {
    if format < FORMAT_WITH_LIMIT_KIND { OLD_SPLICE_MARKER_FILE } else { SPLICE_MARKER_FILE }
}
