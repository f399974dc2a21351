//! Measures the memory, CPU time, descriptors, writes and connections of a task's processes.

use std::collections::HashSet;

use siding_model::evidence::{ProcessFacts, TaskSample};
use siding_model::limits::{Connection, ProcessUsage};
use siding_model::process::ProcRef;

use super::sample::{self, ProcessGlance};
use crate::sys::threads::{self, ProcessStatus};
use crate::sys::{clock, procfs, sock_diag, tcp_sockets};

/// Milliseconds per clock tick.
const TICK_MS: u64 = 1_000 / procfs::TICKS_PER_SECOND;

/// Time after which a measurement ends, in milliseconds, if it has measured [`MIN_MEASURED`]
/// processes. It is much longer than the measurement of 10,000 processes. During a fork storm the
/// shim gets little processor time, and must not be busy with a measurement when it is to stop the
/// task.
const MAX_MEASUREMENT_MS: u64 = 2_000;
/// Number of processes that are measured however long it takes.
const MIN_MEASURED: usize = 512;

/// Selects fields of [`ProcessUsage`] whose measurement takes an extra read of `/proc` for each
/// process; a field that is not selected is 0. All other fields are always measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageFields {
    /// The time that the main thread of each process was running or waiting for a CPU.
    pub runnable: bool,
    /// The number of descriptors that each process has open.
    pub fds: bool,
}

/// Measures the processes that [`super::sample_descendants`] would sample if samples had no maximum
/// size: a limit must count every process. Only a measurement that takes more than two seconds is
/// incomplete.
#[must_use]
pub fn usage_of_descendants(
    root: i32,
    wanted: UsageFields,
    skip: impl FnMut(i32, &ProcessStatus) -> bool,
) -> Vec<ProcessUsage> {
    sample::walk_tree(root, measurement_bound(), skip, |pid, glance| {
        (usage_from_status(pid, &glance.status, wanted), sample::thread_ids(pid, &glance.status))
    })
}

/// Measures these processes, with the same bound. Processes that have exited are left out.
#[must_use]
pub fn usage_of_processes(pids: &[i32], wanted: UsageFields) -> Vec<ProcessUsage> {
    let has_room = measurement_bound();
    let measured = pids.iter().enumerate().take_while(|(count, _)| has_room(*count));
    let living = measured.filter_map(|(_, pid)| {
        Some(usage_from_status(*pid, &ProcessGlance::read(*pid)?.status, wanted))
    });
    living.collect()
}

/// Starts the clock of a measurement. The returned function receives the number of measured
/// processes, and returns whether the measurement may continue.
fn measurement_bound() -> impl Fn(usize) -> bool {
    let began = clock::monotonic_now();
    move |count| count < MIN_MEASURED || clock::monotonic_now().ms_since(began) < MAX_MEASUREMENT_MS
}

/// Returns the usage of the processes in a sample, so that one walk of the tree gives the sample
/// and the usage. `None` if processes may be missing from the sample because it has the maximum
/// size.
#[must_use]
pub fn usage_from_sample(sample: &TaskSample, wanted: UsageFields) -> Option<Vec<ProcessUsage>> {
    let of = |one: &ProcessFacts| {
        let ticks = one.self_ticks.saturating_add(one.reaped_children_ticks);
        usage_from_counters(one.process, one.resident_bytes, ticks, wanted)
    };
    (!sample::may_be_truncated(sample)).then(|| sample.processes.iter().map(of).collect())
}

fn usage_from_status(pid: i32, status: &ProcessStatus, wanted: UsageFields) -> ProcessUsage {
    let process = ProcRef { pid, start_ticks: status.start_ticks };
    let ticks = status.self_ticks.saturating_add(status.children_ticks);
    usage_from_counters(process, status.resident_bytes, ticks, wanted)
}

fn usage_from_counters(
    process: ProcRef,
    resident_bytes: u64,
    ticks: u64,
    wanted: UsageFields,
) -> ProcessUsage {
    let pid = process.pid;
    let runnable = wanted.runnable.then(|| threads::runnable_ns(pid, pid)).flatten();
    ProcessUsage {
        process,
        resident_bytes,
        cpu_ms: ticks.saturating_mul(TICK_MS),
        runnable_ms: runnable.unwrap_or(0) / 1_000_000,
        fds: if wanted.fds { procfs::count_open_descriptors(pid) } else { 0 },
    }
}

/// Returns the memory of these processes with shared pages counted once (PSS), in bytes. For a
/// process that may not be inspected, adds the whole resident size. Takes 17 to 230 µs for each
/// process, so callers use it only if the resident sizes are large enough to matter for a limit.
///
/// The control group of a task is more accurate if it counts memory: see
/// [`GroupMemory::used_bytes`](crate::processes::cgroup::GroupMemory::used_bytes).
#[must_use]
pub fn proportional_memory(uses: &[ProcessUsage]) -> u64 {
    let of = |one: &ProcessUsage| procfs::pss_bytes(one.process.pid).unwrap_or(one.resident_bytes);
    uses.iter().map(of).sum()
}

/// Counts the open descriptors of these processes, whose other resources were already measured.
pub fn count_descriptors(uses: &mut [ProcessUsage]) {
    for one in uses {
        one.fds = procfs::count_open_descriptors(one.process.pid);
    }
}

/// Returns the number of bytes that these processes have written to disks or, with `anywhere`, to
/// any descriptor. `None` if the counter of one of them cannot be read, because the kernel denies
/// access or the process has ended.
#[must_use]
pub fn written_bytes(uses: &[ProcessUsage], anywhere: bool) -> Option<u64> {
    let count = if anywhere { procfs::write_bytes_total } else { procfs::disk_write_bytes };
    uses.iter().map(|one| count(one.process.pid)).sum()
}

/// Returns the TCP connections of these processes. Also returns connections whose socket none of
/// these processes has open, with pid 0, if `is_known` returns true for their cookie. `None` if the
/// kernel does not list connections, or its list could not be read completely.
#[must_use]
pub fn connections(
    uses: &[ProcessUsage],
    is_known: impl Fn(u64) -> bool,
) -> Option<Vec<Connection>> {
    let (listening, all): (Vec<_>, Vec<_>) =
        sock_diag::tcp_connections().ok()?.into_iter().partition(|one| one.is_listening);
    if all.is_empty() {
        return Some(Vec::new());
    }
    let pids: Vec<i32> = uses.iter().map(|one| one.process.pid).collect();
    let socket_holders = tcp_sockets::sockets_by_inode(&pids);
    let ports: HashSet<u16> = listening.iter().map(|one| one.local.port()).collect();
    let is_held = |one: &&sock_diag::TcpConnection| socket_holders.contains_key(&one.inode);
    let ends: HashSet<_> = all.iter().filter(is_held).map(|one| (one.local, one.remote)).collect();
    let of_task = all.iter().filter_map(|one| {
        let holder = socket_holders.get(&one.inode).copied();
        let pid = holder.or_else(|| is_known(one.cookie).then_some(0))?;
        Some(Connection {
            cookie: one.cookie,
            remote: one.remote.ip().to_string(),
            sent: one.sent,
            pid,
            received: one.received,
            is_accepted: ports.contains(&one.local.port()),
            is_internal: ends.contains(&(one.remote, one.local)),
        })
    });
    Some(of_task.collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::super::KnownFds;
    use super::*;

    fn own_connections() -> Vec<Connection> {
        let pid = i32::try_from(std::process::id()).expect("a pid is small");
        let uses = usage_of_processes(&[pid], UsageFields { runnable: false, fds: false });
        connections(&uses, |_| false).expect("the kernel lists connections")
    }

    #[test]
    fn the_initiator_and_the_scope_of_a_connection_are_known() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut ours =
            TcpStream::connect(listener.local_addr().expect("it has one")).expect("connects");
        let (mut theirs, _) = listener.accept().expect("it comes");
        ours.write_all(b"some bytes").expect("they are sent");
        let found = own_connections();
        let (accepted, initiated): (Vec<_>, Vec<_>) = found.iter().partition(|one| one.is_accepted);
        assert!(initiated.iter().any(|one| one.is_internal && one.sent >= 10), "{found:?}");
        assert!(accepted.iter().any(|one| one.is_internal && one.received == 10), "{found:?}");
        assert!(found.iter().all(|one| one.remote == "127.0.0.1"), "{found:?}");
        // Closing a socket with unread data would reset the connection.
        theirs.read_exact(&mut [0; 10]).expect("they come");
        drop(theirs);
        let open = own_connections();
        assert!(open.iter().all(|one| !one.is_accepted), "the accepted side is closed: {open:?}");
        assert!(open.iter().any(|one| !one.is_internal && one.pid > 0), "{open:?}");
    }

    /// A sample is limited to 512 processes; a limit must count all of them.
    #[test]
    fn the_usage_covers_more_processes_than_a_sample() {
        const CHILD_COUNT: usize = 600;
        let text = format!(
            "for n in $(seq {CHILD_COUNT}); do sleep 60 & done; echo; read -r _; kill $(jobs -p); wait"
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", &text]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("bash is installed");
        let out = shell.stdout.as_mut().expect("is piped");
        out.read_exact(&mut [0]).expect("all children have started");
        let pid = i32::try_from(shell.id()).expect("fits");
        let wanted = UsageFields { runnable: false, fds: true };
        let below = usage_of_descendants(pid, wanted, |_, _| false);
        let pids: Vec<i32> = below.iter().map(|one| one.process.pid).collect();
        let listed = usage_of_processes(&pids, wanted);
        let whole = sample::sample_descendants(&KnownFds::default(), pid, |_, _| false);
        let part = sample::sample_processes(&KnownFds::default(), &pids[..9]);
        drop(shell.stdin.take());
        let _already_ended = shell.wait();
        assert_eq!((below.len(), listed.len()), (CHILD_COUNT, CHILD_COUNT));
        assert!(below.iter().all(|one| one.fds > 0), "{below:?}");
        assert!(whole.processes.len() < CHILD_COUNT, "a sample has a maximum size");
        assert_eq!(usage_from_sample(&whole, wanted), None, "it would be too low");
        assert_eq!(usage_from_sample(&part, wanted).map(|usage| usage.len()), Some(9));
    }

    #[test]
    fn bytes_written_to_a_pipe_do_not_count_as_disk_writes() {
        let pid = i32::try_from(std::process::id()).expect("a pid is small");
        let uses = usage_of_processes(&[pid], UsageFields { runnable: false, fds: false });
        let (_read, mut write) = std::io::pipe().expect("a pipe");
        let before = (written_bytes(&uses, true), written_bytes(&uses, false));
        write.write_all(&[0; 4_096]).expect("it has room");
        let after = (written_bytes(&uses, true), written_bytes(&uses, false));
        assert!(after.0 >= before.0.map(|bytes| bytes + 4_096), "{before:?} {after:?}");
        assert_eq!(before.1.is_some(), after.1.is_some());
    }
}
