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

/// Returns the processes that carry exactly this mark, except this process, `except`, zombies
/// and processes whose command line cannot be read.
#[must_use]
pub fn processes_with_mark(mark: Birthmark, except: i32) -> Vec<MarkedProcess> {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let carries =
        |pid: &i32| *pid != own && *pid != except && procfs::birthmark(*pid) == Some(mark);
    procfs::all_pids().into_iter().filter(carries).filter_map(read_marked).collect()
}

fn read_marked(pid: i32) -> Option<MarkedProcess> {
    let stat = procfs::stat(pid).filter(|stat| stat.state != 'Z')?;
    let (words, name) = procfs::command_words(pid, MAX_CMDLINE_BYTES)?;
    let program = procfs::executable_name(pid).unwrap_or(name);
    let process = ProcRef { pid, start_ticks: stat.start_ticks };
    Some(MarkedProcess { process, parent: stat.ppid, program, words })
}
