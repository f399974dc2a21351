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

use super::leftovers::set_aside;
use super::{Standing, Step, Survey};
use crate::link;
use crate::store::{LockedTask, Root};
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, file, poll, process, procfs};
use crate::tree::{self, Marks};

/// Time between the polite signal and the kill, and after which what still lives is reported.
pub(super) const GRACE_MS: u64 = 2_000;
pub(super) const GIVE_UP_MS: u64 = 5_000;
/// Pause between two looks at a mark, before anybody is called a stray, and between two sweeps. A
/// new shim carries the mark of whoever started it until it has set its own, within this time.
const SECOND_LOOK: Duration = Duration::from_millis(20);
pub(super) const PAUSE: Duration = Duration::from_millis(2);

/// What keeps others away from a task while its strays are ended. Released when dropped.
#[derive(Debug)]
enum Hold {
    Task { _lock: LockedTask },
    Aside { _lock: OwnedFd },
}

/// Looks that are taken until one has seen everybody.
const LOOKS: u32 = 3;
/// Why a look is not whole, for a person.
const NOT_WHOLE: &str = "not every process could be read: `/proc` cannot be read, or no descriptor is \
    left (`ulimit -n`); strays may be left, and no ended task was removed";
const NOT_HELD: &str = "no descriptor was left to hold it by (`ulimit -n`)";

/// Strays of one task.
#[derive(Debug, Default)]
pub(super) struct Strays {
    /// Those that are held, and lived when they were.
    pub(super) held: Vec<PidFd>,
    /// Those for which no descriptor was left.
    pub(super) unheld: Vec<ProcRef>,
}

impl Strays {
    fn add(&mut self, process: ProcRef) {
        match PidFd::living(process) {
            Ok(Some(held)) => self.held.push(held),
            Ok(None) => {}
            Err(_) => self.unheld.push(process),
        }
    }

    /// Returns all of them.
    pub(super) fn processes(&self) -> impl Iterator<Item = ProcRef> {
        self.held.iter().map(|held| held.process).chain(self.unheld.iter().copied())
    }
}

/// Strays by task.
pub(super) type Found = BTreeMap<TaskId, Strays>;

/// What one look found.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// The strays.
    pub(super) found: Found,
    /// Whether every process of the machine could be read. Otherwise there may be others.
    pub(super) is_whole: bool,
}

impl Look {
    /// Returns the report of a look that was not whole.
    pub(super) fn trouble(&self) -> Option<Step> {
        (!self.is_whole).then(|| Step::StraysUnseen { why: NOT_WHOLE.to_owned() })
    }
}

/// Ends the strays. Returns the steps, and the tasks that may still have processes and must not be
/// forgotten: after a look that was not whole these are all.
pub(super) fn end(root: &Root, survey: &Survey) -> (Vec<Step>, HashSet<TaskId>) {
    end_found(root, survey, find(root, survey))
}

pub(super) fn end_found(root: &Root, survey: &Survey, look: Look) -> (Vec<Step>, HashSet<TaskId>) {
    let (mut steps, mut kept) = (Vec::new(), HashSet::new());
    let trouble = if look.found.is_empty() {
        look.trouble()
    } else {
        sweep(root, survey, look, &mut steps, &mut kept).trouble()
    };
    if let Some(trouble) = trouble {
        steps.push(trouble);
        kept.extend(survey.tasks.keys());
        kept.extend(set_aside(root).into_iter().map(|(id, _)| id));
    }
    (steps, kept)
}

/// Ends what a look has found. Returns the last look, and adds steps and the tasks that are left.
fn sweep(
    root: &Root,
    survey: &Survey,
    look: Look,
    steps: &mut Vec<Step>,
    kept: &mut HashSet<TaskId>,
) -> Look {
    let (held, busy): (Vec<_>, HashSet<TaskId>) = hold(root, survey, &look.found);
    kept.extend(busy);
    let wanted: HashSet<TaskId> = held.iter().map(|(id, _)| *id).collect();
    if wanted.is_empty() {
        return look;
    }
    std::thread::sleep(SECOND_LOOK);
    let mut sweep = Sweep { root, survey, wanted, done: HashMap::new() };
    sweep.signal_all(look.found);
    let left = sweep.kill();
    kept.extend(left.found.keys());
    for (process, touched) in sweep.done {
        let strays = left.found.get(&touched.task);
        let lives = strays.is_some_and(|strays| strays.processes().any(|one| one == process));
        steps.push(touched.step(process, lives));
    }
    for (task_id, process) in left
        .found
        .iter()
        .flat_map(|(id, strays)| strays.unheld.iter().map(move |process| (*id, *process)))
    {
        let (pid, command) = (process.pid, tree::command_of(process.pid));
        steps.push(Step::StrayLeft { task_id, pid, command, why: NOT_HELD.to_owned() });
    }
    left
}

/// Returns the strays there are now.
pub(super) fn find(root: &Root, survey: &Survey) -> Look {
    let mut look = find_once(root, survey);
    for _ in 1..LOOKS {
        if look.is_whole {
            break;
        }
        look = find_once(root, survey);
    }
    look
}

fn find_once(root: &Root, survey: &Survey) -> Look {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    // Most processes belong to tasks that somebody keeps, and only their marks are looked at.
    let is_kept_task =
        |task: &TaskId| matches!(survey.tasks.get(task), Some(Standing::Live { .. }));
    let mut marks = Marks::scan(|pid, task| pid != own && !is_kept_task(&task));
    let grouped = in_groups(root, survey);
    let carried: BTreeSet<TaskId> =
        marks.tasks().into_iter().chain(grouped.keys().copied()).collect();
    let is_whole = marks.is_whole();
    if carried.is_empty() {
        return Look { found: Found::new(), is_whole };
    }
    let aside: HashSet<TaskId> = set_aside(root).into_iter().map(|(id, _)| id).collect();
    let keepers: HashSet<ProcRef> = survey.shims().collect();
    let mut found = Found::new();
    for id in carried {
        let shim = match survey.tasks.get(&id) {
            // Its mark cannot be taken off again, and it was to go on.
            Some(Standing::Ended { released: true, .. }) => continue,
            Some(Standing::Ended { shim, .. }) => Some(*shim),
            None if aside.contains(&id) && !root.is_marked_live(id) => None,
            Some(
                Standing::Live { .. }
                | Standing::Unborn
                | Standing::Damaged { .. }
                | Standing::TooNew { .. }
                | Standing::Unreadable { .. },
            )
            | None => continue,
        };
        let mut processes = marks.take(id);
        for process in grouped.get(&id).into_iter().flatten() {
            if process.pid != own && !processes.contains(process) {
                processes.push(*process);
            }
        }
        processes.retain(|process| Some(*process) != shim && !is_kept(*process, &keepers));
        let mut strays = Strays::default();
        processes.into_iter().for_each(|process| strays.add(process));
        if strays.processes().next().is_some() {
            found.insert(id, strays);
        }
    }
    Look { found, is_whole }
}

/// Returns who lives in the control groups of ended tasks.
fn in_groups(root: &Root, survey: &Survey) -> HashMap<TaskId, Vec<ProcRef>> {
    let groups = survey.tasks.keys().filter_map(|id| Some((*id, survey.left_group(*id)?)));
    let populated = groups.filter(|(_, group)| group.is_populated());
    populated.map(|(id, group)| (id, group.members(root))).collect()
}

/// Whether a living shim of a task that has not ended is this process or above it: then that task
/// has taken it over, with its own deadline and its own stop.
fn is_kept(process: ProcRef, keepers: &HashSet<ProcRef>) -> bool {
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
fn hold(root: &Root, survey: &Survey, found: &Found) -> (Vec<(TaskId, Hold)>, HashSet<TaskId>) {
    let mut held = Vec::new();
    let mut busy = HashSet::new();
    let aside = set_aside(root);
    for id in found.keys() {
        let lock = match survey.tasks.get(id) {
            Some(Standing::Ended { shim, .. }) => {
                let lock = root.task(*id).ok().and_then(|dir| dir.try_lock().ok().flatten());
                if lock.is_none() {
                    // It is about to leave, unless somebody has stopped it.
                    let _only_courtesy = link::continue_stopped_shim(*shim);
                }
                lock.map(|lock| Hold::Task { _lock: lock })
            }
            _ => aside.iter().find(|(task, _)| task == id).and_then(|(_, name)| {
                let dir = file::open_at(root, name, file::Open::Directory).ok()?;
                file::try_lock(&dir).ok()?.then_some(Hold::Aside { _lock: dir })
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
struct Touched {
    task: TaskId,
    command: String,
    signal: Signal,
}

impl Touched {
    fn step(self, process: ProcRef, lives: bool) -> Step {
        let Self { task: task_id, command, signal } = self;
        let pid = process.pid;
        if lives {
            return Step::StrayLeft { task_id, pid, command, why: why_it_lives(pid) };
        }
        Step::StrayEnded { task_id, pid, command, signal: Some(signal.to_string()) }
    }
}

/// The work on one set of tasks.
struct Sweep<'a> {
    root: &'a Root,
    survey: &'a Survey,
    wanted: HashSet<TaskId>,
    done: HashMap<ProcRef, Touched>,
}

impl Sweep<'_> {
    /// Asks all strays to end, and gives them time to.
    fn signal_all(&mut self, found: Found) {
        let mut asked = Vec::new();
        for (id, strays) in found {
            for held in strays.held {
                if self.wanted.contains(&id) && self.send(id, &held, Signal::TERM) {
                    let _wakes_the_stopped = held.send(Signal::CONT);
                    asked.push(held);
                }
            }
        }
        let until = clock::mono().plus_ms(GRACE_MS);
        loop {
            asked.retain(|held| !held.is_dead());
            let left = until.ms_since(clock::mono());
            if asked.is_empty() || left == 0 {
                return;
            }
            let fds: Vec<_> = tree::descriptors(&asked).collect();
            if poll::wait(&fds, Some(left)).is_err() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Kills what is left and what was started meanwhile. Returns the last look, with what could not
    /// be ended.
    fn kill(&mut self) -> Look {
        let started = clock::mono();
        loop {
            let mut look = find(self.root, self.survey);
            look.found.retain(|id, _| self.wanted.contains(id));
            // With the descriptors of this round others are held in the next.
            let mut mortal = !look.is_whole;
            look.found.retain(|id, strays| {
                strays.held.retain(|held| !held.is_dead());
                for held in &strays.held {
                    mortal |= self.send(*id, held, Signal::KILL);
                }
                mortal |= !strays.unheld.is_empty();
                strays.processes().next().is_some()
            });
            if !mortal || clock::mono().ms_since(started) > GIVE_UP_MS {
                return look;
            }
            drop(look);
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends a signal to a stray that still is one. Returns whether it could be sent.
    fn send(&mut self, task: TaskId, held: &PidFd, signal: Signal) -> bool {
        // Both were read before the process was held; its number may have changed hands.
        let pid = held.process.pid;
        let is_one = procfs::birthmark(pid) == Some(task.birthmark())
            || self.survey.left_group(task).is_some_and(|group| group.holds(pid));
        if held.is_dead() || !is_one {
            return false;
        }
        let known = self.done.entry(held.process).or_insert_with(|| Touched {
            task,
            command: tree::command_of(held.process.pid),
            signal,
        });
        known.signal = signal;
        held.send(signal).is_ok()
    }
}

/// Returns why a process that was killed lives.
pub(super) fn why_it_lives(pid: i32) -> String {
    let own = process::effective_uid();
    match procfs::uid(pid) {
        Some(uid) if own != 0 && uid != own => {
            format!("belongs to user {uid}, whom user {own} may not signal")
        }
        _ => {
            let state = procfs::stat(pid).map_or('?', |stat| stat.state);
            format!("did not die of SIGKILL within {} s (state {state})", GIVE_UP_MS / 1000)
        }
    }
}
