//! Which sockets a set of processes holds, and on which TCP ports it listens.

use std::collections::{BTreeSet, HashMap, HashSet};

/// State `LISTEN` in `/proc/net/tcp` (include/net/tcp_states.h).
const LISTEN: &str = "0A";

/// Returns the ports on which any of `pids` listens, in order. Needs no more than the right to
/// read their descriptors; sockets of another user's process are not found.
#[must_use]
pub fn listening(pids: &[i32]) -> Vec<u16> {
    let inodes = held(pids);
    if inodes.is_empty() {
        return Vec::new();
    }
    let ports: BTreeSet<u16> = listeners(pids[0])
        .into_iter()
        .filter_map(|(port, inode)| inodes.contains_key(&inode).then_some(port))
        .collect();
    ports.into_iter().collect()
}

/// Returns which of `pids` listens on a port. As long as nobody at all does, only the table of the
/// machine's sockets is read.
#[must_use]
pub fn listener_of(pids: &[i32], port: u16) -> Option<i32> {
    let wanted: HashSet<u64> = listeners(*pids.first()?)
        .into_iter()
        .filter_map(|(listened, inode)| (listened == port).then_some(inode))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let holds_one = |pid: &i32| held(&[*pid]).keys().any(|inode| wanted.contains(inode));
    pids.iter().copied().find(holds_one)
}

/// Returns port and inode of every listening socket in the network namespace of a process. A task
/// that makes namespaces of its own is not looked into further.
fn listeners(pid: i32) -> Vec<(u16, u64)> {
    let mut found = Vec::new();
    for file in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        found.extend(table.lines().skip(1).filter_map(listener));
    }
    found
}

/// Returns port and inode of a table line that is a listener.
fn listener(line: &str) -> Option<(u16, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    if state != LISTEN {
        return None;
    }
    Some((u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?, inode))
}

/// Returns the numbers of all sockets that any of `pids` holds, each with one that does.
#[must_use]
pub fn held(pids: &[i32]) -> HashMap<u64, i32> {
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
    fn this_process_is_found_listening_and_a_client_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has one").port();
        let _client = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let own = i32::try_from(std::process::id()).expect("fits");
        assert!(listening(&[own]).contains(&port));
        assert_eq!(listener_of(&[1, own], port), Some(own));
        assert_eq!(listener_of(&[], port), None);
        drop(listener);
        assert!(!listening(&[own]).contains(&port));
        assert_eq!(listener_of(&[own], port), None);
    }
}
