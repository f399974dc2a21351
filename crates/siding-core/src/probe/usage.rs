//! What a task's processes use.

use siding_model::evidence::{ProcessFacts, Sample};
use siding_model::limits::{Connection, ProcessUse};
use siding_model::process::ProcRef;

use super::sample::{self, Glance, MOST};
use crate::sys::threads::{self, Status};
use crate::sys::{diag, procfs, sockets};

/// Milliseconds of a clock tick.
const TICK_MS: u64 = 1_000 / procfs::TICKS_PER_SECOND;

/// What is worth asking for beside what costs nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// For how long each could have run.
    pub runnable: bool,
    /// How many descriptors each has open.
    pub fds: bool,
}

/// Looks at everything below a process, as [`super::below`] does.
#[must_use]
pub fn uses_below(
    root: i32,
    wanted: Wanted,
    skip: impl FnMut(i32, &Status) -> bool,
) -> Vec<ProcessUse> {
    sample::walk(root, skip, |pid, glance| {
        (of_status(pid, &glance.status, wanted), sample::tids(pid, &glance.status))
    })
}

/// Looks at these processes.
#[must_use]
pub fn uses_of(pids: &[i32], wanted: Wanted) -> Vec<ProcessUse> {
    let living = pids
        .iter()
        .take(MOST)
        .filter_map(|pid| Some(of_status(*pid, &Glance::at(*pid)?.status, wanted)));
    living.collect()
}

/// Returns what the processes of a sample use: one look at a tree is enough for both.
#[must_use]
pub fn uses_in(sample: &Sample, wanted: Wanted) -> Vec<ProcessUse> {
    let of = |one: &ProcessFacts| {
        let ticks = one.own_ticks.saturating_add(one.reaped_ticks);
        of_numbers(one.process, one.resident_bytes, ticks, wanted)
    };
    sample.processes.iter().map(of).collect()
}

fn of_status(pid: i32, status: &Status, wanted: Wanted) -> ProcessUse {
    let process = ProcRef { pid, start_ticks: status.start_ticks };
    let ticks = status.own_ticks.saturating_add(status.reaped_ticks);
    of_numbers(process, status.resident_bytes, ticks, wanted)
}

fn of_numbers(process: ProcRef, resident_bytes: u64, ticks: u64, wanted: Wanted) -> ProcessUse {
    let pid = process.pid;
    let runnable = wanted.runnable.then(|| threads::runnable_ns(pid, pid)).flatten();
    ProcessUse {
        process,
        resident_bytes,
        cpu_ms: ticks.saturating_mul(TICK_MS),
        runnable_ms: runnable.unwrap_or(0) / 1_000_000,
        fds: if wanted.fds { procfs::open_descriptors(pid) } else { 0 },
    }
}

/// Returns the memory of these processes in which what they share counts once (PSS), in bytes. Of
/// one that may not be looked into all counts. Costs 17 to 230 µs
/// a process, so it is asked for only when the resident sizes are over the limit.
///
/// A task with a control group that counts memory has a better answer: see
/// [`Memory::used`](crate::cgroup::Memory::used).
#[must_use]
pub fn shared_once(uses: &[ProcessUse]) -> u64 {
    let of = |one: &ProcessUse| {
        procfs::proportional_bytes(one.process.pid).unwrap_or(one.resident_bytes)
    };
    uses.iter().map(of).sum()
}

/// Returns the TCP connections of these processes, and those that nobody holds any more but that
/// `is_known`, by their cookies. `None` where the kernel does not tell.
#[must_use]
pub fn connections(uses: &[ProcessUse], is_known: impl Fn(u64) -> bool) -> Option<Vec<Connection>> {
    let all = diag::connections().ok()?;
    if all.is_empty() {
        return Some(Vec::new());
    }
    let pids: Vec<i32> = uses.iter().map(|one| one.process.pid).collect();
    let held = sockets::held(&pids);
    let of_task = all.into_iter().filter_map(|one| {
        let holder = held.get(&one.inode).copied();
        let pid = holder.or_else(|| is_known(one.cookie).then_some(0))?;
        let (cookie, sent) = (one.cookie, one.sent);
        Some(Connection { cookie, remote: one.remote.to_string(), sent, pid })
    });
    Some(of_task.collect())
}
