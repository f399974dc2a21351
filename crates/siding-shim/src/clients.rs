//! The clients of a task's shim: the process that started the task, and the processes that connect
//! to the shim's socket.
//!
//! No client can make the shim wait. A client that does not read what the shim sends is
//! disconnected, and can read every record from the journal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_core::sys::{clock, unix_socket};
use siding_model::evidence::Evidence;
use siding_model::process::MonotonicMs;
use siding_model::protocol::{MAX_PACKET_BYTES, ShimMessage, ShimRequest};
use siding_model::record::Record;
use siding_model::terminal::ViewerId;

/// While at least this many clients are connected, each new client disconnects the oldest one that
/// has not subscribed. Subscribers are never disconnected for this reason, so there may be more
/// clients.
const MAX_CLIENTS: usize = 256;
/// Pause after a connection could not be accepted, in milliseconds.
const ACCEPT_RETRY_MS: u64 = 200;
/// Maximum length of a request, in bytes. A task's input and output never pass through the socket.
const MAX_REQUEST_BYTES: usize = 4096;

/// The reason for refusing a packet that is not a known request.
pub(crate) const UNKNOWN_REQUEST: &str =
    "this shim does not support the request; another version of siding may have started it";

/// The reason for refusing to close the standard input.
pub(crate) const STDIN_CLOSED: &str = "its standard input is closed already, or was never a pipe";

/// Identifies a client for as long as the shim runs. A client's position in the list changes when
/// another disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(u32);

impl From<ClientId> for ViewerId {
    fn from(id: ClientId) -> Self {
        Self(id.0.into())
    }
}

/// A connected client, and the messages for which it waits.
#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    /// Whether the client receives every record.
    subscribed: bool,
    /// Whether the client receives a message when the output grows next.
    follows_output: bool,
    /// Offset up to which the client has shown the output; `None` if the task does not wait for the
    /// client's reader.
    shown: Option<u64>,
    /// Whether the client waits for the end of the task.
    awaits_end: bool,
    /// Whether the client has sent a `why` request and waits for the evidence.
    awaits_evidence: bool,
    /// Whether the client started this task. Once this client has disconnected, the task moves to
    /// the background.
    is_starter: bool,
    disconnected: bool,
}

impl Client {
    /// Returns the client that started the task. This client receives every record from the first
    /// on.
    pub(crate) fn starter(socket: OwnedFd) -> Self {
        Self { is_starter: true, ..Self::subscriber(socket) }
    }

    /// Returns a client that receives every record from now on.
    pub(crate) const fn subscriber(socket: OwnedFd) -> Self {
        Self {
            socket,
            subscribed: true,
            follows_output: false,
            shown: None,
            awaits_end: false,
            awaits_evidence: false,
            is_starter: false,
            disconnected: false,
        }
    }

    fn connected(socket: OwnedFd) -> Self {
        Self { subscribed: false, ..Self::subscriber(socket) }
    }

    /// Sends a message. A client whose socket cannot accept the message without blocking is
    /// disconnected.
    pub(crate) fn send_message(&mut self, message: &ShimMessage) {
        if let Ok(packet) = serde_json::to_vec(message) {
            self.send_packet(&packet);
        }
    }

    fn send_packet(&mut self, packet: &[u8]) {
        self.disconnected |= unix_socket::send(&self.socket, packet, false).is_err();
    }
}

/// The result of reading from a client's socket.
#[derive(Debug)]
pub(crate) enum ClientEvent {
    Request(ShimRequest),
    /// A packet that is not a request.
    Malformed,
    /// No packet has arrived.
    WouldBlock,
    Disconnected,
}

/// All clients of a task, and the socket that they connect to.
#[derive(Debug)]
pub(crate) struct Clients {
    listener: OwnedFd,
    clients: Vec<(ClientId, Client)>,
    next_id: u32,
    /// The time until which no connection is accepted, because the last accept(2) failed.
    accept_paused_until: Option<MonotonicMs>,
}

impl Clients {
    /// Returns an empty list, whose future clients connect through `listener`.
    pub(crate) const fn new(listener: OwnedFd) -> Self {
        Self { listener, clients: Vec::new(), next_id: 0, accept_paused_until: None }
    }

    /// Returns the sockets to poll for requests.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (ClientId, BorrowedFd<'_>)> {
        self.clients.iter().map(|(id, client)| (*id, client.socket.as_fd()))
    }

    /// Returns the descriptor to poll for connections; `None` while accepting is paused.
    pub(crate) fn listener_source(&self) -> Option<BorrowedFd<'_>> {
        self.accept_paused_until.is_none().then(|| self.listener.as_fd())
    }

    /// Returns the time at which to call [`Self::resume_accepting`]; `None` unless accepting is
    /// paused.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        self.accept_paused_until
    }

    /// Resumes accepting connections if the pause is over.
    pub(crate) fn resume_accepting(&mut self, now: MonotonicMs) {
        self.accept_paused_until = self.accept_paused_until.filter(|until| now < *until);
    }

    /// Accepts the pending connections of this user. If accept(2) fails, pauses accepting.
    pub(crate) fn accept(&mut self) {
        loop {
            match unix_socket::accept(&self.listener) {
                Ok(socket) => self.add(Client::connected(socket)),
                // The connection came from another user; the next connection may be allowed.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // For example, no descriptor is free. The pending connection keeps the listener
                // readable, so accepting without a pause would use a whole core.
                Err(_) => {
                    self.accept_paused_until =
                        Some(clock::monotonic_now().plus_ms(ACCEPT_RETRY_MS));
                    return;
                }
            }
        }
    }

    /// Adds a client. With [`MAX_CLIENTS`] clients or more, first disconnects the oldest client
    /// that has not subscribed.
    pub(crate) fn add(&mut self, client: Client) {
        if self.clients.len() >= MAX_CLIENTS
            && let Some(idle) = self.clients.iter().position(|(_, known)| !known.subscribed)
        {
            self.clients.remove(idle);
        }
        self.clients.push((ClientId(self.next_id), client));
        self.next_id = self.next_id.wrapping_add(1);
    }

    fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.iter_mut().find_map(|(known, client)| (*known == id).then_some(client))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.clients.iter_mut().map(|(_, client)| client)
    }

    /// Receives at most one packet of a client.
    pub(crate) fn recv_event(&mut self, id: ClientId) -> ClientEvent {
        let Some(client) = self.get_mut(id) else { return ClientEvent::Disconnected };
        match unix_socket::receive(&client.socket, MAX_REQUEST_BYTES, false) {
            Ok(Some(packet)) => {
                serde_json::from_slice(&packet).map_or(ClientEvent::Malformed, ClientEvent::Request)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ClientEvent::WouldBlock,
            Ok(None) | Err(_) => {
                client.disconnected = true;
                ClientEvent::Disconnected
            }
        }
    }

    /// Removes disconnected clients. Returns whether the starter was one of them.
    pub(crate) fn remove_disconnected(&mut self) -> bool {
        let is_starter =
            |(_, client): &(ClientId, Client)| client.disconnected && client.is_starter;
        let starter_left = self.clients.iter().any(is_starter);
        self.clients.retain(|(_, client)| !client.disconnected);
        starter_left
    }

    /// Sends a message to one client.
    pub(crate) fn send_message(&mut self, id: ClientId, message: &ShimMessage) {
        if let Some(client) = self.get_mut(id) {
            client.send_message(message);
        }
    }

    /// Subscribes a client to all records from now on and, with `follows`, to the next growth of
    /// the output. `shown` is the offset up to which the client has shown the output, if the task
    /// waits for the client's reader.
    pub(crate) fn subscribe(&mut self, id: ClientId, follows: bool, shown: Option<u64>) {
        if let Some(client) = self.get_mut(id) {
            client.subscribed = true;
            client.follows_output = follows;
            client.shown = shown;
        }
    }

    /// Returns the offset up to which the slowest reader has received the output; `None` if the
    /// task waits for no reader.
    pub(crate) fn min_shown(&self) -> Option<u64> {
        self.clients.iter().filter_map(|(_, client)| client.shown).min()
    }

    /// Registers a client for [`ShimMessage::Done`], which is sent once the task has ended.
    pub(crate) fn await_end(&mut self, id: ClientId) {
        if let Some(client) = self.get_mut(id) {
            client.awaits_end = true;
        }
    }

    /// Registers a client for the next evidence.
    pub(crate) fn await_evidence(&mut self, id: ClientId) {
        if let Some(client) = self.get_mut(id) {
            client.awaits_evidence = true;
        }
    }

    /// Sends a record to all subscribers.
    pub(crate) fn publish(&mut self, seq: u64, record: &Record) {
        if !self.clients.iter().any(|(_, client)| client.subscribed) {
            return;
        }
        let message = ShimMessage::Record { seq, record: Some(Box::new(record.clone())) };
        let mut packet = serde_json::to_vec(&message).unwrap_or_default();
        if packet.is_empty() || packet.len() > MAX_PACKET_BYTES {
            // The record does not fit into a packet, so the subscriber reads it from the journal.
            packet =
                serde_json::to_vec(&ShimMessage::Record { seq, record: None }).unwrap_or_default();
        }
        for client in self.iter_mut().filter(|client| client.subscribed) {
            client.send_packet(&packet);
        }
    }

    /// Notifies the clients that follow the output. Each client is notified only once until it
    /// subscribes again, because the socket of a slow reader must have space for the final record.
    pub(crate) fn notify_output_grown(&mut self, bytes: u64) {
        for client in self.iter_mut().filter(|client| client.follows_output) {
            client.follows_output = false;
            client.send_message(&ShimMessage::Output { bytes });
        }
    }

    pub(crate) fn has_followers(&self) -> bool {
        self.clients.iter().any(|(_, client)| client.follows_output)
    }

    /// Sends the evidence to every client that requested it.
    pub(crate) fn send_evidence(&mut self, evidence: Evidence) {
        let message = ShimMessage::Why { evidence: Box::new(evidence) };
        for client in self.iter_mut().filter(|client| client.awaits_evidence) {
            client.awaits_evidence = false;
            client.send_message(&message);
            client.send_message(&ShimMessage::Done);
        }
    }

    /// Sends [`ShimMessage::Done`] to every client that waits for the end of the task.
    pub(crate) fn notify_ended(&mut self) {
        for client in self.iter_mut().filter(|client| client.awaits_end) {
            client.send_message(&ShimMessage::Done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener whose accept(2) fails stays readable, so the shim would spin without a pause.
    #[test]
    fn accepting_pauses_after_a_failed_accept() {
        let mut clients = clients();
        assert!(clients.listener_source().is_some());
        clients.accept();
        let until = clients.wake_at().expect("the accept failed");
        assert!(clients.listener_source().is_none());
        clients.resume_accepting(clock::monotonic_now());
        assert!(clients.wake_at().is_some() || clock::monotonic_now() >= until);
        clients.resume_accepting(until);
        assert_eq!((clients.wake_at(), clients.sources().count()), (None, 0));
    }

    /// Adds a client. Returns the client's id, and the other end of its connection.
    fn connect(clients: &mut Clients, client: fn(OwnedFd) -> Client) -> (ClientId, OwnedFd) {
        let (ours, theirs) = unix_socket::pair().expect("two free descriptors");
        clients.add(client(ours));
        let (id, _) = clients.sources().last().expect("was added");
        (id, theirs)
    }

    fn clients() -> Clients {
        Clients::new(std::fs::File::open("/dev/null").expect("exists on every system").into())
    }

    #[test]
    fn a_client_keeps_its_id_when_another_disconnects() {
        let mut clients = clients();
        let (first, first_peer) = connect(&mut clients, Client::connected);
        let (second, second_peer) = connect(&mut clients, Client::connected);
        drop(first_peer);
        assert!(matches!(clients.recv_event(first), ClientEvent::Disconnected));
        assert!(!clients.remove_disconnected(), "it did not start the task");
        let ping = serde_json::to_vec(&ShimRequest::Ping).expect("a request is JSON");
        unix_socket::send(&second_peer, &ping, false).expect("the shim is connected");
        let event = clients.recv_event(second);
        assert!(matches!(event, ClientEvent::Request(ShimRequest::Ping)), "{event:?}");
        assert!(matches!(clients.recv_event(second), ClientEvent::WouldBlock));
        assert!(
            matches!(clients.recv_event(first), ClientEvent::Disconnected),
            "ids are not reused"
        );
    }

    #[test]
    fn the_starter_is_missed_when_it_disconnects() {
        let mut clients = clients();
        let (starter, peer) = connect(&mut clients, Client::starter);
        drop(peer);
        assert!(matches!(clients.recv_event(starter), ClientEvent::Disconnected));
        assert!(clients.remove_disconnected());
        assert_eq!(clients.sources().count(), 0);
    }

    #[test]
    fn a_task_waits_for_the_slowest_reader_that_reports_its_progress() {
        let mut clients = clients();
        let (fast, _keeps_alive) = connect(&mut clients, Client::starter);
        let (slow, slow_peer) = connect(&mut clients, Client::connected);
        assert_eq!(clients.min_shown(), None);
        clients.subscribe(fast, true, Some(7));
        clients.subscribe(slow, true, Some(3));
        assert_eq!(clients.min_shown(), Some(3));
        drop(slow_peer);
        assert!(matches!(clients.recv_event(slow), ClientEvent::Disconnected));
        assert!(!clients.remove_disconnected(), "it did not start the task");
        assert_eq!(clients.min_shown(), Some(7));
        clients.subscribe(fast, true, None);
        assert_eq!(clients.min_shown(), None);
    }

    #[test]
    fn an_idle_client_makes_room_for_a_new_one() {
        let mut clients = clients();
        let (subscriber, _keeps_alive) = connect(&mut clients, Client::subscriber);
        let (idle, _keeps_alive) = connect(&mut clients, Client::connected);
        while clients.sources().count() < MAX_CLIENTS {
            connect(&mut clients, Client::subscriber);
        }
        let (new, _keeps_alive) = connect(&mut clients, Client::connected);
        let ids: Vec<ClientId> = clients.sources().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), MAX_CLIENTS);
        assert!(ids.contains(&subscriber) && ids.contains(&new) && !ids.contains(&idle));
    }
}
