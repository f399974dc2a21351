//! The socket files that a host and the relays of its sandbox leave.

use std::os::fd::OwnedFd;
use std::path::Path;

use siding_model::host::{HostRecord, MarkedProcess};

use super::super::ReapStep;
use crate::sys::{file, process, unix_socket};

/// The prefix of the argument by which a relay (socat(1)) names the socket file on which it
/// listens.
const LISTEN_ARGUMENT_PREFIX: &str = "UNIX-LISTEN:";
/// The socket files of a host (Claude Code 2.1.330): the directory, and the text before and after
/// the host's process ID in the file name.
const HOST_SOCKET_PATTERNS: [(&str, &str, &str); 2] =
    [("/tmp", "srt-mux-", "-"), ("/tmp/cc-socks", "", ".sock")];

/// Returns the socket file on which a relay listens, from its arguments.
pub(super) fn listen_socket_path(one: &MarkedProcess) -> Option<String> {
    let address = one.words.iter().find_map(|word| word.strip_prefix(LISTEN_ARGUMENT_PREFIX))?;
    let path = address.split(',').next()?;
    path.starts_with('/').then(|| path.to_owned())
}

/// Returns the socket files that carry the host's process ID in their names.
pub(super) fn host_sockets(record: &HostRecord) -> Vec<String> {
    let in_place = |(directory, before, behind): (&str, &str, &str)| {
        let begin = format!("{before}{}{behind}", record.host.pid);
        let names = file::open_directory(Path::new(directory)).and_then(file::list_names);
        let mut names = names.unwrap_or_default();
        names.retain(|name| name.starts_with(&begin) && name.ends_with(".sock"));
        names.into_iter().map(move |name| format!("{directory}/{name}")).collect::<Vec<_>>()
    };
    HOST_SOCKET_PATTERNS.into_iter().flat_map(in_place).collect()
}

/// A socket file of this user.
pub(super) struct OwnSocket {
    pub(super) path: String,
    directory: OwnedFd,
    name: String,
    identity: (u64, u64),
}

impl OwnSocket {
    /// Returns `None` if the path names no socket file of this user.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_owned();
        let directory = file::open_directory(path.parent()?).ok()?;
        let facts = file::metadata_at(&directory, &name).ok()?;
        let is_own = facts.is_socket && facts.uid == process::effective_uid();
        let path = path.display().to_string();
        is_own.then_some(Self { path, directory, name, identity: facts.identity })
    }

    /// Returns whether no process holds the socket, so that the file can be removed.
    pub(super) fn is_dead(&self) -> bool {
        unix_socket::is_bound(&self.directory, &self.name).is_ok_and(|held| !held)
            && file::metadata_at(&self.directory, &self.name)
                .is_ok_and(|now| now.identity == self.identity)
    }

    pub(super) fn remove(self) -> ReapStep {
        match file::remove(&self.directory, &self.name) {
            Ok(()) => ReapStep::SocketRemoved { path: self.path },
            Err(error) => ReapStep::SocketLeft { path: self.path, why: error.to_string() },
        }
    }
}
