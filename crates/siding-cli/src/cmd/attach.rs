//! `siding attach`: connects a person's terminal with the terminal of a task.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;

use siding_core::output;
use siding_core::store::StateDir;
use siding_core::sys::signals::SignalFd;
use siding_core::sys::tty::{self, KeyMode};
use siding_core::sys::{file, poll};
use siding_core::task::terminal::{TerminalClient, TerminalError};
use siding_core::task::view::ViewDetail;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::record::Record;
use siding_model::signal::Signal;
use siding_model::terminal::{
    DetachKeys, InputModes, QueryFilter, TerminalEvent, TerminalSize, TerminalUser, parse_key,
};
use siding_model::terminal_modes::TerminalModes;

use crate::context::{self, SHIM_PROGRAM, Task};
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, ended_line};
use crate::terminal_replay;

/// Most typed bytes that are passed on at once.
const TYPED_BYTES: usize = 1024;
/// The keys that detach unless `--detach-keys` names others.
const DEFAULT_DETACH_KEYS: &str = "C-\\ C-\\";

/// Connects this terminal with the terminal of a task.
///
/// Shows the task's screen at once, and passes on every key except the detach keys. The task's
/// terminal takes the size of this one. While a person types, an agent's keys are refused. The task
/// continues after a detach, and after the loss of this terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding attach b-4k7q                      leave with Ctrl-\\ Ctrl-\\
  siding attach @ --read-only               watch the last task
  siding attach web --detach-keys 'C-a d'   leave as screen does

Any number of people may attach. Exit codes: 0 after a detach; the task's own code
if it ended meanwhile.")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID", default_value = "@")]
    id: String,
    /// Watch only: no key except the detach keys has an effect, and the size stays
    #[arg(long)]
    read_only: bool,
    /// Keys that detach, in the spelling of `siding keys`, separated by spaces; `none` for no keys
    #[arg(long, value_name = "KEYS", default_value = DEFAULT_DETACH_KEYS)]
    detach_keys: String,
}

/// The reason why an attachment ended.
enum Detachment {
    /// The person pressed the detach keys, or this process received a signal to end.
    Left,
    /// The task has ended.
    TaskEnded,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let task = Task::find(&root, &self.id, false)?;
        let id = task.dir.id();
        check_task(&task)?;
        let keys = DetachKeys::new(self.detach_sequence()?);
        let detachment = Attachment::open(&root, &task, keys, self.read_only)?.run(&task)?;
        match detachment {
            Detachment::Left => {
                render::print_note(&format!(
                    "left {id}, which continues; `siding attach {id}` returns to it"
                ));
                Ok(ExitCode::SUCCESS)
            }
            Detachment::TaskEnded => {
                let ended = Task::read(&root, id)?;
                errln!("siding: {}", ended_line(&ended.view(&root, ViewDetail::Brief)));
                Ok(ExitCode::from(exit::code_for_task(&ended.state)))
            }
        }
    }

    /// Returns the bytes of the detach keys.
    fn detach_sequence(&self) -> Result<Vec<u8>, Failure> {
        if self.detach_keys == "none" {
            return Ok(Vec::new());
        }
        let mut sequence = Vec::new();
        for word in self.detach_keys.split_whitespace() {
            let key =
                parse_key(word).map_err(|error| Failure::new(format!("--detach-keys: {error}")))?;
            let bytes = key.encode(InputModes::default());
            sequence
                .extend(bytes.map_err(|error| Failure::new(format!("--detach-keys: {error}")))?);
        }
        Ok(sequence)
    }
}

/// Rejects a task or a caller without a terminal.
fn check_task(task: &Task) -> Result<(), Failure> {
    let id = task.dir.id();
    if task.state.spec.terminal.is_none() {
        return Err(Failure::new(format!("{id} has no terminal")).with_hint(
            "`siding run --pty` starts a command with one; `siding output --follow` shows any task",
        ));
    }
    if !task.state.is_live() {
        return Err(Failure::new(format!("{id} has ended"))
            .with_hint(format!("`siding screen {id}` shows its last screen")));
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::new("attach needs a terminal as standard input and output")
            .with_hint(format!("`siding screen {id}` and `siding keys {id}` work without one")));
    }
    Ok(())
}

/// A person's terminal while it is connected with that of a task.
struct Attachment<'r> {
    client: TerminalClient<'r>,
    mode: Arc<KeyMode>,
    signals: SignalFd,
    keys: DetachKeys,
    read_only: bool,
    /// The size that the task's terminal has, as far as its records have arrived.
    task_size: Option<TerminalSize>,
    /// Removes the queries that the shim answers.
    filter: QueryFilter,
    /// The modes of this terminal that the shown output has changed.
    modes: TerminalModes,
    /// Stream offset after the shown output.
    shown: u64,
}

impl<'r> Attachment<'r> {
    fn open(
        root: &'r StateDir,
        task: &Task,
        keys: DetachKeys,
        read_only: bool,
    ) -> Result<Self, Failure> {
        let id = task.dir.id();
        let requester = "siding attach";
        let mut client =
            TerminalClient::open(root, SHIM_PROGRAM, id, TerminalUser::Person, requester)?;
        // The mode of the terminal is restored before this process ends through one of these.
        let watched = [Signal::WINCH, Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT];
        let signals = SignalFd::block(&watched)
            .map_err(|error| Failure::new(format!("could not listen to signals: {error}")))?;
        let mode = KeyMode::enter_raw(io::stdin()).map(Arc::new).map_err(|error| {
            Failure::new(format!("could not change the mode of the terminal: {error}"))
        })?;
        if let Ok(terminal) = io::stdout().as_fd().try_clone_to_owned() {
            tty::restore_on_panic(&mode, terminal, "");
        }
        client.watch().send(&ShimRequest::Subscribe { follow: true, shown: None })?;
        let task_size = task.state.terminal.as_ref().map(|terminal| terminal.size());
        let (filter, modes) = (QueryFilter::default(), TerminalModes::default());
        Ok(Self { client, mode, signals, keys, read_only, task_size, filter, modes, shown: 0 })
    }

    fn run(mut self, task: &Task) -> Result<Detachment, Failure> {
        let result = self.connect(task);
        // The terminal is restored before any message is printed.
        let reset = self.modes.take_reset();
        let _peer_gone = write_stdout(format!("{reset}\x1b[0m\r\n").as_bytes());
        let _peer_gone = self.mode.restore();
        result
    }

    fn connect(&mut self, task: &Task) -> Result<Detachment, Failure> {
        self.fit_size()?;
        self.paint(task)?;
        loop {
            self.show_output(task)?;
            let Some(source) = self.client.watch().source() else {
                self.show_output(task)?;
                return Ok(Detachment::TaskEnded);
            };
            let stdin = io::stdin();
            let fds = [stdin.as_fd(), source, self.signals.as_fd()];
            let timeout = self.keys.is_holding().then_some(DetachKeys::HOLD_MS);
            let ready = poll::wait_readable(&fds, timeout)
                .map_err(|error| Failure::new(format!("could not wait: {error}")))?;
            self.receive()?;
            let has_left = match ready.first() {
                Some(true) => self.on_typed()?,
                Some(false) | None => self.release_held()?,
            };
            if has_left || (ready.get(2) == Some(&true) && self.on_signals()?) {
                return Ok(Detachment::Left);
            }
        }
    }

    /// Shows the present screen of the task.
    fn paint(&mut self, task: &Task) -> Result<(), Failure> {
        let replay = terminal_replay::open(task.dir.id(), &task.dir, None)?;
        self.shown = replay.offset();
        self.write(replay.screen().state_bytes())
    }

    /// Gives the task's terminal the size of this one.
    fn fit_size(&mut self) -> Result<(), Failure> {
        let own = tty::size(io::stdout())
            .and_then(|(columns, rows)| TerminalSize::new(columns, rows).ok());
        if let Some(own) = own.filter(|own| !self.read_only && self.task_size != Some(*own)) {
            self.client.resize(own)?;
            self.task_size = Some(own);
        }
        Ok(())
    }

    /// Receives the messages of the shim.
    fn receive(&mut self) -> Result<(), Failure> {
        let renewed = self.client.watch().reconnects();
        let mut again = self.client.take_growth();
        while let Some(message) = self.client.watch().try_recv()? {
            match message {
                ShimMessage::Output { .. } => again = true,
                ShimMessage::Record { record: Some(record), .. } => {
                    if let Record::Terminal(TerminalEvent::Resized { size, .. }) = *record {
                        self.task_size = Some(size);
                    }
                }
                ShimMessage::Done
                | ShimMessage::Record { record: None, .. }
                | ShimMessage::Refused { .. }
                | ShimMessage::Why { .. }
                | ShimMessage::Usage { .. }
                | ShimMessage::Terminal { .. }
                | ShimMessage::TerminalWritten { .. }
                | ShimMessage::KeysRefused { .. }
                | ShimMessage::OutputDiffers { .. }
                | ShimMessage::CannotStart { .. } => {}
            }
        }
        if again || self.client.watch().reconnects() != renewed {
            self.client.watch().send(&ShimRequest::Subscribe { follow: true, shown: None })?;
        }
        Ok(())
    }

    /// Shows the output that was added since the last call.
    fn show_output(&mut self, task: &Task) -> Result<(), Failure> {
        let (filter, modes) = (&mut self.filter, &mut self.modes);
        let copied = output::copy(&task.dir, self.shown, |bytes| {
            let mut shown = Vec::with_capacity(bytes.len());
            filter.filter(bytes, &mut shown);
            modes.feed(&shown);
            write_stdout(&shown)
        });
        self.shown = copied.map_err(terminal_gone)?.next;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.modes.feed(bytes);
        write_stdout(bytes).map_err(terminal_gone)
    }

    /// Passes typed keys on. Returns whether the person has left.
    fn on_typed(&mut self) -> Result<bool, Failure> {
        let mut typed = [0; TYPED_BYTES];
        let count = file::read(io::stdin().as_fd(), &mut typed).unwrap_or(0);
        if count == 0 {
            return Ok(true);
        }
        let input = self.keys.feed(&typed[..count]);
        self.type_keys(&input.forwarded)?;
        Ok(input.is_detached)
    }

    /// Passes the keys on that might have been the begin of the detach keys. Never detaches.
    fn release_held(&mut self) -> Result<bool, Failure> {
        let held = self.keys.release();
        self.type_keys(&held)?;
        Ok(false)
    }

    fn type_keys(&mut self, keys: &[u8]) -> Result<(), Failure> {
        if self.read_only || keys.is_empty() {
            return Ok(());
        }
        // The terminal has the size of the person who types.
        self.fit_size()?;
        match self.client.write(keys, None) {
            // The end is reported by the watch.
            Err(TerminalError::Ended { .. }) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Handles signals. Returns whether this process must end.
    fn on_signals(&mut self) -> Result<bool, Failure> {
        let received = self.signals.read_pending();
        if received.contains(&Signal::WINCH) {
            self.fit_size()?;
        }
        Ok(received.iter().any(|signal| *signal != Signal::WINCH))
    }
}

fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

fn terminal_gone(error: io::Error) -> Failure {
    Failure::new(format!("could not show the task's terminal: {error}"))
}
