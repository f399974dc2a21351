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
const MOST: usize = 256;
/// Pause after a caller could not be let in, in milliseconds.
const CLOSED_MS: u64 = 200;
/// Longest request. None carries a caller's data.
const REQUEST_MAX: usize = 4096;

/// One of them.
#[derive(Debug)]
pub(crate) struct Caller {
    socket: OwnedFd,
    subscribed: bool,
    follows: bool,
    /// Whether it waits for the end of a stop.
    awaits_end: bool,
    /// Whether it waits to hear why the task is quiet.
    awaits_evidence: bool,
    /// Whether it started this task and its leaving means that nobody waits any more.
    pub(crate) is_starter: bool,
    gone: bool,
}

impl Caller {
    /// Returns whoever started the task: it is told everything from the first record on.
    pub(crate) const fn starter(socket: OwnedFd) -> Self {
        Self {
            socket,
            subscribed: true,
            follows: false,
            awaits_end: false,
            awaits_evidence: false,
            is_starter: true,
            gone: false,
        }
    }

    fn stranger(socket: OwnedFd) -> Self {
        Self { is_starter: false, subscribed: false, ..Self::starter(socket) }
    }

    /// Sends a message, or drops the caller.
    pub(crate) fn tell(&mut self, message: &ShimMessage) {
        if let Ok(packet) = serde_json::to_vec(message) {
            self.send(&packet);
        }
    }

    fn send(&mut self, packet: &[u8]) {
        self.gone |= unix_socket::send(&self.socket, packet, false).is_err();
    }

    /// Tells it about everything from now on.
    pub(crate) const fn subscribe(&mut self, follows: bool) {
        self.subscribed = true;
        self.follows = follows;
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
pub(crate) enum Said {
    /// It asked.
    Asked(ShimRequest),
    /// It sent something that is no request.
    Nonsense,
    /// It has nothing to say now.
    Nothing,
    /// It left.
    Left,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    all: Vec<Caller>,
    /// Until when nobody is let in: there was no descriptor for who waits.
    closed_until: Option<MonotonicMs>,
}

impl Callers {
    pub(crate) fn new(starter: Caller) -> Self {
        Self { all: vec![starter], closed_until: None }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(|caller| caller.socket.as_fd())
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&mut self, index: usize) -> &mut Caller {
        &mut self.all[index]
    }

    /// Lets in everybody who waits.
    pub(crate) fn accept(&mut self, listener: &OwnedFd) {
        loop {
            match unix_socket::accept(listener) {
                Ok(socket) => self.admit(Caller::stranger(socket)),
                // Another user; the next one may be ours.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // No descriptor is left, say. Whoever waits keeps the listener readable, and to try
                // without a pause would take a whole core.
                Err(_) => {
                    self.closed_until = Some(clock::monotonic_now().plus_ms(CLOSED_MS));
                    return;
                }
            }
        }
    }

    /// Returns when to [`Self::reopen`], and to listen again.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        self.closed_until
    }

    /// Lets callers in again once that is due.
    pub(crate) fn reopen(&mut self, now: MonotonicMs) {
        self.closed_until = self.closed_until.filter(|until| now < *until);
    }

    fn admit(&mut self, caller: Caller) {
        if self.all.len() >= MOST
            && let Some(idle) = self.all.iter().position(|known| !known.subscribed)
        {
            self.all.remove(idle);
        }
        self.all.push(caller);
    }

    /// Takes one thing a caller has said.
    pub(crate) fn hear(&mut self, index: usize) -> Said {
        let caller = &mut self.all[index];
        match unix_socket::receive(&caller.socket, REQUEST_MAX, false) {
            Ok(Some(packet)) => serde_json::from_slice(&packet).map_or(Said::Nonsense, Said::Asked),
            Ok(None) => {
                caller.gone = true;
                Said::Left
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Said::Nothing,
            Err(_) => {
                caller.gone = true;
                Said::Left
            }
        }
    }

    /// Forgets those who left. Returns whether the starter was among them.
    pub(crate) fn forget_gone(&mut self) -> bool {
        let starter_left = self.all.iter().any(|caller| caller.gone && caller.is_starter);
        self.all.retain(|caller| !caller.gone);
        starter_left
    }

    /// Tells all subscribers of a record.
    pub(crate) fn publish(&mut self, seq: u64, record: &Record) {
        if !self.all.iter().any(|caller| caller.subscribed) {
            return;
        }
        let whole = ShimMessage::Record { seq, record: Some(Box::new(record.clone())) };
        let mut packet = serde_json::to_vec(&whole).unwrap_or_default();
        if packet.is_empty() || packet.len() > MAX_PACKET_BYTES {
            packet =
                serde_json::to_vec(&ShimMessage::Record { seq, record: None }).unwrap_or_default();
        }
        for caller in self.all.iter_mut().filter(|caller| caller.subscribed) {
            caller.send(&packet);
        }
    }

    /// Tells those who follow that output has grown, once each until they ask again: a slow reader
    /// must not find its socket full of growth when the end comes.
    pub(crate) fn tell_growth(&mut self, bytes: u64) {
        for caller in self.all.iter_mut().filter(|caller| caller.follows) {
            caller.follows = false;
            caller.tell(&ShimMessage::Output { bytes });
        }
    }

    /// Whether anybody wants to hear when output has grown.
    pub(crate) fn are_followers(&self) -> bool {
        self.all.iter().any(|caller| caller.follows)
    }

    /// Answers everybody who asked why the task is quiet.
    pub(crate) fn tell_evidence(&mut self, evidence: Evidence) {
        let found = ShimMessage::Why { evidence: Box::new(evidence) };
        for caller in self.all.iter_mut().filter(|caller| caller.awaits_evidence) {
            caller.awaits_evidence = false;
            caller.tell(&found);
            caller.tell(&ShimMessage::Done);
        }
    }

    /// Answers everybody who waits for the end.
    pub(crate) fn tell_end(&mut self) {
        for caller in self.all.iter_mut().filter(|caller| caller.awaits_end) {
            caller.tell(&ShimMessage::Done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener that fails stays readable.
    #[test]
    fn after_a_failure_nobody_is_let_in_for_a_while() {
        let no_listener: OwnedFd = std::fs::File::open("/dev/null").expect("is there").into();
        let mut callers = Callers::default();
        callers.accept(&no_listener);
        let until = callers.wake_at().expect("it has failed");
        callers.reopen(clock::monotonic_now());
        assert!(callers.wake_at().is_some() || clock::monotonic_now() >= until);
        callers.reopen(until);
        assert_eq!((callers.wake_at(), callers.len()), (None, 0));
    }
}
