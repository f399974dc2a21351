//! Kills a process tree, and establishes whether it is empty.
//!
//! The kill reaps no process before all are dead: each reaped process frees a slot that a fork bomb
//! at its RLIMIT_NPROC fills immediately. In a measurement, loops that reap while they kill did not
//! finish in five seconds. A process is dead when its pidfd is readable; the state `Z` is no proof,
//! since other threads may still run.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::time::Duration;

use siding_core::processes::cgroup::TaskGroup;
use siding_core::processes::tree;
use siding_core::store::StateDir;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::process::effective_uid;
use siding_core::sys::{clock, procfs, signals, tcp_sockets};
use siding_model::journal::TaskState;
use siding_model::lifecycle::TreeLiveness;
use siding_model::outcome::LeaderEnd;
use siding_model::process::{LeaderRef, ProcRef};
use siding_model::record::{EndedProcess, StopReport, Survivor};
use siding_model::signal::Signal;

use crate::process_tree::ProcessTree;

/// Time without progress after which the live processes count as survivors, in milliseconds. It
/// is progress when fewer processes are alive than in any round before, so that the end of hundreds
/// of processes can take longer on a busy system.
const NO_PROGRESS_LIMIT_MS: u64 = 10_000;
/// Maximum duration of a kill, in milliseconds, regardless of its progress, so that every stop
/// returns.
const MAX_KILL_MS: u64 = 25_000;
/// Time after which the live processes count as survivors if none of them can be signaled, for
/// example because all belong to other users, in milliseconds. A relay such as sudo usually needs
/// less time to terminate its own child.
const UNSIGNALABLE_LIMIT_MS: u64 = 2_000;
/// First and longest pause between two rounds of the kill.
const SWEEP_PAUSE_RANGE: (Duration, Duration) =
    (Duration::from_micros(200), Duration::from_millis(5));
/// Rounds after which SIGKILL is sent again to every live process.
const ROUNDS_PER_RESEND: u32 = 8;

/// The processes of a task's tree that received a signal, and the result of the kill.
#[derive(Debug, Default)]
pub(crate) struct TreeKill {
    /// The processes that received a signal, or whose process group or control group was signaled.
    signaled: HashSet<ProcRef>,
    /// At most [`StopReport::MAX_LISTED_PROCESSES`] of the signaled processes, by pid.
    reported: BTreeMap<i32, ReportedProcess>,
    /// The TCP ports on which the tree listened when [`Self::signal`] was called.
    ports: BTreeSet<u16>,
    survivors: Vec<Survivor>,
    /// The reason why it is unknown whether a process is left; `None` if that is known.
    unproven: Option<String>,
    gave_up: bool,
}

/// The result of a kill of the whole tree.
#[derive(Debug)]
pub(crate) struct KillResult {
    /// Number of processes known to be alive when the kill gave up; 0 if it succeeded.
    pub(crate) survivors: u32,
    /// The leader's end, if the kill found it.
    pub(crate) leader: Option<LeaderEnd>,
}

#[derive(Debug)]
struct ReportedProcess {
    process: ProcRef,
    command: String,
    signal: Signal,
}

/// The processes that a round of the kill found alive.
#[derive(Debug, Default)]
struct LiveMembers {
    processes: Vec<ProcRef>,
    /// Whether SIGKILL was sent to any of these processes without an error.
    any_signalable: bool,
}

impl TreeKill {
    /// Sends a signal to the whole tree, then SIGCONT. In a task with a terminal, SIGHUP follows
    /// SIGTERM for processes that ignore SIGTERM: interactive shells do, and end when their terminal
    /// is closed. A program that handles SIGTERM is not interrupted by a second signal.
    ///
    /// While the leader is a child of this shim that is not reaped, its process group is signaled
    /// with one kill(2), so that no fork in the group is missed: the number of the group cannot be
    /// reused before the leader is reaped. All other processes are signaled by pidfd.
    pub(crate) fn signal(
        &mut self,
        tree: &ProcessTree,
        root: &StateDir,
        task: &TaskState,
        signal: Signal,
    ) {
        let members = tree.members(root, task);
        let pids: Vec<i32> = members.iter().map(|process| process.pid).collect();
        self.ports.extend(tcp_sockets::listening_ports(&pids));
        let is_hung_up = |process: &ProcRef| procfs::ignores_signal(process.pid, Signal::TERM);
        let hung_up: Vec<ProcRef> = match &task.spec.terminal {
            Some(_) if signal == Signal::TERM => {
                members.iter().copied().filter(is_hung_up).collect()
            }
            Some(_) | None => Vec::new(),
        };
        for process in self.signal_group(tree, members, signal) {
            self.signal_process(process, signal);
        }
        for process in hung_up {
            self.signal_process(process, Signal::HUP);
        }
    }

    /// Sends a signal to a process, then SIGCONT.
    fn signal_process(&mut self, process: ProcRef, signal: Signal) {
        if let Ok(Some(held)) = PidFd::open_if_alive(process) {
            // The call fails with EPERM for a process of another user. Such a process usually
            // receives the signal from sudo, which relays its own signals.
            let _best_effort =
                self.send_and_record(process, signal, || held.send_signal(signal).is_ok());
            let _best_effort = held.send_signal(Signal::CONT);
        }
    }

    /// Sends a signal to the leader's group if [`leader_group_id`] returns one, then SIGCONT.
    /// Returns the members that still exist, as zombies or alive, and are not in that group.
    fn signal_group(
        &mut self,
        tree: &ProcessTree,
        members: Vec<ProcRef>,
        signal: Signal,
    ) -> Vec<ProcRef> {
        let group = leader_group_id(tree);
        let mut others = Vec::new();
        for process in members {
            let stat = procfs::stat(process.pid);
            // The pid may have been reused since the scan.
            let Some(stat) = stat.filter(|stat| stat.start_ticks == process.start_ticks) else {
                continue;
            };
            if Some(stat.pgrp) != group {
                others.push(process);
            } else if !matches!(PidFd::open_if_alive(process), Ok(None)) {
                // The process is recorded before the signal, because a dead process has no command
                // line.
                self.send_and_record(process, signal, || true);
            }
        }
        if let Some(group) = group {
            let _already_ended = signals::send_to_group(group, signal);
            let _already_ended = signals::send_to_group(group, Signal::CONT);
        }
        others
    }

    /// Kills the whole tree. Returns once it is proven that no process is left, or once a time
    /// limit has passed.
    pub(crate) fn kill(
        &mut self,
        tree: &mut ProcessTree,
        root: &StateDir,
        task: &TaskState,
    ) -> KillResult {
        let started = clock::monotonic_now();
        let (mut last_signalable, mut last_progress, mut fewest) = (started, started, usize::MAX);
        let members = tree.scan_members(root, task);
        let _best_effort = self.signal_group(tree, members, Signal::KILL);
        self.kill_control_group(root, task);
        let mut leader = None;
        let mut killed = HashMap::new();
        let mut pause = SWEEP_PAUSE_RANGE.0;
        for round in 1_u32.. {
            if round % ROUNDS_PER_RESEND == 0 {
                killed.clear();
            }
            let members = tree.scan_members(root, task);
            let living = self.kill_round(&members, &mut killed);
            // No process is reaped before all are dead.
            if living.processes.is_empty() {
                let status = tree.check_now(root, task);
                leader = leader.or(status.leader);
                if status.tree == TreeLiveness::Empty {
                    break;
                }
            }
            let now = clock::monotonic_now();
            if living.any_signalable || living.processes.is_empty() {
                last_signalable = now;
            }
            if living.processes.len() < fewest {
                (fewest, last_progress) = (living.processes.len(), now);
            }
            if now.ms_since(last_progress) > NO_PROGRESS_LIMIT_MS
                || now.ms_since(started) > MAX_KILL_MS
                || now.ms_since(last_signalable) > UNSIGNALABLE_LIMIT_MS
            {
                let describe =
                    |process: &ProcRef| describe_survivor(*process, now.ms_since(started));
                self.survivors = living.processes.iter().map(describe).collect();
                self.unproven = living
                    .processes
                    .is_empty()
                    .then(|| format_unproven(now.ms_since(last_progress)));
                self.gave_up = true;
                break;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(SWEEP_PAUSE_RANGE.1);
        }
        let survivors = u32::try_from(self.survivors.len()).unwrap_or(u32::MAX);
        KillResult { survivors, leader }
    }

    /// Kills the processes in the task's control group, if it has one. The rounds that follow are
    /// still needed: `cgroup.kill` misses a process whose main thread has exited, and processes
    /// that have left the group. If no process of the group can be listed, `cgroup.kill` is not
    /// used, so that no process is killed without being counted.
    fn kill_control_group(&mut self, root: &StateDir, task: &TaskState) {
        let Some(group) = TaskGroup::from_task(task).filter(TaskGroup::exists) else { return };
        let members = group.members(root);
        for process in &members {
            // The process is recorded before the kill, because a dead process has no command line.
            self.send_and_record(*process, Signal::KILL, || true);
        }
        if !members.is_empty() {
            group.kill(root);
        }
    }

    /// Sends SIGKILL to each live member that is not in `killed`, and adds the member to `killed`
    /// with whether the signal was delivered. Returns the live members.
    fn kill_round(
        &mut self,
        members: &[ProcRef],
        killed: &mut HashMap<ProcRef, bool>,
    ) -> LiveMembers {
        let mut alive = LiveMembers::default();
        for &process in members {
            let held = match PidFd::open_if_alive(process) {
                Ok(None) => continue,
                Ok(Some(held)) => Some(held),
                // For example, no descriptor is free: the process may be alive, and must not be
                // treated as dead.
                Err(_) => None,
            };
            alive.processes.push(process);
            let Some(held) = held else { continue };
            alive.any_signalable |= *killed.entry(process).or_insert_with(|| {
                // The call fails for a process of another user, such as a child of sudo, which
                // usually ends when sudo relays SIGTERM.
                self.send_and_record(process, Signal::KILL, || {
                    held.send_signal(Signal::KILL).is_ok()
                })
            });
        }
        alive
    }

    /// Calls `send`, which returns whether it delivered the signal, and records the process if so.
    /// Returns the result of `send`. If the report has room for the process, its command line is
    /// read before the first signal, while the process still has one.
    fn send_and_record(
        &mut self,
        process: ProcRef,
        signal: Signal,
        send: impl FnOnce() -> bool,
    ) -> bool {
        let known = self.signaled.contains(&process);
        let room = !known && self.reported.len() < StopReport::MAX_LISTED_PROCESSES;
        let command = room.then(|| tree::command_for_report(process.pid));
        if !send() {
            return false;
        }
        self.signaled.insert(process);
        if let Some(command) = command {
            self.reported.insert(process.pid, ReportedProcess { process, command, signal });
        } else if let Some(listed) = self.reported.get_mut(&process.pid)
            && listed.process == process
        {
            listed.signal = signal;
        }
        true
    }

    /// Returns the reason why the kill ended without a proof that no process is left; `None` if the
    /// kill did not give up.
    pub(crate) const fn missing_proof(&self) -> Option<&'static str> {
        if !self.gave_up {
            None
        } else if self.unproven.is_some() {
            Some("none: the remaining processes are unknown")
        } else {
            Some("none: a process could not be ended")
        }
    }

    /// Returns the report; `None` if there is nothing to report: no signaled process, no survivor
    /// and no unproven end.
    pub(crate) fn report(&self) -> Option<StopReport> {
        if self.signaled.is_empty() && self.survivors.is_empty() && self.unproven.is_none() {
            return None;
        }
        let lives = |process: &ProcRef| {
            self.survivors.iter().any(|survivor| survivor.pid == process.pid)
                && procfs::identify(process.pid) == Some(*process)
        };
        let ended: Vec<EndedProcess> = self
            .reported
            .iter()
            .filter(|(_, listed)| !lives(&listed.process))
            .map(|(pid, listed)| EndedProcess {
                pid: *pid,
                command: listed.command.clone(),
                signal: listed.signal.to_string(),
            })
            .collect();
        let total = self.signaled.iter().filter(|process| !lives(process)).count();
        let still =
            tcp_sockets::listening_ports(&self.survivors.iter().map(|s| s.pid).collect::<Vec<_>>());
        Some(StopReport {
            ended,
            ended_total: u32::try_from(total).unwrap_or(u32::MAX),
            survivors: self.survivors.clone(),
            ports_freed: self.ports.iter().copied().filter(|port| !still.contains(port)).collect(),
            unproven: self.unproven.clone(),
        })
    }
}

/// Returns the leader's process group, while its number cannot be reused: the leader is a child of
/// this shim and not reaped. Otherwise returns `None`.
fn leader_group_id(tree: &ProcessTree) -> Option<i32> {
    match tree {
        ProcessTree::Descendants { leader, .. } => leader.map(LeaderRef::pid),
        ProcessTree::Discovered { .. } => None,
    }
}

/// Returns the text for a kill that was given up while no process was known to be left, but without
/// a proof that none is.
fn format_unproven(looked_ms: u64) -> String {
    format!(
        "for {} s siding could not determine from /proc whether a process is left, perhaps because \
         no descriptor was free (`ulimit -n`); `siding reap` scans again",
        looked_ms / 1000
    )
}

/// Describes a process that is left after a kill that took `killed_ms`.
fn describe_survivor(process: ProcRef, killed_ms: u64) -> Survivor {
    let pid = process.pid;
    let uid = procfs::uid(pid);
    let sent = PidFd::open_if_alive(process)
        .and_then(|held| held.map_or(Ok(()), |held| held.send_signal(Signal::KILL)));
    let why = match sent {
        Err(error) => format_send_error(&error, uid, effective_uid()),
        Ok(()) => {
            let state = procfs::stat(pid).map_or('?', |stat| stat.state);
            format!("was still alive {} s after SIGKILL (state {state})", killed_ms / 1000)
        }
    };
    let uid = uid.unwrap_or(u32::MAX);
    Survivor { pid, command: tree::command_for_report(pid), uid, why }
}

/// Returns the reason why user `own` could not signal a process of user `uid`. `uid` is `None` if
/// `/proc` does not show the process's user.
fn format_send_error(error: &io::Error, uid: Option<u32>, own: u32) -> String {
    match uid {
        Some(uid) if uid != own && error.kind() == io::ErrorKind::PermissionDenied => {
            format!("belongs to user {uid}, and user {own} may not signal it")
        }
        Some(_) | None => format!("could not be sent SIGKILL: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_is_named_only_if_the_signal_was_denied() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let of_root = format_send_error(&denied, Some(0), 1000);
        assert_eq!(of_root, "belongs to user 0, and user 1000 may not signal it");
        for uid in [Some(1000), None] {
            let why = format_send_error(&denied, uid, 1000);
            assert_eq!(why, format!("could not be sent SIGKILL: {denied}"));
        }
        let exhausted = io::Error::other("no descriptor is free");
        let why = format_send_error(&exhausted, Some(0), 1000);
        assert_eq!(why, "could not be sent SIGKILL: no descriptor is free");
    }

    #[test]
    fn a_kill_with_survivors_and_one_without_a_view_have_different_texts() {
        assert_eq!(TreeKill::default().missing_proof(), None);
        let left = TreeKill { gave_up: true, ..TreeKill::default() };
        assert_eq!(left.missing_proof(), Some("none: a process could not be ended"));
        let unproven = Some(format_unproven(10_000));
        let unseen = TreeKill { gave_up: true, unproven, ..TreeKill::default() };
        assert_eq!(unseen.missing_proof(), Some("none: the remaining processes are unknown"));
    }
}
