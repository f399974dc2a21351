//! The requests of a mirror's clients. The mirror itself carries out those about the connection and
//! the placement, and forwards the others.

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::remote::{MirrorAction, RemoteRequest, remote_request};
use siding_model::signal::Signal;
use siding_model::terminal::{CTRL_C, TerminalSize, TerminalUser, ViewerId};

use super::Mirror;
use crate::clients::{ClientEvent, ClientId, STDIN_CLOSED, UNKNOWN_REQUEST};

/// Time for which a client that requests a stop waits for the connection, in milliseconds. A
/// reachable machine usually answers sooner.
const STOP_CONNECT_MS: u64 = 1_000;

/// A forwarded request without a response.
#[derive(Debug)]
pub(super) struct UnansweredRequest {
    number: u64,
    /// The client that receives the response; `None` for a request of the mirror itself.
    client: Option<ClientId>,
    kind: RequestKind,
}

/// The kind of a forwarded request, which decides how the mirror answers the request if the
/// connection breaks before the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    /// Keys may have been typed, so the request must not be repeated.
    TerminalWrite,
    /// The mirror itself repeats the request.
    TerminalResize { size: TerminalSize },
    /// The client may repeat the request.
    Other,
}

impl From<&ShimRequest> for RequestKind {
    fn from(request: &ShimRequest) -> Self {
        if let ShimRequest::TerminalResize { size } = request {
            return Self::TerminalResize { size: *size };
        }
        if request.is_terminal_write() { Self::TerminalWrite } else { Self::Other }
    }
}

impl Mirror {
    /// Receives a client's request, and carries it out or forwards it.
    pub(super) fn on_client_readable(&mut self, id: ClientId) {
        match self.clients.recv_event(id) {
            ClientEvent::Request(request) => self.handle_request(id, request),
            ClientEvent::Malformed => self.refuse(id, UNKNOWN_REQUEST.to_owned()),
            ClientEvent::WouldBlock | ClientEvent::Disconnected => {}
        }
    }

    fn handle_request(&mut self, id: ClientId, request: ShimRequest) {
        match request {
            ShimRequest::Ping => {}
            ShimRequest::Subscribe { follow, shown } => self.clients.subscribe(id, follow, shown),
            ShimRequest::Place { why } => self.place(why),
            ShimRequest::Stop { by, grace_ms, signal } => {
                self.request_stop(&by, grace_ms, signal);
                // The client must not wait: the end may be received only hours later.
                match self.stop_delay_text() {
                    Some(why) => self.refuse(id, why),
                    None => self.await_stop(id),
                }
                return;
            }
            ShimRequest::InputWritten { by } => self.notify_input(by),
            ShimRequest::CloseStdin { by } if self.close_input() => self.notify_input(by),
            ShimRequest::CloseStdin { .. } => {
                return self.refuse(id, STDIN_CLOSED.to_owned());
            }
            ShimRequest::Release { .. }
            | ShimRequest::Extend { .. }
            | ShimRequest::TerminalWrite { .. }
            | ShimRequest::TerminalResize { .. }
            | ShimRequest::TerminalTake { .. }
            | ShimRequest::TerminalReturn
            | ShimRequest::Terminal
            | ShimRequest::Why
            | ShimRequest::Usage => return self.forward(id, request),
        }
        self.clients.send_message(id, &ShimMessage::Done);
    }

    /// Registers a client for the end of the task, or for the report that its stop was not
    /// forwarded in time.
    fn await_stop(&mut self, id: ClientId) {
        self.clients.await_end(id);
        if !self.machine.can_forward_stop() {
            let report_at = clock::monotonic_now().plus_ms(STOP_CONNECT_MS);
            self.delayed_stops.push((report_at, id));
        }
    }

    /// Informs the clients whose stop was not forwarded in time that the stop is only recorded.
    pub(super) fn report_delayed_stops(&mut self, now: MonotonicMs) {
        if self.machine.can_forward_stop() {
            self.delayed_stops.clear();
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.delayed_stops).into_iter().partition(|(at, _)| *at <= now);
        self.delayed_stops = later;
        for (_, client) in due {
            let why = self.stop_delay_text().unwrap_or_else(|| {
                let name = self.machine.executor_name();
                format!(
                    "{name} has not answered yet; the stop is recorded, and is requested there once \
                     it answers"
                )
            });
            self.refuse(client, why);
        }
    }

    fn refuse(&mut self, id: ClientId, why: String) {
        self.clients.send_message(id, &ShimMessage::Refused { why });
    }

    /// Forwards a request, whose responses arrive later.
    fn forward(&mut self, id: ClientId, request: ShimRequest) {
        let uses_lease = request.uses_terminal_lease();
        let is_typed_ahead = self.is_typed_ahead(&request);
        let kind = RequestKind::from(&request);
        let remote = self.task.state().remote.as_ref();
        let request =
            remote_request(request, remote.map_or(0, |remote| remote.earlier_output_bytes));
        match self.machine.forward(request, Some(ViewerId::from(id).0)) {
            Some(action) => {
                if uses_lease && !self.viewers.contains(&id) {
                    self.viewers.push(id);
                }
                self.send_forwarded(action, Some(id), kind);
            }
            // The client repeats the keys after a pause, as for a program that does not read.
            None if is_typed_ahead => {
                self.clients.send_message(id, &ShimMessage::TerminalWritten { accepted: 0 });
                self.clients.send_message(id, &ShimMessage::Done);
            }
            None => self.answer_unforwarded(id, kind),
        }
    }

    /// Answers a request that cannot be forwarded now.
    fn answer_unforwarded(&mut self, id: ClientId, kind: RequestKind) {
        if let RequestKind::TerminalResize { size } = kind {
            // The size is forwarded once the remote machine follows the task.
            self.unsent_size = Some(size);
            return self.clients.send_message(id, &ShimMessage::Done);
        }
        let name = self.machine.executor_name();
        let remote = self.task.state().remote.as_ref();
        let why = self.unreachable_text().unwrap_or_else(|| {
            if remote.is_some_and(|remote| remote.queued.is_some()) {
                return format!("its job waits in the queue of {name}");
            }
            format!("the connection to {name} is not ready")
        });
        self.refuse(id, format!("{why}; try again later"));
    }

    /// Sends a forwarded request, whose response the client receives later.
    fn send_forwarded(
        &mut self,
        action: MirrorAction,
        client: Option<ClientId>,
        kind: RequestKind,
    ) {
        if let RequestKind::TerminalResize { .. } = kind {
            self.unsent_size = None;
        }
        if let MirrorAction::Send(RemoteRequest::Forward(forwarded)) = &action {
            self.forwarded.push(UnansweredRequest { number: forwarded.number, client, kind });
        }
        self.carry_out(vec![action]);
    }

    /// Forwards the size that a client requested while no request could be forwarded.
    pub(super) fn forward_unsent_size(&mut self) {
        let Some(size) = self.unsent_size else { return };
        // Without a client, because the client may have disconnected meanwhile.
        let forwarded = self.machine.forward(ShimRequest::TerminalResize { size }, None);
        if let Some(action) = forwarded {
            self.send_forwarded(action, None, RequestKind::TerminalResize { size });
        }
    }

    /// Returns whether a person typed before the first answer of the remote machine. Ctrl-C must
    /// not wait for that answer.
    fn is_typed_ahead(&self, request: &ShimRequest) -> bool {
        let remote = self.task.state().remote.as_ref();
        let is_connecting = remote.is_some_and(|remote| {
            remote.clock.is_none() && remote.queued.is_none() && remote.unreachable.is_none()
        });
        let ShimRequest::TerminalWrite { bytes, user: TerminalUser::Person, .. } = request else {
            return false;
        };
        is_connecting && !bytes.contains(&CTRL_C)
    }

    /// Requests the stop of the task.
    pub(super) fn request_stop(&mut self, by: &str, grace_ms: Option<u64>, signal: Option<Signal>) {
        if self.task.is_live() {
            self.step(|machine, context| machine.stop(context, by, grace_ms, signal));
        }
    }

    /// Passes a message of the remote shim to the client whose request was forwarded.
    pub(super) fn respond(&mut self, number: u64, message: &ShimMessage) {
        let Some(index) = self.forwarded.iter().position(|known| known.number == number) else {
            return;
        };
        if let Some(client) = self.forwarded[index].client {
            self.clients.send_message(client, message);
        }
        if message.is_response() {
            self.forwarded.remove(index);
        }
    }

    /// Releases the terminal for persons whose clients have disconnected. The request also ends the
    /// connection of each such client to the remote shim.
    pub(super) fn return_terminal_of_disconnected(&mut self) {
        let is_connected = |viewer: &ClientId| self.clients.sources().any(|(id, _)| id == *viewer);
        let (connected, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.viewers).into_iter().partition(is_connected);
        self.viewers = connected;
        for viewer in gone {
            let client = Some(ViewerId::from(viewer).0);
            let forwarded = self.machine.forward(ShimRequest::TerminalReturn, client);
            self.carry_out(forwarded.into_iter().collect());
        }
    }

    /// Answers the clients whose requests got no response before the connection broke. The
    /// connections of persons to the remote shim ended with this connection.
    pub(super) fn answer_forwarded(&mut self) {
        self.viewers.clear();
        let mut unanswered = std::mem::take(&mut self.forwarded);
        // A client with unanswered keys takes a refusal of another request for that of its keys.
        unanswered.sort_by_key(|request| request.kind != RequestKind::TerminalWrite);
        let name = self.machine.executor_name();
        let why = format!("the connection to {name} broke before its answer");
        for UnansweredRequest { client, kind, .. } in unanswered {
            let answer = match kind {
                RequestKind::TerminalResize { size } => {
                    self.unsent_size = Some(size);
                    ShimMessage::Done
                }
                RequestKind::TerminalWrite => ShimMessage::from_lost_response(true, &why),
                RequestKind::Other => ShimMessage::from_lost_response(false, &why),
            };
            if let Some(client) = client {
                self.clients.send_message(client, &answer);
            }
        }
    }

    /// Returns the reason why the end of a task after a requested stop will arrive late; `None` if
    /// it will arrive soon.
    fn stop_delay_text(&self) -> Option<String> {
        if let Some(why) = self.unreachable_text() {
            return Some(format!("{why}; the stop is recorded, and is requested there once it is"));
        }
        self.unstored.as_ref()?;
        let name = self.machine.executor_name();
        Some(format!(
            "the output from {name} cannot be stored here, usually because the disk is full; the \
             stop is recorded and requested there, and its end is received once there is space"
        ))
    }

    /// Returns the time since which the remote machine has been unreachable, and the reason; `None`
    /// while it is reachable.
    fn unreachable_text(&self) -> Option<String> {
        let remote = self.task.state().remote.as_ref()?;
        let unreachable = remote.unreachable.as_ref()?;
        let since = clock::format_local_time(unreachable.since);
        let name = self.machine.executor_name();
        Some(format!("{name} is not reachable since {since} ({})", unreachable.why))
    }
}
