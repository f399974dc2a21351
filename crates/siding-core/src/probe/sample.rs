//! One look at all processes of a task.

use std::io::ErrorKind;

use siding_model::evidence::{
    BlockedSyscall, BlockingCall, ProcessFacts, TaskSample, ThreadFacts, ThreadState,
};
use siding_model::process::ProcRef;

use super::objects::{self, Given};
use crate::sys::calls::{self, Known, Shape};
use crate::sys::threads::{self, Place, Status};
use crate::sys::{clock, foreign};

/// Processes of one sample, and threads of one process. A storm must not make a shim work for
/// seconds; what lies beyond is not looked at.
pub(super) const MOST: usize = 512;

/// Looks at everything below a process of one thread, without itself. `skip` is asked about each;
/// those it names are left out with everything below them.
#[must_use]
pub fn below(given: &Given, root: i32, skip: impl FnMut(i32, &Status) -> bool) -> TaskSample {
    let mut processes = walk(root, skip, |pid, glance| {
        let process = look(given, pid, glance);
        let tids = process.threads.iter().map(|thread| thread.tid).collect();
        (process, tids)
    });
    processes.sort_by_key(|one| one.process.start_ticks);
    TaskSample { taken_at: clock::mono(), processes }
}

/// What is asked of a process first.
#[derive(Debug)]
pub(super) struct Glance {
    /// Before the status: what runs after this is seen by the next look.
    cpu_ns: Option<u64>,
    pub(super) status: Status,
}

impl Glance {
    /// Looks at a process, `None` when it has ended.
    pub(super) fn at(pid: i32) -> Option<Self> {
        let cpu_ns = clock::cpu_ns(pid);
        let status = threads::status(pid)?;
        let has_ended = matches!(status.state, 'Z' | 'X') && status.threads < 2;
        (!has_ended).then_some(Self { cpu_ns, status })
    }
}

/// Looks at everything below a process of one thread. `look` gives what it found and the threads
/// whose children come next.
pub(super) fn walk<T>(
    root: i32,
    mut skip: impl FnMut(i32, &Status) -> bool,
    mut look: impl FnMut(i32, &Glance) -> (T, Vec<i32>),
) -> Vec<T> {
    let mut found = Vec::new();
    let mut known: Vec<i32> = Vec::new();
    let mut next = threads::children(root, root);
    while let Some(pid) = next.pop() {
        if known.contains(&pid) || known.len() >= MOST {
            continue;
        }
        let Some(glance) = Glance::at(pid).filter(|glance| !skip(pid, &glance.status)) else {
            continue;
        };
        let (one, tids) = look(pid, &glance);
        next.extend(tids.into_iter().flat_map(|tid| threads::children(pid, tid)));
        known.push(pid);
        found.push(one);
    }
    found
}

/// Looks at these processes.
#[must_use]
pub fn of_processes(given: &Given, pids: &[i32]) -> TaskSample {
    let one = |pid: &i32| Glance::at(*pid).map(|glance| look(given, *pid, &glance));
    let mut processes: Vec<_> = pids.iter().take(MOST).filter_map(one).collect();
    processes.sort_by_key(|one| one.process.start_ticks);
    TaskSample { taken_at: clock::mono(), processes }
}

/// Returns the threads of a process.
pub(super) fn tids(pid: i32, status: &Status) -> Vec<i32> {
    if status.threads < 2 { vec![pid] } else { threads::of(pid) }
}

/// Returns what a look at these processes would find, without one, if that is known: nothing has run
/// since, so all of it is where it was. One call for each process instead of a dozen.
///
/// A process that begins, ends, stops or goes on has run, or its parent has. What somebody from
/// outside may change, a terminal, is looked at each time, and so is what was not to be seen.
#[must_use]
pub fn unmoved(before: &TaskSample) -> Option<TaskSample> {
    if before.processes.is_empty() || before.processes.len() >= MOST {
        return None;
    }
    let at = clock::mono();
    let stands_still = |one: &ProcessFacts| {
        let is_plain = !one.has_terminal
            && one.threads.iter().all(|thread| matches!(thread.state, ThreadState::Blocked(_)));
        is_plain && one.cpu_ns.is_some() && clock::cpu_ns(one.process.pid) == one.cpu_ns
    };
    let all = before.processes.iter().all(stands_still);
    all.then(|| TaskSample { taken_at: at, processes: before.processes.clone() })
}

/// Looks at one process.
fn look(given: &Given, pid: i32, glance: &Glance) -> ProcessFacts {
    let Glance { cpu_ns, status } = glance;
    let tids = tids(pid, status);
    let threads: Vec<ThreadFacts> = tids
        .into_iter()
        .take(MOST)
        .map(|tid| ThreadFacts { tid, state: doing(given, pid, tid, status) })
        .collect();
    let hides = threads.iter().any(|thread| thread.state == ThreadState::Denied);
    ProcessFacts {
        process: ProcRef { pid, start_ticks: status.start_ticks },
        parent: status.parent,
        state: status.state,
        cpu_ns: *cpu_ns,
        self_ticks: status.own_ticks,
        reaped_children_ticks: status.reaped_ticks,
        resident_bytes: status.resident_bytes,
        has_terminal: status.terminal != 0,
        is_in_terminal_background: status.group != status.foreground,
        // Opening a terminal is not for free, and needed only where nothing better is to be had.
        terminal_echo: hides.then(|| foreign::echoes(status.terminal)).flatten(),
        threads,
    }
}

fn doing(given: &Given, pid: i32, tid: i32, status: &Status) -> ThreadState {
    let is_first = tid == pid;
    if is_first && status.state == 'R' {
        return ThreadState::Running;
    }
    let in_disk = is_first && status.state == 'D';
    match threads::place(pid, tid) {
        Ok(Place::Running) => ThreadState::Running,
        Ok(Place::Elsewhere) => asleep_without(in_disk),
        Ok(Place::Call { number, arguments }) => {
            let known = match calls::of_number(number) {
                Some(Known { shape: Shape::Restart, .. }) => {
                    calls::of_wait(&threads::wait_channel(pid, tid))
                }
                known => known,
            };
            known.map_or_else(
                || asleep_without(in_disk),
                |known| ThreadState::Blocked(asleep(given, (pid, tid), known, &arguments, in_disk)),
            )
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => ThreadState::Denied,
        // Masked, or not there in this kernel: its own name of the wait is all there is.
        Err(_) => {
            calls::of_wait(&threads::wait_channel(pid, tid)).map_or(ThreadState::Hidden, |known| {
                let Known { name, call, .. } = known;
                let on = Vec::new();
                ThreadState::Blocked(BlockedSyscall {
                    name,
                    call,
                    is_uninterruptible: in_disk,
                    blocked_on: on,
                    has_no_timeout: true,
                    thread_cpu_ns: None,
                })
            })
        }
    }
}

fn asleep_without(in_disk: bool) -> ThreadState {
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

fn asleep(
    given: &Given,
    (pid, tid): (i32, i32),
    known: Known,
    arguments: &[u64; 6],
    in_disk: bool,
) -> BlockedSyscall {
    let set = objects::set(given, pid, known.shape, arguments);
    let call =
        if known.shape == Shape::Fcntl && !set.is_lock { BlockingCall::Other } else { known.call };
    // Only this tells a wait with a time limit from a loop of short ones.
    let takes_input =
        set.on.iter().any(|waited| waited.for_reading && waited.object.accepts_typed_input());
    let ran_ns = (takes_input && !set.is_endless).then(|| threads::ran_ns(pid, tid)).flatten();
    BlockedSyscall {
        name: known.name,
        call,
        is_uninterruptible: in_disk,
        blocked_on: set.on,
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

    /// Looks until the process sleeps, and has done so for two looks.
    fn asleep(given: &Given, pid: i32) -> TaskSample {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            let sample = of_processes(given, &[pid]);
            if unmoved(&sample).is_some_and(|again| again.processes == sample.processes) {
                return sample;
            }
            std::thread::yield_now();
        }
        panic!("it never slept");
    }

    #[test]
    fn what_has_not_run_is_not_looked_at_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let given = Given::of(std::fs::File::open(dir.path()).expect("opened"));
        let pipes = || Stdio::piped();
        let mut cat = Command::new("cat").stdin(pipes()).stdout(pipes()).spawn().expect("started");
        let pid = i32::try_from(cat.id()).expect("small");
        let before = asleep(&given, pid);
        assert_eq!(before.processes.len(), 1);
        let (mut to, mut from) = (cat.stdin.take().expect("piped"), cat.stdout.take());
        to.write_all(b"x").expect("it reads");
        from.as_mut().expect("piped").read_exact(&mut [0]).expect("it has run");
        assert_eq!(unmoved(&before), None, "it sleeps where it slept, but has run");
        let again = asleep(&given, pid);
        drop(to);
        cat.wait().expect("it ends");
        assert_eq!(unmoved(&again), None, "it has ended");
        assert_eq!(unmoved(&TaskSample { taken_at: again.taken_at, processes: Vec::new() }), None);
    }
}
