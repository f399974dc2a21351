//! Those who talk to the shim: whoever started it, and whoever connects to its socket.
//!
//! Nobody here can make the shim wait. Who does not take what it is sent is dropped, and finds all
//! of it in the journal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_core::sys::{clock, unix_socket};
use siding_model::evidence::Evidence;
use siding_model::process::MonotonicMs;
use siding_model::protocol::{MAX_PACKET_BYTES, ShimMessage, ShimRequest};
use siding_model::record::Record;

/// Callers at once. Beyond it the one that came first and never subscribed is dropped.
const MAX_CLIENTS: usize = 256;
/// Pause after a caller could not be let in, in milliseconds.
const ACCEPT_RETRY_MS: u64 = 200;
/// Longest request. None carries a caller's data.
const MAX_REQUEST_BYTES: usize = 4096;

/// One of them.
#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    subscribed: bool,
    follows_output: bool,
    /// Whether it waits for the end of a stop.
    awaits_end: bool,
    /// Whether it waits to hear why the task is quiet.
    awaits_evidence: bool,
    /// Whether it started this task and its leaving means that nobody waits any more.
    pub(crate) is_starter: bool,
    disconnected: bool,
}

impl Client {
    /// Returns whoever started the task: it is told everything from the first record on.
    pub(crate) const fn starter(socket: OwnedFd) -> Self {
        Self {
            socket,
            subscribed: true,
            follows_output: false,
            awaits_end: false,
            awaits_evidence: false,
            is_starter: true,
            disconnected: false,
        }
    }

    fn connected(socket: OwnedFd) -> Self {
        Self { is_starter: false, subscribed: false, ..Self::starter(socket) }
    }

    /// Sends a message, or drops the caller.
    pub(crate) fn send_message(&mut self, message: &ShimMessage) {
        if let Ok(packet) = serde_json::to_vec(message) {
            self.send_packet(&packet);
        }
    }

    fn send_packet(&mut self, packet: &[u8]) {
        self.disconnected |= unix_socket::send(&self.socket, packet, false).is_err();
    }

    /// Tells it about everything from now on.
    pub(crate) const fn subscribe(&mut self, follows: bool) {
        self.subscribed = true;
        self.follows_output = follows;
    }

    /// Notes that it wants to hear when the task has ended.
    pub(crate) const fn await_end(&mut self) {
        self.awaits_end = true;
    }

    /// Notes that it wants to hear why the task is quiet.
    pub(crate) const fn await_evidence(&mut self) {
        self.awaits_evidence = true;
    }
}

/// What a caller did.
#[derive(Debug)]
pub(crate) enum ClientEvent {
    /// It asked.
    Request(ShimRequest),
    /// It sent something that is no request.
    Malformed,
    /// It has nothing to say now.
    WouldBlock,
    /// It left.
    Disconnected,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    clients: Vec<Client>,
    /// Until when nobody is let in: there was no descriptor for who waits.
    accept_paused_until: Option<MonotonicMs>,
}

impl Clients {
    pub(crate) fn new(starter: Client) -> Self {
        Self { clients: vec![starter], accept_paused_until: None }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.clients.iter().map(|caller| caller.socket.as_fd())
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn get(&mut self, index: usize) -> &mut Client {
        &mut self.clients[index]
    }

    /// Lets in everybody who waits.
    pub(crate) fn accept(&mut self, listener: &OwnedFd) {
        loop {
            match unix_socket::accept(listener) {
                Ok(socket) => self.add(Client::connected(socket)),
                // Another user; the next one may be ours.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // No descriptor is left, say. Whoever waits keeps the listener readable, and to try
                // without a pause would take a whole core.
                Err(_) => {
                    self.accept_paused_until =
                        Some(clock::monotonic_now().plus_ms(ACCEPT_RETRY_MS));
                    return;
                }
            }
        }
    }

    /// Returns when to [`Self::resume_accepting`], and to listen again.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        self.accept_paused_until
    }

    /// Lets callers in again once that is due.
    pub(crate) fn resume_accepting(&mut self, now: MonotonicMs) {
        self.accept_paused_until = self.accept_paused_until.filter(|until| now < *until);
    }

    fn add(&mut self, caller: Client) {
        if self.clients.len() >= MAX_CLIENTS
            && let Some(idle) = self.clients.iter().position(|known| !known.subscribed)
        {
            self.clients.remove(idle);
        }
        self.clients.push(caller);
    }

    /// Takes one thing a caller has said.
    pub(crate) fn recv_event(&mut self, index: usize) -> ClientEvent {
        let caller = &mut self.clients[index];
        match unix_socket::receive(&caller.socket, MAX_REQUEST_BYTES, false) {
            Ok(Some(packet)) => {
                serde_json::from_slice(&packet).map_or(ClientEvent::Malformed, ClientEvent::Request)
            }
            Ok(None) => {
                caller.disconnected = true;
                ClientEvent::Disconnected
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ClientEvent::WouldBlock,
            Err(_) => {
                caller.disconnected = true;
                ClientEvent::Disconnected
            }
        }
    }

    /// Forgets those who left. Returns whether the starter was among them.
    pub(crate) fn remove_disconnected(&mut self) -> bool {
        let starter_left =
            self.clients.iter().any(|caller| caller.disconnected && caller.is_starter);
        self.clients.retain(|caller| !caller.disconnected);
        starter_left
    }

    /// Tells all subscribers of a record.
    pub(crate) fn publish(&mut self, seq: u64, record: &Record) {
        if !self.clients.iter().any(|caller| caller.subscribed) {
            return;
        }
        let message = ShimMessage::Record { seq, record: Some(Box::new(record.clone())) };
        let mut packet = serde_json::to_vec(&message).unwrap_or_default();
        if packet.is_empty() || packet.len() > MAX_PACKET_BYTES {
            packet =
                serde_json::to_vec(&ShimMessage::Record { seq, record: None }).unwrap_or_default();
        }
        for caller in self.clients.iter_mut().filter(|caller| caller.subscribed) {
            caller.send_packet(&packet);
        }
    }

    /// Tells those who follow that output has grown, once each until they ask again: a slow reader
    /// must not find its socket full of growth when the end comes.
    pub(crate) fn notify_output_grown(&mut self, bytes: u64) {
        for caller in self.clients.iter_mut().filter(|caller| caller.follows_output) {
            caller.follows_output = false;
            caller.send_message(&ShimMessage::Output { bytes });
        }
    }

    /// Whether anybody wants to hear when output has grown.
    pub(crate) fn has_followers(&self) -> bool {
        self.clients.iter().any(|caller| caller.follows_output)
    }

    /// Answers everybody who asked why the task is quiet.
    pub(crate) fn send_evidence(&mut self, evidence: Evidence) {
        let message = ShimMessage::Why { evidence: Box::new(evidence) };
        for caller in self.clients.iter_mut().filter(|caller| caller.awaits_evidence) {
            caller.awaits_evidence = false;
            caller.send_message(&message);
            caller.send_message(&ShimMessage::Done);
        }
    }

    /// Answers everybody who waits for the end.
    pub(crate) fn notify_ended(&mut self) {
        for caller in self.clients.iter_mut().filter(|caller| caller.awaits_end) {
            caller.send_message(&ShimMessage::Done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener that fails stays readable.
    #[test]
    fn accepting_pauses_after_a_failed_accept() {
        let no_listener: OwnedFd = std::fs::File::open("/dev/null").expect("is there").into();
        let mut callers = Clients::default();
        callers.accept(&no_listener);
        let until = callers.wake_at().expect("it has failed");
        callers.resume_accepting(clock::monotonic_now());
        assert!(callers.wake_at().is_some() || clock::monotonic_now() >= until);
        callers.resume_accepting(until);
        assert_eq!((callers.wake_at(), callers.len()), (None, 0));
    }
}
