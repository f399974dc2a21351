//! Ending trees that were decided on.

use siding_model::process::ProcRef;
use siding_model::signal::Signal;
use siding_model::unowned::OrphanTree;

use super::super::Step;
use super::super::log::{Line, Log};
use super::super::strays::{GIVE_UP_MS, GRACE_MS, PAUSE, why_it_lives};
use super::{Ages, Member};
use crate::sys::pidfd::PidFd;
use crate::sys::procfs::{self, TICKS_PER_SECOND};
use crate::sys::{clock, poll, process};
use crate::tree;

/// One process that goes.
#[derive(Debug)]
struct Going {
    member: Member,
    held: PidFd,
    /// The last signal it was sent.
    signal: Option<Signal>,
}

/// The work on all trees of one look.
#[derive(Debug)]
pub(super) struct Sweep<'l> {
    log: &'l Log,
    /// When the first look began, in clock ticks since boot.
    since_ticks: u64,
    going: Vec<Going>,
    failed: Option<String>,
}

impl<'l> Sweep<'l> {
    pub(super) fn new(log: &'l Log, since_ms: u64) -> Self {
        let since_ticks = since_ms / (1_000 / TICKS_PER_SECOND);
        Self { log, since_ticks, going: Vec::new(), failed: None }
    }

    /// Takes on a tree.
    pub(super) fn take(&mut self, tree: &OrphanTree, ages: &Ages) {
        let going = tree.members.iter().filter_map(|process| {
            let held = PidFd::open(*process).ok().filter(|held| !held.is_dead())?;
            Some(Going { member: Member::new(tree, *process, ages), held, signal: None })
        });
        self.going.extend(going);
    }

    /// Asks all to end, gives them time to, kills what is left, and tells what became of each.
    pub(super) fn end(mut self) -> Vec<Step> {
        self.send_all(Signal::TERM);
        self.wait();
        let started = clock::mono();
        while self.going.iter().any(|going| !going.held.is_dead()) || self.find_newcomers() {
            if self.failed.is_some() || clock::mono().ms_since(started) > GIVE_UP_MS {
                break;
            }
            self.send_all(Signal::KILL);
            std::thread::sleep(PAUSE);
        }
        let failed = self.failed.take().map(|why| Step::ForeignFailed { why });
        let step = |going: Going| {
            let Going { member, held, signal } = going;
            if held.is_dead() {
                return member.ended(signal);
            }
            let Member { rule, process, command, .. } = member;
            Step::ForeignLeft { rule, pid: process.pid, command, why: why_it_lives(process.pid) }
        };
        self.going.into_iter().map(step).chain(failed).collect()
    }

    /// Sends a signal to everyone that lives and has not had it, the line in the log first.
    fn send_all(&mut self, signal: Signal) {
        for going in &mut self.going {
            if going.held.is_dead() || going.signal == Some(signal) || self.failed.is_some() {
                continue;
            }
            let member = &going.member;
            let line = Line {
                at: clock::wall().rfc3339(),
                rule: &member.rule,
                pid: member.process.pid,
                start_ticks: member.process.start_ticks,
                top_pid: member.top_pid,
                age_ms: member.age_ms,
                signal: signal.to_string(),
                command: &member.command,
            };
            if let Err(error) = self.log.add(&line) {
                self.failed = Some(format!("stopped: could not write the log: {error}"));
                return;
            }
            // What cannot be signalled is found alive in the end, and told.
            let _sent = going.held.send(signal);
            let _wakes_the_stopped = going.held.send(Signal::CONT);
            going.signal = Some(signal);
        }
    }

    /// Waits until all have ended or their grace is over.
    fn wait(&self) {
        let until = clock::mono().plus_ms(GRACE_MS);
        loop {
            let living = self.going.iter().map(|going| &going.held).filter(|held| !held.is_dead());
            let fds: Vec<_> = living.map(std::os::fd::AsFd::as_fd).collect();
            let left = until.ms_since(clock::mono());
            if fds.is_empty() || left == 0 {
                return;
            }
            if poll::wait(&fds, Some(left)).is_err() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Takes on what the trees have started since the first look. Returns whether there was any.
    ///
    /// Such a process is still below one of them, or in the session that one of them leads: the
    /// kernel keeps the number of a session as long as anything is in it.
    fn find_newcomers(&mut self) -> bool {
        let before = self.going.len();
        for pid in procfs::all_pids() {
            let Some(stat) = procfs::stat(pid) else { continue };
            let process = ProcRef { pid, start_ticks: stat.start_ticks };
            if stat.start_ticks < self.since_ticks || self.has(process) {
                continue;
            }
            let is_near = |going: &&Going| {
                let known = going.member.process;
                // The number of a dead one may be another's by now.
                (stat.ppid == known.pid && !going.held.is_dead())
                    || (stat.session == known.pid
                        && procfs::identify(known.pid).is_none_or(|now| now == known))
            };
            let Some(parent) = self.going.iter().find(is_near) else { continue };
            let is_ours = procfs::only_uid(pid) == Some(process::effective_uid())
                && !stat.has_terminal
                && procfs::birthmark(pid).is_none_or(|mark| mark.task_id().is_none());
            let Ok(held) = PidFd::open(process) else { continue };
            if is_ours && !held.is_dead() {
                let command = tree::command_of(pid);
                let member = Member { process, age_ms: 0, command, ..parent.member.clone() };
                self.going.push(Going { member, held, signal: None });
            }
        }
        self.going.len() > before
    }

    fn has(&self, process: ProcRef) -> bool {
        self.going.iter().any(|going| going.member.process == process)
    }
}
