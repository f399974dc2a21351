//! Sends entries to the journal of systemd by its native protocol: one datagram for each entry.

use std::io;
use std::path::Path;

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// The socket of systemd-journald.
const SOCKET_PATH: &str = "/run/systemd/journal/socket";

/// Sends an entry without waiting. The entry is dropped if there is no journal, if the journal's
/// queue is full, or if the entry is too large: no task depends on the journal.
pub fn send(entry: &[u8]) {
    let _best_effort = send_to(Path::new(SOCKET_PATH), entry);
}

fn send_to(path: &Path, entry: &[u8]) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    rustix::net::sendto(&socket, entry, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn an_entry_is_one_datagram() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        assert!(send_to(&path, b"MESSAGE=lost\n").is_err(), "there is no journal");
        let journal = UnixDatagram::bind(&path).expect("binds");
        for entry in ["MESSAGE=one\n", "MESSAGE=two\n"] {
            send_to(&path, entry.as_bytes()).expect("sends");
        }
        let mut bytes = [0; 64];
        for entry in ["MESSAGE=one\n", "MESSAGE=two\n"] {
            let count = journal.recv(&mut bytes).expect("receives");
            assert_eq!(&bytes[..count], entry.as_bytes());
        }
        drop(journal);
        assert!(send_to(&path, b"MESSAGE=lost\n").is_err(), "nothing listens");
    }

    /// A journal that does not read must not stop a shim.
    #[test]
    fn a_full_queue_drops_the_entry() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let _journal = UnixDatagram::bind(&path).expect("binds");
        let refused = (0..10_000).find_map(|_| send_to(&path, &[b'x'; 1_000]).err());
        let kind = refused.expect("the queue is full").kind();
        assert_eq!(kind, io::ErrorKind::WouldBlock);
    }
}
