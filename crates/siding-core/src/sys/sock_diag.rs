//! The kernel's list of TCP connections (sock_diag(7)). Any user may read the list, which contains
//! only the connections of this network namespace.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::memory::MappedBuffer;

/// A TCP connection, or a socket that listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpConnection {
    /// The kernel's identifier of the socket, never reused during a boot.
    pub cookie: u64,
    /// The inode of the socket; zero while no process has the socket open, as before accept(2).
    pub inode: u64,
    /// The local address and port.
    pub local: SocketAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// Whether this is a socket that listens, not a connection.
    pub is_listening: bool,
    /// The bytes that the peer has acknowledged (`tcpi_bytes_acked`, since Linux 4.1). The side
    /// that opened the connection counts one more, for the SYN.
    pub sent: u64,
    /// The bytes that were received from the peer (`tcpi_bytes_received`, since Linux 4.1).
    pub received: u64,
}

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP` (linux/netlink.h).
const DUMP_REQUEST_FLAGS: u16 = 0x1 | 0x300;
/// `NLMSG_ERROR` and `NLMSG_DONE` (linux/netlink.h): the messages that end a list.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The protocol number of TCP in IP.
const IPPROTO_TCP: u8 = 6;
/// `INET_DIAG_INFO`: the attribute with a `struct tcp_info` (linux/inet_diag.h).
const INET_DIAG_INFO: u16 = 2;
/// The states in which a connection can transfer data, or has sent data that is not acknowledged
/// yet: established, fin_wait1 and 2, close_wait, last_ack, closing (include/net/tcp_states.h). The
/// state of listening sockets is included, because these show which side of a connection accepted
/// it.
const REPORTED_STATES: u32 =
    1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << LISTEN_STATE | 1 << 11;
const LISTEN_STATE: u8 = 10;
/// The lengths of `struct nlmsghdr`, `struct inet_diag_req_v2` and `struct inet_diag_msg`.
const NLMSG_HEADER_BYTES: usize = 16;
const DIAG_REQUEST_BYTES: usize = 56;
const DIAG_MESSAGE_BYTES: usize = 72;
/// Offsets in `struct inet_diag_msg`: the state, the ports and addresses of both ends, the cookie,
/// the inode.
const STATE_OFFSET: usize = 1;
const LOCAL_PORT_OFFSET: usize = 4;
const REMOTE_PORT_OFFSET: usize = 6;
const LOCAL_ADDRESS_OFFSET: usize = 8;
const REMOTE_ADDRESS_OFFSET: usize = 24;
const COOKIE_OFFSET: usize = 44;
const INODE_OFFSET: usize = 68;
/// The offsets of `tcpi_bytes_acked` and `tcpi_bytes_received` in `struct tcp_info` (linux/tcp.h).
const BYTES_ACKED_OFFSET: usize = 120;
const BYTES_RECEIVED_OFFSET: usize = 128;
/// The size of the receive buffer, in bytes; the kernel fills at most 32 KiB.
const BUFFER_BYTES: usize = 32 << 10;

/// Returns the TCP connections of this network namespace, except those that are still being opened
/// or are completely closed, and the sockets that listen.
///
/// # Errors
///
/// The I/O error of the system call: `EPROTONOSUPPORT` if the kernel lacks sock_diag(7). Also the
/// error with which the kernel ends its list, and `InvalidData` for a list that cannot be parsed:
/// the connections of an incomplete list would look closed.
pub fn tcp_connections() -> io::Result<Vec<TcpConnection>> {
    let mut found = Vec::new();
    let mut buffer = MappedBuffer::new(BUFFER_BYTES)?;
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            flags,
            Some(netlink::SOCK_DIAG),
        )?;
        rustix::net::send(&socket, &dump_request(family), SendFlags::empty())?;
        // The kernel queues the first part of its list within send(2), and a further part within
        // each recv(2), so a message that is not there now will not arrive.
        receive_list(&mut buffer[..], &mut found, |into| {
            let (count, _) = rustix::net::recv(&socket, into, RecvFlags::DONTWAIT)?;
            Ok(count)
        })?;
    }
    Ok(found)
}

/// Adds the connections of one list. `receive` fills a part of the buffer and returns its size.
fn receive_list(
    buffer: &mut [u8],
    found: &mut Vec<TcpConnection>,
    mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    loop {
        let count = receive(buffer)?;
        if !parse_messages(&buffer[..count], found)? {
            return Ok(());
        }
    }
}

fn dump_request(family: AddressFamily) -> [u8; NLMSG_HEADER_BYTES + DIAG_REQUEST_BYTES] {
    let mut bytes = [0; NLMSG_HEADER_BYTES + DIAG_REQUEST_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &u32::try_from(NLMSG_HEADER_BYTES + DIAG_REQUEST_BYTES).unwrap_or(0).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &DUMP_REQUEST_FLAGS.to_ne_bytes());
    let family = u8::try_from(family.as_raw()).unwrap_or(0);
    put(NLMSG_HEADER_BYTES, &[family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0]);
    put(NLMSG_HEADER_BYTES + 4, &REPORTED_STATES.to_ne_bytes());
    bytes
}

/// Adds the connections of one received buffer. Returns whether the list continues.
fn parse_messages(mut bytes: &[u8], found: &mut Vec<TcpConnection>) -> io::Result<bool> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    loop {
        let length = read_u32(bytes, 0).map_or(0, |length| length as usize);
        if length < NLMSG_HEADER_BYTES || length > bytes.len() {
            return Err(malformed());
        }
        let payload = &bytes[NLMSG_HEADER_BYTES..length];
        match u16::from_ne_bytes([bytes[4], bytes[5]]) {
            SOCK_DIAG_BY_FAMILY => found.push(parse_connection(payload).ok_or_else(malformed)?),
            NLMSG_ERROR | NLMSG_DONE => return end_of_list(payload).map(|()| false),
            _ => return Err(malformed()),
        }
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        if bytes.is_empty() {
            return Ok(true);
        }
    }
}

/// Returns the result in a message that ends a list: zero, or the negative number of an error.
fn end_of_list(payload: &[u8]) -> io::Result<()> {
    let code = read_array(payload, 0).map_or(0, i32::from_ne_bytes);
    if code < 0 { Err(io::Error::from_raw_os_error(code.saturating_neg())) } else { Ok(()) }
}

fn parse_connection(message: &[u8]) -> Option<TcpConnection> {
    let is_v4 = i32::from(*message.first()?) == libc::AF_INET;
    let address = |at| {
        Some(if is_v4 {
            IpAddr::V4(Ipv4Addr::from(read_array::<4>(message, at)?))
        } else {
            IpAddr::V6(Ipv6Addr::from(read_array::<16>(message, at)?)).to_canonical()
        })
    };
    let port = |at| read_array(message, at).map(u16::from_be_bytes);
    let local = SocketAddr::new(address(LOCAL_ADDRESS_OFFSET)?, port(LOCAL_PORT_OFFSET)?);
    let remote = SocketAddr::new(address(REMOTE_ADDRESS_OFFSET)?, port(REMOTE_PORT_OFFSET)?);
    let mut attributes = message.get(DIAG_MESSAGE_BYTES..)?;
    let (mut sent, mut received) = (0, 0);
    while let Some(length) = attributes.get(..2).map(|two| u16::from_ne_bytes([two[0], two[1]])) {
        let length = usize::from(length);
        let Some(attribute) = attributes.get(4..length) else { break };
        if attributes[2..4] == INET_DIAG_INFO.to_ne_bytes() {
            sent = read_array(attribute, BYTES_ACKED_OFFSET).map_or(0, u64::from_ne_bytes);
            received = read_array(attribute, BYTES_RECEIVED_OFFSET).map_or(0, u64::from_ne_bytes);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let cookie = u64::from_ne_bytes(read_array(message, COOKIE_OFFSET)?);
    let inode = u64::from(read_u32(message, INODE_OFFSET)?);
    let is_listening = *message.get(STATE_OFFSET)? == LISTEN_STATE;
    Some(TcpConnection { cookie, inode, local, remote, is_listening, sent, received })
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    read_array(bytes, at).map(u32::from_ne_bytes)
}

fn read_array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    fn connection_of(stream: &TcpStream) -> Option<TcpConnection> {
        let inode = std::fs::metadata(format!("/proc/self/fd/{}", stream.as_raw_fd()));
        let inode = std::os::unix::fs::MetadataExt::ino(&inode.expect("it is open"));
        tcp_connections().expect("may be asked").into_iter().find(|one| one.inode == inode)
    }

    #[test]
    fn sent_bytes_are_counted_at_the_sender_only() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let address = listener.local_addr().expect("it has one");
            let mut sender = TcpStream::connect(address).expect("connects");
            let (mut receiver, _) = listener.accept().expect("comes");
            sender.write_all(&[7; 70_000]).expect("is sent");
            receiver.read_exact(&mut [0; 70_000]).expect("comes");
            // The SYN counts as one more byte; the last acknowledgement may not have arrived yet.
            let found = connection_of(&sender).expect("is found");
            assert!((65_536..=70_001).contains(&found.sent), "{found:?}");
            assert_eq!((found.remote, found.received), (address, 0));
            let other = connection_of(&receiver).expect("is found");
            assert_eq!((other.sent, other.received), (0, 70_000));
            assert_eq!((other.local, other.remote), (found.remote, found.local));
            let listens = |one: &TcpConnection| one.is_listening && one.local == address;
            assert!(tcp_connections().expect("may be asked").iter().any(listens));
        }
    }

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(NLMSG_HEADER_BYTES + payload.len()).expect("small");
        let mut bytes = vec![0; NLMSG_HEADER_BYTES];
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Returns the number of connections in a list that arrives in these parts. After the last
    /// part, receiving fails with `WouldBlock`.
    fn count_in_list(parts: Vec<Vec<u8>>) -> io::Result<usize> {
        let (mut buffer, mut found) = (vec![0_u8; 4096], Vec::new());
        let mut parts = parts.into_iter();
        receive_list(&mut buffer, &mut found, |into| {
            let part = parts.next().ok_or(io::ErrorKind::WouldBlock)?;
            into[..part.len()].copy_from_slice(&part);
            Ok(part.len())
        })?;
        Ok(found.len())
    }

    #[test]
    fn an_incomplete_list_is_an_error() {
        let one = message(SOCK_DIAG_BY_FAMILY, &[0; DIAG_MESSAGE_BYTES]);
        let end = |kind, code: i32| message(kind, &code.to_ne_bytes());
        let done = || end(NLMSG_DONE, 0);
        let count = count_in_list(vec![one.clone(), [one.clone(), done()].concat()]);
        assert_eq!(count.expect("is complete"), 2);
        assert_eq!(count_in_list(vec![done()]).expect("is complete"), 0);
        let errno = |parts| count_in_list(parts).expect_err("is incomplete").raw_os_error();
        assert_eq!(errno(vec![one.clone(), end(NLMSG_DONE, -2)]), Some(2));
        assert_eq!(errno(vec![end(NLMSG_ERROR, -1)]), Some(1));
        let kind = |parts| count_in_list(parts).expect_err("is incomplete").kind();
        assert_eq!(kind(vec![one.clone()]), io::ErrorKind::WouldBlock);
        assert_eq!(kind(vec![one[..one.len() - 4].to_vec()]), io::ErrorKind::InvalidData);
        assert_eq!(kind(vec![Vec::new()]), io::ErrorKind::InvalidData);
    }

    #[test]
    fn malformed_messages_give_no_connection_and_no_panic() {
        let mut found = Vec::new();
        for length in 0..200_usize {
            let mut bytes = vec![0xff; length];
            assert!(parse_messages(&bytes, &mut found).is_err(), "{length}");
            if length >= 20 {
                bytes[..4].copy_from_slice(&u32::try_from(length).expect("small").to_ne_bytes());
                bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
                let _best_effort = parse_messages(&bytes, &mut found);
            }
        }
        assert!(found.iter().all(|one| one.sent == 0 || one.sent == u64::MAX));
    }
}
