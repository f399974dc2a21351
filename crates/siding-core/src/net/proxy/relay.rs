//! Relays bytes between a client and its remote host.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum silence of a connection with one closed direction. A client that has disconnected
/// and a client that has only sent its whole request look the same to the proxy. Without this
/// timeout, a connection that neither side closes would occupy a slot forever. Few remote hosts
/// take longer to answer.
pub(super) const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(30);

/// The size of the buffer for each direction, in bytes.
const BUFFER_BYTES: usize = 32 << 10;

/// The two connections, and the state of the relay between them.
#[derive(Debug)]
struct RelayPair {
    client: TcpStream,
    upstream: TcpStream,
    half_closed_timeout: Duration,
    state: Mutex<RelayState>,
    changed: Condvar,
}

#[derive(Debug)]
struct RelayState {
    /// The number of directions that are closed.
    finished_directions: u8,
    /// The time at which bytes were last copied or a direction was last closed; initially the
    /// relay's start.
    last_transfer: Instant,
}

/// Copies bytes in both directions, and sends `first` to the remote host before all other bytes.
/// Returns, and closes both connections, when both directions are closed, or when one is closed and
/// the other has been silent for `silence`.
///
/// # Errors
///
/// The I/O error if `first` cannot be sent or the second thread cannot start.
pub(super) fn relay(
    client: TcpStream,
    host: TcpStream,
    first: &[u8],
    silence: Duration,
) -> io::Result<()> {
    (&host).write_all(first)?;
    let state = Mutex::new(RelayState { finished_directions: 0, last_transfer: Instant::now() });
    let pair = Arc::new(RelayPair {
        client,
        upstream: host,
        half_closed_timeout: silence,
        state,
        changed: Condvar::new(),
    });
    let shared = Arc::clone(&pair);
    let outward = thread::Builder::new().spawn(move || {
        shared.copy_direction(&shared.client, &shared.upstream);
        shared.finish_direction();
    })?;
    pair.copy_direction(&pair.upstream, &pair.client);
    pair.finish_direction();
    let _best_effort = outward.join();
    Ok(())
}

impl RelayPair {
    /// Copies bytes in one direction until the sender closes it or an error occurs, then closes the
    /// direction towards the receiver.
    fn copy_direction(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = match from.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            self.state.lock().unwrap_or_else(PoisonError::into_inner).last_transfer =
                Instant::now();
        }
        let _peer_gone = to.shutdown(Shutdown::Write);
    }

    /// Counts a direction as closed. If the other direction is still open, waits until that
    /// direction is closed too, and closes both connections if it is silent for too long.
    fn finish_direction(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.finished_directions += 1;
        state.last_transfer = Instant::now();
        self.changed.notify_all();
        while state.finished_directions < 2 {
            let left = self.half_closed_timeout.saturating_sub(state.last_transfer.elapsed());
            if left.is_zero() {
                let _peer_gone = self.client.shutdown(Shutdown::Both);
                let _peer_gone = self.upstream.shutdown(Shutdown::Both);
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A timeout longer than any test.
    const LONG_TIMEOUT: Duration = Duration::from_secs(600);

    /// Returns the two ends of one TCP connection.
    fn connected_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("it has one"));
        (near.expect("it listens"), listener.accept().expect("it connects").0)
    }

    /// Returns a client and its remote host, and the thread that relays between them. Reads from
    /// either end time out after 20 s.
    fn relayed_pair(
        silence: Duration,
    ) -> (TcpStream, TcpStream, thread::JoinHandle<io::Result<()>>) {
        let ((client, near), (far, host)) = (connected_pair(), connected_pair());
        for end in [&client, &host] {
            end.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        }
        (client, host, thread::spawn(move || relay(near, far, b"first ", silence)))
    }

    fn read_to_end(mut from: &TcpStream) -> String {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("it ends in time");
        text
    }

    #[test]
    fn a_silent_upstream_is_closed_after_its_client_closed() {
        let (client, host, joining) = relayed_pair(Duration::from_millis(50));
        drop(client);
        // The remote host sends nothing and does not close its connection either.
        joining.join().expect("no panic").expect("joined");
        assert_eq!(read_to_end(&host), "first ");
    }

    #[test]
    fn an_idle_client_is_closed_after_its_upstream_closed() {
        let (client, host, joining) = relayed_pair(Duration::from_millis(50));
        assert_eq!((&host).read(&mut [0; 6]).expect("it is passed on"), 6);
        drop(host);
        joining.join().expect("no panic").expect("joined");
        assert_eq!(read_to_end(&client), "");
    }

    #[test]
    fn a_client_that_half_closed_still_receives_the_response() {
        let (mut client, mut host, joining) = relayed_pair(LONG_TIMEOUT);
        client.write_all(b"all").expect("it is open");
        client.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(read_to_end(&host), "first all");
        host.write_all(b"answer").expect("it is open");
        drop(host);
        assert_eq!(read_to_end(&client), "answer");
        joining.join().expect("no panic").expect("joined");
    }

    /// Silence is no reason to close a connection while both directions are open.
    #[test]
    fn an_idle_connection_that_is_fully_open_is_kept() {
        let (mut client, mut host, joining) = relayed_pair(Duration::ZERO);
        assert_eq!(host.read(&mut [0; 6]).expect("it is passed on"), 6);
        for _ in 0..3 {
            host.write_all(b"x").expect("it is open");
            assert_eq!(client.read(&mut [0; 2]).expect("it is open"), 1);
            client.write_all(b"y").expect("it is open");
            assert_eq!(host.read(&mut [0; 2]).expect("it is open"), 1);
        }
        drop((client, host));
        joining.join().expect("no panic").expect("joined");
    }
}
