//! The kernel's own account of TCP connections (sock_diag(7)). Any user may ask; nothing is said
//! about connections of another network namespace.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::memory::Pages;

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The kernel's name for it, never used twice in a boot.
    pub cookie: u64,
    /// Number of its socket, zero once nobody holds it.
    pub inode: u64,
    /// Address and port of this end.
    pub local: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// Whether it is no connection but a socket that listens.
    pub is_listening: bool,
    /// Bytes that the other end has confirmed (`tcpi_bytes_acked`, since Linux 4.1). Who began the
    /// connection has one more, for its beginning.
    pub sent: u64,
    /// Bytes that have come from the other end (`tcpi_bytes_received`, since Linux 4.1).
    pub received: u64,
}

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP` (linux/netlink.h).
const DUMP: u16 = 0x1 | 0x300;
/// Protocol of IP (`IPPROTO_TCP`).
const TCP: u8 = 6;
/// `INET_DIAG_INFO`: the attribute with a `struct tcp_info` (linux/inet_diag.h).
const INFO: u16 = 2;
/// States in which a connection sends, or has sent what is not confirmed yet: established, fin_wait1
/// and 2, close_wait, last_ack, closing (include/net/tcp_states.h). And that of a socket that listens,
/// which tells who began a connection.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << LISTENING | 1 << 11;
const LISTENING: u8 = 10;
/// Lengths of `struct nlmsghdr`, `struct inet_diag_req_v2` and `struct inet_diag_msg`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
/// Places in `struct inet_diag_msg`: the state, the ports and addresses of both ends, the cookie, the
/// inode.
const STATE: usize = 1;
const LOCAL_PORT: usize = 4;
const REMOTE_PORT: usize = 6;
const LOCAL: usize = 8;
const REMOTE: usize = 24;
const COOKIE: usize = 44;
const INODE: usize = 68;
/// Places of `tcpi_bytes_acked` and `tcpi_bytes_received` in `struct tcp_info` (linux/tcp.h).
const ACKED: usize = 120;
const RECEIVED: usize = 128;
/// Room for one answer; the kernel fills at most 32 KiB of it.
const BUFFER: usize = 32 << 10;

/// Returns all TCP connections of this network namespace, and its sockets that listen.
///
/// # Errors
///
/// The operating system's: `EPROTONOSUPPORT`, `ENOENT` where the kernel does not tell.
pub fn connections() -> io::Result<Vec<Connection>> {
    let mut found = Vec::new();
    let mut buffer = Pages::new(BUFFER)?;
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            flags,
            Some(netlink::SOCK_DIAG),
        )?;
        rustix::net::send(&socket, &request(family), SendFlags::empty())?;
        // The kernel answers within the call: what is not there now does not come.
        while let Ok((count, _)) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)
        {
            if count == 0 || !take(&buffer[..count], &mut found) {
                break;
            }
        }
    }
    Ok(found)
}

fn request(family: AddressFamily) -> [u8; HEADER + REQUEST] {
    let mut bytes = [0; HEADER + REQUEST];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &u32::try_from(HEADER + REQUEST).unwrap_or(0).to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &DUMP.to_ne_bytes());
    let family = u8::try_from(family.as_raw()).unwrap_or(0);
    put(HEADER, &[family, TCP, 1 << (INFO - 1), 0]);
    put(HEADER + 4, &STATES.to_ne_bytes());
    bytes
}

/// Takes the messages of one answer. Returns whether more may come.
fn take(mut bytes: &[u8], found: &mut Vec<Connection>) -> bool {
    while let Some(length) = number(bytes, 0).map(|length| length as usize) {
        if length < HEADER || length > bytes.len() {
            return false;
        }
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        // The end of the list, or a refusal.
        if kind != BY_FAMILY {
            return false;
        }
        found.extend(connection(&bytes[HEADER..length]));
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    true
}

fn connection(message: &[u8]) -> Option<Connection> {
    let is_v4 = i32::from(*message.first()?) == libc::AF_INET;
    let address = |at| {
        Some(if is_v4 {
            IpAddr::V4(Ipv4Addr::from(array::<4>(message, at)?))
        } else {
            IpAddr::V6(Ipv6Addr::from(array::<16>(message, at)?)).to_canonical()
        })
    };
    let port = |at| array(message, at).map(u16::from_be_bytes);
    let local = SocketAddr::new(address(LOCAL)?, port(LOCAL_PORT)?);
    let remote = SocketAddr::new(address(REMOTE)?, port(REMOTE_PORT)?);
    let mut attributes = message.get(MESSAGE..)?;
    let (mut sent, mut received) = (0, 0);
    while let Some(length) = attributes.get(..2).map(|two| u16::from_ne_bytes([two[0], two[1]])) {
        let length = usize::from(length);
        let Some(attribute) = attributes.get(4..length) else { break };
        if attributes[2..4] == INFO.to_ne_bytes() {
            sent = array(attribute, ACKED).map_or(0, u64::from_ne_bytes);
            received = array(attribute, RECEIVED).map_or(0, u64::from_ne_bytes);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let cookie = u64::from_ne_bytes(array(message, COOKIE)?);
    let inode = u64::from(number(message, INODE)?);
    let is_listening = *message.get(STATE)? == LISTENING;
    Some(Connection { cookie, inode, local, remote, is_listening, sent, received })
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    fn of(stream: &TcpStream) -> Option<Connection> {
        let inode = std::fs::metadata(format!("/proc/self/fd/{}", stream.as_raw_fd()));
        let inode = std::os::unix::fs::MetadataExt::ino(&inode.expect("it is open"));
        connections().expect("may be asked").into_iter().find(|one| one.inode == inode)
    }

    #[test]
    fn what_was_sent_is_counted_at_the_sender_and_not_at_the_receiver() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let address = listener.local_addr().expect("it has one");
            let mut sender = TcpStream::connect(address).expect("connects");
            let (mut receiver, _) = listener.accept().expect("comes");
            sender.write_all(&[7; 70_000]).expect("is sent");
            receiver.read_exact(&mut [0; 70_000]).expect("comes");
            // One more for the beginning; the last confirmation may be on its way.
            let found = of(&sender).expect("is found");
            assert!((65_536..=70_001).contains(&found.sent), "{found:?}");
            assert_eq!((found.remote, found.received), (address, 0));
            let other = of(&receiver).expect("is found");
            assert_eq!((other.sent, other.received), (0, 70_000));
            assert_eq!((other.local, other.remote), (found.remote, found.local));
            let listens = |one: &Connection| one.is_listening && one.local == address;
            assert!(connections().expect("may be asked").iter().any(listens));
        }
    }

    #[test]
    fn nonsense_is_no_connection_and_no_panic() {
        let mut found = Vec::new();
        for length in 0..200_usize {
            let mut bytes = vec![0xff; length];
            assert!(!take(&bytes, &mut found) || length < 4);
            if length >= 20 {
                bytes[..4].copy_from_slice(&u32::try_from(length).expect("small").to_ne_bytes());
                bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
                let _whatever = take(&bytes, &mut found);
            }
        }
        assert!(found.iter().all(|one| one.sent == 0 || one.sent == u64::MAX));
    }
}
