//! Ends strays: processes of a task that has ended.
//!
//! A stray carries the mark of a task whose end is recorded or whose record was set aside, or is in
//! the control group of an ended task. The processes of a released task are not strays. No shim
//! supervises a stray: the task's lock is free, and the process is neither a living shim nor a
//! descendant of one. A mark without a record here comes from another state directory, and
//! processes with this mark are not touched.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::process::ProcRef;
use siding_model::signal::Signal;

use super::leftovers::quarantined_tasks;
use super::reap_log::{ReapLog, ReapLogLine, age_ms};
use super::{ReapStep, RecordedState, TaskSurvey};
use crate::processes::tree::{self, BirthmarkScan};
use crate::store::{LockedTask, StateDir};
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, file, poll, process, procfs};
use crate::task::shim_client;

/// Time between SIGTERM and SIGKILL, in milliseconds, unless all processes exit earlier.
pub(super) const TERM_GRACE_MS: u64 = 2_000;
/// The time after which a killed process that still lives is reported, in milliseconds.
pub(super) const KILL_TIMEOUT_MS: u64 = 5_000;
/// The pause between the two checks of a process's mark that must agree before the process is
/// terminated as a stray. A new shim carries the mark of its starter until it has set its own mark,
/// which takes less time than this pause.
const RECHECK_DELAY: Duration = Duration::from_millis(20);
/// Pause between two rounds of SIGKILL.
pub(super) const SWEEP_PAUSE: Duration = Duration::from_millis(2);

/// The lock of a task, which this process holds while it terminates the task's strays. Dropping the
/// value releases the lock.
#[derive(Debug)]
enum TaskGuard {
    Task { _lock: LockedTask },
    Aside { _lock: OwnedFd },
}

/// The name of the rule in `reaped.log`.
const TASK_ENDED_RULE: &str = "task-ended";
/// Maximum number of scans. A scan is repeated until it could read every process.
pub(super) const MAX_SCANS: u32 = 3;
/// The reason for an incomplete scan, as the report shows it.
const INCOMPLETE_SCAN_REASON: &str = "not every process could be read: `/proc` cannot be read, or no descriptor is \
    left (`ulimit -n`); strays may be left, and no ended task was removed";
const NO_DESCRIPTOR_REASON: &str = "no descriptor was left to open it (`ulimit -n`)";

#[derive(Debug, Default)]
pub(super) struct OrphanProcesses {
    /// Strays that were alive when their pidfd was opened.
    pub(super) pidfds: Vec<PidFd>,
    /// Strays that may be alive, but for which no descriptor was left.
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

    /// Returns all strays of the task, with and without a pidfd.
    pub(super) fn processes(&self) -> impl Iterator<Item = ProcRef> {
        self.pidfds.iter().map(|held| held.process).chain(self.without_pidfd.iter().copied())
    }
}

pub(super) type OrphansByTask = BTreeMap<TaskId, OrphanProcesses>;

#[derive(Debug, Default)]
pub(super) struct OrphanScan {
    pub(super) orphans: OrphansByTask,
    /// Whether every process of the machine could be read. If false, there may be more strays.
    pub(super) is_complete: bool,
}

impl OrphanScan {
    /// Returns the report of an incomplete scan, or `None` after a complete one.
    pub(super) fn incomplete_step(&self) -> Option<ReapStep> {
        (!self.is_complete)
            .then(|| ReapStep::StraysUnseen { why: INCOMPLETE_SCAN_REASON.to_owned() })
    }
}

/// Terminates the strays of all surveyed tasks. Returns the steps, and the tasks that may still
/// have processes, whose records must be kept. After an incomplete scan, any task may still have
/// processes.
pub(super) fn end_orphans(
    root: &StateDir,
    survey: &TaskSurvey,
) -> (Vec<ReapStep>, HashSet<TaskId>) {
    end_found_orphans(root, survey, find_orphans(root, survey))
}

pub(super) fn end_found_orphans(
    root: &StateDir,
    survey: &TaskSurvey,
    orphan_scan: OrphanScan,
) -> (Vec<ReapStep>, HashSet<TaskId>) {
    let (mut steps, mut kept) = (Vec::new(), HashSet::new());
    let trouble = if orphan_scan.orphans.is_empty() {
        orphan_scan.incomplete_step()
    } else {
        sweep_tasks(root, survey, orphan_scan, &mut steps, &mut kept).incomplete_step()
    };
    if let Some(trouble) = trouble {
        steps.push(trouble);
        kept.extend(survey.tasks.keys());
        kept.extend(quarantined_tasks(root).into_iter().map(|(id, _)| id));
    }
    (steps, kept)
}

/// Ends the strays that a scan found. Adds the steps to `steps`, and the tasks that may still have
/// processes to `kept`. Returns the last scan.
fn sweep_tasks(
    root: &StateDir,
    survey: &TaskSurvey,
    orphan_scan: OrphanScan,
    steps: &mut Vec<ReapStep>,
    kept: &mut HashSet<TaskId>,
) -> OrphanScan {
    let (held, busy): (Vec<_>, HashSet<TaskId>) = lock_tasks(root, survey, &orphan_scan.orphans);
    kept.extend(busy);
    let wanted: HashSet<TaskId> = held.iter().map(|(id, _)| *id).collect();
    if wanted.is_empty() {
        return orphan_scan;
    }
    std::thread::sleep(RECHECK_DELAY);
    let log = ReapLog::open(root).ok();
    let mut sweep = OrphanSweep { root, survey, wanted, signaled: HashMap::new(), log };
    sweep.terminate_all(orphan_scan.orphans);
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

/// Returns the strays that exist now. Repeats an incomplete scan.
pub(super) fn find_orphans(root: &StateDir, survey: &TaskSurvey) -> OrphanScan {
    let mut orphan_scan = scan_once(root, survey);
    for _ in 1..MAX_SCANS {
        if orphan_scan.is_complete {
            break;
        }
        orphan_scan = scan_once(root, survey);
    }
    orphan_scan
}

fn scan_once(root: &StateDir, survey: &TaskSurvey) -> OrphanScan {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    // Most processes belong to supervised tasks; for these, only the mark is read.
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
    let aside: HashSet<TaskId> = quarantined_tasks(root).into_iter().map(|(id, _)| id).collect();
    let keepers: HashSet<ProcRef> = survey.live_shims().collect();
    let mut found = OrphansByTask::new();
    for id in carried {
        let shim = match survey.tasks.get(&id) {
            // A released process cannot lose its mark, and was released so that it keeps running.
            Some(RecordedState::Ended { keeps_marked_processes: true, .. }) => continue,
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

/// Returns the processes in the control groups of ended tasks.
fn processes_in_groups(root: &StateDir, survey: &TaskSurvey) -> HashMap<TaskId, Vec<ProcRef>> {
    let groups = survey.tasks.keys().filter_map(|id| Some((*id, survey.leftover_group(*id)?)));
    let populated = groups.filter(|(_, group)| group.is_populated());
    populated.map(|(id, group)| (id, group.members(root))).collect()
}

/// Returns whether this process is a living shim of a task that has not ended, or a descendant of
/// such a shim. The deadline and a stop of that task then apply to the process.
fn is_below_live_shim(process: ProcRef, keepers: &HashSet<ProcRef>) -> bool {
    let mut pid = process.pid;
    // The loop is bounded, because the parents may form a cycle if a process ID is reused between
    // the reads.
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

/// Locks the tasks that have strays. Returns the locks, and the tasks that could not be locked,
/// usually because another process holds the lock.
fn lock_tasks(
    root: &StateDir,
    survey: &TaskSurvey,
    found: &OrphansByTask,
) -> (Vec<(TaskId, TaskGuard)>, HashSet<TaskId>) {
    let mut held = Vec::new();
    let mut busy = HashSet::new();
    let aside = quarantined_tasks(root);
    for id in found.keys() {
        let lock = match survey.tasks.get(id) {
            Some(RecordedState::Ended { shim, .. }) => {
                let lock = root.task_dir(*id).ok().and_then(|dir| dir.try_lock().ok().flatten());
                if lock.is_none() {
                    // The shim is about to exit, unless a signal has stopped it.
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

/// A stray that was signaled, with its last signal.
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
            let why = survival_reason(pid, Some(signal));
            return ReapStep::StrayLeft { task_id, pid, command, why };
        }
        ReapStep::StrayEnded { task_id, pid, command, signal: Some(signal.to_string()) }
    }
}

/// The strays of a set of locked tasks, which are signaled together.
struct OrphanSweep<'a> {
    root: &'a StateDir,
    survey: &'a TaskSurvey,
    wanted: HashSet<TaskId>,
    signaled: HashMap<ProcRef, SignaledOrphan>,
    /// `None` if the log could not be opened.
    log: Option<ReapLog>,
}

impl OrphanSweep<'_> {
    /// Sends SIGTERM to all strays, and waits up to [`TERM_GRACE_MS`] for their exit.
    fn terminate_all(&mut self, found: OrphansByTask) {
        let mut asked = Vec::new();
        for (id, strays) in found {
            for held in strays.pidfds {
                if self.wanted.contains(&id) && self.send_signal(id, &held, Signal::TERM) {
                    // A stopped process handles SIGTERM only once it is continued.
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

    /// Kills the strays that are left and those that were started in the meantime. Returns the last
    /// scan, which contains the strays that could not be terminated.
    fn kill_remaining(&mut self) -> OrphanScan {
        let started = clock::monotonic_now();
        loop {
            let mut orphan_scan = find_orphans(self.root, self.survey);
            orphan_scan.orphans.retain(|id, _| self.wanted.contains(id));
            // Strays for which no descriptor was left are killed in the next round, which reuses
            // the descriptors of this one.
            let mut mortal = !orphan_scan.is_complete;
            orphan_scan.orphans.retain(|id, strays| {
                strays.pidfds.retain(|held| !held.is_dead());
                for held in &strays.pidfds {
                    mortal |= self.send_signal(*id, held, Signal::KILL);
                }
                mortal |= !strays.without_pidfd.is_empty();
                strays.processes().next().is_some()
            });
            if !mortal || clock::monotonic_now().ms_since(started) > KILL_TIMEOUT_MS {
                return orphan_scan;
            }
            drop(orphan_scan);
            std::thread::sleep(SWEEP_PAUSE);
        }
    }

    /// Sends a signal to a process if it is still a stray, after writing a line to the log. Returns
    /// whether the signal could be sent.
    fn send_signal(&mut self, task: TaskId, held: &PidFd, signal: Signal) -> bool {
        // The mark and the group are checked again: they were read before the pidfd was opened, and
        // the process ID may have been reused since.
        let pid = held.process.pid;
        let is_one = procfs::birthmark(pid) == Some(task.birthmark())
            || self.survey.leftover_group(task).is_some_and(|group| group.contains(pid));
        if held.is_dead() || !is_one {
            return false;
        }
        let last_signal = self.signaled.get(&held.process).map(|known| known.signal);
        let known = self.signaled.entry(held.process).or_insert_with(|| SignaledOrphan {
            task,
            command: tree::command_for_report(held.process.pid),
            signal,
        });
        known.signal = signal;
        if last_signal != Some(signal)
            && let Some(log) = &self.log
        {
            let _best_effort = log.append(&ReapLogLine {
                at: clock::unix_now().rfc3339(),
                rule: TASK_ENDED_RULE,
                pid,
                start_ticks: held.process.start_ticks,
                top_pid: pid,
                age_ms: age_ms(held.process),
                signal: signal.to_string(),
                command: &known.command,
            });
        }
        held.send_signal(signal).is_ok()
    }
}

/// Returns the reason why a process is left, for the report. `signal` is the last signal that was
/// sent to the process.
pub(super) fn survival_reason(pid: i32, signal: Option<Signal>) -> String {
    let own = process::effective_uid();
    if let Some(uid) = procfs::uid(pid).filter(|uid| own != 0 && *uid != own) {
        return format!("belongs to user {uid}, and user {own} may not signal it");
    }
    let state = procfs::stat(pid).map_or('?', |stat| stat.state);
    if signal == Some(Signal::KILL) {
        format!("was still alive {} s after SIGKILL (state {state})", KILL_TIMEOUT_MS / 1000)
    } else {
        format!("was not sent SIGKILL (state {state})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_sigkill_is_not_reported_as_one_that_survived_it() {
        let own = procfs::self_ref().expect("this process").pid;
        for signal in [None, Some(Signal::TERM)] {
            let why = survival_reason(own, signal);
            assert!(why.starts_with("was not sent SIGKILL (state "), "{why}");
        }
        let why = survival_reason(own, Some(Signal::KILL));
        assert!(why.starts_with("was still alive 5 s after SIGKILL (state "), "{why}");
    }
}
