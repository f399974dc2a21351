//! Accepts connections, and reports refused remote hosts.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use siding_model::net::{MAX_DENIED_HOST_BYTES, MAX_RECORDED_DENIALS, RemoteHosts};
use siding_model::text::cut_head;

use super::tunnel;
use crate::sys::{poll, unix_socket};

/// Maximum number of concurrent connections. Each connection needs two threads. Further clients
/// wait in the listen queue.
const MAX_CONNECTIONS: usize = 128;
/// Pause when no connection can be accepted, in milliseconds: too many are open, or accept(2)
/// failed.
const FULL_PAUSE_MS: u64 = 50;

/// The state that all connections share.
#[derive(Debug)]
pub(super) struct ProxyState {
    hosts: RemoteHosts,
    control: OwnedFd,
    reported: Mutex<BTreeSet<String>>,
    open_connections: AtomicUsize,
}

impl ProxyState {
    /// Returns whether the task may reach this remote host. A refused remote host is reported
    /// by [`Self::report_refused`].
    pub(super) fn allows(&self, host: &str, port: u16) -> bool {
        if self.hosts.admits(host, port) {
            return true;
        }
        self.report_refused(&format!("{}:{port}", host.to_ascii_lowercase()));
        false
    }

    /// Reports a refused remote host to the shim, unless this host or `MAX_RECORDED_DENIALS` others
    /// were reported before.
    pub(super) fn report_refused(&self, host: &str) {
        let host = cut_head(host, MAX_DENIED_HOST_BYTES);
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < MAX_RECORDED_DENIALS && reported.insert(host.to_owned()) {
            // A busy shim reads the report later. If the shim has exited, this process exits too.
            let _peer_gone = unix_socket::send(&self.control, host.as_bytes(), true);
        }
    }
}

/// Serves clients until no process has the other end of `control` open, or until `control` fails or
/// receives a message without a new listener.
pub(super) fn serve(control: OwnedFd, listener: OwnedFd, hosts: RemoteHosts) {
    let mut listener = TcpListener::from(listener);
    let gate = ProxyState {
        hosts,
        control,
        reported: Mutex::default(),
        open_connections: AtomicUsize::new(0),
    };
    let gate = Arc::new(gate);
    loop {
        let is_full = gate.open_connections.load(Ordering::SeqCst) >= MAX_CONNECTIONS;
        let mut sources = vec![gate.control.as_fd()];
        sources.extend((!is_full).then(|| listener.as_fd()));
        let timeout = is_full.then_some(FULL_PAUSE_MS);
        let Some(ready) = poll::wait_readable_or_pause(&sources, timeout) else { continue };
        if ready[0] {
            // A leader whose first program could not be executed starts again, in another
            // namespace, and sends a new listener. Any other event means that the task has ended,
            // so this process exits.
            match unix_socket::receive_with_fds(&gate.control, 1) {
                Ok(Some((_, mut descriptors))) => match descriptors.pop() {
                    Some(next) => listener = TcpListener::from(next),
                    None => return,
                },
                Ok(None) | Err(_) => return,
            }
        } else if ready.get(1) == Some(&true) {
            // No other process accepts from this listener, so the call does not block.
            let Ok((client, _)) = listener.accept() else {
                // If, for example, no descriptor is left, the client stays in the listen queue and
                // is accepted later.
                thread::sleep(Duration::from_millis(FULL_PAUSE_MS));
                continue;
            };
            gate.open_connections.fetch_add(1, Ordering::SeqCst);
            let shared = Arc::clone(&gate);
            let attend = move || {
                tunnel::handle_client(client, &shared);
                shared.open_connections.fetch_sub(1, Ordering::SeqCst);
            };
            if thread::Builder::new().spawn(attend).is_err() {
                // Dropping the client closes its connection.
                gate.open_connections.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}
