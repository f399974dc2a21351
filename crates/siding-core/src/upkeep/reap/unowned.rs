//! Ends processes that other programs left behind and that rules select.
//!
//! [`siding_model::unowned`] decides; this module gathers the facts and ends the trees. A tree is
//! inspected twice, the second time while a pidfd refers to each of its processes. A tree is ended
//! only if the second inspection selects it again. Each SIGTERM and SIGKILL is logged before it is
//! sent.

mod sweep;
mod unattended;

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use siding_model::process::ProcRef;
use siding_model::signal::Signal;
use siding_model::unowned::{
    OrphanRule, OrphanTree, ProcessInfo, ReapDecision, Requester, may_match_built_in,
    select_orphan_trees,
};

use super::ReapStep;
use super::reap_log::ReapLog;
use crate::processes::tree;
use crate::store::StateDir;
use crate::sys::pidfd::PidFd;
use crate::sys::procfs::{self, TICKS_PER_SECOND};
use crate::sys::{clock, process};

use sweep::TreeSweep;

pub use unattended::{is_unowned_report_unseen, reap_unowned_unattended, record_unowned_report};

/// The longest command line that is compared with a pattern, in bytes.
const MAX_COMMAND_BYTES: usize = 64 << 10;

/// The rules of a search for unowned orphans.
#[derive(Debug, Clone, Copy)]
pub struct UnownedRules<'r> {
    /// The rules that select processes. Without rules, no process is scanned.
    pub rules: &'r [OrphanRule],
    /// The minimum age of a process, for rules that specify no age.
    pub min_age: Duration,
}

/// Ends the unowned orphans that the rules select, each tree as a whole. With `dry_run`, only
/// returns the steps. A process that matches a pattern but is kept is reported as a
/// [`ReapStep::ForeignSpared`].
#[must_use]
pub fn reap_unowned(root: &StateDir, orphans: UnownedRules<'_>, dry_run: bool) -> Vec<ReapStep> {
    if orphans.rules.is_empty() {
        return Vec::new();
    }
    let since_ms = clock::since_boot_ms();
    let (verdicts, ages) = match orphans.scan() {
        Ok(scan) => scan,
        Err(error) => return vec![unlisted_step(&error)],
    };
    let mut steps = excluded_steps(&verdicts);
    if dry_run {
        for tree in &verdicts.trees {
            let members = tree.members.iter();
            steps.extend(
                members.map(|process| TreeMember::new(tree, *process, &ages).into_step(None)),
            );
        }
    } else if !verdicts.trees.is_empty() {
        steps.extend(end_trees(root, orphans, &verdicts.trees, since_ms));
    }
    steps
}

/// Ends those of the chosen trees that a second scan selects again.
fn end_trees(
    root: &StateDir,
    orphans: UnownedRules<'_>,
    chosen: &[OrphanTree],
    since_ms: u64,
) -> Vec<ReapStep> {
    // A pidfd denotes the same process even if the process ID is reused (pidfd_open(2)).
    let members = chosen.iter().flat_map(|tree| &tree.members);
    let held: Vec<PidFd> = members.filter_map(|member| PidFd::open(*member).ok()).collect();
    let log = match ReapLog::open(root) {
        Ok(log) => log,
        Err(error) => {
            let path = root.path().display();
            let why = format!("nothing was ended: could not write the log in `{path}`: {error}");
            return vec![ReapStep::ForeignFailed { why }];
        }
    };
    let (again, ages) = match orphans.scan() {
        Ok(scan) => scan,
        Err(error) => return vec![unlisted_step(&error)],
    };
    let mut sweep = TreeSweep::new(&log, since_ms);
    for tree in &again.trees {
        // A tree that appeared after the first scan is left to the next run.
        if chosen.iter().any(|seen| seen.members[0] == tree.members[0]) {
            sweep.add_tree(tree, &ages);
        }
    }
    drop(held);
    sweep.run()
}

fn unlisted_step(error: &io::Error) -> ReapStep {
    let why = format!("nothing was ended: could not list the processes: {error}");
    ReapStep::ForeignFailed { why }
}

type Ages = HashMap<ProcRef, Duration>;

impl UnownedRules<'_> {
    /// Returns whether any process is old enough and may match a built-in rule. Reads only one file
    /// of each process that does not match (5 µs), so that a session starts quickly on a machine
    /// without processes of this kind.
    fn may_match(self) -> bool {
        let mut buffer = vec![0; MAX_COMMAND_BYTES];
        let mut may_fit = |pid| {
            procfs::joined_command_words(pid, &mut buffer)
                .is_some_and(|line| may_match_built_in(&line))
        };
        let is_old = |pid| {
            procfs::stat(pid).is_some_and(|stat| process_age(stat.start_ticks) >= self.min_age)
        };
        // If the processes cannot be listed, the scan reports the error.
        procfs::all_pids()
            .map_or(true, |pids| pids.into_iter().any(|pid| may_fit(pid) && is_old(pid)))
    }

    fn scan(self) -> io::Result<(ReapDecision, Ages)> {
        let pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let viewer = Requester { pid, uid: process::effective_uid(), min_age: self.min_age };
        let processes: Vec<ProcessInfo> =
            procfs::all_pids()?.into_iter().filter_map(process_facts).collect();
        let ages = processes.iter().map(|one| (one.process, one.age)).collect();
        Ok((select_orphan_trees(&processes, self.rules, viewer), ages))
    }
}

fn process_facts(pid: i32) -> Option<ProcessInfo> {
    let stat = procfs::stat(pid)?;
    let (argv, name) = procfs::command_words(pid, MAX_COMMAND_BYTES)?;
    Some(ProcessInfo {
        process: ProcRef { pid, start_ticks: stat.start_ticks },
        ppid: stat.ppid,
        uid: procfs::single_uid(pid),
        age: process_age(stat.start_ticks),
        name,
        argv,
        has_terminal: stat.has_terminal,
        has_birthmark: procfs::birthmark(pid).is_some_and(|mark| mark.task_id().is_some()),
    })
}

fn process_age(start_ticks: u64) -> Duration {
    let started_ms = start_ticks.saturating_mul(1_000 / TICKS_PER_SECOND);
    Duration::from_millis(clock::since_boot_ms().saturating_sub(started_ms))
}

fn excluded_steps(verdicts: &ReapDecision) -> Vec<ReapStep> {
    let step = |one: &siding_model::unowned::KeptProcess| ReapStep::ForeignSpared {
        rule: one.rule.clone(),
        pid: one.process.pid,
        command: tree::command_for_report(one.process.pid),
        why: one.reason.to_string(),
    };
    verdicts.kept.iter().map(step).collect()
}

/// A process of a selected tree, with the facts that the report and the log contain.
#[derive(Debug, Clone)]
struct TreeMember {
    rule: String,
    top_pid: i32,
    process: ProcRef,
    age_ms: u64,
    command: String,
}

impl TreeMember {
    fn new(tree: &OrphanTree, process: ProcRef, ages: &Ages) -> Self {
        let age = ages.get(&process).copied().unwrap_or_default();
        Self {
            rule: tree.rule.clone(),
            top_pid: tree.members[0].pid,
            process,
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            command: tree::command_for_report(process.pid),
        }
    }

    fn into_step(self, signal: Option<Signal>) -> ReapStep {
        let Self { rule, top_pid, process, age_ms, command } = self;
        let signal = signal.map(|signal| signal.to_string());
        ReapStep::ForeignEnded { rule, pid: process.pid, top_pid, age_ms, command, signal }
    }
}
