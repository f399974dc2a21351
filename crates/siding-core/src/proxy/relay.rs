//! Carrying bytes between a client and its host.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a connection of which one direction is over may be silent. A client that has left and one
/// that has only said all look alike from here; a host that answers so late is rare, and a connection
/// that nobody ends would take a place for ever.
pub(super) const SILENCE: Duration = Duration::from_secs(30);

/// Bytes carried at once, for each direction.
const BUFFER: usize = 32 << 10;

/// The two ends, and how it stands between them.
#[derive(Debug)]
struct Pair {
    client: TcpStream,
    host: TcpStream,
    silence: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Directions that are over.
    over: u8,
    /// When something was carried last, or a direction ended.
    moved: Instant,
}

/// Carries bytes in both directions, `first` before all others to the host, until both are over, or
/// one is and the other has been silent for so long. Both ends are closed then.
pub(super) fn join(
    client: TcpStream,
    host: TcpStream,
    first: &[u8],
    silence: Duration,
) -> io::Result<()> {
    (&host).write_all(first)?;
    let state = Mutex::new(State { over: 0, moved: Instant::now() });
    let pair = Arc::new(Pair { client, host, silence, state, changed: Condvar::new() });
    let shared = Arc::clone(&pair);
    let outward = thread::Builder::new().spawn(move || {
        shared.carry(&shared.client, &shared.host);
        shared.end_one();
    })?;
    pair.carry(&pair.host, &pair.client);
    pair.end_one();
    let _no_panic = outward.join();
    Ok(())
}

impl Pair {
    /// Carries bytes one way until that is over, and says so to the end that gets no more.
    fn carry(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = match from.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            self.state.lock().unwrap_or_else(PoisonError::into_inner).moved = Instant::now();
        }
        let _already = to.shutdown(Shutdown::Write);
    }

    /// Notes that a direction is over. For the first this waits for the other, and ends that when it
    /// has been silent for too long.
    fn end_one(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.over += 1;
        state.moved = Instant::now();
        self.changed.notify_all();
        while state.over < 2 {
            let left = self.silence.saturating_sub(state.moved.elapsed());
            if left.is_zero() {
                let _already = self.client.shutdown(Shutdown::Both);
                let _already = self.host.shutdown(Shutdown::Both);
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
    const LONG: Duration = Duration::from_secs(600);

    /// Two ends of one connection.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("it has one"));
        (near.expect("it listens"), listener.accept().expect("it connects").0)
    }

    /// A client and its host, with what joins them. Both have 20 s for each step.
    fn joined(silence: Duration) -> (TcpStream, TcpStream, thread::JoinHandle<io::Result<()>>) {
        let ((client, near), (far, host)) = (connection(), connection());
        for end in [&client, &host] {
            end.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        }
        (client, host, thread::spawn(move || join(near, far, b"first ", silence)))
    }

    fn rest(mut from: &TcpStream) -> String {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("it ends in time");
        text
    }

    #[test]
    fn a_host_that_is_silent_is_left_after_its_client() {
        let (client, host, joining) = joined(Duration::from_millis(50));
        drop(client);
        // It says nothing and does not leave either.
        joining.join().expect("no panic").expect("joined");
        assert_eq!(rest(&host), "first ");
    }

    #[test]
    fn a_client_that_stays_is_left_after_its_host() {
        let (client, host, joining) = joined(Duration::from_millis(50));
        assert_eq!((&host).read(&mut [0; 6]).expect("it is passed on"), 6);
        drop(host);
        joining.join().expect("no panic").expect("joined");
        assert_eq!(rest(&client), "");
    }

    #[test]
    fn a_client_that_has_said_all_still_gets_its_answer() {
        let (mut client, mut host, joining) = joined(LONG);
        client.write_all(b"all").expect("it is open");
        client.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(rest(&host), "first all");
        host.write_all(b"answer").expect("it is open");
        drop(host);
        assert_eq!(rest(&client), "answer");
        joining.join().expect("no panic").expect("joined");
    }

    /// Silence means nothing while nobody has ended.
    #[test]
    fn two_that_both_stay_may_be_silent() {
        let (mut client, mut host, joining) = joined(Duration::ZERO);
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
