//! Which addresses a host has, and which of them a name may lead to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

/// How long one address may take to answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// Returns the addresses of a host that may be connected to. A name does not lead to this
/// machine itself or to its link: whoever answers for names could else open what only this machine is
/// to reach. Who means that names the address, or `localhost`.
pub(super) fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let all = (host, port).to_socket_addrs()?;
    let is_meant = host.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost");
    Ok(all.filter(|at| is_meant || !is_own(*at)).collect())
}

/// Connects to the first of these that answers.
pub(super) fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether an address is this machine's own, in whatever network, or its link's.
fn is_own(at: SocketAddr) -> bool {
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
    is_near || local_for(SocketAddr::new(address, at.port())).is_ok_and(|local| local == address)
}

/// Returns the address from which this machine would speak to another. To one of its own it speaks
/// from that same one. Asking sends nothing, and holds also where programs may bind to addresses that
/// the machine does not have.
fn local_for(at: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(at)?;
    Ok(socket.local_addr()?.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses for examples (RFC 5737 and 3849).
    const FOREIGN: [&str; 2] = ["203.0.113.1:443", "[2001:db8::1]:443"];

    #[test]
    fn what_is_the_machines_own_is_known() {
        for own in ["127.0.0.1:1", "[::1]:1", "0.0.0.0:1", "169.254.169.254:80", "[fe80::1]:1"] {
            assert!(is_own(own.parse().expect("an address")), "{own}");
        }
        assert!(is_own("[::ffff:127.0.0.1]:1".parse().expect("an address")));
        for foreign in FOREIGN {
            let foreign = foreign.parse().expect("an address");
            assert!(!is_own(foreign), "{foreign}");
            // Its address in a network, where there is one.
            match local_for(foreign) {
                Ok(own) => assert!(is_own(SocketAddr::new(own, 443)), "{own}"),
                Err(error) => println!("left out: no way to {foreign}: {error}"),
            }
        }
    }
}
