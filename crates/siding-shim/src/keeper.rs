//! The keeper of a task: finds out what happened, lets the model decide, and does it.
//!
//! Everything that changes the task goes through [`Keeper::happen`]: the model's step, the record,
//! the callers, then the effects, in this order.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::clock;
use siding_core::tree;
use siding_model::duration;
use siding_model::journal::TaskState;
use siding_model::lifecycle::{
    LifecycleEffect, Phase, StopIntent, StopReason, TaskEvent, TreeLiveness,
};
use siding_model::limits::Breach;
use siding_model::outcome::{BackgroundReason, LeaderEnd, Outcome};
use siding_model::process::MonotonicMs;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::record::{CloseSummary, Record};
use siding_model::signal::Signal;

use crate::callers::{Callers, Said};
use crate::deadline::DeadlineNotice;
use crate::egress::Egress;
use crate::ending::Ending;
use crate::kin::Kin;
use crate::lease::Lease;
use crate::log::Log;
use crate::meter::Meter;
use crate::pause;
use crate::pump::Pump;
use crate::ready::Awaited;
use crate::script::{Report, Reporter};
use crate::stall::{Scene, Stall};

/// Everything a shim holds for a task.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) root: StateDir,
    pub(crate) dir: TaskDir,
    pub(crate) state: TaskState,
    pub(crate) log: Log,
    pub(crate) pump: Pump,
    pub(crate) kin: Kin,
    pub(crate) callers: Callers,
    pub(crate) listener: OwnedFd,
    pub(crate) lease: Lease,
    /// Tells what is known of the leader beside its end.
    pub(crate) reporter: Reporter,
    /// Keeps the task's input open until somebody closes it.
    pub(crate) input: Option<OwnedFd>,
    pub(crate) egress: Egress,
    pub(crate) ending: Ending,
    pub(crate) stall: Stall,
    pub(crate) meter: Meter,
    pub(crate) awaited: Awaited,
    pub(crate) deadline_notice: DeadlineNotice,
}

/// How a turn of a keeper ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The task lives, or has ended and that is not on record yet.
    Live,
    /// The same, and memory was used that will not be needed soon.
    Spent,
    /// The task has ended, and that is on record.
    Over,
}

impl Keeper {
    /// Finds out what happened before this shim came. A rescuer may find that the deadline passed,
    /// or the tree ended, while nobody kept the task.
    #[inline(never)]
    pub(crate) fn arrive(&mut self) {
        if self.kin.are_strays() {
            self.look();
            // What it waits for may have been written already, and nothing may follow.
            self.look_at_lines_awaited();
        }
    }

    /// Does what is due by now.
    pub(crate) fn turn(&mut self) -> Turn {
        let mut has_used = false;
        self.log.try_again(clock::monotonic_now());
        while self.state.is_live() {
            let now = clock::monotonic_now();
            if let Some(event) = self.state.lifecycle.due_event(now) {
                self.happen(&event);
                continue;
            }
            has_used |= self.pump.rest(now);
            self.callers.reopen(now);
            self.tell_lines(now);
            if self.lease.is_over(&self.root, &self.state.spec, now) {
                self.stop("session", None, None);
                continue;
            }
            if self.kin.wake_at().is_some_and(|at| now >= at) {
                self.look();
                continue;
            }
            self.record_near_deadline(now);
            self.look_at_hosts_output(now);
            has_used |= self.look_for_ready(now);
            has_used |= self.look_for_a_stall(now);
            has_used |= self.look_at_the_meter(now);
            if self.state.is_live() {
                return if has_used { Turn::Spent } else { Turn::Live };
            }
        }
        // Whoever came later would make up another end.
        if self.log.again_at().is_some() { Turn::Live } else { Turn::Over }
    }

    /// Returns when the next turn is due, if nothing happens before.
    pub(crate) fn wake_at(&mut self) -> Option<MonotonicMs> {
        if !self.state.is_live() {
            return self.log.again_at();
        }
        let wake_at = [
            self.log.again_at(),
            self.state.lifecycle.wake_at(),
            self.deadline_notice_at(),
            self.pump.wake_at(),
            self.hosts_output_at(),
            self.lease.wake_at(),
            self.lines_at(),
            self.stall.wake_at(&self.state),
            self.meter.wake_at(&self.state),
            self.kin.wake_at(),
            self.awaited.wake_at(&self.state),
            self.callers.wake_at(),
        ];
        wake_at.into_iter().flatten().min()
    }

    /// Returns what to poll for this task.
    pub(crate) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        if !self.state.is_live() {
            return Vec::new();
        }
        let mut sources: Vec<_> = self.door().into_iter().collect();
        sources.extend(self.pump.source());
        sources.extend(self.lease.source());
        sources.extend(self.awaited.sources(&self.state));
        sources.extend(self.egress.source());
        sources.extend(self.callers.sources());
        sources.extend(self.kin.sources());
        sources
    }

    /// Returns the listener while callers are let in.
    fn door(&self) -> Option<BorrowedFd<'_>> {
        self.callers.wake_at().is_none().then(|| self.listener.as_fd())
    }

    /// Attends to what has become ready, one answer for each of [`Self::sources`], and to signals
    /// to this shim, where there were any.
    #[inline(never)]
    pub(crate) fn attend(&mut self, ready: &[bool], signals: Option<&[Signal]>) {
        if !self.state.is_live() {
            self.take_signals(signals.unwrap_or_default());
            return;
        }
        let (listener, ready) = ready.split_at(usize::from(self.door().is_some()));
        let (output, ready) = ready.split_at(usize::from(self.pump.source().is_some()));
        let (owner, ready) = ready.split_at(usize::from(self.lease.source().is_some()));
        // Whatever has answered is taken in with the next turn.
        let (_answered, ready) = ready.split_at(self.awaited.sources(&self.state).count());
        let (proxy, ready) = ready.split_at(usize::from(self.egress.source().is_some()));
        let (callers, strays) = ready.split_at(self.callers.len());
        if output.contains(&true) && self.pump.turn(&self.dir) {
            self.output_moved();
        }
        if let Some(signals) = signals {
            self.take_signals(signals);
        }
        if strays.contains(&true) && self.state.is_live() {
            self.look();
        }
        if owner.contains(&true) {
            self.lease.owner_ended(&self.root, &self.state.spec);
        }
        if proxy.contains(&true) && self.state.is_live() {
            let denied = self.egress.take(clock::monotonic_now());
            self.record(denied);
        }
        for (index, _) in callers.iter().enumerate().filter(|(_, ready)| **ready) {
            self.hear(index);
        }
        if self.callers.forget_gone() && self.state.is_live() {
            // Whoever waited is gone: nobody waits, and the task goes on.
            self.happen(&TaskEvent::Placed { why: BackgroundReason::User });
        }
        if listener.contains(&true) {
            self.callers.accept(&self.listener);
        }
    }

    /// Notes that the task has written, and tells those who follow.
    pub(crate) fn output_moved(&mut self) {
        self.stall.wrote(clock::monotonic_now());
        if let Some((from, error)) = self.pump.take_failure() {
            let at = clock::monotonic_now();
            self.record(vec![Record::OutputLost { at, from, error: error.to_string() }]);
        }
        self.look_at_lines_awaited();
        self.callers.tell_growth(self.pump.bytes());
    }

    /// Looks at what the task uses. What passes a limit is put on record, and ends the task when it
    /// was asked to. Returns whether memory was used that will not be needed soon.
    fn look_at_the_meter(&mut self, now: MonotonicMs) -> bool {
        let seen = self.stall.take_uses();
        let Self { root, dir, state, pump, kin, .. } = self;
        let look = self.meter.look(&Scene { root, dir, state, pump, kin }, seen, now);
        look.breaches.into_iter().for_each(|breach| self.limit_passed(breach));
        look.is_last_for_long
    }

    fn limit_passed(&mut self, breach: Breach) {
        let (which, ends) = (breach.which, self.state.spec.limits.stops_at(&breach));
        self.record(vec![Record::Limit(Box::new(breach))]);
        if ends {
            self.happen(&TaskEvent::LimitPassed { which });
        }
    }

    fn take_signals(&mut self, signals: &[Signal]) {
        for signal in signals {
            if [Signal::TERM, Signal::INT].contains(signal) {
                // A shutdown, or a person who ends the shim: the task ends as if asked to, and what
                // cannot be written of its end is not waited for any more.
                if !self.stop("signal to its shim", None, None) && !self.state.is_live() {
                    self.log.give_up();
                }
            }
        }
        if self.state.is_live() {
            self.look();
        }
    }

    /// Looks at the tree after something in it died.
    fn look(&mut self) {
        self.let_go_of_spared();
        let look = self.kin.look(&self.root, &self.state);
        // Before the end, which would else be a signal from nobody.
        if let Some(breach) = self.meter.ended_by_kernel(&self.state, clock::monotonic_now()) {
            self.limit_passed(breach);
        }
        match look.leader {
            Some(end) => self.leader_ended(end, look.tree),
            None if look.tree == TreeLiveness::Empty => self.tree_empty(),
            None => {}
        }
    }

    fn leader_ended(&mut self, mut end: LeaderEnd, tree: TreeLiveness) {
        pause::at("leader_ended");
        // A kill that is not ours, while the kernel counted one for want of memory. Either alone
        // proves nothing.
        if let LeaderEnd::Signaled { signal: Signal::KILL, by } = &mut end
            && matches!(self.state.lifecycle.phase(), Phase::Running { .. })
            && self.meter.saw_oom_kill(clock::monotonic_now())
        {
            *by = Some(LeaderEnd::OOM_SENDER.to_owned());
        }
        // What it wrote is in the FIFO now; what lingers may write for ever.
        self.pump.drain();
        let reporter = std::mem::replace(&mut self.reporter, Reporter::Silent);
        let Report { final_cwd, pipeline } = reporter.report(&self.state.spec.cwd, &end);
        self.happen(&TaskEvent::LeaderEnded { end, tree, final_cwd, pipeline });
    }

    fn tree_empty(&mut self) {
        let known = self.state.leader_end.is_some();
        if known {
            self.happen(&TaskEvent::TreeEmpty);
        } else {
            // A rescue that never saw the leader: it was gone before.
            let why = "its shim was killed, and it ended before another could take over";
            self.happen(&TaskEvent::Vanished { why: why.to_owned() });
        }
    }

    fn stop(&mut self, by: &str, grace_ms: Option<u64>, signal: Option<Signal>) -> bool {
        self.happen(&TaskEvent::StopAsked { by: by.to_owned(), grace_ms, signal })
    }

    /// Lets an event have its effect. Returns whether it had one.
    pub(crate) fn happen(&mut self, event: &TaskEvent) -> bool {
        let at = clock::monotonic_now();
        let (next, effects) = self.state.lifecycle.step(event, at);
        if next == self.state.lifecycle {
            return false;
        }
        let mut records = vec![Record::Event { at, event: event.clone() }];
        if effects.contains(&LifecycleEffect::Close) {
            records.push(Record::Closed(Box::new(self.close(next.phase(), at))));
            records.splice(..0, self.ready_at_last(at));
            records.splice(..0, self.last_lines(at));
            records.splice(..0, self.egress.take(at));
        }
        self.record(records);
        for effect in effects {
            self.perform(effect);
        }
        true
    }

    fn perform(&mut self, effect: LifecycleEffect) {
        match effect {
            // Done before the others, with everything that belongs to it.
            LifecycleEffect::Record | LifecycleEffect::Close => {}
            LifecycleEffect::Signal(signal) => {
                // On the disk before the first signal: a crash now must not turn a stop into a
                // failure of the command.
                self.log.sync();
                pause::at("intent");
                self.let_go_of_spared();
                self.ending.signal(&self.kin, &self.root, &self.state, signal);
                pause::at("signalled");
            }
            LifecycleEffect::Kill => self.finish_killing(),
        }
    }

    /// Kills everything and says what came of it.
    pub(crate) fn finish_killing(&mut self) {
        pause::at("killing");
        self.let_go_of_spared();
        let killed = self.ending.kill(&mut self.kin, &self.root, &self.state);
        if let Some(end) = killed.leader {
            self.leader_ended(end, TreeLiveness::Alive);
        }
        pause::at("swept");
        self.happen(&TaskEvent::Swept { survivors: killed.survivors });
    }

    /// Writes records, takes them in, and tells the subscribers.
    pub(crate) fn record(&mut self, records: Vec<Record>) {
        let first = self.log.write(&records);
        for (seq, record) in (first..).zip(records) {
            self.callers.publish(seq, &record);
            // The step that made the record is the one that takes it in.
            let _own_record = self.state.apply(record);
        }
    }

    /// Gathers what is known at the end, and writes siding's own line when siding ended it.
    fn close(&mut self, ended: &Phase, at: MonotonicMs) -> CloseSummary {
        self.pump.drain();
        let report = self.ending.report();
        if let Some(line) = self.last_line(ended) {
            self.pump.say(&line);
        }
        let is_released = matches!(ended, Phase::Ended { outcome: Outcome::Released { .. }, .. });
        let proof = match (self.ending.gave_up(), self.kin.are_strays()) {
            _ if is_released => "none: it was released and goes on",
            (true, _) => "none: not everything could be ended",
            (false, true) => tree::proof_without_shim(&self.state),
            (false, false) => "ECHILD",
        };
        CloseSummary {
            wall: clock::unix_now(),
            at,
            report,
            output: self.pump.totals(),
            peaks: Some(self.meter.total()),
            proof: proof.to_owned(),
        }
    }

    /// Returns the line for the output of a task that did not end by itself.
    fn last_line(&self, ended: &Phase) -> Option<String> {
        let (Phase::Stopping { intent, .. } | Phase::Killing { intent, .. }) =
            self.state.lifecycle.phase()
        else {
            return None;
        };
        let Phase::Ended { .. } = ended else { return None };
        let report = self.ending.report().unwrap_or_default();
        let survivors = match report.survivors.len() {
            0 if report.unproven.is_some() => "; what is left could not be seen".to_owned(),
            0 => String::new(),
            count => format!("; {count} could not be ended, see `siding show`"),
        };
        let count = report.ended_total;
        let noun = if count == 1 { "process" } else { "processes" };
        Some(format!("{}; ended {count} {noun}{survivors}", cause(&self.state, intent)))
    }

    fn hear(&mut self, index: usize) {
        match self.callers.hear(index) {
            Said::Asked(request) => self.answer(index, request),
            Said::Nonsense => {
                let why = "not a request that this shim knows".to_owned();
                self.callers.get(index).tell(&ShimMessage::Refused { why });
            }
            Said::Nothing | Said::Left => {}
        }
    }

    fn answer(&mut self, index: usize, request: ShimRequest) {
        let answer = match request {
            ShimRequest::Ping => ShimMessage::Done,
            ShimRequest::Subscribe { follow } => {
                self.callers.get(index).subscribe(follow);
                ShimMessage::Done
            }
            ShimRequest::Place { why } => {
                self.happen(&TaskEvent::Placed { why });
                ShimMessage::Done
            }
            ShimRequest::Extend { to_ms, by_ms } => self.extend(to_ms, by_ms),
            ShimRequest::Release { by } => self.release(by),
            ShimRequest::InputWritten => {
                self.input_written();
                ShimMessage::Done
            }
            ShimRequest::CloseStdin => match self.input.take() {
                Some(closed) => {
                    drop(closed);
                    // Whoever read it sees its end and goes on.
                    self.input_written();
                    ShimMessage::Done
                }
                None => ShimMessage::Refused {
                    why: "its standard input is closed already, or was never a pipe".to_owned(),
                },
            },
            ShimRequest::Why => {
                self.callers.get(index).await_evidence();
                let Self { root, dir, state, pump, kin, .. } = self;
                self.stall.ask(&Scene { root, dir, state, pump, kin });
                return;
            }
            ShimRequest::Usage => {
                let Self { root, dir, state, pump, kin, .. } = self;
                let peaks = self.meter.ask(&Scene { root, dir, state, pump, kin });
                self.callers.get(index).tell(&ShimMessage::Usage { peaks });
                ShimMessage::Done
            }
            ShimRequest::Stop { by, grace_ms, signal } => {
                self.callers.get(index).await_end();
                self.stop(&by, grace_ms, signal);
                return;
            }
        };
        self.callers.get(index).tell(&answer);
    }

    /// Tells those who wait, makes the end durable and clears the stage, in this order: nobody
    /// waits for a disk.
    pub(crate) fn leave(mut self) {
        pause::at("ended");
        self.callers.tell_end();
        pause::at("told");
        self.log.sync();
        self.log.finish();
        siding_core::recover::clear_ended(&self.root, &self.dir, &self.state);
    }
}

fn cause(state: &TaskState, intent: &StopIntent) -> String {
    match &intent.reason {
        StopReason::Deadline { limit_ms } => format!(
            "stopped at its deadline of {}",
            duration::format_duration(std::time::Duration::from_millis(*limit_ms))
        ),
        StopReason::Stop { by } => format!("stopped by {by}"),
        StopReason::LeaderExit => "its shell has ended and nothing was to linger".to_owned(),
        StopReason::Limit { which } => {
            let told = state.breaches.iter().find(|breach| breach.which == *which);
            let detail = told.map_or(which.flag_name(), |breach| breach.detail.as_str());
            format!("stopped at its limit {detail}")
        }
    }
}
