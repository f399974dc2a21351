//! The output of a task: siding stores it, or the host of an adopted task has directed it
//! elsewhere.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use siding_core::store::TaskDir;
use siding_core::sys::inspect_process::FdTarget;
use siding_core::sys::pty::EchoModes;
use siding_model::process::MonotonicMs;
use siding_model::record::OutputTotals;
use siding_model::terminal::TerminalQuery;

use crate::adopted_output::AdoptedOutput;
use crate::line_monitor::LineMonitor;
use crate::output_fifo::{OutputFifo, StderrFifo};
use crate::terminal_output::TerminalOutput;

/// A task's output, and the way in which the shim detects growth of the output.
#[derive(Debug)]
pub(crate) enum OutputPump {
    /// The shim moves the output from a FIFO into the output file.
    Fifo(OutputFifo),
    /// The host of an adopted task has directed the output to a file, a pipe or a terminal.
    Adopted(AdoptedOutput),
}

impl OutputPump {
    /// Returns an output that siding stores: the shim moves it from `fifo` to `file`.
    pub(crate) fn new(
        fifo: OwnedFd,
        file: OwnedFd,
        keep_head: u64,
        keep_tail: u64,
    ) -> io::Result<Self> {
        OutputFifo::new(fifo, file, keep_head, keep_tail).map(Self::Fifo)
    }

    /// Sets the name of the file that marks stored bytes of the FIFO, for a task of an earlier
    /// version.
    pub(crate) fn set_marker_file(&mut self, marker_file: &'static str) {
        match self {
            Self::Fifo(fifo) => fifo.marker_file = marker_file,
            // This output is not stored by siding.
            Self::Adopted(_) => {}
        }
    }

    /// Sets the monitor that receives the output's lines.
    pub(crate) fn set_line_monitor(&mut self, line_monitor: Option<Box<LineMonitor>>) {
        match self {
            Self::Fifo(fifo) => fifo.line_monitor = line_monitor,
            // Only output that siding stores can be monitored.
            Self::Adopted(_) => {}
        }
    }

    /// Returns the monitor of the output's lines, if the task has one.
    pub(crate) fn line_monitor(&mut self) -> Option<&mut LineMonitor> {
        match self {
            Self::Fifo(fifo) => fifo.line_monitor.as_deref_mut(),
            Self::Adopted(_) => None,
        }
    }

    /// Returns the output of an adopted task; `None` for a task that siding started.
    pub(crate) const fn adopted_mut(&mut self) -> Option<&mut AdoptedOutput> {
        match self {
            Self::Fifo(_) => None,
            Self::Adopted(adopted) => Some(adopted),
        }
    }

    /// Returns the time of the next poll of an adopted task's output; see
    /// [`AdoptedOutput::wake_at`]. `None` for a task that siding started.
    pub(crate) const fn poll_at(
        &self,
        is_followed: bool,
        has_recorded_stall: bool,
    ) -> Option<MonotonicMs> {
        match self {
            Self::Fifo(_) => None,
            Self::Adopted(adopted) => adopted.wake_at(is_followed, has_recorded_stall),
        }
    }

    /// Returns the descriptors to poll for data; none for an adopted task, which is polled at the
    /// time of [`Self::poll_at`].
    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let fifo = match self {
            Self::Fifo(fifo) => Some(fifo),
            Self::Adopted(_) => None,
        };
        fifo.into_iter().flat_map(OutputFifo::sources)
    }

    /// Adds the terminal from which the task's output is moved into the FIFO.
    pub(crate) fn set_terminal(&mut self, terminal: TerminalOutput) {
        match self {
            Self::Fifo(fifo) => fifo.terminal = Some(Box::new(terminal)),
            // An adopted task uses the terminal of its host, if any.
            Self::Adopted(_) => {}
        }
    }

    /// Removes and returns the terminal queries that were found since the last call.
    pub(crate) fn take_queries(&mut self) -> Vec<(TerminalQuery, u64)> {
        match self {
            Self::Fifo(fifo) => {
                fifo.terminal.as_mut().map(|terminal| terminal.take_queries()).unwrap_or_default()
            }
            Self::Adopted(_) => Vec::new(),
        }
    }

    /// Returns the identity of the task's terminal device, as its programs see it; `None` for a
    /// task without a terminal.
    pub(crate) fn terminal_slave(&self) -> Option<FdTarget> {
        match self {
            Self::Fifo(fifo) => fifo.terminal.as_ref().and_then(|terminal| terminal.slave),
            Self::Adopted(_) => None,
        }
    }

    /// Returns whether a program reads a line from the task's terminal without echo, as programs do
    /// for a secret.
    pub(crate) fn asks_for_secret(&self) -> bool {
        match self {
            Self::Fifo(fifo) => {
                fifo.terminal.as_ref().is_some_and(|terminal| terminal.asks_for_secret())
            }
            Self::Adopted(_) => false,
        }
    }

    /// Returns the modes of the task's terminal; `None` without a terminal.
    pub(crate) fn echo_modes(&self) -> Option<EchoModes> {
        match self {
            Self::Fifo(fifo) => fifo.terminal.as_ref().and_then(|terminal| terminal.echo_modes()),
            Self::Adopted(_) => None,
        }
    }

    /// Returns whether the task's terminal shows the alternate screen; false without a terminal.
    pub(crate) fn is_alternate_screen(&self) -> bool {
        match self {
            Self::Fifo(fifo) => {
                fifo.terminal.as_ref().is_some_and(|terminal| terminal.is_alternate_screen())
            }
            Self::Adopted(_) => false,
        }
    }

    /// Adds the FIFO of the standard error, which is separate from that of the output.
    pub(crate) fn set_stderr(&mut self, stderr: StderrFifo) {
        match self {
            Self::Fifo(fifo) => fifo.set_stderr(stderr),
            // The host has directed both streams of an adopted task.
            Self::Adopted(_) => {}
        }
    }

    /// Returns the present length of the output, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fifo(fifo) => fifo.bytes(),
            Self::Adopted(hosted) => hosted.bytes(),
        }
    }

    /// Returns whether [`Self::bytes`] counts all that the task writes to its standard output.
    pub(crate) const fn sees_output(&self) -> bool {
        match self {
            Self::Fifo(_) => true,
            Self::Adopted(hosted) => hosted.sees_output(),
        }
    }

    /// Returns the time at which to call [`Self::release_if_quiet`]; `None` if no call is due.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        match self {
            Self::Fifo(fifo) => fifo.wake_at(),
            Self::Adopted(_) => None,
        }
    }

    /// Returns the amounts of output that were stored and lost.
    pub(crate) fn totals(&self) -> OutputTotals {
        match self {
            Self::Fifo(fifo) => fifo.totals(),
            Self::Adopted(hosted) => OutputTotals { bytes: hosted.bytes(), gap: None, lost: 0 },
        }
    }

    /// Returns the first failed write with its offset, once.
    pub(crate) const fn take_failure(&mut self) -> Option<(u64, io::Error)> {
        match self {
            Self::Fifo(fifo) => fifo.take_failure(),
            Self::Adopted(_) => None,
        }
    }

    /// Returns the last bytes, at most `max` of them.
    pub(crate) fn tail(&self, max: usize) -> Vec<u8> {
        match self {
            Self::Fifo(fifo) => fifo.tail(max),
            Self::Adopted(hosted) => hosted.tail(max),
        }
    }

    /// Moves available data into the output file, in a limited number of steps, none of which
    /// starts at or after the offset `limit`. Returns whether any data was moved. `dir` is the
    /// task's directory.
    pub(crate) fn move_available(&mut self, dir: &TaskDir, limit: Option<u64>) -> bool {
        match self {
            Self::Fifo(fifo) => fifo.move_available(dir, limit),
            Self::Adopted(_) => false,
        }
    }

    /// Moves the data that is in the FIFO now; see [`OutputFifo::drain`].
    pub(crate) fn drain(&mut self) {
        match self {
            Self::Fifo(fifo) => fifo.drain(),
            Self::Adopted(_) => {}
        }
    }

    /// Frees buffers once the task has been silent. Returns whether this call did so, which happens
    /// once in each silence; see [`OutputFifo::release_if_quiet`].
    pub(crate) fn release_if_quiet(&mut self, now: MonotonicMs) -> bool {
        match self {
            Self::Fifo(fifo) => fifo.release_if_quiet(now),
            Self::Adopted(_) => false,
        }
    }

    /// Appends a line of siding's own to the task's output.
    pub(crate) fn append_siding_line(&mut self, text: &str) {
        match self {
            Self::Fifo(fifo) => fifo.append_siding_line(text),
            Self::Adopted(hosted) => hosted.append_siding_line(text),
        }
    }
}
