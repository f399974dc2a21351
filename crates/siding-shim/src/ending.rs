//! Ending a tree, and proving that it is gone.
//!
//! The kill never reaps before everything is dead: every reaped process frees a slot that a fork
//! bomb at its limit takes at once (measured: loops that reap while they kill do not finish in
//! five seconds). Dead means a readable pidfd; the letter `Z` is no proof.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use siding_core::store::Root;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, process, procfs, signals, sockets};
use siding_core::tree;
use siding_model::id::TaskId;
use siding_model::lifecycle::Tree;
use siding_model::outcome::LeaderEnd;
use siding_model::process::ProcRef;
use siding_model::record::{EndedProcess, StopReport, Survivor};
use siding_model::signal::Signal;

use crate::kin::Kin;

/// Time after which what still lives is called a survivor.
const GIVE_UP_MS: u64 = 10_000;
/// First and longest pause between two looks of the sweep.
const PAUSE: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(5));
/// Rounds after which everything is sent SIGKILL again.
const AGAIN: u32 = 8;

/// What was done to the tree.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    touched: BTreeMap<i32, Touched>,
    touched_total: u32,
    ports: BTreeSet<u16>,
    survivors: Vec<Survivor>,
}

/// What a kill came to.
#[derive(Debug)]
pub(crate) struct Killed {
    /// Processes that could not be ended.
    pub(crate) survivors: u32,
    /// The leader's end, when the kill saw it.
    pub(crate) leader: Option<LeaderEnd>,
}

#[derive(Debug)]
struct Touched {
    command: String,
    signal: Signal,
}

impl Ending {
    /// Sends a signal to the whole tree, then SIGCONT.
    ///
    /// The leader's group is reached in one step, so that no fork in it is missed; its number is
    /// safe while the leader was not reaped. Everybody else is reached by pidfd.
    pub(crate) fn signal(&mut self, kin: &Kin, root: &Root, id: TaskId, signal: Signal) {
        let members = kin.members(root, id);
        self.ports.extend(sockets::listening(&members));
        // Before anything is sent: the dead have no command line.
        for pid in &members {
            self.touch(*pid, signal);
        }
        let group = leader_group(kin);
        if let Some(group) = group {
            let _all_gone = signals::send_to_group(group, signal);
            let _all_gone = signals::send_to_group(group, Signal::CONT);
        }
        for pid in members {
            let Some(stat) = procfs::stat(pid) else { continue };
            if Some(stat.pgrp) != group {
                let process = ProcRef { pid, start_ticks: stat.start_ticks };
                let Ok(held) = PidFd::open(process) else { continue };
                // Another user's process: sudo and its like relay what reaches them.
                let _refused = held.send(signal);
                let _refused = held.send(Signal::CONT);
            }
        }
    }

    /// Kills the whole tree.
    pub(crate) fn kill(&mut self, kin: &mut Kin, root: &Root, id: TaskId) -> Killed {
        let started = clock::mono();
        if let Some(group) = leader_group(kin) {
            for pid in kin.members(root, id) {
                if procfs::stat(pid).is_some_and(|stat| stat.pgrp == group && stat.state != 'Z') {
                    self.touch(pid, Signal::KILL);
                }
            }
            let _all_gone = signals::send_to_group(group, Signal::KILL);
        }
        let mut leader = None;
        let mut killed = HashSet::new();
        let mut pause = PAUSE.0;
        for round in 1_u32.. {
            if round % AGAIN == 0 {
                killed.clear();
            }
            let members = kin.members(root, id);
            let alive = self.kill_once(&members, &mut killed);
            // Only now are the dead taken away.
            if alive.is_empty() {
                let look = kin.look(root, id);
                leader = leader.or(look.leader);
                if look.tree == Tree::Empty {
                    break;
                }
            }
            if clock::mono().ms_since(started) > GIVE_UP_MS {
                self.survivors = alive.iter().map(|pid| survivor(*pid)).collect();
                break;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
        let survivors = u32::try_from(self.survivors.len()).unwrap_or(u32::MAX);
        Killed { survivors, leader }
    }

    /// Sends SIGKILL to every living member that has not had one. Returns the living.
    fn kill_once(&mut self, members: &[i32], killed: &mut HashSet<ProcRef>) -> Vec<i32> {
        let mut alive = Vec::new();
        for &pid in members {
            let Some(stat) = procfs::stat(pid) else { continue };
            let process = ProcRef { pid, start_ticks: stat.start_ticks };
            let Ok(held) = PidFd::open(process) else { continue };
            if held.is_dead() {
                continue;
            }
            alive.push(pid);
            if killed.insert(process) {
                self.touch(pid, Signal::KILL);
                // sudo's child is root's: it dies with the sudo that relays TERM, not by us.
                let _refused = held.send(Signal::KILL);
            }
        }
        alive
    }

    /// Notes that a process was sent a signal. The command line is read the first time.
    fn touch(&mut self, pid: i32, signal: Signal) {
        if let Some(known) = self.touched.get_mut(&pid) {
            known.signal = signal;
            return;
        }
        self.touched_total += 1;
        if self.touched.len() < StopReport::LISTED {
            self.touched.insert(pid, Touched { command: tree::command_of(pid), signal });
        }
    }

    /// Returns the report, `None` when nothing had to be ended.
    pub(crate) fn report(&self) -> Option<StopReport> {
        if self.touched.is_empty() && self.survivors.is_empty() {
            return None;
        }
        let lives = |pid: &i32| self.survivors.iter().any(|survivor| survivor.pid == *pid);
        let ended: Vec<EndedProcess> = self
            .touched
            .iter()
            .filter(|(pid, _)| !lives(pid))
            .map(|(pid, touched)| EndedProcess {
                pid: *pid,
                command: touched.command.clone(),
                signal: touched.signal.to_string(),
            })
            .collect();
        let living = u32::try_from(self.survivors.len()).unwrap_or(u32::MAX);
        let still = sockets::listening(&self.survivors.iter().map(|s| s.pid).collect::<Vec<_>>());
        Some(StopReport {
            ended,
            ended_total: self.touched_total.saturating_sub(living),
            survivors: self.survivors.clone(),
            ports_freed: self.ports.iter().copied().filter(|port| !still.contains(port)).collect(),
        })
    }
}

/// Returns the group that the leader leads, while its number cannot be another's.
fn leader_group(kin: &Kin) -> Option<i32> {
    match kin {
        Kin::Below { leader } => leader.map(|leader| leader.pid),
        Kin::Strays { .. } => None,
    }
}

fn survivor(pid: i32) -> Survivor {
    let uid = procfs::uid(pid).unwrap_or(u32::MAX);
    let own = process::effective_uid();
    let why = if own != 0 && uid != own {
        format!("belongs to user {uid}, whom user {own} may not signal")
    } else {
        let state = procfs::stat(pid).map_or('?', |stat| stat.state);
        format!("did not die of SIGKILL within {} s (state {state})", GIVE_UP_MS / 1000)
    };
    Survivor { pid, command: tree::command_of(pid), uid, why }
}
