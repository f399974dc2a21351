//! The mirror of a task that runs on another machine: copies the records and the output of the
//! remote task into the task's local directory, and passes the requests of local clients on.
//!
//! A mirror decides nothing about the task: the deadline, the limits, the process tree and the
//! outcome are those of the remote shim. It decides only about the connection:
//!
//! | event | what the mirror does |
//! |---|---|
//! | the first connection fails | records that the command could not be started |
//! | the connection breaks | connects again, at once and then after growing pauses |
//! | it cannot be established again | records that the other machine is not reachable |
//! | a stop is requested meanwhile | records it, and requests it there once it is reachable |
//! | a stop is requested before the task was sent | ends ssh, and records that the task was stopped |
//! | the other machine does not know the task | records that its end is unknown |
//! | bytes of the local input arrive | sends them, and keeps them until they are accepted |
//! | the command has ended, and files were requested | copies them, and then records the end |
//!
//! The local placement is the mirror's own, because the caller waits here.

mod connection;
mod fetch;
mod input;
mod link;
mod prepare;
mod requests;

use std::os::fd::AsFd as _;

use siding_core::sys::clock;
use siding_core::sys::signals::SignalFd;
use siding_model::lifecycle::{LifecycleEffect, TaskEvent};
use siding_model::outcome::{BackgroundReason, Outcome};
use siding_model::process::MonotonicMs;
use siding_model::record::{CloseSummary, OutputTotals, Record};
use siding_model::remote::{MirrorAction, MirrorMachine, SESSION_REQUESTER};
use siding_model::signal::Signal;
use siding_model::terminal::TerminalSize;

use crate::clients::{ClientId, Clients};
use crate::lease::Lease;
use crate::output_file::OutputFile;
use crate::poll_set::{PollSet, Source};
use crate::task_record::TaskRecord;

use connection::MirrorConnection;
use fetch::{FetchProcess, WaitingFetch};
use input::MirrorInput;
use requests::UnansweredRequest;

pub(crate) use prepare::{start, take_over};

/// A task that runs on another machine.
#[derive(Debug)]
pub(crate) struct Mirror {
    task: TaskRecord,
    output: OutputFile,
    clients: Clients,
    lease: Lease,
    signals: SignalFd,
    machine: MirrorMachine,
    connection: MirrorConnection,
    /// The local input of the task; `None` if the input is empty.
    input: Option<MirrorInput>,
    /// Output that could not be stored, for example because the disk is full, and the time of the
    /// next attempt. Until then, nothing more is received; the remote machine keeps the output.
    unstored: Option<(MonotonicMs, Vec<u8>)>,
    /// Actions that are deferred until the output is stored.
    deferred: Vec<MirrorAction>,
    /// The running copy of a requested file.
    fetch: Option<FetchProcess>,
    /// The requested file whose copy cannot start yet.
    waiting_fetch: Option<WaitingFetch>,
    /// The forwarded requests without a response, oldest first.
    forwarded: Vec<UnansweredRequest>,
    /// The size of the terminal that a client requested while no request could be forwarded, or
    /// whose request was interrupted.
    unsent_size: Option<TerminalSize>,
    /// Clients that use the terminal over the present connection; when one disconnects, the remote
    /// shim is notified.
    viewers: Vec<ClientId>,
    /// Clients whose stop could not be forwarded, each with the time at which the mirror tells it
    /// so.
    delayed_stops: Vec<(MonotonicMs, ClientId)>,
    /// Whether this process received a signal to exit. The remote task continues, and the next
    /// command starts another mirror.
    is_told_to_exit: bool,
}

/// Pause before another attempt to store output, in milliseconds.
const STORE_RETRY_MS: u64 = 2_000;

impl Mirror {
    /// Mirrors the task until it has ended.
    pub(crate) fn run(mut self) {
        loop {
            self.tick();
            if self.is_told_to_exit {
                return;
            }
            if !self.task.is_live() && self.task.retry_at().is_none() {
                break;
            }
            self.wait();
        }
        self.clients.notify_ended();
        self.task.close();
    }

    /// Performs all due actions.
    fn tick(&mut self) {
        let now = clock::monotonic_now();
        self.task.retry_if_due(now);
        if !self.task.is_live() {
            return;
        }
        self.clients.resume_accepting(now);
        if self.lease.has_expired(self.task.root(), self.task.spec(), now) {
            self.request_stop(SESSION_REQUESTER, None, None);
        }
        self.store_again(now);
        self.connect_if_due(now);
        self.report_delayed_stops(now);
        self.forward_unsent_size();
        self.start_waiting_fetch(now);
        self.pump_input();
    }

    /// Waits until a source is readable or an action is due, and handles the received data.
    fn wait(&mut self) {
        let wake_at = self.wake_at();
        let mut poll_set = PollSet::default();
        poll_set.add(0, Source::Signals, [self.signals.as_fd()]);
        if let Some(link) = self.connection.link() {
            if self.unstored.is_none() {
                poll_set.add(0, Source::RemoteMessages, [link.messages_source()]);
            }
            poll_set.add(0, Source::RemoteErrors, link.errors_source());
        }
        poll_set.add(0, Source::LocalInput, self.input.as_ref().and_then(MirrorInput::source));
        // The end of the copy must be recorded after the output.
        if let Some(process) = self.fetch.as_ref().filter(|_| self.unstored.is_none()) {
            poll_set.add(0, Source::Fetch, process.sources());
        }
        poll_set.add(0, Source::SessionOwner, self.lease.source());
        for (id, socket) in self.clients.sources() {
            poll_set.add(0, Source::Client(id), [socket]);
        }
        poll_set.add(0, Source::Listener, self.clients.listener_source());
        let ready = poll_set.wait(wake_at.map(|at| at.ms_since(clock::monotonic_now())));
        for source in ready.for_task(0) {
            self.dispatch(source);
        }
        if self.clients.remove_disconnected() && self.task.is_live() {
            self.place(BackgroundReason::User);
        }
        self.return_terminal_of_disconnected();
    }

    /// Returns the time of the next tick, which comes earlier if a source becomes readable.
    fn wake_at(&self) -> Option<MonotonicMs> {
        // After the end of the task, only unstored output remains.
        if !self.task.is_live() {
            return self.task.retry_at();
        }
        let wake_at = [
            self.task.retry_at(),
            self.lease.wake_at(),
            self.clients.wake_at(),
            self.unstored.as_ref().map(|(at, _)| *at),
            self.connection.wake_at(),
            self.delayed_stops.iter().map(|(at, _)| *at).min(),
            self.waiting_fetch.as_ref().map(WaitingFetch::retry_at),
        ];
        wake_at.into_iter().flatten().min()
    }

    fn dispatch(&mut self, source: Source) {
        match source {
            Source::Signals => {
                let told = self.signals.read_pending();
                self.is_told_to_exit |=
                    [Signal::TERM, Signal::INT].iter().any(|signal| told.contains(signal));
            }
            Source::RemoteMessages => self.on_messages(),
            Source::RemoteErrors => self.connection.receive_errors(),
            // The next tick reads this source.
            Source::LocalInput => {}
            Source::Fetch => self.on_fetch_readable(),
            Source::SessionOwner => self.lease.on_owner_ended(self.task.root(), self.task.spec()),
            Source::Client(id) => self.on_client_readable(id),
            Source::Listener => self.clients.accept(),
            // Only the remote shim has these sources.
            Source::Output
            | Source::TreeMember
            | Source::TerminalHolder
            | Source::Readiness
            | Source::Proxy => {}
        }
    }

    /// Moves the task to the background.
    fn place(&mut self, why: BackgroundReason) {
        self.step(|machine, _| machine.place(why));
    }

    /// Appends records to the journal, and publishes them to the subscribers.
    fn record(&mut self, records: Vec<Record>) {
        let records = self.with_own_totals(records);
        let Self { task, clients, .. } = self;
        task.append(records, |seq, record| clients.publish(seq, record));
    }

    /// Records an event that the mirror itself caused. Does nothing if the event changes nothing.
    /// An event that ends the task is recorded with a summary.
    fn record_event(&mut self, event: TaskEvent) {
        // After a reboot of this machine, the monotonic clock starts again.
        let at = clock::monotonic_now().max(self.task.state().last_event_at);
        let (next, effects) = self.task.state().lifecycle.step(&event, at);
        if next == self.task.state().lifecycle {
            return;
        }
        let mut records = vec![Record::Event { at, event }];
        if effects.contains(&LifecycleEffect::Close) {
            records.push(Record::Closed(Box::new(self.close_summary(at, next.outcome()))));
        }
        self.record(records);
    }

    fn close_summary(&self, at: MonotonicMs, outcome: Option<&Outcome>) -> CloseSummary {
        let was_sent = self.task.state().remote.as_ref().is_some_and(|it| it.sent_at.is_some());
        let was_started = was_sent && !matches!(outcome, Some(Outcome::FailedToStart { .. }));
        let proof =
            if was_started { "none: it ran on another machine" } else { "it was not started" };
        CloseSummary {
            wall: clock::unix_now(),
            at,
            report: None,
            output: self.output_totals(),
            peaks: None,
            proof: proof.to_owned(),
        }
    }

    const fn output_totals(&self) -> OutputTotals {
        OutputTotals { bytes: self.output.bytes(), gap: self.output.gap(), lost: 0 }
    }

    /// Stores received output.
    fn store(&mut self, at: u64, bytes: &[u8]) {
        // The offset counts from the beginning of the present attempt.
        let earlier = self.task.state().remote.as_ref();
        let at = at.saturating_add(earlier.map_or(0, |remote| remote.earlier_output_bytes));
        // After a reconnect, the other machine may repeat bytes that are already stored.
        let known = usize::try_from(self.output.bytes().saturating_sub(at)).unwrap_or(usize::MAX);
        let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) else { return };
        self.output.skip_to(at);
        self.store_at_end(new);
    }

    fn store_at_end(&mut self, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let (piece, rest) = left.split_at(left.len().min(self.output.max_piece_bytes()));
            if self.output.write(piece).is_err() {
                let retry_at = clock::monotonic_now().plus_ms(STORE_RETRY_MS);
                self.unstored = Some((retry_at, left.to_vec()));
                break;
            }
            self.output.advance(piece.len() as u64);
            left = rest;
        }
        self.clients.notify_output_grown(self.output.bytes());
    }

    fn store_again(&mut self, now: MonotonicMs) {
        if let Some((_, bytes)) = self.unstored.take_if(|(at, _)| *at <= now) {
            self.store_at_end(&bytes);
            self.carry_out_deferred();
            // Handles the messages that arrived while output could not be stored.
            self.handle_messages();
        }
    }
}
