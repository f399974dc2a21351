//! The sockets that given processes hold, the TCP ports on which they listen, and the user at one
//! end of a TCP connection within this machine.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

/// The state `LISTEN` in `/proc/net/tcp` (include/net/tcp_states.h).
const LISTEN_STATE: &str = "0A";
/// The states `ESTABLISHED`, `FIN_WAIT1`, `FIN_WAIT2` and `CLOSE_WAIT`, in which a process may
/// still hold the socket.
const OPEN_STATES: [&str; 4] = ["01", "04", "05", "08"];

/// A TCP socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListeningSocket {
    /// The port on which the socket listens.
    pub port: u16,
    /// The user id of the socket's creator.
    pub uid: u32,
    /// The inode of the socket.
    pub inode: u64,
}

/// Returns the ports on which any of `pids` listens, in ascending order. Searches only the network
/// namespace of the first process, and finds only sockets of processes whose descriptors this
/// process may read.
#[must_use]
pub fn listening_ports(pids: &[i32]) -> Vec<u16> {
    let inodes = sockets_by_inode(pids);
    if inodes.is_empty() {
        return Vec::new();
    }
    let ports: BTreeSet<u16> = listening_sockets(pids[0])
        .into_iter()
        .filter_map(|socket| inodes.contains_key(&socket.inode).then_some(socket.port))
        .collect();
    ports.into_iter().collect()
}

/// Returns the process among `pids` that listens on a port; `None` if no such process is found,
/// within the limits of [`listening_ports`]. If no process in the network namespace of the first
/// process listens on the port, this function reads only the table of sockets, and no descriptor
/// list.
#[must_use]
pub fn find_listener(pids: &[i32], port: u16) -> Option<i32> {
    let mut sockets = listening_sockets(pids.first()?);
    sockets.retain(|socket| socket.port == port);
    find_socket_holder(pids, &sockets)
}

/// Returns the sockets that listen on a port in the network namespace of this process, whichever
/// process holds them.
#[must_use]
pub fn listeners_on(port: u16) -> Vec<ListeningSocket> {
    let mut sockets = listening_sockets("self");
    sockets.retain(|socket| socket.port == port);
    sockets
}

/// Returns the first of `pids` that holds one of the sockets. Without sockets, no descriptor list
/// is read.
#[must_use]
pub fn find_socket_holder(pids: &[i32], sockets: &[ListeningSocket]) -> Option<i32> {
    if sockets.is_empty() {
        return None;
    }
    let is_wanted = |inode: &u64| sockets.iter().any(|socket| socket.inode == *inode);
    pids.iter().copied().find(|pid| sockets_by_inode(&[*pid]).keys().any(is_wanted))
}

/// Returns every listening socket in the network namespace of a process, given by its name in
/// `/proc`.
fn listening_sockets(process: impl Display) -> Vec<ListeningSocket> {
    let mut found = Vec::new();
    for file in ["tcp", "tcp6"] {
        let table =
            std::fs::read_to_string(format!("/proc/{process}/net/{file}")).unwrap_or_default();
        found.extend(table.lines().skip(1).filter_map(parse_listener));
    }
    found
}

/// Returns the socket in a line of the table, if the line describes a listening socket.
fn parse_listener(line: &str) -> Option<ListeningSocket> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let uid = fields.nth(3)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    if state != LISTEN_STATE {
        return None;
    }
    let port = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
    Some(ListeningSocket { port, uid, inode })
}

/// Returns the user ID of the socket at one end of a connection within this machine: the socket
/// that is bound to `end` and connected to `other`. `None` if there is no such socket.
///
/// A connection that no process holds is not found, because the kernel no longer shows its
/// owner.
#[must_use]
pub fn connection_owner_uid(end: SocketAddr, other: SocketAddr) -> Option<u32> {
    // An IPv6 socket can be one end of an IPv4 connection, and is in the IPv6 table then.
    let tables = [("tcp", is_v4(end)), ("tcp6", true)];
    tables.into_iter().filter(|(_, has)| *has).find_map(|(file, _)| {
        let table = std::fs::read_to_string(format!("/proc/self/net/{file}")).ok()?;
        let ends = (format_table_address(end, file), format_table_address(other, file));
        table.lines().skip(1).find_map(|line| parse_owner_uid(line, &ends))
    })
}

fn is_v4(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_ipv4()
}

/// Formats an address as the table shows it: its 32-bit words as numbers in this machine's byte
/// order.
fn format_table_address(address: SocketAddr, file: &str) -> String {
    let octets: Vec<u8> = match (address.ip().to_canonical(), file) {
        (IpAddr::V4(v4), "tcp") => v4.octets().into(),
        (IpAddr::V4(v4), _) => v4.to_ipv6_mapped().octets().into(),
        (IpAddr::V6(v6), _) => v6.octets().into(),
    };
    let words = octets.chunks_exact(4).map(|word| {
        let word = [word[0], word[1], word[2], word[3]];
        format!("{:08X}", u32::from_ne_bytes(word))
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

/// Returns the user ID in a line of the table, if the line describes this connection and a process
/// holds its socket.
fn parse_owner_uid(line: &str, (end, other): &(String, String)) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let is_it = fields.next()? == end
        && fields.next()? == other
        && fields.next().is_some_and(|state| OPEN_STATES.contains(&state));
    if !is_it {
        return None;
    }
    let uid = fields.nth(3)?.parse().ok()?;
    // For a socket that no process holds, the kernel shows user 0 and inode 0.
    fields.nth(1).filter(|inode| *inode != "0").map(|_| uid)
}

/// Returns the inodes of all sockets that any of `pids` holds, each with one process that holds it.
#[must_use]
pub fn sockets_by_inode(pids: &[i32]) -> HashMap<u64, i32> {
    let mut inodes = HashMap::new();
    for &pid in pids {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
            let inode: Option<u64> = target
                .to_str()
                .and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            inodes.extend(inode.map(|inode| (inode, pid)));
        }
    }
    inodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_and_a_client_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has one").port();
        let _keeps_alive = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let own = i32::try_from(std::process::id()).expect("fits");
        assert!(listening_ports(&[own]).contains(&port));
        assert_eq!(find_listener(&[1, own], port), Some(own));
        assert_eq!(find_listener(&[], port), None);
        let sockets = listeners_on(port);
        assert_eq!(sockets.len(), 1, "{sockets:?}");
        assert_eq!(sockets[0].uid, crate::sys::process::effective_uid());
        assert_eq!(find_socket_holder(&[1, own], &sockets), Some(own));
        drop(listener);
        assert_eq!(listeners_on(port), []);
        assert!(!listening_ports(&[own]).contains(&port));
        assert_eq!(find_listener(&[own], port), None);
    }

    #[test]
    fn the_user_of_a_connection_is_found_at_both_ends() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let at = listener.local_addr().expect("has one");
            let client = std::net::TcpStream::connect(at).expect("connects");
            // Before the connection is accepted, no process holds its other end.
            let _keeps_alive = listener.accept().expect("accepts");
            let from = client.local_addr().expect("has one");
            let own = Some(crate::sys::process::effective_uid());
            assert_eq!(
                (connection_owner_uid(from, at), connection_owner_uid(at, from)),
                (own, own),
                "{address}"
            );
            let mut elsewhere = from;
            elsewhere.set_port(from.port() ^ 1);
            assert_eq!(connection_owner_uid(elsewhere, at), None);
        }
    }

    #[test]
    fn an_ipv6_socket_connected_to_ipv4_is_found() {
        let Ok(listener) = std::net::TcpListener::bind("[::]:0") else { return };
        let port = listener.local_addr().expect("has one").port();
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let _keeps_alive = listener.accept().expect("accepts");
        let (from, at) = (client.local_addr().expect("one"), client.peer_addr().expect("one"));
        assert_eq!(connection_owner_uid(at, from), Some(crate::sys::process::effective_uid()));
    }
}
