//! Unix sockets that preserve packet boundaries (`SOCK_SEQPACKET`), named below a directory
//! descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::clock;

/// Maximum number of descriptors in one packet.
const MAX_DESCRIPTORS: usize = 6;

/// Returns an address for `name` below `dir` that is short, however long the path of the directory
/// is: an address holds 107 bytes (unix(7)).
fn short_address(dir: impl AsFd, name: &str) -> io::Result<SocketAddrUnix> {
    let path = format!("/proc/self/fd/{}/{name}", dir.as_fd().as_raw_fd());
    Ok(SocketAddrUnix::new(path.as_str())?)
}

fn packet_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags | SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Creates a socket at `name` below `dir` and listens on it.
///
/// # Errors
///
/// The I/O error of the system call, `EADDRINUSE` if the name exists.
pub fn listen(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let socket = packet_socket(SocketFlags::NONBLOCK)?;
    rustix::net::bind(&socket, &short_address(&dir, name)?)?;
    // bind(2) creates the socket file with a mode that depends on the umask alone.
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::chmodat(&dir, name, mode, rustix::fs::AtFlags::empty())?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket)
}

/// Connects to `name` below `dir`. While too many connections wait to be accepted, waits for at
/// most `timeout_ms` milliseconds.
///
/// # Errors
///
/// The I/O error of the system call: `ECONNREFUSED` if no process listens, `ENOENT` if the
/// name does not exist. `TimedOut` if the listening process accepts no connections, for example
/// because a signal has stopped it.
pub fn connect(dir: impl AsFd, name: &str, timeout_ms: u64) -> io::Result<OwnedFd> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let socket = packet_socket(SocketFlags::empty())?;
    let address = short_address(dir, name)?;
    let until = clock::monotonic_now().plus_ms(timeout_ms);
    loop {
        // connect(2) honors SO_SNDTIMEO (socket(7)). With a non-blocking socket connect(2) would fail
        // immediately, and poll(2) does not report a free place in the queue.
        let left = until.ms_since(clock::monotonic_now()).max(1);
        set_socket_timeout(&socket, Timeout::Send, Some(Duration::from_millis(left)))?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, NotAccepting { timeout_ms }));
            }
            Err(error) => return Err(error.into()),
        }
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket)
}

/// The error for a process that listens and accepts no connections.
#[derive(Debug, thiserror::Error)]
#[error(
    "it has accepted no connection for {timeout_ms} ms; a signal may have stopped the process, \
     and SIGCONT continues it"
)]
struct NotAccepting {
    timeout_ms: u64,
}

/// Returns whether any living socket, listening or not, in any network namespace, is bound to the
/// socket file `name` below `dir`.
///
/// The function connects a datagram socket. The kernel looks up the socket that is bound to the
/// file before it checks anything else, so it returns `ECONNREFUSED` only if no socket is bound. A
/// bound stream or packet socket causes `EPROTOTYPE` and does not notice the attempt; a bound
/// datagram socket receives nothing, because nothing is sent.
///
/// # Errors
///
/// The I/O error of the system call, `EACCES` if the file's mode does not let this user connect:
/// the socket may be bound or not.
pub fn is_bound(dir: impl AsFd, name: &str) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asker = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    match rustix::net::connect(&asker, &short_address(dir, name)?) {
        Err(rustix::io::Errno::CONNREFUSED) => Ok(false),
        // `EPERM` means that the bound socket is connected to another one.
        Ok(()) | Err(rustix::io::Errno::PROTOTYPE | rustix::io::Errno::PERM) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The paths to which sockets of this network namespace are bound, as they were passed to bind(2).
#[derive(Debug)]
pub struct BoundPaths(Vec<u8>);

impl BoundPaths {
    /// Reads the paths that are bound now; later calls of bind(2) do not change them.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call if `/proc/net/unix` cannot be read.
    pub fn read() -> io::Result<Self> {
        std::fs::read("/proc/net/unix").map(Self)
    }

    /// Returns whether one of the paths ends in this name. The directory is not compared, because a
    /// process may have bound its socket by a relative path, or through a link or a descriptor.
    #[must_use]
    pub fn contains_name(&self, name: &str) -> bool {
        self.0.split(|&byte| byte == b'\n').any(|line| line.ends_with(name.as_bytes()))
    }
}

/// Creates a pair of connected sockets.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Accepts one waiting connection, but only from this user or root.
///
/// # Errors
///
/// `EAGAIN` if no connection waits, `EPERM` if the connection came from another user; otherwise the
/// I/O error of the system call.
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let caller = rustix::net::accept_with(listener, flags)?;
    let uid = rustix::net::sockopt::socket_peercred(&caller)?.uid.as_raw();
    if uid != 0 && uid != super::process::effective_uid() {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    Ok(caller)
}

/// Sends one packet. Never raises SIGPIPE.
///
/// # Errors
///
/// The I/O error of the system call: `EPIPE` if the peer has closed, even before it had accepted
/// the connection; `EAGAIN` if `wait` is false and the peer's queue is full.
pub fn send(socket: impl AsFd, packet: &[u8], wait: bool) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | if wait { SendFlags::empty() } else { SendFlags::DONTWAIT };
    loop {
        match rustix::net::send(socket.as_fd(), packet, flags) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result.map(drop).map_err(normalize_peer_closed)?),
        }
    }
}

/// Converts `ECONNRESET` to `EPIPE`, so that callers check only one error. If the peer closed with
/// unread data, or before it accepted, the kernel returns `ECONNRESET` once and `EPIPE` afterwards.
fn normalize_peer_closed(error: rustix::io::Errno) -> rustix::io::Errno {
    match error {
        rustix::io::Errno::CONNRESET => rustix::io::Errno::PIPE,
        error => error,
    }
}

/// Receives one packet of at most `max` bytes. `None` if the peer has closed.
///
/// # Errors
///
/// The I/O error of the system call: `EAGAIN` if `wait` is false and there is no packet; `EMSGSIZE`
/// if the packet was longer than `max`.
pub fn receive(socket: impl AsFd, max: usize, wait: bool) -> io::Result<Option<Vec<u8>>> {
    // The buffer is not cleared, because clearing would touch all of its pages, and a packet
    // usually fills only a few.
    let mut packet = Vec::with_capacity(max);
    let flags = RecvFlags::TRUNC | if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    let mut was_reset = false;
    let count = loop {
        match rustix::net::recv(socket.as_fd(), spare_capacity(&mut packet), flags) {
            Err(rustix::io::Errno::INTR) => {}
            // The peer closed with unread data. The kernel reports that once, before the packets
            // that the peer had sent; the next reads return these packets, and then the end of the
            // connection.
            Err(rustix::io::Errno::CONNRESET) if !was_reset => was_reset = true,
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            result => break result?.1,
        }
    };
    if count == 0 {
        return Ok(None);
    }
    if count > packet.len() {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    Ok(Some(packet))
}

/// Sends one packet together with at most six descriptors. Never raises SIGPIPE.
///
/// # Errors
///
/// The I/O error of the system call: `EPIPE` if the peer has closed; `E2BIG` for too many
/// descriptors.
pub fn send_with_fds(
    socket: impl AsFd,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    loop {
        let packet = [IoSlice::new(packet)];
        match rustix::net::sendmsg(&socket, &packet, &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result.map(drop).map_err(normalize_peer_closed)?),
        }
    }
}

/// Waits for one packet of at most `max` bytes and its descriptors, which are set to close-on-exec.
/// `None` if the peer has closed.
///
/// # Errors
///
/// The I/O error of the system call; `EMSGSIZE` if the packet was longer than `max` or carried more
/// than six descriptors.
pub fn receive_with_fds(
    socket: impl AsFd,
    max: usize,
) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut packet = vec![0; max];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut packet)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(&socket, &mut parts, &mut ancillary, flags) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            result => break result?,
        }
    };
    use rustix::net::ReturnFlags;
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    packet.truncate(received.bytes);
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok(Some((packet, descriptors)))
}

/// The types of sockets that are connected before use.
#[cfg(test)]
pub(crate) const CONNECTED_SOCKET_TYPES: [SocketType; 2] =
    [SocketType::STREAM, SocketType::SEQPACKET];

/// Binds a socket to a path, and does not listen on it.
#[cfg(test)]
pub(crate) fn bind_without_listen(path: &std::path::Path, kind: SocketType) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_closed_before_accept_counts_as_closed() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = std::fs::File::open(dir.path()).expect("a directory");
        let listener = listen(&place, "s").expect("listens");
        let caller = connect(&place, "s", 1_000).expect("it waits to be accepted");
        drop(listener);
        let kind = |error: io::Error| error.kind();
        for _ in 0..2 {
            assert_eq!(
                send(&caller, b"question", true).map_err(kind),
                Err(io::ErrorKind::BrokenPipe)
            );
        }
        assert_eq!(receive(&caller, 64, false).expect("the end"), None);
    }

    #[test]
    fn a_connection_to_a_process_that_accepts_none_times_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = std::fs::File::open(dir.path()).expect("a directory");
        let listener = listen(&place, "s").expect("listens");
        let mut waiting = Vec::new();
        let error = loop {
            match connect(&place, "s", 10) {
                Ok(caller) => waiting.push(caller),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("SIGCONT"), "{error}");
        let _accepted = accept(&listener).expect("one of them");
        connect(&place, "s", 1_000).expect("there is room again");
    }

    #[test]
    fn the_last_packet_of_a_closed_peer_is_received() {
        let (ours, theirs) = pair().expect("two sockets");
        send(&ours, b"question", false).expect("sent");
        send(&theirs, b"last", false).expect("sent");
        send(&theirs, b"words", false).expect("sent");
        drop(theirs);
        for word in [b"last".as_slice(), b"words"] {
            assert_eq!(receive(&ours, 64, false).expect("received").as_deref(), Some(word));
        }
        assert_eq!(receive(&ours, 64, false).expect("the end"), None);
    }
}
