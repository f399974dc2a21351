//! A task's proxy: what keeps it alive, and what it tells.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_core::sys::unix_socket;
use siding_model::net::MAX_DENIED_HOST_BYTES;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

/// What a task is refused when its proxy has ended, where else the host stands.
const PROXY_ENDED_HOST: &str = "every host (the task's proxy has ended)";

/// The socket to a task's proxy, where it has one. The proxy ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct ProxyHandle(Option<OwnedFd>);

impl ProxyHandle {
    pub(crate) const fn new(proxy: Option<OwnedFd>) -> Self {
        Self(proxy)
    }

    /// Returns what to poll.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Takes the hosts that the task was refused since the last time, as records. The end of the proxy
    /// before the task's is one of them.
    pub(crate) fn take_denied(&mut self, at: MonotonicMs) -> Vec<Record> {
        let mut denied = Vec::new();
        while let Some(proxy) = &self.0 {
            match unix_socket::receive(proxy, MAX_DENIED_HOST_BYTES, false) {
                Ok(Some(host)) => {
                    let host = String::from_utf8_lossy(&host).into_owned();
                    denied.push(Record::Denied { at, host });
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                // Somebody has ended it. The task's way out is shut.
                Ok(None) | Err(_) => {
                    self.0 = None;
                    denied.push(Record::Denied { at, host: PROXY_ENDED_HOST.to_owned() });
                }
            }
        }
        denied
    }
}
