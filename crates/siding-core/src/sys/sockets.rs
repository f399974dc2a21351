//! Which sockets a set of processes holds, and on which TCP ports it listens.

use std::collections::{BTreeSet, HashMap};

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
    let mut ports = BTreeSet::new();
    for file in ["tcp", "tcp6"] {
        // The network namespace of the first process; a task that makes its own is not looked into.
        let table =
            std::fs::read_to_string(format!("/proc/{}/net/{file}", pids[0])).unwrap_or_default();
        ports.extend(table.lines().skip(1).filter_map(|line| listener(line, &inodes)));
    }
    ports.into_iter().collect()
}

/// Returns the port of a table line that is a listener with one of these inodes.
fn listener(line: &str, inodes: &HashMap<u64, i32>) -> Option<u16> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    if state != LISTEN || !inodes.contains_key(&inode) {
        return None;
    }
    u16::from_str_radix(local.rsplit(':').next()?, 16).ok()
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
        drop(listener);
        assert!(!listening(&[own]).contains(&port));
    }
}
