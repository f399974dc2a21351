//! Ending processes whose task has ended.
//!
//! A stray carries the mark of a task that has ended on record, or whose record was set aside, or
//! is in the control group of one that has ended, and nobody keeps it: the task's lock is free, and
//! no living shim is it or above it. Marks that no record here explains belong to another state
//! directory and are left alone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::process::ProcRef;
use siding_model::signal::Signal;

use super::leftovers::tasks_set_aside;
use super::{ReapStep, RecordedState, TaskSurvey};
use crate::shim_client;
use crate::store::{LockedTask, StateDir};
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, file, poll, process, procfs};
use crate::tree::{self, BirthmarkScan};

/// Time between the polite signal and the kill, and after which what still lives is reported.
pub(super) const TERM_GRACE_MS: u64 = 2_000;
pub(super) const KILL_TIMEOUT_MS: u64 = 5_000;
/// Pause between two looks at a mark, before anybody is called a stray, and between two sweeps. A
/// new shim carries the mark of whoever started it until it has set its own, within this time.
const RECHECK_DELAY: Duration = Duration::from_millis(20);
pub(super) const SWEEP_PAUSE: Duration = Duration::from_millis(2);

/// What keeps others away from a task while its strays are ended. Released when dropped.
#[derive(Debug)]
enum TaskGuard {
    Task { _lock: LockedTask },
    Aside { _lock: OwnedFd },
}

/// Looks that are taken until one has seen everybody.
const MAX_SCANS: u32 = 3;
/// Why a look is not whole, for a person.
const INCOMPLETE_SCAN_REASON: &str = "not every process could be read: `/proc` cannot be read, or no descriptor is \
    left (`ulimit -n`); strays may be left, and no ended task was removed";
const NO_DESCRIPTOR_REASON: &str = "no descriptor was left to hold it by (`ulimit -n`)";

/// Strays of one task.
#[derive(Debug, Default)]
pub(super) struct OrphanProcesses {
    /// Those that are held, and lived when they were.
    pub(super) pidfds: Vec<PidFd>,
    /// Those for which no descriptor was left.
    pub(super) without_pidfd: Vec<ProcRef>,
}

impl OrphanProcesses {
    fn add(&mut self, process: ProcRef) {
        match PidFd::open_if_alive(process) {
            Ok(Some(held)) => self.pidfds.push(held),
            Ok(None) => {}
            Err(_) => self.without_pidfd.push(process),
        }
    }

    /// Returns all of them.
    pub(super) fn processes(&self) -> impl Iterator<Item = ProcRef> {
        self.pidfds.iter().map(|held| held.process).chain(self.without_pidfd.iter().copied())
    }
}

/// Strays by task.
pub(super) type OrphansByTask = BTreeMap<TaskId, OrphanProcesses>;

/// What one look found.
#[derive(Debug, Default)]
pub(super) struct OrphanScan {
    /// The strays.
    pub(super) orphans: OrphansByTask,
    /// Whether every process of the machine could be read. Otherwise there may be others.
    pub(super) is_complete: bool,
}

impl OrphanScan {
    /// Returns the report of a look that was not whole.
    pub(super) fn incomplete_step(&self) -> Option<ReapStep> {
        (!self.is_complete)
            .then(|| ReapStep::StraysUnseen { why: INCOMPLETE_SCAN_REASON.to_owned() })
    }
}

/// Ends the strays. Returns the steps, and the tasks that may still have processes and must not be
/// forgotten: after a look that was not whole these are all.
pub(super) fn end_orphans(
    root: &StateDir,
    survey: &TaskSurvey,
) -> (Vec<ReapStep>, HashSet<TaskId>) {
    end_found_orphans(root, survey, find_orphans(root, survey))
}

pub(super) fn end_found_orphans(
    root: &StateDir,
    survey: &TaskSurvey,
    look: OrphanScan,
) -> (Vec<ReapStep>, HashSet<TaskId>) {
    let (mut steps, mut kept) = (Vec::new(), HashSet::new());
    let trouble = if look.orphans.is_empty() {
        look.incomplete_step()
    } else {
        sweep_tasks(root, survey, look, &mut steps, &mut kept).incomplete_step()
    };
    if let Some(trouble) = trouble {
        steps.push(trouble);
        kept.extend(survey.tasks.keys());
        kept.extend(tasks_set_aside(root).into_iter().map(|(id, _)| id));
    }
    (steps, kept)
}

/// Ends what a look has found. Returns the last look, and adds steps and the tasks that are left.
fn sweep_tasks(
    root: &StateDir,
    survey: &TaskSurvey,
    look: OrphanScan,
    steps: &mut Vec<ReapStep>,
    kept: &mut HashSet<TaskId>,
) -> OrphanScan {
    let (held, busy): (Vec<_>, HashSet<TaskId>) = lock_tasks(root, survey, &look.orphans);
    kept.extend(busy);
    let wanted: HashSet<TaskId> = held.iter().map(|(id, _)| *id).collect();
    if wanted.is_empty() {
        return look;
    }
    std::thread::sleep(RECHECK_DELAY);
    let mut sweep = OrphanSweep { root, survey, wanted, signaled: HashMap::new() };
    sweep.terminate_all(look.orphans);
    let left = sweep.kill_remaining();
    kept.extend(left.orphans.keys());
    for (process, touched) in sweep.signaled {
        let strays = left.orphans.get(&touched.task);
        let lives = strays.is_some_and(|strays| strays.processes().any(|one| one == process));
        steps.push(touched.into_step(process, lives));
    }
    for (task_id, process) in left
        .orphans
        .iter()
        .flat_map(|(id, strays)| strays.without_pidfd.iter().map(move |process| (*id, *process)))
    {
        let (pid, command) = (process.pid, tree::command_for_report(process.pid));
        steps.push(ReapStep::StrayLeft {
            task_id,
            pid,
            command,
            why: NO_DESCRIPTOR_REASON.to_owned(),
        });
    }
    left
}

/// Returns the strays there are now.
pub(super) fn find_orphans(root: &StateDir, survey: &TaskSurvey) -> OrphanScan {
    let mut look = scan_once(root, survey);
    for _ in 1..MAX_SCANS {
        if look.is_complete {
            break;
        }
        look = scan_once(root, survey);
    }
    look
}

fn scan_once(root: &StateDir, survey: &TaskSurvey) -> OrphanScan {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    // Most processes belong to tasks that somebody keeps, and only their marks are looked at.
    let is_kept_task =
        |task: &TaskId| matches!(survey.tasks.get(task), Some(RecordedState::Live { .. }));
    let mut marks = BirthmarkScan::scan(|pid, task| pid != own && !is_kept_task(&task));
    let grouped = processes_in_groups(root, survey);
    let carried: BTreeSet<TaskId> =
        marks.tasks_with_processes().into_iter().chain(grouped.keys().copied()).collect();
    let is_whole = marks.is_complete();
    if carried.is_empty() {
        return OrphanScan { orphans: OrphansByTask::new(), is_complete: is_whole };
    }
    let aside: HashSet<TaskId> = tasks_set_aside(root).into_iter().map(|(id, _)| id).collect();
    let keepers: HashSet<ProcRef> = survey.live_shims().collect();
    let mut found = OrphansByTask::new();
    for id in carried {
        let shim = match survey.tasks.get(&id) {
            // Its mark cannot be taken off again, and it was to go on.
            Some(RecordedState::Ended { released: true, .. }) => continue,
            Some(RecordedState::Ended { shim, .. }) => Some(*shim),
            None if aside.contains(&id) && !root.is_marked_live(id) => None,
            Some(
                RecordedState::Live { .. }
                | RecordedState::NeverRecorded
                | RecordedState::Damaged { .. }
                | RecordedState::TooNew { .. }
                | RecordedState::Unreadable { .. },
            )
            | None => continue,
        };
        let mut processes = marks.take_processes_of(id);
        for process in grouped.get(&id).into_iter().flatten() {
            if process.pid != own && !processes.contains(process) {
                processes.push(*process);
            }
        }
        processes
            .retain(|process| Some(*process) != shim && !is_below_live_shim(*process, &keepers));
        let mut strays = OrphanProcesses::default();
        processes.into_iter().for_each(|process| strays.add(process));
        if strays.processes().next().is_some() {
            found.insert(id, strays);
        }
    }
    OrphanScan { orphans: found, is_complete: is_whole }
}

/// Returns who lives in the control groups of ended tasks.
fn processes_in_groups(root: &StateDir, survey: &TaskSurvey) -> HashMap<TaskId, Vec<ProcRef>> {
    let groups = survey.tasks.keys().filter_map(|id| Some((*id, survey.leftover_group(*id)?)));
    let populated = groups.filter(|(_, group)| group.is_populated());
    populated.map(|(id, group)| (id, group.members(root))).collect()
}

/// Whether a living shim of a task that has not ended is this process or above it: then that task
/// has taken it over, with its own deadline and its own stop.
fn is_below_live_shim(process: ProcRef, keepers: &HashSet<ProcRef>) -> bool {
    let mut pid = process.pid;
    // A loop of parents can only be a race with the numbers' reuse.
    for _ in 0..1_000 {
        let Some(stat) = procfs::stat(pid) else { return false };
        if keepers.contains(&ProcRef { pid, start_ticks: stat.start_ticks }) {
            return true;
        }
        if stat.ppid <= 1 {
            return false;
        }
        pid = stat.ppid;
    }
    false
}

/// Takes the locks of tasks. Returns those that it has, and the tasks that somebody else has.
fn lock_tasks(
    root: &StateDir,
    survey: &TaskSurvey,
    found: &OrphansByTask,
) -> (Vec<(TaskId, TaskGuard)>, HashSet<TaskId>) {
    let mut held = Vec::new();
    let mut busy = HashSet::new();
    let aside = tasks_set_aside(root);
    for id in found.keys() {
        let lock = match survey.tasks.get(id) {
            Some(RecordedState::Ended { shim, .. }) => {
                let lock = root.task_dir(*id).ok().and_then(|dir| dir.try_lock().ok().flatten());
                if lock.is_none() {
                    // It is about to leave, unless somebody has stopped it.
                    let _best_effort = shim_client::continue_stopped_shim(*shim);
                }
                lock.map(|lock| TaskGuard::Task { _lock: lock })
            }
            _ => aside.iter().find(|(task, _)| task == id).and_then(|(_, name)| {
                let dir = file::open_at(root, name, file::OpenMode::Directory).ok()?;
                file::try_lock_exclusive(&dir).ok()?.then_some(TaskGuard::Aside { _lock: dir })
            }),
        };
        match lock {
            Some(lock) => held.push((*id, lock)),
            None => drop(busy.insert(*id)),
        }
    }
    (held, busy)
}

/// What was done to a stray.
#[derive(Debug)]
struct SignaledOrphan {
    task: TaskId,
    command: String,
    signal: Signal,
}

impl SignaledOrphan {
    fn into_step(self, process: ProcRef, lives: bool) -> ReapStep {
        let Self { task: task_id, command, signal } = self;
        let pid = process.pid;
        if lives {
            return ReapStep::StrayLeft { task_id, pid, command, why: survival_reason(pid) };
        }
        ReapStep::StrayEnded { task_id, pid, command, signal: Some(signal.to_string()) }
    }
}

/// The work on one set of tasks.
struct OrphanSweep<'a> {
    root: &'a StateDir,
    survey: &'a TaskSurvey,
    wanted: HashSet<TaskId>,
    signaled: HashMap<ProcRef, SignaledOrphan>,
}

impl OrphanSweep<'_> {
    /// Asks all strays to end, and gives them time to.
    fn terminate_all(&mut self, found: OrphansByTask) {
        let mut asked = Vec::new();
        for (id, strays) in found {
            for held in strays.pidfds {
                if self.wanted.contains(&id) && self.send_signal(id, &held, Signal::TERM) {
                    let _already_ended = held.send_signal(Signal::CONT);
                    asked.push(held);
                }
            }
        }
        let until = clock::monotonic_now().plus_ms(TERM_GRACE_MS);
        loop {
            asked.retain(|held| !held.is_dead());
            let left = until.ms_since(clock::monotonic_now());
            if asked.is_empty() || left == 0 {
                return;
            }
            let fds: Vec<_> = tree::as_borrowed_fds(&asked).collect();
            if poll::wait_readable(&fds, Some(left)).is_err() {
                std::thread::sleep(SWEEP_PAUSE);
            }
        }
    }

    /// Kills what is left and what was started meanwhile. Returns the last look, with what could not
    /// be ended.
    fn kill_remaining(&mut self) -> OrphanScan {
        let started = clock::monotonic_now();
        loop {
            let mut look = find_orphans(self.root, self.survey);
            look.orphans.retain(|id, _| self.wanted.contains(id));
            // With the descriptors of this round others are held in the next.
            let mut mortal = !look.is_complete;
            look.orphans.retain(|id, strays| {
                strays.pidfds.retain(|held| !held.is_dead());
                for held in &strays.pidfds {
                    mortal |= self.send_signal(*id, held, Signal::KILL);
                }
                mortal |= !strays.without_pidfd.is_empty();
                strays.processes().next().is_some()
            });
            if !mortal || clock::monotonic_now().ms_since(started) > KILL_TIMEOUT_MS {
                return look;
            }
            drop(look);
            std::thread::sleep(SWEEP_PAUSE);
        }
    }

    /// Sends a signal to a stray that still is one. Returns whether it could be sent.
    fn send_signal(&mut self, task: TaskId, held: &PidFd, signal: Signal) -> bool {
        // Both were read before the process was held; its number may have changed hands.
        let pid = held.process.pid;
        let is_one = procfs::birthmark(pid) == Some(task.birthmark())
            || self.survey.leftover_group(task).is_some_and(|group| group.contains(pid));
        if held.is_dead() || !is_one {
            return false;
        }
        let known = self.signaled.entry(held.process).or_insert_with(|| SignaledOrphan {
            task,
            command: tree::command_for_report(held.process.pid),
            signal,
        });
        known.signal = signal;
        held.send_signal(signal).is_ok()
    }
}

/// Returns why a process that was killed lives.
pub(super) fn survival_reason(pid: i32) -> String {
    let own = process::effective_uid();
    match procfs::uid(pid) {
        Some(uid) if own != 0 && uid != own => {
            format!("belongs to user {uid}, whom user {own} may not signal")
        }
        _ => {
            let state = procfs::stat(pid).map_or('?', |stat| stat.state);
            format!("did not die of SIGKILL within {} s (state {state})", KILL_TIMEOUT_MS / 1000)
        }
    }
}
