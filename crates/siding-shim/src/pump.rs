//! A task's output as the keeper sees it, wherever that goes.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use siding_core::store::TaskDir;
use siding_model::process::MonotonicMs;
use siding_model::record::OutputTotals;

use crate::fifo::Fifo;
use crate::hosted::Hosted;
use crate::monitor::Told;

/// A task's output.
#[derive(Debug)]
pub(crate) enum Pump {
    /// It comes through a FIFO and is stored by this shim.
    Fifo(Fifo),
    /// It goes where the host of an adopted task has sent it.
    Hosted(Hosted),
}

impl Pump {
    /// Goes on at the end of `file`.
    pub(crate) fn new(
        fifo: OwnedFd,
        file: OwnedFd,
        keep_head: u64,
        keep_tail: u64,
    ) -> io::Result<Self> {
        Fifo::new(fifo, file, keep_head, keep_tail).map(Self::Fifo)
    }

    /// Has its lines told as they come.
    pub(crate) fn tell(&mut self, told: Option<Box<Told>>) {
        match self {
            Self::Fifo(fifo) => fifo.told = told,
            // Nobody monitors what siding does not store.
            Self::Hosted(_) => {}
        }
    }

    /// Returns the lines that are told as they come. Most tasks have none.
    pub(crate) fn told(&mut self) -> Option<&mut Told> {
        match self {
            Self::Fifo(fifo) => fifo.told.as_deref_mut(),
            Self::Hosted(_) => None,
        }
    }

    /// Returns what to poll for data, `None` when it has to be looked for.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Fifo(fifo) => Some(fifo.source()),
            Self::Hosted(_) => None,
        }
    }

    /// Returns bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fifo(fifo) => fifo.bytes(),
            Self::Hosted(hosted) => hosted.bytes(),
        }
    }

    /// Whether all that the task writes to its standard output is counted.
    pub(crate) const fn sees_output(&self) -> bool {
        match self {
            Self::Fifo(_) => true,
            Self::Hosted(hosted) => hosted.sees_output(),
        }
    }

    /// Returns when to come back to [`Self::rest`].
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        match self {
            Self::Fifo(fifo) => fifo.wake_at(),
            Self::Hosted(_) => None,
        }
    }

    /// Returns what became of the output.
    pub(crate) fn totals(&self) -> OutputTotals {
        match self {
            Self::Fifo(fifo) => fifo.totals(),
            Self::Hosted(hosted) => OutputTotals { bytes: hosted.bytes(), gap: None, lost: 0 },
        }
    }

    /// Returns the first failure to store something, once.
    pub(crate) const fn take_failure(&mut self) -> Option<(u64, io::Error)> {
        match self {
            Self::Fifo(fifo) => fifo.take_failure(),
            Self::Hosted(_) => None,
        }
    }

    /// Returns the last bytes, at most `max` of them.
    pub(crate) fn tail(&self, max: usize) -> Vec<u8> {
        match self {
            Self::Fifo(fifo) => fifo.tail(max),
            Self::Hosted(hosted) => hosted.tail(max),
        }
    }

    /// Moves what is there, at most a turn's worth. Returns whether anything came.
    /// `dir` is the task's.
    pub(crate) fn turn(&mut self, dir: &TaskDir) -> bool {
        match self {
            Self::Fifo(fifo) => fifo.turn(dir),
            Self::Hosted(_) => false,
        }
    }

    /// Moves all that is there now.
    pub(crate) fn drain(&mut self) {
        match self {
            Self::Fifo(fifo) => fifo.drain(),
            Self::Hosted(_) => {}
        }
    }

    /// Lets go of what only a flow needs, once there has been silence. Returns whether there has.
    pub(crate) fn rest(&mut self, now: MonotonicMs) -> bool {
        match self {
            Self::Fifo(fifo) => fifo.rest(now),
            Self::Hosted(_) => false,
        }
    }

    /// Writes a line of siding's own behind the task's output.
    pub(crate) fn say(&mut self, text: &str) {
        match self {
            Self::Fifo(fifo) => fifo.say(text),
            Self::Hosted(hosted) => hosted.say(text),
        }
    }
}
