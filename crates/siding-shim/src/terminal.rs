//! The terminal of a task: its descriptors, and the process that holds it for the next shim.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use siding_core::output::OutputTimesWriter;
use siding_core::store::task_files::{OUTPUT_FIFO, TERMINAL_SOCKET};
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::pty::{self, EchoModes, Pty};
use siding_core::sys::terminal_holder::WaitingHolder;
use siding_core::sys::{
    clock, descriptor, file, inspect_process, terminal_attributes, terminal_holder, unix_socket,
};
use siding_model::process::MonotonicMs;
use siding_model::record::Record;
use siding_model::signal::Signal;
use siding_model::terminal::{
    CTRL_C, TerminalAttributes, TerminalEvent, TerminalLease, TerminalSize, TerminalState,
    ViewerSizes,
};

use crate::clients::ClientId;
use crate::failpoints;
use crate::journal_writer::OPTIONAL_RECORD_RETRY_MS;
use crate::shell_command::move_high;
use crate::terminal_output::TerminalOutput;

/// Maximum number of holders that one shim starts in place of holders that were killed. The limit
/// exists because a process may kill every holder, and the shim cannot free
/// the stack of a holder.
const MAX_REPLACEMENTS: u32 = 3;

/// Time after a typed Ctrl-C in which the end of the leader by SIGINT is attributed to the key, in
/// milliseconds. A program may clean up before it ends itself with the signal.
const SIGNAL_KEY_MS: u64 = 5_000;

/// The terminal of a task.
#[derive(Debug)]
pub(crate) struct TaskTerminal {
    master: OwnedFd,
    /// A descriptor of the slave side. It prevents a hang-up of the master while no program of the
    /// task has the terminal open.
    slave: OwnedFd,
    /// The process that holds the terminal for the next shim; `None` after its exit, or if none
    /// could be started.
    holder: Option<PidFd>,
    /// The new holder, until it is recorded.
    waiting_holder: Option<WaitingHolder>,
    /// Number of holders that were started as replacements, and of attempts to do so that failed.
    replacements: u32,
    /// Time of the next attempt to replace a holder that has exited; `None` if no attempt is due.
    replacement_at: Option<MonotonicMs>,
    /// Whether a person types into the terminal.
    pub(crate) lease: TerminalLease,
    /// The client that has typed last, if it is an agent.
    pub(crate) typing_agent: Option<ClientId>,
    /// Name of the program in whose foreground a person waits for the command.
    pub(crate) foreground_program: String,
    /// The sizes of the terminals of the people who are attached.
    pub(crate) sizes: ViewerSizes,
    /// The last key that was typed and sends a signal.
    signal_key: Option<SignalKey>,
}

/// A typed key that sends a signal to the foreground process group.
#[derive(Debug)]
struct SignalKey {
    signal: Signal,
    typed_at: MonotonicMs,
    /// Name of the writer.
    by: String,
}

impl TaskTerminal {
    /// Opens a terminal of this size and starts its holder, which listens in `runtime_dir`, where
    /// the output FIFO is, and waits for [`Self::release_holder`]. A person's lease ends after
    /// `attach_idle_ms` milliseconds without a keystroke.
    pub(crate) fn open(
        size: TerminalSize,
        attach_idle_ms: u64,
        runtime_dir: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let Pty { master, slave } = Pty::open(size)?;
        // The leader inherits the terminal as descriptors 0, 1 and 2, so the shim's own descriptors
        // must have numbers above these.
        let (master, slave) = (move_high(master)?, move_high(slave)?);
        let mut terminal = Self::new(master, slave, None, attach_idle_ms);
        terminal.start_holder(runtime_dir);
        Ok(terminal)
    }

    /// Sets the attributes of a person's terminal.
    pub(crate) fn apply_attributes(&self, attributes: &TerminalAttributes) -> io::Result<()> {
        terminal_attributes::apply(&self.slave, attributes)
    }

    /// Receives the terminal of a task whose shim was killed. Returns `None` if its holder has also
    /// exited: the kernel has then hung up the terminal.
    pub(crate) fn take_over(
        terminal: &TerminalState,
        attach_idle_ms: u64,
        runtime_dir: BorrowedFd<'_>,
    ) -> io::Result<Option<Self>> {
        let recorded = terminal.holder.map(PidFd::open_if_alive);
        let holder = recorded.and_then(|opened| opened.ok().flatten());
        // A signal may have stopped the holder.
        signal_holder(holder.as_ref(), Signal::CONT);
        let Some(master) = terminal_holder::receive_master(runtime_dir, TERMINAL_SOCKET)? else {
            return Ok(None);
        };
        let slave = pty::open_slave(&master)?;
        Ok(Some(Self::new(master, slave, holder, attach_idle_ms)))
    }

    const fn new(
        master: OwnedFd,
        slave: OwnedFd,
        holder: Option<PidFd>,
        attach_idle_ms: u64,
    ) -> Self {
        let lease = TerminalLease::new(attach_idle_ms);
        Self {
            master,
            slave,
            holder,
            waiting_holder: None,
            replacements: 0,
            replacement_at: None,
            lease,
            typing_agent: None,
            foreground_program: String::new(),
            sizes: ViewerSizes::new(),
            signal_key: None,
        }
    }

    /// Starts a holder. Without a holder, the task still has its terminal, but loses it if this
    /// shim is killed.
    fn start_holder(&mut self, runtime_dir: BorrowedFd<'_>) {
        if let Some((holder, waiting)) = start_holder(runtime_dir, &self.master) {
            (self.holder, self.waiting_holder) = (Some(holder), Some(waiting));
            failpoints::pause_at(failpoints::HOLDER_STARTED);
        }
    }

    /// Lets a new holder hold the terminal, once [`Self::opened_record`] is written. The holder
    /// exits if this shim is killed before, because an unrecorded holder would be mistaken for a
    /// process of the task.
    pub(crate) fn release_holder(&mut self) {
        if let Some(waiting) = self.waiting_holder.take() {
            failpoints::pause_at(failpoints::HOLDER_RECORDED);
            waiting.release();
        }
    }

    /// Lets a new holder exit whose record could not be written.
    pub(crate) fn discard_waiting_holder(&mut self) {
        self.waiting_holder = None;
    }

    /// Returns the record that the terminal exists, with its present holder.
    pub(crate) fn opened_record(&self) -> Record {
        let holder = self.holder.as_ref().map(|holder| holder.process);
        Record::Terminal(TerminalEvent::Opened { at: clock::monotonic_now(), holder })
    }

    /// Returns the descriptor that becomes readable when the holder exits; `None` without a holder.
    pub(crate) fn holder_source(&self) -> Option<BorrowedFd<'_>> {
        self.holder.as_ref().map(|holder| holder.as_fd())
    }

    /// Removes a holder that has exited, so that [`Self::holder_source`] reports its exit only
    /// once. Its replacement is then due, unless [`MAX_REPLACEMENTS`] were started.
    pub(crate) fn forget_ended_holder(&mut self, now: MonotonicMs) {
        self.holder = self.holder.take().filter(|holder| !holder.is_dead());
        if self.holder.is_none() {
            self.set_replacement_at(now);
        }
    }

    /// Returns whether [`Self::replace_holder`] is to be called now.
    pub(crate) fn is_replacement_due(&self, now: MonotonicMs) -> bool {
        self.replacement_at.is_some_and(|at| at <= now)
    }

    /// Postpones a replacement that failed, or whose record cannot be written at present.
    pub(crate) fn postpone_replacement(&mut self, now: MonotonicMs) {
        self.set_replacement_at(now.plus_ms(OPTIONAL_RECORD_RETRY_MS));
    }

    fn set_replacement_at(&mut self, at: MonotonicMs) {
        self.replacement_at = (self.replacements < MAX_REPLACEMENTS).then_some(at);
    }

    /// Starts another holder. Returns the record that names it; it waits for
    /// [`Self::release_holder`]. `None` if none was started.
    pub(crate) fn replace_holder(&mut self, runtime_dir: BorrowedFd<'_>) -> Option<Record> {
        self.replacement_at = None;
        self.replacements += 1;
        self.start_holder(runtime_dir);
        self.holder.is_some().then(|| self.opened_record())
    }

    /// Returns the output of the terminal, for the output pump. `times` receives the times at which
    /// the output is stored.
    pub(crate) fn output(&self, times: Option<OutputTimesWriter>) -> io::Result<TerminalOutput> {
        let master = descriptor::duplicate_from(&self.master, 3)?;
        Ok(TerminalOutput::new(master, inspect_process::open_target(&self.slave), times))
    }

    /// Returns the slave side, which the leader inherits.
    pub(crate) fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// Returns the next time at which something is due: the end of a person's lease of the terminal,
    /// unless the person types again, or the replacement of the holder.
    pub(crate) fn wake_at(&self) -> Option<MonotonicMs> {
        self.lease.ends_at().into_iter().chain(self.replacement_at).min()
    }

    /// Returns the modes that the programs have set.
    pub(crate) fn echo_modes(&self) -> io::Result<EchoModes> {
        pty::echo_modes(&self.master)
    }

    /// Returns whether typed bytes are a single Ctrl-C that the kernel turns into SIGINT.
    pub(crate) fn is_interrupt(&self, bytes: &[u8]) -> bool {
        bytes == [CTRL_C]
            && pty::signal_keys(&self.master)
                .is_ok_and(|keys| keys.contains(&(CTRL_C, Signal::INT)))
    }

    /// Returns whether the terminal contains typed input that no program has read.
    pub(crate) fn has_unread_input(&self) -> bool {
        pty::unread_input(&self.slave).is_ok_and(|bytes| bytes > 0)
    }

    /// Writes bytes, as many as the terminal accepts without waiting. Returns their number.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        pty::write_input(&self.master, bytes)
    }

    /// Writes the bytes that a client has typed, as [`Self::write`] does.
    pub(crate) fn write_typed(&mut self, bytes: &[u8], by: &str) -> io::Result<usize> {
        // The program may change the keys as soon as it receives the first byte.
        let keys = pty::signal_keys(&self.master)?;
        let accepted = self.write(bytes)?;
        let is_key =
            |byte: &u8| keys.iter().find(|(key, _)| key == byte).map(|(_, signal)| *signal);
        if let Some(signal) = bytes[..accepted].iter().rev().find_map(is_key) {
            let typed_at = clock::monotonic_now();
            self.signal_key = Some(SignalKey { signal, typed_at, by: by.to_owned() });
        }
        Ok(accepted)
    }

    /// Returns the sender of a signal that has just ended the leader, if a typed key has sent it.
    pub(crate) fn find_signal_sender(&self, signal: Signal, now: MonotonicMs) -> Option<String> {
        let key = self.signal_key.as_ref().filter(|key| key.signal == signal)?;
        let is_recent = now.ms_since(key.typed_at) < SIGNAL_KEY_MS;
        is_recent.then(|| format!("a key typed by {}", key.by))
    }

    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        pty::resize(&self.master, size)
    }

    /// Closes the terminal of an ended task. The holder is killed, because a process outside of the
    /// task may still have the terminal open.
    pub(crate) fn close(self) {
        signal_holder(self.holder.as_ref(), Signal::KILL);
    }
}

/// Sends a signal to the holder of a terminal, if it is alive.
fn signal_holder(holder: Option<&PidFd>, signal: Signal) {
    if let Some(holder) = holder {
        let _already_ended = holder.send_signal(signal);
    }
}

/// Starts the holder of a terminal, which waits for its release. `None` if it could not be started.
fn start_holder(runtime_dir: BorrowedFd<'_>, master: &OwnedFd) -> Option<(PidFd, WaitingHolder)> {
    let fifo = file::open_at(runtime_dir, OUTPUT_FIFO, file::OpenMode::Read).ok()?;
    let _already_removed = file::remove(runtime_dir, TERMINAL_SOCKET);
    let listener = unix_socket::listen(runtime_dir, TERMINAL_SOCKET).ok()?;
    let waiting = terminal_holder::start(listener.as_fd(), master.as_fd(), fifo.as_fd()).ok()?;
    let holder = PidFd::open_pid(waiting.pid).ok().filter(|holder| !holder.is_dead())?;
    Some((holder, waiting))
}
