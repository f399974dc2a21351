//! Requests a URL until an HTTP server responds with a success or a redirect.
//!
//! A request may block for a minute, so each URL has its own thread, which reports the status
//! through a pipe. TLS is not supported: a TLS library would be larger than siding, and the server
//! is nearly always on this machine.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use siding_model::process::MonotonicMs;
use siding_model::wait::{CheckBackoff, HttpUrl, LongWaitBackoff};

use crate::sys::clock;

/// First and longest pause after a request without a valid response, in milliseconds. The pauses
/// are short, because a refused connection takes only 50 µs.
const REFUSED_PAUSE_MS: (u64, u64) = (10, 100);
/// First and longest pause after an error status, in milliseconds. The pauses are longer, because
/// servers log every request.
const NOT_READY_PAUSE_MS: (u64, u64) = (100, 1000);
/// Timeout of connect(2), and of sending the request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of each read of a response. The timeout is long, because a development server compiles
/// its first page on request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest status line that is read, in bytes.
const MAX_STATUS_LINE_BYTES: u64 = 4096;

/// A thread that requests a URL until the response is a success or a redirect.
#[derive(Debug)]
pub(crate) struct HttpProbe {
    result_pipe: PipeReader,
    cancelled: Arc<AtomicBool>,
}

impl HttpProbe {
    /// Starts to send requests for a wait with a limit, with pauses of at most one second.
    ///
    /// # Errors
    ///
    /// The I/O error if no descriptor or thread is available.
    pub(crate) fn start(url: HttpUrl) -> io::Result<Self> {
        Self::spawn(url, ProbePauses::quick())
    }

    /// Starts to send requests for a wait without a limit, with growing pauses.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::start`].
    pub(crate) fn start_with_backoff(url: HttpUrl) -> io::Result<Self> {
        Self::spawn(url, ProbePauses::Growing(LongWaitBackoff::new(clock::monotonic_now())))
    }

    fn spawn(url: HttpUrl, pauses: ProbePauses) -> io::Result<Self> {
        let (found, tell) = io::pipe()?;
        let given_up = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&given_up);
        std::thread::Builder::new()
            .name("siding-http".to_owned())
            .spawn(move || probe_until_ready(&url, pauses, tell, &flag))?;
        Ok(Self { result_pipe: found, cancelled: given_up })
    }

    /// Returns the descriptor that is readable once the thread has ended.
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.result_pipe.as_fd()
    }

    /// Returns the status of the success or redirect. Blocks until [`Self::source`] is readable.
    /// Returns `None` if the thread ended without a status.
    pub(crate) fn read_status(&mut self) -> Option<u16> {
        let mut bytes = [0; 2];
        self.result_pipe.read_exact(&mut bytes).ok().map(|()| u16::from_ne_bytes(bytes))
    }
}

impl Drop for HttpProbe {
    fn drop(&mut self) {
        // The thread ends after its current request or pause. Joining the thread could block for a
        // minute.
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// The lengths of the pauses between requests, which grow during the wait.
enum ProbePauses {
    /// Pauses for a wait with a limit.
    Quick {
        /// The pauses after requests without a valid response.
        refused: CheckBackoff,
        /// The pauses after error statuses.
        answered: CheckBackoff,
    },
    /// Pauses for a wait without a limit.
    Growing(LongWaitBackoff),
}

impl ProbePauses {
    const fn quick() -> Self {
        Self::Quick {
            refused: CheckBackoff::new(REFUSED_PAUSE_MS.0, REFUSED_PAUSE_MS.1),
            answered: CheckBackoff::new(NOT_READY_PAUSE_MS.0, NOT_READY_PAUSE_MS.1),
        }
    }

    /// Returns the time of the next request.
    fn next_try(&mut self, was_answered: bool, now: MonotonicMs) -> MonotonicMs {
        let pace = match self {
            Self::Quick { answered, .. } if was_answered => answered,
            Self::Quick { refused, .. } => refused,
            Self::Growing(patience) => {
                patience.record_check(now, now);
                return patience.next_check_at();
            }
        };
        pace.record_check(now, now);
        pace.next_check_at()
    }
}

fn probe_until_ready(
    url: &HttpUrl,
    mut pauses: ProbePauses,
    mut result_pipe: PipeWriter,
    cancelled: &AtomicBool,
) {
    while !cancelled.load(Ordering::Relaxed) {
        let tried = fetch_status(url);
        if let Ok(status @ 200..=399) = tried {
            // The write fails if the waiter was dropped.
            let _receiver_dropped = result_pipe.write_all(&status.to_ne_bytes());
            return;
        }
        let now = clock::monotonic_now();
        let next = pauses.next_try(tried.is_ok(), now);
        std::thread::sleep(Duration::from_millis(next.ms_since(now)));
    }
}

/// Sends one request and returns the status of the response.
fn fetch_status(url: &HttpUrl) -> io::Result<u16> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (url.host(), url.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return send_and_read_status(stream, url),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn send_and_read_status(mut stream: TcpStream, url: &HttpUrl) -> io::Result<u16> {
    stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.write_all(url.http_request().as_bytes())?;
    let mut line = Vec::new();
    let mut head = io::BufReader::new(stream.take(MAX_STATUS_LINE_BYTES));
    io::BufRead::read_until(&mut head, b'\n', &mut line)?;
    parse_status(&line).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses a complete status line such as `HTTP/1.1 200 OK`.
fn parse_status(line: &[u8]) -> Option<u16> {
    let mut response = httparse::Response::new(&mut []);
    response.parse(line).ok()?;
    response.code.filter(|_| line.ends_with(b"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_status_lines_are_parsed() {
        for (line, status) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 404\n", Some(404)),
            ("HTTP/1.1 200 OK", None),
            ("HTTP/2 200\r\n", None),
            ("SSH-2.0-OpenSSH_9.2\r\n", None),
            ("HTTP/1.1 20 OK\r\n", None),
            ("HTTP/1.1 +20 OK\r\n", None),
            ("\n", None),
            ("", None),
        ] {
            assert_eq!(parse_status(line.as_bytes()), status, "{line:?}");
        }
    }

    #[test]
    fn a_server_that_is_not_ready_is_probed_again() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let mut asking =
            HttpProbe::start(format!("http://127.0.0.1:{port}/up").parse().unwrap()).unwrap();
        let answers = ["no http\r\n", "HTTP/1.1 503 no\r\n\r\n", "HTTP/1.1 302 go\r\n\r\n"];
        for answer in answers {
            let (mut caller, _) = server.accept().unwrap();
            let mut request = [0; 1024];
            let count = caller.read(&mut request).unwrap();
            assert!(request[..count].starts_with(b"GET /up HTTP/1.1\r\n"));
            caller.write_all(answer.as_bytes()).unwrap();
        }
        assert_eq!(asking.read_status(), Some(302));
    }
}
