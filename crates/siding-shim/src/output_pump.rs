//! A task's output as the keeper sees it, wherever that goes.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use siding_core::store::TaskDir;
use siding_model::process::MonotonicMs;
use siding_model::record::OutputTotals;

use crate::adopted_output::AdoptedOutput;
use crate::line_monitor::LineMonitor;
use crate::output_fifo::OutputFifo;

/// A task's output.
#[derive(Debug)]
pub(crate) enum OutputPump {
    /// It comes through a FIFO and is stored by this shim.
    Fifo(OutputFifo),
    /// It goes where the host of an adopted task has sent it.
    Adopted(AdoptedOutput),
}

impl OutputPump {
    /// Goes on at the end of `file`.
    pub(crate) fn new(
        fifo: OwnedFd,
        file: OwnedFd,
        keep_head: u64,
        keep_tail: u64,
    ) -> io::Result<Self> {
        OutputFifo::new(fifo, file, keep_head, keep_tail).map(Self::Fifo)
    }

    /// Has its lines told as they come.
    pub(crate) fn set_line_monitor(&mut self, line_monitor: Option<Box<LineMonitor>>) {
        match self {
            Self::Fifo(fifo) => fifo.line_monitor = line_monitor,
            // Nobody monitors what siding does not store.
            Self::Adopted(_) => {}
        }
    }

    /// Returns the lines that are told as they come. Most tasks have none.
    pub(crate) fn line_monitor(&mut self) -> Option<&mut LineMonitor> {
        match self {
            Self::Fifo(fifo) => fifo.line_monitor.as_deref_mut(),
            Self::Adopted(_) => None,
        }
    }

    /// Returns the output of an adopted task.
    pub(crate) const fn adopted_mut(&mut self) -> Option<&mut AdoptedOutput> {
        match self {
            Self::Fifo(_) => None,
            Self::Adopted(adopted) => Some(adopted),
        }
    }

    /// Returns when to poll the output of an adopted task; see [`AdoptedOutput::wake_at`].
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

    /// Returns what to poll for data, `None` when it has to be looked for.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Fifo(fifo) => Some(fifo.source()),
            Self::Adopted(_) => None,
        }
    }

    /// Returns bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fifo(fifo) => fifo.bytes(),
            Self::Adopted(hosted) => hosted.bytes(),
        }
    }

    /// Whether all that the task writes to its standard output is counted.
    pub(crate) const fn sees_output(&self) -> bool {
        match self {
            Self::Fifo(_) => true,
            Self::Adopted(hosted) => hosted.sees_output(),
        }
    }

    /// Returns when to come back to [`Self::release_if_quiet`].
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        match self {
            Self::Fifo(fifo) => fifo.wake_at(),
            Self::Adopted(_) => None,
        }
    }

    /// Returns what became of the output.
    pub(crate) fn totals(&self) -> OutputTotals {
        match self {
            Self::Fifo(fifo) => fifo.totals(),
            Self::Adopted(hosted) => OutputTotals { bytes: hosted.bytes(), gap: None, lost: 0 },
        }
    }

    /// Returns the first failure to store something, once.
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

    /// Moves what is there, at most a turn's worth. Returns whether anything came.
    /// `dir` is the task's.
    pub(crate) fn move_available(&mut self, dir: &TaskDir) -> bool {
        match self {
            Self::Fifo(fifo) => fifo.move_available(dir),
            Self::Adopted(_) => false,
        }
    }

    /// Moves all that is there now.
    pub(crate) fn drain(&mut self) {
        match self {
            Self::Fifo(fifo) => fifo.drain(),
            Self::Adopted(_) => {}
        }
    }

    /// Lets go of what only a flow needs, once there has been silence. Returns whether there has.
    pub(crate) fn release_if_quiet(&mut self, now: MonotonicMs) -> bool {
        match self {
            Self::Fifo(fifo) => fifo.release_if_quiet(now),
            Self::Adopted(_) => false,
        }
    }

    /// Writes a line of siding's own behind the task's output.
    pub(crate) fn append_siding_line(&mut self, text: &str) {
        match self {
            Self::Fifo(fifo) => fifo.append_siding_line(text),
            Self::Adopted(hosted) => hosted.append_siding_line(text),
        }
    }
}
