//! Waiting for an answer over HTTP.
//!
//! A look may take as long as a server likes, so each address is asked by a thread of its own, and
//! what it found comes as a byte in a pipe. TLS is not spoken: a library for it would be larger
//! than siding, and what is waited for is nearly always a server on this machine.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use siding_model::process::MonotonicMs;
use siding_model::wait::{CheckBackoff, HttpUrl, LongWaitBackoff};

use crate::sys::clock;

/// The first and the longest pause between two tries that nobody answered, in milliseconds. A
/// refused connection costs 50 µs.
const REFUSED_MS: (u64, u64) = (10, 100);
/// The same after an answer that says not yet: a server writes each into its log.
const ANSWERED_MS: (u64, u64) = (100, 1000);
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a server may take to answer: the first page of a development server is compiled first.
const ANSWER: Duration = Duration::from_secs(60);
/// Longest first line that is read of an answer.
const STATUS_LINE_MAX: u64 = 4096;

/// An address that is asked until it answers well.
#[derive(Debug)]
pub(super) struct Asking {
    found: PipeReader,
    given_up: Arc<AtomicBool>,
}

impl Asking {
    /// Begins to ask.
    ///
    /// # Errors
    ///
    /// The operating system's, for want of descriptors or threads.
    pub(super) fn start(url: HttpUrl) -> io::Result<Self> {
        Self::with(url, Pauses::quick())
    }

    /// Begins to ask for as long as it takes, ever more rarely.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub(super) fn patiently(url: HttpUrl) -> io::Result<Self> {
        Self::with(url, Pauses::Growing(LongWaitBackoff::new(clock::mono())))
    }

    fn with(url: HttpUrl, pauses: Pauses) -> io::Result<Self> {
        let (found, tell) = io::pipe()?;
        let given_up = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&given_up);
        std::thread::Builder::new()
            .name("siding-http".to_owned())
            .spawn(move || ask(&url, pauses, tell, &flag))?;
        Ok(Self { found, given_up })
    }

    /// Returns what to poll.
    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.found.as_fd()
    }

    /// Returns the status that ended the asking, once [`Self::source`] is ready.
    pub(super) fn status(&mut self) -> Option<u16> {
        let mut bytes = [0; 2];
        self.found.read_exact(&mut bytes).ok().map(|()| u16::from_ne_bytes(bytes))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // The thread ends with its present try; nobody has to wait for that.
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// The pauses between two tries.
enum Pauses {
    /// Of one who waits now.
    Quick {
        /// After a try that nobody answered.
        refused: CheckBackoff,
        /// After an answer that says not yet.
        answered: CheckBackoff,
    },
    /// Of one who waits as long as it takes.
    Growing(LongWaitBackoff),
}

impl Pauses {
    const fn quick() -> Self {
        Self::Quick {
            refused: CheckBackoff::new(REFUSED_MS.0, REFUSED_MS.1),
            answered: CheckBackoff::new(ANSWERED_MS.0, ANSWERED_MS.1),
        }
    }

    /// Returns when to try again.
    fn next(&mut self, was_answered: bool, now: MonotonicMs) -> MonotonicMs {
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

fn ask(url: &HttpUrl, mut pauses: Pauses, mut tell: PipeWriter, given_up: &AtomicBool) {
    while !given_up.load(Ordering::Relaxed) {
        let tried = status(url);
        if let Ok(status @ 200..=399) = tried {
            // Whoever waited may be gone.
            let _unread = tell.write_all(&status.to_ne_bytes());
            return;
        }
        let now = clock::mono();
        let next = pauses.next(tried.is_ok(), now);
        std::thread::sleep(Duration::from_millis(next.ms_since(now)));
    }
}

/// Asks once and returns the status of the answer.
fn status(url: &HttpUrl) -> io::Result<u16> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (url.host(), url.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return exchange(stream, url),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn exchange(mut stream: TcpStream, url: &HttpUrl) -> io::Result<u16> {
    stream.set_write_timeout(Some(CONNECT))?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(url.http_request().as_bytes())?;
    let mut line = Vec::new();
    let mut head = io::BufReader::new(stream.take(STATUS_LINE_MAX));
    io::BufRead::read_until(&mut head, b'\n', &mut line)?;
    status_of(&line).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the status in the first line of an answer (RFC 9112 §4): `HTTP/1.1 200 OK`.
fn status_of(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.trim_end_matches('\r');
    let mut words = line.splitn(3, ' ');
    let version = words.next()?.strip_prefix("HTTP/1.")?;
    let code = words.next()?;
    let digits = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    (digits(version, 1) && digits(code, 3)).then(|| code.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_line_is_one() {
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
            assert_eq!(status_of(line.as_bytes()), status, "{line:?}");
        }
    }

    #[test]
    fn a_server_that_is_not_ready_is_asked_again() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let mut asking =
            Asking::start(format!("http://127.0.0.1:{port}/up").parse().unwrap()).unwrap();
        let answers = ["no http\r\n", "HTTP/1.1 503 no\r\n\r\n", "HTTP/1.1 302 go\r\n\r\n"];
        for answer in answers {
            let (mut caller, _) = server.accept().unwrap();
            let mut request = [0; 1024];
            let count = caller.read(&mut request).unwrap();
            assert!(request[..count].starts_with(b"GET /up HTTP/1.1\r\n"));
            caller.write_all(answer.as_bytes()).unwrap();
        }
        assert_eq!(asking.status(), Some(302));
    }
}
