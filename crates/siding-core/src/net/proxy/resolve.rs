//! Resolves the names of remote hosts, refuses addresses of this machine, and connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

/// Maximum time for one address to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the addresses of a remote host to which the proxy may connect. For a name, addresses of
/// this machine and of its links are omitted. Otherwise the operator of the name's DNS server could
/// let the task connect to services that are meant for this machine only (DNS rebinding). A policy
/// can allow such a service by its address, or as `localhost`.
pub(super) fn resolve_addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let all = (host, port).to_socket_addrs()?;
    let is_meant = host.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost");
    Ok(all.filter(|at| is_meant || !is_local_address(*at)).collect())
}

/// Connects to the first of these addresses that accepts.
pub(super) fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns whether an address is one of this machine's own, or is an unspecified, link-local or
/// multicast address.
fn is_local_address(at: SocketAddr) -> bool {
    let address = at.ip().to_canonical();
    let is_near = match address {
        IpAddr::V4(four) => {
            four.is_loopback()
                || four.is_unspecified()
                || four.is_link_local()
                || four.is_multicast()
        }
        IpAddr::V6(six) => {
            six.is_loopback()
                || six.is_unspecified()
                || six.is_unicast_link_local()
                || six.is_multicast()
        }
    };
    is_near
        || source_address_for(SocketAddr::new(address, at.port()))
            .is_ok_and(|local| local == address)
}

/// Returns the source address that this machine would use to reach an address. For one of the
/// machine's own addresses, the result is that address itself. The function calls connect(2) on a
/// UDP socket, which sends nothing. A call of bind(2) would not be a test, because with
/// `ip_nonlocal_bind` (ip(7)) it succeeds even for an address that the machine does not have.
fn source_address_for(at: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(at)?;
    Ok(socket.local_addr()?.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses that no machine has, because they are reserved for documentation (RFC 5737, RFC
    /// 3849).
    const REMOTE_ADDRESSES: [&str; 2] = ["203.0.113.1:443", "[2001:db8::1]:443"];

    #[test]
    fn addresses_of_this_machine_are_recognized() {
        for own in ["127.0.0.1:1", "[::1]:1", "0.0.0.0:1", "169.254.169.254:80", "[fe80::1]:1"] {
            assert!(is_local_address(own.parse().expect("an address")), "{own}");
        }
        assert!(is_local_address("[::ffff:127.0.0.1]:1".parse().expect("an address")));
        for foreign in REMOTE_ADDRESSES {
            let foreign = foreign.parse().expect("an address");
            assert!(!is_local_address(foreign), "{foreign}");
            // The source address for a route from this machine is one of the machine's own
            // addresses.
            match source_address_for(foreign) {
                Ok(own) => assert!(is_local_address(SocketAddr::new(own, 443)), "{own}"),
                Err(error) => println!("not checked: no route to {foreign}: {error}"),
            }
        }
    }
}
