//! Forwards the requests of the mirror's clients to the task's shim, and the responses back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::remote::{ForwardedRequest, RemoteMessage};

use super::super::pending_request::PendingRequest;
use super::encode;
use crate::store::TaskDir;
use crate::task::shim_client::{RecvResult, ShimConnection};

/// The reason why a shim does not respond.
const NO_SHIM: &str = "the task has ended, or its shim was killed";

/// The forwarded requests whose responses have not been queued.
#[derive(Debug, Default)]
pub(super) struct ForwardedRequests {
    links: Vec<RequestLink>,
    /// The responses to the requests without a response of a shim, until they are queued.
    failed: Vec<RemoteMessage>,
}

/// A connection to the shim. Each request has its own connection, because a shim may respond to a
/// later request first. Only the terminal requests of one client share a connection: the terminal
/// lease ends with the connection, and the shim responds to these requests in order.
#[derive(Debug)]
struct RequestLink {
    connection: ShimConnection,
    /// The client whose terminal requests share the connection; `None` for a connection with a
    /// single request.
    client: Option<u64>,
    /// The unanswered requests, oldest first.
    pending: VecDeque<PendingRequest>,
    /// Whether the client has released the terminal, so that the connection ends with the last
    /// response.
    is_ending: bool,
}

impl ForwardedRequests {
    /// Passes a request to the shim of the task.
    pub(super) fn forward(
        &mut self,
        dir: &TaskDir,
        forwarded: &ForwardedRequest,
    ) -> io::Result<()> {
        let ForwardedRequest { number, client, request } = forwarded;
        let client = client.filter(|_| request.uses_terminal_lease());
        let shared = client.and_then(|client| self.take_link(client));
        let link = match shared {
            Some(link) => Some(link),
            None => ShimConnection::connect(dir)?.map(|link| RequestLink::new(link, client)),
        };
        match link {
            Some(mut link) if link.connection.send(request).is_ok() => {
                link.pending.push_back(forwarded.into());
                link.is_ending |= *request == ShimRequest::TerminalReturn;
                self.links.push(link);
            }
            // The task has ended, or its shim was killed and the next step replaces that shim.
            Some(link) => {
                let lost = link.pending.iter().map(|request| request.lost_response(NO_SHIM));
                self.failed.extend(lost);
                self.failed.push(refusal(*number));
            }
            None => self.failed.push(refusal(*number)),
        }
        Ok(())
    }

    /// Removes and returns the connection that the terminal requests of a client share.
    fn take_link(&mut self, client: u64) -> Option<RequestLink> {
        let is_of_client = |link: &RequestLink| link.client == Some(client) && !link.is_ending;
        let index = self.links.iter().position(is_of_client)?;
        Some(self.links.swap_remove(index))
    }

    /// Returns the descriptors that become readable when a response arrives.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.links.iter().map(|link| link.connection.as_fd())
    }

    /// Returns whether a response can be queued without waiting for the shim.
    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Queues the responses to the requests without a response of a shim.
    pub(super) fn queue_failed(&mut self, queue: &mut Vec<u8>) -> io::Result<()> {
        self.failed.drain(..).try_for_each(|response| {
            queue.append(&mut encode(&response)?);
            Ok(())
        })
    }

    /// Queues the messages of the shim that respond to the requests.
    pub(super) fn queue_responses(&mut self, queue: &mut Vec<u8>) -> io::Result<()> {
        for mut link in std::mem::take(&mut self.links) {
            if link.queue_messages(queue)? {
                self.links.push(link);
            }
        }
        Ok(())
    }
}

impl RequestLink {
    const fn new(connection: ShimConnection, client: Option<u64>) -> Self {
        Self { connection, client, pending: VecDeque::new(), is_ending: false }
    }

    /// Queues the received messages. Returns whether the connection is still needed.
    fn queue_messages(&mut self, queue: &mut Vec<u8>) -> io::Result<bool> {
        while !self.is_done() {
            let message = match self.connection.try_recv() {
                Ok(RecvResult::Message(message)) => message,
                Ok(RecvResult::TimedOut) => return Ok(true),
                Ok(RecvResult::Disconnected) | Err(_) => {
                    for request in self.pending.drain(..) {
                        queue.append(&mut encode(&request.lost_response(NO_SHIM))?);
                    }
                    return Ok(false);
                }
            };
            let Some(PendingRequest { number, .. }) = self.pending.front().copied() else {
                continue;
            };
            if message.is_response() {
                self.pending.pop_front();
            }
            queue.append(&mut encode(&RemoteMessage::Shim { number, message })?);
        }
        Ok(false)
    }

    fn is_done(&self) -> bool {
        self.pending.is_empty() && (self.client.is_none() || self.is_ending)
    }
}

/// Returns the response to a request that no shim has received, so that it can be repeated.
fn refusal(number: u64) -> RemoteMessage {
    let why = format!("{NO_SHIM}; try again");
    RemoteMessage::Shim { number, message: ShimMessage::Refused { why } }
}
