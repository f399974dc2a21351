//! Carrying bytes between a client and its host.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a connection of which one direction is over may be silent. A client that has left and one
/// that has only said all look alike from here; a host that answers so late is rare, and a connection
/// that nobody ends would take a place for ever.
pub(super) const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes carried at once, for each direction.
const BUFFER_BYTES: usize = 32 << 10;

/// The two ends, and how it stands between them.
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
    /// Directions that are over.
    finished_directions: u8,
    /// When something was carried last, or a direction ended.
    last_transfer: Instant,
}

/// Carries bytes in both directions, `first` before all others to the host, until both are over, or
/// one is and the other has been silent for so long. Both ends are closed then.
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
    /// Carries bytes one way until that is over, and says so to the end that gets no more.
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

    /// Notes that a direction is over. For the first this waits for the other, and ends that when it
    /// has been silent for too long.
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

    /// Longer than any test.
    const LONG_TIMEOUT: Duration = Duration::from_secs(600);

    /// Two ends of one connection.
    fn connected_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("it has one"));
        (near.expect("it listens"), listener.accept().expect("it connects").0)
    }

    /// A client and its host, with what joins them. Both have 20 s for each step.
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
        // It says nothing and does not leave either.
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

    /// Silence means nothing while nobody has ended.
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
