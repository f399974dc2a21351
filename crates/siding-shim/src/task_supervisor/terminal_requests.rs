//! The requests about a task's terminal, and the replies to the queries of its programs.

use std::io;

use siding_core::store::TaskDir;
use siding_core::sys::clock;
use siding_core::sys::pty::EchoModes;
use siding_model::evidence::prompt::{MAX_TAIL_BYTES, OutputTail};
use siding_model::evidence::{self, TerminalReader};
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimMessage;
use siding_model::record::Record;
use siding_model::terminal::{
    KeysRefusal, LeaseEvent, QueryReply, ReaderFact, TerminalEvent, TerminalFacts, TerminalInput,
    TerminalSize, TerminalState, TerminalUser, ViewerId, format_cursor_position,
};
use siding_terminal::{TerminalHistory, TerminalReplay};

use super::TaskSupervisor;
use crate::clients::ClientId;
use crate::task_context::TaskContext;
use crate::terminal::TaskTerminal;

/// The reason for refusing a request about a terminal that the task does not have.
const NO_TERMINAL: &str = "it has no terminal; `siding run --pty` starts a command with one, and `siding input` writes to \
     a pipe";

/// The reason for refusing a secret.
const NO_SECRET: &str = "it does not ask for a secret any more, so nothing was typed";

/// Maximum number of bytes of the output that are interpreted to find the position of the cursor.
/// It limits the time in which the shim does nothing else. The position is wrong only if output
/// before these bytes, without which it cannot be computed, still has an effect.
const MAX_INTERPRETED_BYTES: u64 = 1 << 20;

/// A request of a client to write to the terminal.
#[derive(Debug)]
pub(super) struct TerminalWrite {
    pub(super) bytes: Vec<u8>,
    pub(super) user: TerminalUser,
    pub(super) by: String,
    /// Length of the output that the writer has seen, in bytes, if the written bytes answer that
    /// output.
    pub(super) if_output: Option<u64>,
    /// Whether the bytes are a secret. They are then written only if the terminal does not echo
    /// them.
    pub(super) is_secret: bool,
}

impl TaskSupervisor {
    /// Writes to the terminal if the writer is permitted to. Returns the response.
    pub(super) fn write_terminal(&mut self, id: ClientId, write: TerminalWrite) -> ShimMessage {
        self.store_available_output();
        if let Some(refusal) = self.terminal_refusal(&write) {
            if is_refused_for_person(&refusal) {
                self.report_lease();
            }
            return refusal;
        }
        let now = clock::monotonic_now();
        let Some(terminal) = &mut self.terminal else { return no_terminal() };
        let accepted = match terminal.write_typed(&write.bytes, &write.by) {
            Ok(accepted) => accepted,
            Err(error) => {
                return ShimMessage::Refused { why: format!("its terminal is closed: {error}") };
            }
        };
        // The client repeats a write that a full terminal has not accepted.
        if accepted > 0 {
            terminal.typing_agent = (write.user == TerminalUser::Agent).then_some(id);
            if write.user == TerminalUser::Person {
                terminal.sizes.record_keystroke(id.into());
                let events = terminal.lease.record_keystroke(id.into(), now);
                self.record_lease_events(&events, now, &write.by);
            }
            self.on_input_written(Some(write.by));
        }
        self.clients.send_message(id, &ShimMessage::TerminalWritten { accepted });
        ShimMessage::Done
    }

    /// Returns the refusal of a write; `None` if it is permitted.
    fn terminal_refusal(&self, write: &TerminalWrite) -> Option<ShimMessage> {
        let Some(terminal) = &self.terminal else { return Some(no_terminal()) };
        let bytes = self.output.bytes();
        if write.if_output.is_some_and(|seen| seen != bytes) {
            return Some(ShimMessage::OutputDiffers { bytes });
        }
        let hides_lines = self.output.asks_for_secret();
        if write.is_secret && !hides_lines {
            return Some(ShimMessage::Refused { why: NO_SECRET.to_owned() });
        }
        if write.user == TerminalUser::Person {
            return None;
        }
        if let Err(refusal) = terminal.lease.check_agent(clock::monotonic_now()) {
            return Some(ShimMessage::KeysRefused { refusal });
        }
        // A prompt that reads single keys can be recognized only on the screen, and only the client
        // knows the screen.
        // After an interrupt, the rest of a secret that a person is typing would be shown.
        let may_interrupt = terminal.sizes.viewers().next().is_none();
        (hides_lines && !(may_interrupt && terminal.is_interrupt(&write.bytes))).then(|| {
            let prompt = OutputTail::from_bytes(&self.output.tail(MAX_TAIL_BYTES)).line;
            ShimMessage::KeysRefused { refusal: KeysRefusal::SecretRequested { prompt } }
        })
    }

    /// Moves all output that the programs have written into the output file, up to a reader's
    /// limit.
    fn store_available_output(&mut self) {
        let limit = self.output_limit();
        let mut has_moved = false;
        // A program that writes without a pause must not keep the shim in this loop.
        for _ in 0..4 {
            if !self.output.move_available(self.task.dir(), limit) {
                break;
            }
            has_moved = true;
        }
        if has_moved {
            self.on_output();
        }
    }

    /// Gives the terminal the size of the terminal of this client's person. Returns the response.
    pub(super) fn resize_terminal(&mut self, id: ClientId, size: TerminalSize) -> ShimMessage {
        let Some(terminal) = &mut self.terminal else {
            return ShimMessage::ResizeRefused { why: NO_TERMINAL.to_owned() };
        };
        terminal.sizes.set(id.into(), size);
        self.change_terminal_size(size)
    }

    /// Changes the size of the terminal. Returns the response.
    fn change_terminal_size(&mut self, size: TerminalSize) -> ShimMessage {
        self.store_available_output();
        let refuse = |why: String| ShimMessage::ResizeRefused { why };
        if self.task.state().terminal.as_ref().is_some_and(|state| state.size() == size) {
            return ShimMessage::Done;
        }
        // The record comes first, so that even after a crash, output for the new size is never
        // shown in the old size.
        let event = TerminalEvent::Resized {
            at: clock::monotonic_now(),
            size,
            offset: self.output.bytes(),
        };
        if !self.task.can_write_optional_record() {
            return refuse("the disk is full".to_owned());
        }
        self.record(vec![Record::Terminal(event)]);
        match self.terminal.as_ref().map(|terminal| terminal.resize(size)) {
            Some(Err(error)) => refuse(format!("its terminal is closed: {error}")),
            Some(Ok(())) | None => ShimMessage::Done,
        }
    }

    /// Returns the state of the terminal, or the refusal for a task without one.
    pub(super) fn terminal_facts(&mut self) -> Result<TerminalFacts, ShimMessage> {
        self.store_available_output();
        let Self { task, output, tree, stall, terminal, .. } = self;
        let Some(terminal) = terminal else { return Err(no_terminal()) };
        let size = task.state().terminal.as_ref().map(TerminalState::size);
        let modes = terminal.echo_modes();
        let modes = modes.unwrap_or(EchoModes { echoes: true, is_canonical: true });
        // This check must precede the sample. In the reverse order, a process that reads new input
        // after the sample would still count as waiting.
        let has_unread_input = terminal.has_unread_input();
        let sample = stall.sample(&TaskContext::new(task, output, tree));
        let (reader, is_reader_hidden) = match evidence::find_terminal_reader(&sample) {
            TerminalReader::None => (None, false),
            TerminalReader::Found(reader) => (Some(reader), false),
            TerminalReader::Hidden => (None, true),
        };
        let leader = task.state().leader.and_then(|leader| sample.process(leader.pid()));
        let is_leader_in_foreground =
            leader.is_some_and(|leader| leader.has_terminal && !leader.is_in_terminal_background);
        let taken = terminal.lease.check_agent(clock::monotonic_now()).err();
        Ok(TerminalFacts {
            output_bytes: output.bytes(),
            size: size.unwrap_or(TerminalSize::DEFAULT),
            input: terminal_input(modes, reader),
            is_reader_hidden,
            has_unread_input,
            taken_for_ms: taken.and_then(|refusal| refusal.taken_for_ms()),
            is_leader_in_foreground,
        })
    }

    /// Replaces a holder of the terminal that has exited.
    pub(crate) fn on_terminal_holder_exited(&mut self) {
        let now = clock::monotonic_now();
        if let Some(terminal) = &mut self.terminal {
            terminal.forget_ended_holder(now);
        }
        self.replace_terminal_holder(now);
    }

    /// Starts and records another holder of the terminal, if that is due. Without space for the
    /// record, tries again later, because a holder without a record is discarded.
    pub(super) fn replace_terminal_holder(&mut self, now: MonotonicMs) {
        let Some(terminal) = &mut self.terminal else { return };
        if !terminal.is_replacement_due(now) || !self.task.is_live() {
            return;
        }
        let can_record = self.task.can_write_optional_record();
        let runtime_dir = self.task.dir().endpoint_dir().ok().filter(|_| can_record);
        match runtime_dir.and_then(|runtime_dir| terminal.replace_holder(runtime_dir)) {
            Some(opened) => {
                self.record(vec![opened]);
                self.release_recorded_holder();
            }
            None => terminal.postpone_replacement(now),
        }
    }

    /// Lets a new holder of the terminal hold it, if its record was written.
    fn release_recorded_holder(&mut self) {
        let is_written = self.task.retry_at().is_none();
        match &mut self.terminal {
            Some(terminal) if is_written => terminal.release_holder(),
            Some(terminal) => terminal.discard_waiting_holder(),
            None => {}
        }
    }

    /// Acquires the terminal lease for the person of this client. Returns the response.
    pub(super) fn take_terminal(&mut self, id: ClientId, by: &str) -> ShimMessage {
        let now = clock::monotonic_now();
        let Some(terminal) = &mut self.terminal else { return no_terminal() };
        let events = terminal.lease.steal(id.into(), now);
        self.record_lease_events(&events, now, by);
        ShimMessage::Done
    }

    /// Acquires the terminal lease for the person in whose foreground the command runs. Returns the
    /// response.
    pub(super) fn hold_terminal_in_foreground(&mut self, id: ClientId, by: String) -> ShimMessage {
        let now = clock::monotonic_now();
        let Some(terminal) = &mut self.terminal else { return no_terminal() };
        let events = terminal.lease.hold_in_foreground(id.into(), now);
        terminal.foreground_program = by;
        self.record_lease_events(&events, now, "");
        ShimMessage::Done
    }

    /// Records the lease of a person who has not typed: an agent whose keys were refused waits for
    /// its end.
    fn report_lease(&mut self) {
        let Some(terminal) = &mut self.terminal else { return };
        let event = terminal.lease.report();
        let by = terminal.foreground_program.clone();
        self.record_lease_events(event.as_slice(), clock::monotonic_now(), &by);
    }

    /// Handles the detachment of the person of this client. Returns the response.
    pub(super) fn return_terminal_of(&mut self, id: ClientId) -> ShimMessage {
        if self.terminal.is_none() {
            return no_terminal();
        }
        self.detach_viewers(&[id.into()]);
        ShimMessage::Done
    }

    /// Handles the detachment of the persons whose clients have disconnected.
    pub(super) fn return_terminal_of_disconnected(&mut self) {
        let Some(terminal) = &self.terminal else { return };
        let is_gone = |viewer: &ViewerId| {
            !self.clients.sources().any(|(id, _)| ViewerId::from(id) == *viewer)
        };
        let viewers = terminal.lease.viewers().chain(terminal.sizes.viewers());
        let gone: Vec<_> = viewers.filter(is_gone).collect();
        if !gone.is_empty() {
            self.detach_viewers(&gone);
        }
    }

    /// Releases the terminal lease of persons who have left, and restores the size of the person who
    /// remains.
    fn detach_viewers(&mut self, gone: &[ViewerId]) {
        let now = clock::monotonic_now();
        let Some(terminal) = &mut self.terminal else { return };
        let lease = &mut terminal.lease;
        let events: Vec<_> = gone.iter().flat_map(|viewer| lease.detach(*viewer, now)).collect();
        let size = terminal.sizes.remove(gone);
        self.record_lease_events(&events, now, "");
        if let Some(size) = size.filter(|_| self.task.is_live()) {
            // Without space for the record, the terminal keeps its size.
            let _best_effort = self.change_terminal_size(size);
        }
    }

    /// Releases the terminal lease if no person has typed for `attach_idle`.
    pub(super) fn return_idle_terminal(&mut self, now: MonotonicMs) {
        let Some(terminal) = &mut self.terminal else { return };
        let event = terminal.lease.expire(now);
        let has_lease = terminal.lease.is_held();
        self.record_lease_events(event.as_slice(), now, "");
        // The connection of a person who was typing when the previous shim was killed ended with
        // that shim.
        let state = self.task.state().terminal.as_ref();
        if !has_lease && state.is_some_and(|state| state.taken_since.is_some()) {
            let offset = self.output.bytes();
            self.record_terminal_events(vec![TerminalEvent::Returned { at: now, offset }]);
        }
    }

    /// Records changes of the lease. `by` is the name of the client that holds it.
    fn record_lease_events(&mut self, events: &[LeaseEvent], at: MonotonicMs, by: &str) {
        let offset = self.output.bytes();
        let terminal_event = |event: &LeaseEvent| match event {
            LeaseEvent::Taken => TerminalEvent::Taken { at, by: by.to_owned() },
            LeaseEvent::Returned { .. } => TerminalEvent::Returned { at, offset },
        };
        self.record_terminal_events(events.iter().map(terminal_event).collect());
    }

    fn record_terminal_events(&mut self, events: Vec<TerminalEvent>) {
        if !events.is_empty() && self.task.is_live() && self.task.can_write_optional_record() {
            self.record(events.into_iter().map(Record::Terminal).collect());
        }
    }

    /// Answers the queries that programs have written to the output. The replies are those of one terminal
    /// type, whether or not a person is attached: a person's terminal never receives the queries.
    pub(super) fn answer_terminal_queries(&mut self) {
        let queries = self.output.take_queries();
        if queries.is_empty() {
            return;
        }
        // A program that expects replies reads single keys. In canonical mode, a reply would be
        // echoed, and would become input of the next program that reads a line.
        let reads_keys =
            |terminal: &TaskTerminal| terminal.echo_modes().is_ok_and(|modes| !modes.is_canonical);
        let terminal = self.terminal.as_ref().filter(|terminal| reads_keys(terminal));
        let (Some(terminal), Some(state)) = (terminal, &self.task.state().terminal) else {
            return;
        };
        let mut replay = None;
        for (query, offset) in queries {
            let reply = match query.reply(state.size()) {
                QueryReply::Bytes(bytes) => bytes,
                QueryReply::CursorPosition { private } => {
                    match cursor_at(self.task.dir(), state, offset, &mut replay) {
                        Ok((column, row)) => format_cursor_position(column, row, private),
                        // A program that gets no reply continues after a timeout.
                        Err(_) => continue,
                    }
                }
                QueryReply::None => continue,
            };
            // A program that does not read its terminal does not wait for a reply.
            let _not_read = terminal.write(&reply);
        }
    }
}

/// Returns the position of the cursor after the output before `offset`, counted from 0. The screen
/// is computed from the output, because a copy in memory would cost every idle task more than all
/// its other state. `replay` is that of an earlier query in the same output, if there is one.
#[inline(never)]
fn cursor_at(
    dir: &TaskDir,
    state: &TerminalState,
    offset: u64,
    replay: &mut Option<TerminalReplay>,
) -> io::Result<(u16, u16)> {
    let history = TerminalHistory::from(state);
    let present = match replay.take() {
        Some(mut earlier) => {
            earlier.advance(dir, &history, Some(offset), false)?;
            earlier
        }
        None => TerminalReplay::open_within(dir, &history, offset, MAX_INTERPRETED_BYTES)?,
    };
    let cursor = present.screen().cursor();
    *replay = Some(present);
    Ok((cursor.column, cursor.row))
}

const fn is_refused_for_person(message: &ShimMessage) -> bool {
    matches!(message, ShimMessage::KeysRefused { refusal: KeysRefusal::PersonHasTerminal { .. } })
}

const fn terminal_input(modes: EchoModes, reader: Option<ReaderFact>) -> TerminalInput {
    TerminalInput { echo: modes.echoes, canonical: modes.is_canonical, reader }
}

fn no_terminal() -> ShimMessage {
    ShimMessage::Refused { why: NO_TERMINAL.to_owned() }
}
