//! Unix sockets that keep packets apart, named below a directory descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Most descriptors in one packet.
const MAX_DESCRIPTORS: usize = 5;

/// Returns the address of `name` below `dir`, short whatever the directory's path is: a unix
/// address holds 107 bytes.
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
/// The operating system's, `EADDRINUSE` when the name exists.
pub fn listen(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let socket = packet_socket(SocketFlags::NONBLOCK)?;
    rustix::net::bind(&socket, &short_address(&dir, name)?)?;
    // A socket takes its mode from the umask alone.
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::chmodat(&dir, name, mode, rustix::fs::AtFlags::empty())?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket)
}

/// Connects to `name` below `dir`.
///
/// # Errors
///
/// The operating system's: `ECONNREFUSED` when nobody listens any more, `ENOENT` when nobody ever
/// did, `EAGAIN` when too many wait to be let in.
pub fn connect(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let socket = packet_socket(SocketFlags::empty())?;
    rustix::net::connect(&socket, &short_address(dir, name)?)?;
    Ok(socket)
}

/// Whether any living socket, listening or not, in whichever network namespace, is bound to the
/// file `name` below `dir`, which is a socket file.
///
/// The kernel finds the holder by the file itself before it looks at anything else, so a
/// datagram socket is refused (`ECONNREFUSED`) only when there is none. A holder that takes
/// streams answers `EPROTOTYPE` and does not notice; one that takes datagrams is not sent any.
///
/// # Errors
///
/// The operating system's, `EACCES` when the file's mode keeps this user from asking: then nothing
/// is known.
pub fn is_bound(dir: impl AsFd, name: &str) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asker = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    match rustix::net::connect(&asker, &short_address(dir, name)?) {
        Err(rustix::io::Errno::CONNREFUSED) => Ok(false),
        // `EPERM` comes from a holder that talks to one other only.
        Ok(()) | Err(rustix::io::Errno::PROTOTYPE | rustix::io::Errno::PERM) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The paths to which sockets of this network namespace are bound, as they were given.
#[derive(Debug)]
pub struct BoundPaths(Vec<u8>);

impl BoundPaths {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// The operating system's, where `/proc/net/unix` cannot be read.
    pub fn read() -> io::Result<Self> {
        std::fs::read("/proc/net/unix").map(Self)
    }

    /// Whether one of them ends in this name. In which directory is not asked: it may have been
    /// given from another one, through a link, or by a descriptor.
    #[must_use]
    pub fn contains_name(&self, name: &str) -> bool {
        self.0.split(|&byte| byte == b'\n').any(|line| line.ends_with(name.as_bytes()))
    }
}

/// Creates two connected sockets.
///
/// # Errors
///
/// The operating system's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Lets one caller in, if one waits, and only if it is this user or root.
///
/// # Errors
///
/// `EAGAIN` when nobody waits, `EPERM` when it was another user; else the operating system's.
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
/// The operating system's: `EPIPE` when the other side has left, be it before it had let the caller
/// in; `EAGAIN` when `wait` is false and it does not take more now.
pub fn send(socket: impl AsFd, packet: &[u8], wait: bool) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | if wait { SendFlags::empty() } else { SendFlags::DONTWAIT };
    loop {
        match rustix::net::send(socket.as_fd(), packet, flags) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result.map(drop).map_err(normalize_peer_closed)?),
        }
    }
}

/// Whoever left with something unread, or with a caller not yet let in, is told of once by another
/// error than from then on.
fn normalize_peer_closed(error: rustix::io::Errno) -> rustix::io::Errno {
    match error {
        rustix::io::Errno::CONNRESET => rustix::io::Errno::PIPE,
        error => error,
    }
}

/// Receives one packet of at most `max` bytes, `None` when the other side has left.
///
/// # Errors
///
/// The operating system's: `EAGAIN` when `wait` is false and there is none; `EMSGSIZE` when it was
/// longer than `max`.
pub fn receive(socket: impl AsFd, max: usize, wait: bool) -> io::Result<Option<Vec<u8>>> {
    let mut packet = vec![0; max];
    let flags = RecvFlags::TRUNC | if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    let mut was_reset = false;
    let count = loop {
        match rustix::net::recv(socket.as_fd(), packet.as_mut_slice(), flags) {
            Err(rustix::io::Errno::INTR) => {}
            // The other side left with something unread. The kernel says so once, and before what
            // that side had sent: its last words come now, and then the end.
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
    packet.truncate(count);
    Ok(Some(packet))
}

/// Sends one packet together with descriptors, at most four. Never raises SIGPIPE.
///
/// # Errors
///
/// The operating system's: `EPIPE` when the other side has left.
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

/// Waits for one packet of at most `max` bytes and the descriptors that come with it, closed on
/// exec. `None` when the other side has left.
///
/// # Errors
///
/// The operating system's; `EMSGSIZE` when the packet was longer than `max` or carried more than
/// four descriptors.
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

/// Kinds of sockets that are connected to.
#[cfg(test)]
pub(crate) const CONNECTED_SOCKET_TYPES: [SocketType; 2] =
    [SocketType::STREAM, SocketType::SEQPACKET];

/// Creates a socket at a path and does not listen on it.
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
        let caller = connect(&place, "s").expect("it waits to be let in");
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
