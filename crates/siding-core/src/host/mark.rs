//! Marks a running host, and finds the processes that carry its mark.

use std::io;

use siding_model::host::MarkedProcess;
use siding_model::id::{Birthmark, HostMark};
use siding_model::process::ProcRef;

use crate::sys::{birthmark, process, procfs};

/// Maximum number of rounds of marking. If the tree still grows after the last round, some of its
/// processes may stay unmarked.
const MAX_MARK_ROUNDS: u32 = 100;
/// Maximum number of bytes read from a command line. The arguments of a host's sandbox wrapper can
/// take 20 KiB.
const MAX_CMDLINE_BYTES: usize = 128 << 10;

/// Marks a host and those of its descendants that carry no mark and belong to this user. Every
/// process that a marked process starts later inherits the mark.
///
/// # Errors
///
/// The I/O error if the host itself could not be marked, in which case no process is marked.
pub fn mark_host(host: ProcRef, mark: HostMark) -> io::Result<()> {
    if procfs::birthmark(host.pid) != Some(mark.birthmark()) {
        birthmark::set_birthmark_of(host.pid, mark.birthmark())?;
    }
    let own = process::effective_uid();
    // A listed process may fork before it is marked, and its child then has no mark. So
    // the rounds are repeated until one marks no process.
    for _ in 0..MAX_MARK_ROUNDS {
        let below = procfs::descendants(host.pid, |_| false);
        let is_bare = |pid: &&i32| {
            procfs::birthmark(**pid).is_none() && procfs::single_uid(**pid) == Some(own)
        };
        let marked = below.iter().filter(is_bare);
        if marked.filter(|pid| birthmark::set_birthmark_of(**pid, mark.birthmark()).is_ok()).count()
            == 0
        {
            break;
        }
    }
    Ok(())
}

/// Sets the mark `to` on `top`, and on each of its descendants that carries the mark `from`.
pub(super) fn mark_tree(top: i32, from: Birthmark, to: Birthmark) -> io::Result<()> {
    birthmark::set_birthmark_of(top, to)?;
    for _ in 0..MAX_MARK_ROUNDS {
        let below = procfs::descendants(top, |_| false);
        let carries = |pid: &&i32| procfs::birthmark(**pid) == Some(from);
        if below
            .iter()
            .filter(carries)
            .filter(|pid| birthmark::set_birthmark_of(**pid, to).is_ok())
            .count()
            == 0
        {
            break;
        }
    }
    Ok(())
}

/// Returns the processes that carry exactly this mark, except this process, `except` and zombies.
///
/// # Errors
///
/// The I/O error if the processes cannot be listed, or if a process that may carry the mark cannot
/// be read, for example because no descriptor is left.
pub fn processes_with_mark(mark: Birthmark, except: i32) -> io::Result<Vec<MarkedProcess>> {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let mut found = Vec::new();
    for pid in procfs::all_pids()? {
        if pid != own && pid != except && procfs::read_birthmark(pid)? == Some(mark) {
            let read = read_unless_ended(pid, mark, read_marked)?;
            found.extend(read.filter(|(_, state)| *state != 'Z').map(|(process, _)| process));
        }
    }
    Ok(found)
}

/// Returns a process and the state letter in its `/proc/PID/stat`.
fn read_marked(pid: i32) -> Option<(MarkedProcess, char)> {
    let stat = procfs::stat(pid)?;
    let (words, name) = procfs::command_words(pid, MAX_CMDLINE_BYTES)?;
    let program = procfs::executable_name(pid).unwrap_or(name);
    let process = ProcRef { pid, start_ticks: stat.start_ticks };
    Some((MarkedProcess { process, parent: stat.ppid, program, words }, stat.state))
}

/// Reads facts from the files of a process that carried `mark`. Returns `None` if the process has
/// ended.
///
/// # Errors
///
/// An error if the facts cannot be read although a process with this ID still carries the mark.
/// Reading the mark of a process of the same user needs no descriptor (prlimit(2)).
pub(super) fn read_unless_ended<T>(
    pid: i32,
    mark: Birthmark,
    read: impl FnOnce(i32) -> Option<T>,
) -> io::Result<Option<T>> {
    let facts = read(pid);
    if facts.is_none() && procfs::read_birthmark(pid)? == Some(mark) {
        return Err(io::Error::other(format!("could not read the files of process {pid}")));
    }
    Ok(facts)
}
