//! The terminal of a task: its descriptors, and the process that holds it for the next shim.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use siding_core::processes::tree;
use siding_core::store::task_files::TERMINAL_SOCKET;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::pty::{self, EchoModes, Pty};
use siding_core::sys::{
    clock, descriptor, file, inspect_process, procfs, terminal_holder, unix_socket,
};
use siding_model::process::{MonotonicMs, ProcRef};
use siding_model::record::Record;
use siding_model::signal::Signal;
use siding_model::terminal::{TerminalEvent, TerminalLease, TerminalSize, TerminalState};

use crate::shell_command::move_high;
use crate::terminal_output::TerminalOutput;

/// The terminal of a task.
#[derive(Debug)]
pub(crate) struct TaskTerminal {
    master: OwnedFd,
    /// A descriptor of the programs' side, so that the master is not hung up while no program of the
    /// task has the terminal open for a moment.
    slave: OwnedFd,
    /// The process that holds the terminal for the next shim, if it could be started.
    holder: Option<ProcRef>,
    /// Whether a person types into the terminal.
    pub(crate) lease: TerminalLease,
}

impl TaskTerminal {
    /// Opens a terminal of this size and starts its holder, which listens in `runtime_dir`. The
    /// holder also keeps the first of `fifo_keepalives` open, and with it the output FIFO.
    pub(crate) fn open(
        size: TerminalSize,
        runtime_dir: BorrowedFd<'_>,
        fifo_keepalives: &[OwnedFd],
    ) -> io::Result<Self> {
        let Pty { master, slave } = Pty::open(size)?;
        // The leader inherits the terminal as 0, 1 and 2, and its own numbers must be above these.
        let (master, slave) = (move_high(master)?, move_high(slave)?);
        let fifo = fifo_keepalives.first().map_or(master.as_fd(), |fifo| fifo.as_fd());
        let holder = start_holder(runtime_dir, &master, fifo);
        Ok(Self::new(master, slave, holder))
    }

    /// Receives the terminal of a task whose shim was killed. `None` if its holder is gone too: the
    /// kernel has then hung up the terminal.
    pub(crate) fn take_over(
        terminal: &TerminalState,
        runtime_dir: BorrowedFd<'_>,
    ) -> io::Result<Option<Self>> {
        // A signal may have stopped the holder.
        signal_holder(terminal.holder, Signal::CONT);
        let Some(master) = terminal_holder::receive_master(runtime_dir, TERMINAL_SOCKET)? else {
            return Ok(None);
        };
        let slave = pty::open_slave(&master)?;
        Ok(Some(Self::new(master, slave, terminal.holder)))
    }

    fn new(master: OwnedFd, slave: OwnedFd, holder: Option<ProcRef>) -> Self {
        Self { master, slave, holder, lease: TerminalLease::default() }
    }

    /// Returns the record that the terminal exists.
    pub(crate) fn opened_record(&self) -> Record {
        Record::Terminal(TerminalEvent::Opened { at: clock::monotonic_now(), holder: self.holder })
    }

    /// Returns the output of the terminal, for the output pump.
    pub(crate) fn output(&self) -> io::Result<TerminalOutput> {
        let master = descriptor::duplicate_from(&self.master, 3)?;
        Ok(TerminalOutput::new(master, inspect_process::open_target(&self.slave)))
    }

    /// Returns the side of the programs, which the leader inherits.
    pub(crate) fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// Returns when a person's lease of the terminal ends, unless the person types again.
    pub(crate) fn wake_at(&self) -> Option<MonotonicMs> {
        self.lease.ends_at()
    }

    /// Returns the modes that the programs have set.
    pub(crate) fn echo_modes(&self) -> io::Result<EchoModes> {
        pty::echo_modes(&self.master)
    }

    /// Returns whether typed input is left that no program has read.
    pub(crate) fn has_unread_input(&self) -> bool {
        pty::unread_input(&self.slave).is_ok_and(|bytes| bytes > 0)
    }

    /// Writes typed bytes, as many as the terminal accepts without waiting. Returns their number.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        pty::write_input(&self.master, bytes)
    }

    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        pty::resize(&self.master, size)
    }

    /// Closes the terminal of an ended task. The holder, which exits by itself once no process has
    /// the terminal open, is killed, because a process outside of the task may still have it open.
    pub(crate) fn close(self) {
        signal_holder(self.holder, Signal::KILL);
    }
}

/// Sends a signal to the holder of a terminal, if it lives.
fn signal_holder(holder: Option<ProcRef>, signal: Signal) {
    if let Some(holder) = holder.and_then(|holder| PidFd::open_if_alive(holder).ok().flatten()) {
        let _already_ended = holder.send_signal(signal);
    }
}

/// Starts the holder of a terminal. Without a holder the task has its terminal all the same, but
/// loses it if this shim is killed.
fn start_holder(
    runtime_dir: BorrowedFd<'_>,
    master: &OwnedFd,
    fifo: BorrowedFd<'_>,
) -> Option<ProcRef> {
    let _already_removed = file::remove(runtime_dir, TERMINAL_SOCKET);
    let listener = unix_socket::listen(runtime_dir, TERMINAL_SOCKET).ok()?;
    let pid = terminal_holder::start(listener.as_fd(), master.as_fd(), fifo).ok()?;
    let holder = procfs::identify(pid);
    holder.filter(|holder| tree::is_alive(*holder))
}
