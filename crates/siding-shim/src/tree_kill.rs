//! Ending a tree, and proving that it is gone.
//!
//! The kill never reaps before everything is dead: every reaped process frees a slot that a fork
//! bomb at its limit takes at once (measured: loops that reap while they kill do not finish in
//! five seconds). Dead means a readable pidfd; the letter `Z` is no proof.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use siding_core::cgroup::TaskGroup;
use siding_core::store::StateDir;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::process::effective_uid;
use siding_core::sys::{clock, procfs, signals, tcp_sockets};
use siding_core::tree;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TreeLiveness;
use siding_model::outcome::LeaderEnd;
use siding_model::process::{LeaderRef, ProcRef};
use siding_model::record::{EndedProcess, StopReport, Survivor};
use siding_model::signal::Signal;

use crate::process_tree::ProcessTree;

/// Time without progress after which what still lives is called a survivor. On a machine that is
/// busy with hundreds of dying processes each of them is a step.
const NO_PROGRESS_LIMIT_MS: u64 = 10_000;
/// The same whatever progress there is: a stop always returns.
const MAX_KILL_MS: u64 = 25_000;
/// The same once only other users' processes live, which no signal of ours reaches: time for a
/// relay such as sudo to take its own child along.
const UNSIGNALABLE_LIMIT_MS: u64 = 2_000;
/// First and longest pause between two looks of the sweep.
const SWEEP_PAUSE_RANGE: (Duration, Duration) =
    (Duration::from_micros(200), Duration::from_millis(5));
/// Rounds after which everything is sent SIGKILL again.
const ROUNDS_PER_RESEND: u32 = 8;

/// What was done to the tree.
#[derive(Debug, Default)]
pub(crate) struct TreeKill {
    /// Everybody who took a signal.
    signaled: HashSet<ProcRef>,
    /// The first of them, for the report.
    reported: BTreeMap<i32, ReportedProcess>,
    ports: BTreeSet<u16>,
    survivors: Vec<Survivor>,
    /// Why nobody could be named, where something may still be left.
    unproven: Option<String>,
    gave_up: bool,
}

/// What a kill came to.
#[derive(Debug)]
pub(crate) struct KillResult {
    /// Processes that could not be ended.
    pub(crate) survivors: u32,
    /// The leader's end, when the kill saw it.
    pub(crate) leader: Option<LeaderEnd>,
}

#[derive(Debug)]
struct ReportedProcess {
    process: ProcRef,
    command: String,
    signal: Signal,
}

/// Who lives after a round of the kill.
#[derive(Debug, Default)]
struct LiveMembers {
    processes: Vec<ProcRef>,
    /// Whether any of them takes our signals.
    any_signalable: bool,
}

impl TreeKill {
    /// Sends a signal to the whole tree, then SIGCONT.
    ///
    /// The leader's group is reached in one step, so that no fork in it is missed; its number is
    /// safe while the leader was not reaped. Everybody else is reached by pidfd.
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
        let others = self.signal_group(tree, members, signal);
        for process in others {
            if let Ok(Some(held)) = PidFd::open_if_alive(process) {
                // Another user's process: sudo and its like relay what reaches them.
                let _best_effort =
                    self.send_and_record(process, signal, || held.send_signal(signal).is_ok());
                let _best_effort = held.send_signal(Signal::CONT);
            }
        }
    }

    /// Sends a signal to the leader's group, then SIGCONT. Returns the living who are not in it.
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
            // Its number may have become another's.
            let Some(stat) = stat.filter(|stat| stat.start_ticks == process.start_ticks) else {
                continue;
            };
            if Some(stat.pgrp) != group {
                others.push(process);
            } else if !matches!(PidFd::open_if_alive(process), Ok(None)) {
                // Noted before anything is sent: the dead have no command line.
                self.send_and_record(process, signal, || true);
            }
        }
        if let Some(group) = group {
            let _already_ended = signals::send_to_group(group, signal);
            let _already_ended = signals::send_to_group(group, Signal::CONT);
        }
        others
    }

    /// Kills the whole tree.
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
            // Only now are the dead taken away.
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
                self.survivors =
                    living.processes.iter().map(|process| describe_survivor(*process)).collect();
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

    /// Kills what is in the task's control group, where it has one. The sweep comes all the same:
    /// this misses a process whose first thread has left, and whoever has left the group. It does
    /// all of it where nobody could be seen in the group, so that nobody is ended without being
    /// counted.
    fn kill_control_group(&mut self, root: &StateDir, task: &TaskState) {
        let Some(group) = TaskGroup::from_task(task).filter(TaskGroup::exists) else { return };
        let members = group.members(root);
        for process in &members {
            // Noted before it is done: the dead have no command line.
            self.send_and_record(*process, Signal::KILL, || true);
        }
        if !members.is_empty() {
            group.kill(root);
        }
    }

    /// Sends SIGKILL to every living member that has not had one; `killed` says who took it.
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
                // For want of a descriptor, say: it may live, and must not be taken for dead.
                Err(_) => None,
            };
            alive.processes.push(process);
            let Some(held) = held else { continue };
            alive.any_signalable |= *killed.entry(process).or_insert_with(|| {
                // sudo's child is root's: it dies with the sudo that relays TERM, not by us.
                self.send_and_record(process, Signal::KILL, || {
                    held.send_signal(Signal::KILL).is_ok()
                })
            });
        }
        alive
    }

    /// Sends a signal and notes that the process took it. Returns whether it did. The command line
    /// is read the first time, while there still is one.
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

    /// Whether the kill ended without a proof that nothing is left.
    pub(crate) const fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Returns the report, `None` when nothing had to be ended.
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

/// Returns the group that the leader leads, while its number cannot be another's.
fn leader_group_id(tree: &ProcessTree) -> Option<i32> {
    match tree {
        ProcessTree::Descendants { leader, .. } => leader.map(LeaderRef::pid),
        ProcessTree::Discovered { .. } => None,
    }
}

/// Says that nobody could be found to end, nor that there is nobody.
fn format_unproven(looked_ms: u64) -> String {
    format!(
        "for {} s /proc showed neither who is left nor that nobody is (no free descriptor?); \
         `siding reap` looks again",
        looked_ms / 1000
    )
}

fn describe_survivor(process: ProcRef) -> Survivor {
    let pid = process.pid;
    let uid = procfs::uid(pid).unwrap_or(u32::MAX);
    let own = effective_uid();
    let sent = PidFd::open_if_alive(process)
        .and_then(|held| held.map_or(Ok(()), |held| held.send_signal(Signal::KILL)));
    let why = if own != 0 && uid != own {
        format!("belongs to user {uid}, whom user {own} may not signal")
    } else if let Err(error) = sent {
        format!("could not be sent SIGKILL: {error}")
    } else {
        let state = procfs::stat(pid).map_or('?', |stat| stat.state);
        format!("did not die of SIGKILL within {} s (state {state})", NO_PROGRESS_LIMIT_MS / 1000)
    };
    Survivor { pid, command: tree::command_for_report(pid), uid, why }
}
