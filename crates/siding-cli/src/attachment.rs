//! Connects a person's terminal with the terminal of a task, for `siding run` and
//! `siding attach`: every key reaches the program, and its output reaches the person unchanged.
//!
//! [`TerminalCaller`] reads the keys in raw mode and restores the terminal; the loop is that of
//! every foreground call, [`siding_core::task::run::wait_in_foreground`].

mod announcement;
mod key_queue;
mod refusal;
mod registration;
mod suspension;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, tty};
use siding_core::task::run::{ForegroundCaller, ShimEvent, WriteResult};
use siding_core::task::watch::TaskWatch;
use siding_model::duration::format_duration;
use siding_model::foreground_call::{CallEvent, CallHint};
use siding_model::id::TaskId;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;
use siding_model::terminal::{
    DetachInput, DetachKeys, HandOverKey, IgnoredInterrupts, SuspendKey, TerminalSize, TerminalUser,
};
use siding_terminal::TerminalReplay;

use crate::caller;
use crate::command_output::CommandOutput;
use crate::failure::Failure;
use crate::key_reader::{KEYBOARD_SIGNALS, KeyReader};
use crate::render;
use crate::terminal_replay;
use announcement::AnnouncementState;
use key_queue::KeyQueue;
use suspension::SuspendedScreen;

/// Time after which the key that moves a command to the background is shown.
pub(crate) const HINT_AFTER: Duration = Duration::from_secs(5);
/// The note about a command that continues after an interrupt.
pub(crate) const SECOND_INTERRUPT_NOTE: &str =
    "interrupted; the command has not ended yet, and another Ctrl-C kills it";
/// Maximum number of typed bytes in one read.
const TYPED_BYTES: usize = 1024;

/// Returns the hint that Ctrl-B moves the command to the background; `None` inside a task. There a
/// call of siding outside of the task may use the key itself: `siding run` does, and
/// `siding attach` does not.
pub(crate) fn hand_over_hint() -> Option<String> {
    if caller::enclosing_task().is_some() {
        return None;
    }
    // tmux uses the key itself, and passes on only a second press.
    let twice = if std::env::var_os("TMUX").is_some() { " (twice in tmux)" } else { "" };
    Some(format!("Ctrl-B{twice} moves it to the background"))
}

/// Blocks the signals that an attachment handles, and returns the descriptor that receives them.
pub(crate) fn block_signals() -> Result<SignalFd, Failure> {
    let mut signals = vec![Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP, Signal::WINCH];
    signals.extend(KEYBOARD_SIGNALS);
    SignalFd::block(&signals)
        .map_err(|error| Failure::new(format!("could not listen to signals: {error}")))
}

/// The keys that do not reach the program.
#[derive(Debug)]
pub(crate) enum LeaveKeys {
    /// The keys that end the attachment.
    Detach(DetachKeys),
    /// The key that moves the task to the background.
    HandOver(HandOverKey),
}

impl LeaveKeys {
    fn feed(&mut self, bytes: &[u8]) -> DetachInput {
        match self {
            Self::Detach(keys) => keys.feed(bytes),
            Self::HandOver(key) => key.feed(bytes),
        }
    }

    /// Returns the time at which the held-back keys are interpreted without waiting for another
    /// key.
    fn held_until(&self, now: MonotonicMs) -> Option<MonotonicMs> {
        let (is_holding, hold_ms) = match self {
            Self::Detach(keys) => (keys.is_holding(), DetachKeys::HOLD_MS),
            Self::HandOver(key) => (key.is_holding(), HandOverKey::HOLD_MS),
        };
        is_holding.then(|| now.plus_ms(hold_ms))
    }

    /// Interprets the held-back keys.
    fn expire(&mut self) -> DetachInput {
        match self {
            Self::Detach(keys) => DetachInput { forwarded: keys.release(), is_detached: false },
            Self::HandOver(key) => key.expire(DetachInput::default()),
        }
    }

    const fn request(&self) -> CallEvent {
        match self {
            Self::Detach(_) => CallEvent::Detached,
            Self::HandOver(_) => CallEvent::SentToBackground,
        }
    }
}

/// The properties of an attachment.
#[derive(Debug)]
pub(crate) struct AttachmentOptions {
    /// Name of the caller, for the journal.
    pub(crate) requester: &'static str,
    pub(crate) leave_keys: LeaveKeys,
    /// The text that this terminal's title shows, and the line above the first screen; `None` if
    /// there is no such line, and the title remains unchanged.
    pub(crate) title: Option<String>,
    /// Whether no key reaches the program and the size of its terminal remains unchanged.
    pub(crate) is_read_only: bool,
    /// Whether the person takes the terminal before the first key.
    pub(crate) takes_terminal: bool,
    /// Whether the command belongs to this call. SIGINT and SIGQUIT to this process then stop the
    /// command, as does a Ctrl-C that the program ignores. A Ctrl-Z that stops no program suspends
    /// this process.
    pub(crate) owns_command: bool,
    /// Number of shown bytes after which the shim receives the progress; `None` if the command does
    /// not wait for its reader.
    pub(crate) report_step: Option<u64>,
}

/// A person who uses the terminal of a task through this process's terminal.
#[derive(Debug)]
pub(crate) struct TerminalCaller<'f> {
    root: &'f StateDir,
    id: TaskId,
    signals: &'f SignalFd,
    options: AttachmentOptions,
    output: CommandOutput,
    keys: KeyReader,
    queue: KeyQueue,
    /// The time at which held-back keys are interpreted.
    held_until: Option<MonotonicMs>,
    interrupts: IgnoredInterrupts,
    suspend_key: SuspendKey,
    /// The time at which Ctrl-C stops the command, because the key does not reach it.
    interrupt_at: Option<MonotonicMs>,
    /// The reason for the last refusal by the shim, as untrusted text.
    refusal: Option<String>,
    /// Whether the machine of the task has not confirmed a stop that this call requested.
    is_stop_delayed: bool,
    /// Whether the person was informed that the keys do not reach the program.
    knows_refusal: bool,
    /// The size of the task's terminal according to the received records; `None` if unknown.
    task_size: Option<TerminalSize>,
    must_fit_size: bool,
    must_take: bool,
    /// Whether the shim does not know the size of this terminal, although the task's may be equal.
    must_report_size: bool,
    /// Whether the present shim knows that the person waits for the command.
    is_registered: bool,
    announced: AnnouncementState,
    /// Content of the terminal when this process was suspended; `None` in the foreground.
    suspended: Option<SuspendedScreen>,
    /// Number of shims that have replaced an earlier one.
    reconnects: u32,
    last_signal: Option<Signal>,
}

impl<'f> TerminalCaller<'f> {
    /// Connects this terminal with that of a task, which has the size `task_size`. The mode of this
    /// terminal is restored by [`Self::leave`], and when the value is dropped.
    pub(crate) fn open(
        root: &'f StateDir,
        id: TaskId,
        signals: &'f SignalFd,
        task_size: Option<TerminalSize>,
        options: AttachmentOptions,
    ) -> Result<Self, Failure> {
        let mut keys = KeyReader::for_raw_stdin()
            .ok_or_else(|| Failure::new("could not duplicate the descriptor of the terminal"))?;
        let output = CommandOutput::for_terminal(options.report_step)?;
        keys.resume();
        Ok(Self {
            root,
            id,
            signals,
            must_take: options.takes_terminal,
            must_report_size: !options.owns_command,
            options,
            output,
            keys,
            queue: KeyQueue::default(),
            held_until: None,
            interrupts: IgnoredInterrupts::default(),
            suspend_key: SuspendKey::default(),
            interrupt_at: None,
            refusal: None,
            is_stop_delayed: false,
            knows_refusal: false,
            task_size,
            must_fit_size: true,
            is_registered: false,
            announced: AnnouncementState::default(),
            suspended: None,
            reconnects: 0,
            last_signal: None,
        })
    }

    /// Draws the present screen of the task. At most `scrollback_rows` rows of the task's
    /// scroll-back precede it, and move into the scroll-back of this terminal.
    pub(crate) fn show_present_screen(&mut self, scrollback_rows: usize) -> Result<(), Failure> {
        let replay = self.open_replay()?;
        self.draw_screen(&replay, scrollback_rows)
    }

    fn open_replay(&self) -> Result<TerminalReplay, Failure> {
        let dir = self.root.task_dir(self.id)?;
        terminal_replay::open(self.id, &dir, None)
    }

    fn draw_screen(
        &mut self,
        replay: &TerminalReplay,
        scrollback_rows: usize,
    ) -> Result<(), Failure> {
        let own_rows = tty::size(io::stdout()).map_or(0, |(_, rows)| rows);
        let mut picture = replay.emulator().scrollback_bytes(scrollback_rows, own_rows);
        picture.extend_from_slice(replay.screen().state_bytes());
        self.output.show_screen(&picture, replay.offset())
    }

    /// Restores this terminal: its modes, its colors, and the reading of whole lines.
    pub(crate) fn leave(&mut self) {
        self.output.reset_terminal();
        self.keys.pause();
    }

    /// Returns the last signal that requested this process to exit.
    pub(crate) const fn last_signal(&self) -> Option<Signal> {
        self.last_signal
    }

    /// Returns whether the person has interrupted the command: with Ctrl-C as the last key, or with
    /// SIGINT to this process.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupts.is_pressed() || self.last_signal == Some(Signal::INT)
    }

    /// Returns the shown output.
    pub(crate) fn into_output(self) -> CommandOutput {
        self.output
    }

    /// Reads the typed keys without waiting. Returns the request that they make.
    fn take_keys(&mut self) -> Option<CallEvent> {
        let mut typed = [0; TYPED_BYTES];
        let was_reading = self.keys.is_reading();
        let count = if self.queue.is_full() { 0 } else { self.keys.read(&mut typed) };
        let now = clock::monotonic_now();
        let input = if count > 0 {
            self.options.leave_keys.feed(&typed[..count])
        } else if self.held_until.is_some_and(|at| at <= now) {
            self.options.leave_keys.expire()
        } else {
            let is_lost = was_reading && !self.keys.is_reading();
            // The terminal is closed. The owner of a command also receives SIGHUP.
            return (is_lost && !self.options.owns_command).then_some(CallEvent::Detached);
        };
        self.held_until = self.options.leave_keys.held_until(now);
        let stops = self.options.owns_command && self.interrupts.on_typed(&input.forwarded, now);
        if self.options.is_read_only && !input.forwarded.is_empty() {
            self.on_ignored_key();
        } else if !input.forwarded.is_empty() {
            let forwarded = match self.options.owns_command {
                true => self.suspend_key.feed(input.forwarded),
                false => input.forwarded,
            };
            self.queue.push(&forwarded);
            // The terminal has the size of the person who types.
            self.must_fit_size = true;
        }
        if input.is_detached {
            return Some(self.options.leave_keys.request());
        }
        stops.then(|| self.interrupt())
    }

    fn requester(&self) -> String {
        self.options.requester.to_owned()
    }
}

impl ForegroundCaller for TerminalCaller<'_> {
    type Error = Failure;

    fn name(&self) -> &'static str {
        "user"
    }

    fn request_sources(&self) -> Vec<BorrowedFd<'_>> {
        let keys = self.keys.readable_fd().filter(|_| !self.queue.is_full());
        std::iter::once(self.signals.as_fd()).chain(keys).collect()
    }

    fn requests_at(&self) -> Option<MonotonicMs> {
        let times =
            [self.held_until, self.queue.retry_at(), self.interrupts.check_at(), self.interrupt_at];
        times.into_iter().flatten().min()
    }

    /// Returns the hand-over or the end of the attachment for its keys. SIGINT and SIGQUIT, which
    /// no key sends here, interrupt the command of `siding run`; the other signals that end the
    /// wait only detach this process.
    fn take_requests(&mut self) -> Vec<CallEvent> {
        let mut requests = Vec::new();
        for signal in self.signals.read_pending() {
            if self.handle_terminal_signal(signal) {
                continue;
            }
            self.last_signal = Some(signal);
            if !self.options.owns_command || ![Signal::INT, Signal::QUIT].contains(&signal) {
                requests.push(CallEvent::Detached);
                return requests;
            }
            requests.push(CallEvent::Interrupted { signal });
        }
        if self.interrupt_at.take().is_some() {
            requests.push(self.interrupt());
        }
        requests.extend(self.take_keys());
        requests
    }

    fn send_input(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        let now = clock::monotonic_now();
        self.send_registration(watch)?;
        if self.announced.must_update_title {
            self.update_title();
        }
        if let Some(bytes) = self.queue.next_part(now) {
            let (user, by) = (TerminalUser::Person, self.requester());
            let (if_output, is_secret) = (None, false);
            let write = ShimRequest::TerminalWrite { bytes, user, by, if_output, is_secret };
            if !watch.send_to_live_shim(&write)? {
                self.queue.on_unsent(now);
            }
        }
        // The keys before Ctrl-Z may start the program to which this Ctrl-Z belongs.
        let checks_key = self.queue.is_empty() && self.suspend_key.start_check();
        if self.interrupts.start_check(now) || checks_key {
            watch.send(&ShimRequest::Terminal)?;
        }
        Ok(())
    }

    fn show_hint(&mut self, hint: CallHint) {
        match hint {
            CallHint::HandOver => {
                if self.keys.is_reading()
                    && !self.output.is_drawing()
                    && let Some(hint) = hand_over_hint()
                {
                    let elapsed = format_duration(HINT_AFTER);
                    render::print_note(&format!("running for {elapsed}; {hint}"));
                }
            }
            CallHint::SecondInterrupt => render::print_note(SECOND_INTERRUPT_NOTE),
            CallHint::StopDelayed => self.show_stop_delay(),
        }
    }

    fn output_sink(&self) -> Option<BorrowedFd<'_>> {
        // A full-screen program must not draw over the shell that has suspended this process.
        match self.suspended {
            Some(SuspendedScreen::Full) => None,
            Some(SuspendedScreen::Lines { .. }) | None => self.output.writable_fd(),
        }
    }

    fn write_output(&mut self, watch: &mut TaskWatch<'_>) -> Result<WriteResult, Failure> {
        self.output.write_block(watch)
    }

    fn refresh_output(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        self.output.refresh_written(watch)
    }

    fn follow_output(
        &mut self,
        watch: &mut TaskWatch<'_>,
        event: Option<&ShimEvent>,
    ) -> Result<(), Failure> {
        match event {
            Some(ShimEvent::MayBeNewShim) if watch.reconnects() != self.reconnects => {
                self.reconnects = watch.reconnects();
                self.announced.requested_size = None;
                self.queue.drop_sent();
                self.interrupts.restart_check(clock::monotonic_now());
                self.release_keys();
                self.register();
            }
            Some(ShimEvent::KeysRefused) => {
                self.queue.drop_sent();
                self.release_keys();
            }
            Some(ShimEvent::Refused { why }) => {
                self.on_refused(why);
                self.release_keys();
            }
            Some(ShimEvent::WriteUnconfirmed { why }) => self.on_unconfirmed(why),
            // The size is requested again with the next key.
            Some(ShimEvent::ResizeRefused) => {
                self.task_size = None;
                self.announced.requested_size = None;
            }
            Some(ShimEvent::ConnectionChanged { unreachable }) => {
                self.on_connection_changed(unreachable.as_deref());
            }
            Some(ShimEvent::TerminalWritten { accepted }) => {
                let now = clock::monotonic_now();
                self.queue.on_accepted(*accepted, now);
                if *accepted > 0 {
                    self.interrupts.on_accepted(now);
                    self.knows_refusal = false;
                }
            }
            Some(ShimEvent::TerminalFacts(facts)) => self.on_facts(watch, facts)?,
            Some(ShimEvent::TerminalResized(size)) => self.on_resized(*size),
            Some(ShimEvent::Running) => {
                self.register_if_running(watch)?;
                // A change of the size was refused, for example because the disk was full.
                self.must_fit_size |= self.task_size.is_none();
            }
            Some(
                ShimEvent::MayBeNewShim
                | ShimEvent::Ready(..)
                | ShimEvent::OutputGrown
                | ShimEvent::RequestDone
                | ShimEvent::Finished(..)
                | ShimEvent::Nothing,
            )
            | None => {}
        }
        self.output.follow(watch, event)
    }
}
