//! The connection to a task's proxy.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_core::sys::unix_socket;
use siding_model::net::MAX_DENIED_HOST_BYTES;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

/// Text that is recorded in place of a denied host's name when the proxy has ended.
const PROXY_ENDED_HOST: &str = "every host (the task's proxy has ended)";

/// The socket to a task's proxy, if the task has one. The proxy ends when the value is dropped.
#[derive(Debug, Default)]
pub(crate) struct ProxyHandle(Option<OwnedFd>);

impl ProxyHandle {
    pub(crate) const fn new(proxy: Option<OwnedFd>) -> Self {
        Self(proxy)
    }

    /// Returns the descriptor to poll for denied hosts; `None` without a proxy, and after the
    /// proxy's end.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Returns a record for each host that the proxy has denied since the last call, and one record
    /// if the proxy has ended before the task.
    pub(crate) fn take_denied(&mut self, at: MonotonicMs) -> Vec<Record> {
        let mut denied = Vec::new();
        while let Some(proxy) = &self.0 {
            match unix_socket::receive(proxy, MAX_DENIED_HOST_BYTES, false) {
                Ok(Some(host)) => {
                    let host = String::from_utf8_lossy(&host).into_owned();
                    denied.push(Record::Denied { at, host });
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                // The proxy has ended, or ends now that its socket is closed. The task cannot reach
                // any remote host from now on.
                Ok(None) | Err(_) => {
                    self.0 = None;
                    denied.push(Record::Denied { at, host: PROXY_ENDED_HOST.to_owned() });
                }
            }
        }
        denied
    }
}
