//! Removes socket files that no process holds from watched directories.

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::path::Path;

use siding_model::socket_patterns::SocketPattern;

use super::ReapStep;
use crate::sys::file::{self, OpenMode};
use crate::sys::unix_socket::{self, BoundPaths};
use crate::sys::{clock, process};

/// Age in milliseconds from which a file may be a leftover. A younger file may be about to be used,
/// or to be passed from one program to another.
const MIN_SOCKET_AGE_MS: i64 = 60_000;

/// Removes the socket files that match a pattern, are owned by this user, are older than a minute,
/// and are held by no living process. With `dry_run`, returns the steps without removing the files.
///
/// No symbolic link is followed in any part of a path, and no other kind of file is removed. A
/// directory that cannot be read is skipped. If the paths to which sockets are bound cannot be
/// read, no file is removed.
#[must_use]
pub fn reap_sockets(watched: &[SocketPattern], dry_run: bool) -> Vec<ReapStep> {
    let mut steps: Vec<ReapStep> = Vec::new();
    for pattern in watched {
        let Some(directory) = open_parent_dir(pattern) else { continue };
        let mut names = file::list_names(&directory).unwrap_or_default();
        names.retain(|name| pattern.matches(name));
        names.sort();
        // The table of bound paths is long on a busy machine, so it is read only if a file may be
        // removed.
        let mut dead: Vec<_> =
            names.iter().filter(|name| is_unheld_socket(&directory, name)).collect();
        let bound = if dead.is_empty() { None } else { BoundPaths::read().ok() };
        dead.retain(|name| bound.as_ref().is_some_and(|bound| !bound.contains_name(name)));
        for name in dead {
            let path = pattern.path_in_directory(name);
            // Two patterns may match the same file.
            let is_known = |step: &ReapStep| matches!(step, ReapStep::SocketRemoved { path: known } if *known == path);
            if dry_run {
                if !steps.iter().any(is_known) {
                    steps.push(ReapStep::SocketRemoved { path });
                }
                continue;
            }
            // The file is checked again, because the name may refer to a different socket by then.
            if !is_unheld_socket(&directory, name) {
                continue;
            }
            steps.push(match file::remove(&directory, name) {
                Ok(()) => ReapStep::SocketRemoved { path },
                Err(error) => ReapStep::SocketLeft { path, why: error.to_string() },
            });
        }
    }
    steps
}

/// Opens the directory of a pattern without following any symbolic link.
fn open_parent_dir(pattern: &SocketPattern) -> Option<OwnedFd> {
    let root = file::open_directory(Path::new("/")).ok()?;
    pattern
        .directories()
        .try_fold(root, |above, name| file::open_at(&above, name, OpenMode::Directory))
        .ok()
}

/// Returns whether this is a socket file of this user that is not new and that no process holds.
fn is_unheld_socket(directory: &OwnedFd, name: &str) -> bool {
    let Ok(facts) = file::metadata_at(directory, name) else { return false };
    let is_old = || {
        let written = file::modified_ms(directory, name);
        written.is_ok_and(|at| clock::unix_now().0.saturating_sub(at) >= MIN_SOCKET_AGE_MS)
    };
    facts.is_socket
        && facts.uid == process::effective_uid()
        && is_old()
        // A file that cannot be checked is not removed.
        && unix_socket::is_bound(directory, name).is_ok_and(|held| !held)
        // The socket was checked by its name, which must still refer to the same file.
        && file::metadata_at(directory, name).is_ok_and(|now| now.identity == facts.identity)
}
