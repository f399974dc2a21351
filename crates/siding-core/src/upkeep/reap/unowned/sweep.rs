//! Ends the selected process trees with SIGTERM, then SIGKILL, and logs each of these signals.

use siding_model::process::ProcRef;
use siding_model::signal::Signal;
use siding_model::unowned::OrphanTree;

use super::super::ReapStep;
use super::super::orphan_processes::{
    KILL_TIMEOUT_MS, SWEEP_PAUSE, TERM_GRACE_MS, survival_reason,
};
use super::super::reap_log::{ReapLog, ReapLogLine};
use super::{Ages, TreeMember};
use crate::processes::tree;
use crate::sys::pidfd::PidFd;
use crate::sys::procfs::{self, TICKS_PER_SECOND};
use crate::sys::{clock, poll, process};

#[derive(Debug)]
struct TargetProcess {
    member: TreeMember,
    pidfd: PidFd,
    /// The last signal that was sent, apart from SIGCONT; `None` if none was sent yet.
    signal: Option<Signal>,
}

/// The processes of all selected trees, which are signaled together.
#[derive(Debug)]
pub(super) struct TreeSweep<'l> {
    log: &'l ReapLog,
    /// Start of the first scan, in clock ticks since boot.
    since_ticks: u64,
    targets: Vec<TargetProcess>,
    /// The processes that could not be opened for a signal, with the error.
    unopened: Vec<(TreeMember, String)>,
    error: Option<String>,
}

impl<'l> TreeSweep<'l> {
    pub(super) fn new(log: &'l ReapLog, since_ms: u64) -> Self {
        let since_ticks = since_ms / (1_000 / TICKS_PER_SECOND);
        Self { log, since_ticks, targets: Vec::new(), unopened: Vec::new(), error: None }
    }

    /// Adds the living processes of a tree.
    pub(super) fn add_tree(&mut self, tree: &OrphanTree, ages: &Ages) {
        for process in &tree.members {
            self.add_target(*process, || TreeMember::new(tree, *process, ages));
        }
    }

    /// Adds a process if it is alive.
    fn add_target(&mut self, process: ProcRef, member: impl FnOnce() -> TreeMember) {
        match PidFd::open_if_alive(process) {
            Ok(Some(pidfd)) => {
                self.targets.push(TargetProcess { member: member(), pidfd, signal: None });
            }
            Ok(None) => {}
            Err(error) => self.unopened.push((member(), error.to_string())),
        }
    }

    /// Sends SIGTERM to all processes, gives them time to exit, and kills the remaining processes
    /// and those that they have started. Returns a step for each process. If the log cannot be
    /// written, no more signals are sent, and a last step reports the failure.
    pub(super) fn run(mut self) -> Vec<ReapStep> {
        self.signal_all(Signal::TERM);
        self.wait_for_exit();
        let started = clock::monotonic_now();
        while self.targets.iter().any(|going| !going.pidfd.is_dead()) || self.may_have_grown() {
            if self.error.is_some() || clock::monotonic_now().ms_since(started) > KILL_TIMEOUT_MS {
                break;
            }
            self.signal_all(Signal::KILL);
            std::thread::sleep(SWEEP_PAUSE);
        }
        let failed = self.error.take().map(|why| ReapStep::ForeignFailed { why });
        let unopened = std::mem::take(&mut self.unopened).into_iter().map(|(member, error)| {
            let TreeMember { rule, process, command, .. } = member;
            let why = format!("it could not be signaled: {error}");
            ReapStep::ForeignLeft { rule, pid: process.pid, command, why }
        });
        let step = |going: TargetProcess| {
            let TargetProcess { member, pidfd: held, signal } = going;
            if held.is_dead() {
                return member.into_step(signal);
            }
            let TreeMember { rule, process, command, .. } = member;
            ReapStep::ForeignLeft {
                rule,
                pid: process.pid,
                command,
                why: survival_reason(process.pid, signal),
            }
        };
        self.targets.into_iter().map(step).chain(unopened).chain(failed).collect()
    }

    /// Sends a signal, followed by SIGCONT, to each living process that has not received the
    /// signal, after writing a line to the log. Stops at the first line that cannot be written.
    fn signal_all(&mut self, signal: Signal) {
        for going in &mut self.targets {
            if going.pidfd.is_dead() || going.signal == Some(signal) || self.error.is_some() {
                continue;
            }
            let member = &going.member;
            let line = ReapLogLine {
                at: clock::unix_now().rfc3339(),
                rule: &member.rule,
                pid: member.process.pid,
                start_ticks: member.process.start_ticks,
                top_pid: member.top_pid,
                age_ms: member.age_ms,
                signal: signal.to_string(),
                command: &member.command,
            };
            if let Err(error) = self.log.append(&line) {
                self.error = Some(format!("stopped: could not write the log: {error}"));
                return;
            }
            // A process that could not be signaled is still alive after the last round, and is
            // reported then.
            let _already_ended = going.pidfd.send_signal(signal);
            let _already_ended = going.pidfd.send_signal(Signal::CONT);
            going.signal = Some(signal);
        }
    }

    /// Waits until all processes have exited, for at most [`TERM_GRACE_MS`].
    fn wait_for_exit(&self) {
        let until = clock::monotonic_now().plus_ms(TERM_GRACE_MS);
        loop {
            let living =
                self.targets.iter().map(|going| &going.pidfd).filter(|held| !held.is_dead());
            let fds: Vec<_> = living.map(std::os::fd::AsFd::as_fd).collect();
            let left = until.ms_since(clock::monotonic_now());
            if fds.is_empty() || left == 0 {
                return;
            }
            if poll::wait_readable(&fds, Some(left)).is_err() {
                std::thread::sleep(SWEEP_PAUSE);
            }
        }
    }

    /// Adds the processes that the trees have started since the first scan, and returns whether there
    /// are any. If the processes cannot be listed, keeps the error and returns true.
    fn may_have_grown(&mut self) -> bool {
        match procfs::all_pids() {
            Ok(pids) => self.add_new_descendants(&pids),
            Err(error) => {
                self.error = Some(format!("stopped: could not list the processes: {error}"));
                true
            }
        }
    }

    /// Adds those of the processes `pids` that the trees have started since the first scan.
    /// Processes of other users, processes with a terminal and processes of a task are left out.
    /// Returns whether any process was added.
    ///
    /// A new process is recognized by its parent, which is a member, or by its session, which a
    /// member leads. The kernel does not reuse the ID of a session while any process is in the
    /// session.
    fn add_new_descendants(&mut self, pids: &[i32]) -> bool {
        let before = self.targets.len();
        for &pid in pids {
            let Some(stat) = procfs::stat(pid) else { continue };
            let process = ProcRef { pid, start_ticks: stat.start_ticks };
            if stat.start_ticks < self.since_ticks || self.contains(process) {
                continue;
            }
            let is_near = |going: &&TargetProcess| {
                let known = going.member.process;
                // The process ID of a dead member may have been reused.
                (stat.ppid == known.pid && !going.pidfd.is_dead())
                    || (stat.session == known.pid
                        && procfs::identify(known.pid).is_none_or(|now| now == known))
            };
            let Some(parent) = self.targets.iter().find(is_near) else { continue };
            let is_ours = procfs::single_uid(pid) == Some(process::effective_uid())
                && !stat.has_terminal
                && procfs::birthmark(pid).is_none_or(|mark| mark.task_id().is_none());
            if is_ours {
                let parent = parent.member.clone();
                let command = tree::command_for_report(pid);
                self.add_target(process, || TreeMember { process, age_ms: 0, command, ..parent });
            }
        }
        self.targets.len() > before
    }

    fn contains(&self, process: ProcRef) -> bool {
        let targets = self.targets.iter().map(|going| &going.member);
        targets
            .chain(self.unopened.iter().map(|(member, _)| member))
            .any(|one| one.process == process)
    }
}
