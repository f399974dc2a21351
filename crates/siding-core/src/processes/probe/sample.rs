//! Samples the state of all processes and threads of a task.

use std::collections::HashSet;
use std::io::ErrorKind;

use siding_model::evidence::{
    BlockedSyscall, BlockingCall, ProcessFacts, TaskSample, ThreadFacts, ThreadState,
};
use siding_model::process::ProcRef;

use super::objects::{self, KnownFds};
use crate::sys::blocking_syscalls::{self, ArgumentLayout, BlockingSyscall};
use crate::sys::threads::{self, ProcessStatus, ThreadLocation};
use crate::sys::{clock, inspect_process};

/// Maximum number of processes in one sample, and of threads of one process. Others are not
/// sampled, so that a fork storm does not keep a shim busy for seconds.
const MAX_SAMPLED: usize = 512;

/// Samples the descendants of a process, at most 512. The process itself must have only one thread,
/// and is not sampled. `skip` is called for each descendant; if it returns true, the descendant is
/// left out together with its own descendants.
#[must_use]
pub fn sample_descendants(
    known_fds: &KnownFds,
    root: i32,
    skip: impl FnMut(i32, &ProcessStatus) -> bool,
) -> TaskSample {
    let has_room = |count: usize| count < MAX_SAMPLED;
    let mut processes = walk_tree(root, has_room, skip, |pid, glance| {
        let process = sample_process(known_fds, pid, glance);
        let tids = process.threads.iter().map(|thread| thread.tid).collect();
        (process, tids)
    });
    processes.sort_by_key(|one| one.process.start_ticks);
    TaskSample { taken_at: clock::monotonic_now(), processes }
}

/// CPU time and status of a process, which are read before its threads.
#[derive(Debug)]
pub(super) struct ProcessGlance {
    /// The CPU time, read before the status, so that the next sample notices if the process runs
    /// after this point.
    cpu_ns: Option<u64>,
    pub(super) status: ProcessStatus,
}

impl ProcessGlance {
    /// Reads a process; `None` if the process has exited.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let cpu_ns = clock::process_cpu_ns(pid);
        let status = threads::status(pid)?;
        // A process whose main thread has exited is in state `Z` while its other threads still run.
        let has_ended = matches!(status.state, 'Z' | 'X') && status.threads < 2;
        (!has_ended).then_some(Self { cpu_ns, status })
    }
}

/// Walks the descendants of a process, which must have only one thread, until `has_room` returns
/// false for the number of results so far. Descendants for which `skip` returns true are left out
/// together with their own descendants. `look` returns the result for one process, and the threads
/// of that process, whose children are walked next.
pub(super) fn walk_tree<T>(
    root: i32,
    has_room: impl Fn(usize) -> bool,
    mut skip: impl FnMut(i32, &ProcessStatus) -> bool,
    mut look: impl FnMut(i32, &ProcessGlance) -> (T, Vec<i32>),
) -> Vec<T> {
    let mut found = Vec::new();
    let mut known: HashSet<i32> = HashSet::new();
    let mut next = threads::thread_children(root, root);
    while has_room(found.len())
        && let Some(pid) = next.pop()
    {
        if known.contains(&pid) {
            continue;
        }
        let Some(glance) = ProcessGlance::read(pid).filter(|glance| !skip(pid, &glance.status))
        else {
            continue;
        };
        let (one, tids) = look(pid, &glance);
        next.extend(tids.into_iter().flat_map(|tid| threads::thread_children(pid, tid)));
        known.insert(pid);
        found.push(one);
    }
    found
}

/// Samples these processes, at most 512, ordered by start time. Processes that have exited are left
/// out.
#[must_use]
pub fn sample_processes(known_fds: &KnownFds, pids: &[i32]) -> TaskSample {
    let one = |pid: &i32| {
        ProcessGlance::read(*pid).map(|glance| sample_process(known_fds, *pid, &glance))
    };
    let mut processes: Vec<_> = pids.iter().filter_map(one).take(MAX_SAMPLED).collect();
    processes.sort_by_key(|one| one.process.start_ticks);
    TaskSample { taken_at: clock::monotonic_now(), processes }
}

/// Returns whether processes may be missing from a sample because it has the maximum size.
pub(super) const fn may_be_truncated(sample: &TaskSample) -> bool {
    sample.processes.len() >= MAX_SAMPLED
}

/// Returns the thread IDs of a process.
pub(super) fn thread_ids(pid: i32, status: &ProcessStatus) -> Vec<i32> {
    if status.threads < 2 { vec![pid] } else { threads::list_threads(pid) }
}

/// Returns a new sample with the content of `before` if none of its processes has run since: each
/// is then in the same state. No process was started, exited, was stopped or was continued in the
/// meantime either, because each of these events makes the process or its parent run. The check
/// takes one system call for each process, and a new sample takes a dozen.
///
/// Returns `None` if a process has run, if `before` is empty or may be truncated, or if a thread
/// was not known to be blocked. The same applies if a process has a terminal, because other
/// processes can change the state of a terminal.
#[must_use]
pub fn reuse_if_unchanged(before: &TaskSample) -> Option<TaskSample> {
    if before.processes.is_empty() || may_be_truncated(before) {
        return None;
    }
    let at = clock::monotonic_now();
    let stands_still = |one: &ProcessFacts| {
        let is_plain = !one.has_terminal
            && one.threads.iter().all(|thread| matches!(thread.state, ThreadState::Blocked(_)));
        is_plain && one.cpu_ns.is_some() && clock::process_cpu_ns(one.process.pid) == one.cpu_ns
    };
    let all = before.processes.iter().all(stands_still);
    all.then(|| TaskSample { taken_at: at, processes: before.processes.clone() })
}

fn sample_process(known_fds: &KnownFds, pid: i32, glance: &ProcessGlance) -> ProcessFacts {
    let ProcessGlance { cpu_ns, status } = glance;
    let tids = thread_ids(pid, status);
    let threads: Vec<ThreadFacts> = tids
        .into_iter()
        .take(MAX_SAMPLED)
        .map(|tid| ThreadFacts { tid, state: thread_state(known_fds, pid, tid, status) })
        .collect();
    let hides = threads.iter().any(|thread| thread.state == ThreadState::Denied);
    ProcessFacts {
        process: ProcRef { pid, start_ticks: status.start_ticks },
        parent: status.parent,
        state: status.state,
        cpu_ns: *cpu_ns,
        self_ticks: status.self_ticks,
        reaped_children_ticks: status.children_ticks,
        resident_bytes: status.resident_bytes,
        has_terminal: status.terminal != 0,
        has_task_terminal: known_fds.is_task_terminal(status.terminal),
        is_in_terminal_background: status.group != status.foreground,
        // Opening the terminal takes further system calls, so it is opened only if the kernel does
        // not permit reading the state of a thread.
        terminal_echo: hides.then(|| inspect_process::terminal_echoes(status.terminal)).flatten(),
        threads,
    }
}

fn thread_state(known_fds: &KnownFds, pid: i32, tid: i32, status: &ProcessStatus) -> ThreadState {
    let is_first = tid == pid;
    if is_first && status.state == 'R' {
        return ThreadState::Running;
    }
    let in_disk = is_first && status.state == 'D';
    match threads::thread_location(pid, tid) {
        Ok(ThreadLocation::Running) => ThreadState::Running,
        Ok(ThreadLocation::InKernel) => blocked_on_unknown(in_disk),
        Ok(ThreadLocation::Syscall { number, arguments }) => {
            let known = match blocking_syscalls::by_number(number) {
                Some(BlockingSyscall { layout: ArgumentLayout::Restart, .. }) => {
                    blocking_syscalls::by_wait_channel(&threads::wait_channel(pid, tid))
                }
                known => known,
            };
            known.map_or_else(
                || blocked_on_unknown(in_disk),
                |known| {
                    ThreadState::Blocked(blocked_state(
                        known_fds,
                        (pid, tid),
                        known,
                        &arguments,
                        in_disk,
                    ))
                },
            )
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => ThreadState::Denied,
        // The file `syscall` is masked or missing, so only the wait channel is left. If the thread
        // has exited, the wait channel cannot be read either.
        Err(_) => blocking_syscalls::by_wait_channel(&threads::wait_channel(pid, tid)).map_or(
            ThreadState::Hidden,
            |known| {
                let BlockingSyscall { name, call, .. } = known;
                let on = Vec::new();
                ThreadState::Blocked(BlockedSyscall {
                    name,
                    call,
                    is_uninterruptible: in_disk,
                    blocked_on: on,
                    has_no_timeout: true,
                    thread_cpu_ns: None,
                })
            },
        ),
    }
}

fn blocked_on_unknown(in_disk: bool) -> ThreadState {
    let (name, call, on) = ("", BlockingCall::Other, Vec::new());
    ThreadState::Blocked(BlockedSyscall {
        name,
        call,
        is_uninterruptible: in_disk,
        blocked_on: on,
        has_no_timeout: true,
        thread_cpu_ns: None,
    })
}

fn blocked_state(
    known_fds: &KnownFds,
    (pid, tid): (i32, i32),
    known: BlockingSyscall,
    arguments: &[u64; 6],
    in_disk: bool,
) -> BlockedSyscall {
    let set = objects::read_wait_set(known_fds, pid, known.layout, arguments);
    let call = if known.layout == ArgumentLayout::Fcntl && !set.is_lock {
        BlockingCall::Other
    } else {
        known.call
    };
    // Only the thread's CPU time distinguishes one wait with a timeout from a loop of short waits.
    let takes_input =
        set.objects.iter().any(|waited| waited.for_reading && waited.object.accepts_typed_input());
    let ran_ns = (takes_input && !set.is_endless).then(|| threads::run_ns(pid, tid)).flatten();
    BlockedSyscall {
        name: known.name,
        call,
        is_uninterruptible: in_disk,
        blocked_on: set.objects,
        has_no_timeout: set.is_endless,
        thread_cpu_ns: ran_ns,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// Samples until the process is asleep in two consecutive samples.
    fn sample_when_asleep(known_fds: &KnownFds, pid: i32) -> TaskSample {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            let sample = sample_processes(known_fds, &[pid]);
            if reuse_if_unchanged(&sample).is_some_and(|again| again.processes == sample.processes)
            {
                return sample;
            }
            std::thread::yield_now();
        }
        panic!("it never slept");
    }

    #[test]
    fn a_process_that_has_not_run_is_not_sampled_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let given = KnownFds::from_endpoint_dir(std::fs::File::open(dir.path()).expect("opened"));
        let pipes = || Stdio::piped();
        let mut cat = Command::new("cat").stdin(pipes()).stdout(pipes()).spawn().expect("started");
        let pid = i32::try_from(cat.id()).expect("small");
        let before = sample_when_asleep(&given, pid);
        assert_eq!(before.processes.len(), 1);
        let (mut to, mut from) = (cat.stdin.take().expect("piped"), cat.stdout.take());
        to.write_all(b"x").expect("it reads");
        from.as_mut().expect("piped").read_exact(&mut [0]).expect("it has run");
        assert_eq!(reuse_if_unchanged(&before), None, "it sleeps in the same call, but has run");
        let again = sample_when_asleep(&given, pid);
        drop(to);
        cat.wait().expect("it ends");
        assert_eq!(reuse_if_unchanged(&again), None, "it has ended");
        assert_eq!(
            reuse_if_unchanged(&TaskSample { taken_at: again.taken_at, processes: Vec::new() }),
            None
        );
    }
}
