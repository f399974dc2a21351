//! The keeper of a task: finds out what happened, lets the model decide, and does it.
//!
//! Everything that changes the task goes through [`TaskSupervisor::handle_event`]: the model's step, the record,
//! the callers, then the effects, in this order.

use std::os::fd::OwnedFd;

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

use crate::clients::{ClientEvent, ClientId, Clients};
use crate::deadline::DeadlineTimer;
use crate::excluded_programs::release_excluded;
use crate::failpoints;
use crate::journal_writer::JournalWriter;
use crate::lease::Lease;
use crate::line_monitor::LineMonitor;
use crate::output_pump::OutputPump;
use crate::poll_set::{PollSet, Source};
use crate::process_tree::ProcessTree;
use crate::proxy_handle::ProxyHandle;
use crate::readiness::ReadinessProbe;
use crate::resource_monitor::ResourceMonitor;
use crate::shell_command::{LeaderReporter, ShellReport};
use crate::stall::{StallCheck, StallWatch};
use crate::task_context::TaskContext;
use crate::tree_kill::TreeKill;

/// Everything a shim holds for a task.
#[derive(Debug)]
pub(crate) struct TaskSupervisor {
    pub(crate) root: StateDir,
    pub(crate) dir: TaskDir,
    pub(crate) state: TaskState,
    pub(crate) journal: JournalWriter,
    pub(crate) pump: OutputPump,
    pub(crate) tree: ProcessTree,
    pub(crate) clients: Clients,
    pub(crate) lease: Lease,
    /// Tells what is known of the leader beside its end.
    pub(crate) reporter: LeaderReporter,
    /// Keeps the task's input open until somebody closes it.
    pub(crate) input: Option<OwnedFd>,
    pub(crate) proxy: ProxyHandle,
    pub(crate) tree_kill: TreeKill,
    pub(crate) stall: StallWatch,
    pub(crate) resource_monitor: ResourceMonitor,
    pub(crate) readiness_probe: ReadinessProbe,
    pub(crate) deadline: DeadlineTimer,
}

/// How a turn of a keeper ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopStatus {
    /// The task lives, or has ended and that is not on record yet.
    Live,
    /// The same, and memory was used that will not be needed soon.
    LiveMemoryUsed,
    /// The task has ended, and that is on record.
    Finished,
}

impl TaskSupervisor {
    /// Finds out what happened before this shim came. A rescuer may find that the deadline passed,
    /// or the tree ended, while nobody kept the task.
    #[inline(never)]
    pub(crate) fn on_takeover(&mut self) {
        if self.tree.is_discovered() {
            self.check_tree();
            // What it waits for may have been written already, and nothing may follow.
            self.readiness_probe.scan_output(&self.dir);
        }
    }

    /// Does what is due by now.
    pub(crate) fn tick(&mut self) -> LoopStatus {
        let mut used_memory = false;
        self.journal.retry_if_due(clock::monotonic_now());
        while self.state.is_live() {
            let now = clock::monotonic_now();
            if let Some(event) = self.state.lifecycle.due_event(now) {
                self.handle_event(&event);
                continue;
            }
            used_memory |= self.pump.release_if_quiet(now);
            self.clients.resume_accepting(now);
            self.record_due_lines(now);
            if self.lease.has_expired(&self.root, &self.state.spec, now) {
                self.request_stop("session", None, None);
                continue;
            }
            if self.tree.wake_at().is_some_and(|at| now >= at) {
                self.check_tree();
                continue;
            }
            self.record_near_deadline(now);
            self.poll_output(now);
            used_memory |= self.check_readiness(now);
            used_memory |= self.check_stall(now);
            used_memory |= self.check_limits(now);
            if self.state.is_live() {
                return if used_memory { LoopStatus::LiveMemoryUsed } else { LoopStatus::Live };
            }
        }
        // Whoever came later would make up another end.
        if self.journal.retry_at().is_some() { LoopStatus::Live } else { LoopStatus::Finished }
    }

    /// Returns when the next turn is due, if nothing happens before.
    pub(crate) fn wake_at(&mut self) -> Option<MonotonicMs> {
        if !self.state.is_live() {
            return self.journal.retry_at();
        }
        let wake_at = [
            self.journal.retry_at(),
            self.state.lifecycle.wake_at(),
            self.deadline.wake_at(&self.state),
            self.pump.wake_at(),
            self.output_poll_at(),
            self.lease.wake_at(),
            self.pump.line_monitor().and_then(LineMonitor::wake_at),
            self.stall.wake_at(&self.state),
            self.resource_monitor.wake_at(&self.state),
            self.tree.wake_at(),
            self.readiness_probe.wake_at(&self.state),
            self.clients.wake_at(),
        ];
        wake_at.into_iter().flatten().min()
    }

    /// Adds what to poll for this task, which has this `index` in the set.
    pub(crate) fn add_sources<'fd>(&'fd self, index: usize, poll_set: &mut PollSet<'fd>) {
        if !self.state.is_live() {
            return;
        }
        poll_set.add(index, Source::Output, self.pump.source());
        poll_set.add(index, Source::TreeMember, self.tree.sources());
        poll_set.add(index, Source::SessionOwner, self.lease.source());
        poll_set.add(index, Source::Readiness, self.readiness_probe.sources(&self.state));
        poll_set.add(index, Source::Proxy, self.proxy.source());
        for (id, socket) in self.clients.sources() {
            poll_set.add(index, Source::Client(id), [socket]);
        }
        poll_set.add(index, Source::Listener, self.clients.listener_source());
    }

    /// Moves new output into the output file.
    pub(crate) fn on_output_readable(&mut self) {
        if self.pump.move_available(&self.dir) {
            self.on_output();
        }
    }

    /// Handles signals to the shim. SIGCHLD is one of them.
    pub(crate) fn on_signals(&mut self, signals: &[Signal]) {
        for signal in signals {
            if [Signal::TERM, Signal::INT].contains(signal) {
                // A shutdown, or a person who ends the shim: the task ends as if asked to, and what
                // cannot be written of its end is not waited for any more.
                if !self.request_stop("signal to its shim", None, None) && !self.state.is_live() {
                    self.journal.discard_pending();
                }
            }
        }
        if self.state.is_live() {
            self.check_tree();
        }
    }

    /// Checks the tree after a process that is not a child of the shim has ended.
    pub(crate) fn on_member_exited(&mut self) {
        if self.state.is_live() {
            self.check_tree();
        }
    }

    /// Looks for another owner of the session.
    pub(crate) fn on_owner_exited(&mut self) {
        self.lease.on_owner_ended(&self.root, &self.state.spec);
    }

    /// Records the hosts that the proxy has denied.
    pub(crate) fn on_proxy_readable(&mut self) {
        if self.state.is_live() {
            let denied = self.proxy.take_denied(clock::monotonic_now());
            self.record(denied);
        }
    }

    /// Carries out a client's request.
    pub(crate) fn on_client_readable(&mut self, id: ClientId) {
        match self.clients.recv_event(id) {
            ClientEvent::Request(request) => self.handle_request(id, request),
            ClientEvent::Malformed => {
                let why = "not a request that this shim knows".to_owned();
                self.clients.send_message(id, &ShimMessage::Refused { why });
            }
            ClientEvent::WouldBlock | ClientEvent::Disconnected => {}
        }
    }

    /// Accepts the clients that connect.
    pub(crate) fn on_connection(&mut self) {
        // First: a disconnected client must not cost a connected one its place.
        self.remove_disconnected_clients();
        self.clients.accept();
    }

    /// Removes disconnected clients. Without its starter the task is in the background.
    pub(crate) fn remove_disconnected_clients(&mut self) {
        if self.clients.remove_disconnected() && self.state.is_live() {
            self.handle_event(&TaskEvent::Placed { why: BackgroundReason::User });
        }
    }

    /// Notes that the task has written, and tells those who follow.
    pub(crate) fn on_output(&mut self) {
        self.stall.on_output(clock::monotonic_now());
        if let Some((from, error)) = self.pump.take_failure() {
            let at = clock::monotonic_now();
            self.record(vec![Record::OutputLost { at, from, error: error.to_string() }]);
        }
        self.readiness_probe.scan_output(&self.dir);
        self.clients.notify_output_grown(self.pump.bytes());
    }

    /// Records the monitored lines that are due, while the journal has room for them.
    fn record_due_lines(&mut self, now: MonotonicMs) {
        while let Some(monitor) = self.pump.line_monitor()
            && monitor.wake_at().is_some_and(|at| at <= now)
        {
            if !self.journal.has_room() {
                monitor.postpone(now);
                return;
            }
            let Some(record) = monitor.next_due_record(now) else { return };
            self.record(vec![record]);
        }
    }

    /// Returns the records of the monitored lines that were not recorded yet, for the end. On a full
    /// disk the record of the end has priority.
    fn remaining_lines(&mut self, at: MonotonicMs) -> Vec<Record> {
        match self.pump.line_monitor() {
            Some(monitor) if self.journal.has_room() => monitor.flush(at),
            Some(_) | None => Vec::new(),
        }
    }

    /// Records that the deadline is near, once that is due.
    fn record_near_deadline(&mut self, now: MonotonicMs) {
        let Some(notice) = self.deadline.check(&self.state, now) else { return };
        if self.journal.has_room() {
            self.record(vec![notice]);
        } else {
            self.deadline.postpone(now);
        }
    }

    /// Returns when to poll the output of an adopted task.
    fn output_poll_at(&self) -> Option<MonotonicMs> {
        let has_recorded_stall = self.state.stall.is_some() && self.state.may_resume();
        self.pump.poll_at(self.clients.has_followers(), has_recorded_stall)
    }

    /// Polls the output of an adopted task, when that is due or its silence is about to be judged: no
    /// descriptor becomes readable when it grows.
    fn poll_output(&mut self, now: MonotonicMs) {
        let wake_at = [self.output_poll_at(), self.stall.wake_at(&self.state)];
        let Self { root, state, pump, tree, .. } = self;
        let Some(output) = pump.adopted_mut() else { return };
        if !wake_at.into_iter().flatten().any(|at| at <= now) {
            return;
        }
        if output.poll(now, || tree.member_pids(root, state)) {
            self.on_output();
            // A write to a pipe, a log file and a socket look the same where siding does not see the
            // output: such a write does not prove that the silence has ended.
            if self.pump.sees_output() {
                self.record_resumed(now);
            }
        }
    }

    /// Records that the task is ready, once it is. Returns whether it did.
    fn check_readiness(&mut self, now: MonotonicMs) -> bool {
        let Self { root, dir, state, pump, tree, .. } = self;
        let context = TaskContext { root, dir, state, pump, tree };
        let Some(ready) = self.readiness_probe.check(&context, now) else { return false };
        if !self.journal.has_room() {
            self.readiness_probe.postpone(now);
            return false;
        }
        self.readiness_probe.stop();
        self.record(vec![Record::Ready(ready)]);
        true
    }

    /// Returns the record of a task that became ready with its last output, for the end.
    fn final_readiness(&mut self, at: MonotonicMs) -> Option<Record> {
        let ready = self.readiness_probe.check_after_end(&self.dir, &self.state, at)?;
        self.journal.has_room().then_some(Record::Ready(ready))
    }

    /// Samples the processes when they have been silent for long, or a client asked for evidence.
    /// Returns whether it did.
    fn check_stall(&mut self, now: MonotonicMs) -> bool {
        let Self { root, dir, state, pump, tree, .. } = self;
        let context = TaskContext { root, dir, state, pump, tree };
        match self.stall.check(&context, self.resource_monitor.required_usage(now), now) {
            StallCheck::NotDue => return false,
            StallCheck::NoStall => {}
            StallCheck::Answer(evidence) => self.clients.send_evidence(*evidence),
            // The remaining space on a full disk is reserved for the final record.
            StallCheck::Stalled(_) if !self.journal.has_room() => {}
            StallCheck::Stalled(stalled) => self.record(vec![Record::Stalled(stalled)]),
        }
        true
    }

    /// Handles that the task received input: a stall that waited for it has ended.
    fn on_input_written(&mut self) {
        let now = clock::monotonic_now();
        self.stall.on_input(now);
        self.record_resumed(now);
    }

    /// Records the end of a recorded stall.
    fn record_resumed(&mut self, at: MonotonicMs) {
        if self.state.stall.is_some() && self.state.may_resume() {
            self.record(vec![Record::Resumed { at }]);
        }
    }

    /// Looks at what the task uses. What passes a limit is put on record, and ends the task when it
    /// was asked to. Returns whether memory was used that will not be needed soon.
    fn check_limits(&mut self, now: MonotonicMs) -> bool {
        let seen = self.stall.take_usage();
        let Self { root, dir, state, pump, tree, .. } = self;
        let check =
            self.resource_monitor.check(&TaskContext { root, dir, state, pump, tree }, seen, now);
        check.breaches.into_iter().for_each(|breach| self.on_limit_passed(breach));
        check.next_check_is_far
    }

    fn on_limit_passed(&mut self, breach: Breach) {
        let (which, ends) = (breach.which, self.state.spec.limits.stops_at(&breach));
        self.record(vec![Record::Limit(Box::new(breach))]);
        if ends {
            self.handle_event(&TaskEvent::LimitPassed { which });
        }
    }

    /// Looks at the tree after something in it died.
    fn check_tree(&mut self) {
        release_excluded(&mut self.tree, &self.root, &self.state);
        let status = self.tree.check(&self.root, &self.state);
        // Before the end, which would else be a signal from nobody.
        if let Some(breach) =
            self.resource_monitor.memory_limit_kill(&self.state, clock::monotonic_now())
        {
            self.on_limit_passed(breach);
        }
        match status.leader {
            Some(end) => self.on_leader_ended(end, status.tree),
            None if status.tree == TreeLiveness::Empty => self.on_tree_empty(),
            None => {}
        }
    }

    fn on_leader_ended(&mut self, mut end: LeaderEnd, tree: TreeLiveness) {
        failpoints::pause_at("leader_ended");
        // A kill that is not ours, while the kernel counted one for want of memory. Either alone
        // proves nothing.
        if let LeaderEnd::Signaled { signal: Signal::KILL, by } = &mut end
            && matches!(self.state.lifecycle.phase(), Phase::Running { .. })
            && self.resource_monitor.saw_oom_kill(clock::monotonic_now())
        {
            *by = Some(LeaderEnd::OOM_SENDER.to_owned());
        }
        // What it wrote is in the FIFO now; what lingers may write for ever.
        self.pump.drain();
        let reporter = std::mem::replace(&mut self.reporter, LeaderReporter::Silent);
        let ShellReport { final_cwd, pipeline } = reporter.report(&self.state.spec.cwd, &end);
        self.handle_event(&TaskEvent::LeaderEnded { end, tree, final_cwd, pipeline });
    }

    fn on_tree_empty(&mut self) {
        let known = self.state.leader_end.is_some();
        if known {
            self.handle_event(&TaskEvent::TreeEmpty);
        } else {
            // A rescue that never saw the leader: it was gone before.
            let why = "its shim was killed, and it ended before another could take over";
            self.handle_event(&TaskEvent::Vanished { why: why.to_owned() });
        }
    }

    fn request_stop(&mut self, by: &str, grace_ms: Option<u64>, signal: Option<Signal>) -> bool {
        self.handle_event(&TaskEvent::StopAsked { by: by.to_owned(), grace_ms, signal })
    }

    /// Lets an event have its effect. Returns whether it had one.
    pub(crate) fn handle_event(&mut self, event: &TaskEvent) -> bool {
        let at = clock::monotonic_now();
        let (next, effects) = self.state.lifecycle.step(event, at);
        if next == self.state.lifecycle {
            return false;
        }
        let mut records = vec![Record::Event { at, event: event.clone() }];
        if effects.contains(&LifecycleEffect::Close) {
            records.push(Record::Closed(Box::new(self.closed_record(next.phase(), at))));
            records.splice(..0, self.final_readiness(at));
            records.splice(..0, self.remaining_lines(at));
            records.splice(..0, self.proxy.take_denied(at));
        }
        self.record(records);
        for effect in effects {
            self.apply_effect(effect);
        }
        true
    }

    fn apply_effect(&mut self, effect: LifecycleEffect) {
        match effect {
            // Done before the others, with everything that belongs to it.
            LifecycleEffect::Record | LifecycleEffect::Close => {}
            LifecycleEffect::Signal(signal) => {
                // On the disk before the first signal: a crash now must not turn a stop into a
                // failure of the command.
                self.journal.sync();
                failpoints::pause_at("intent");
                release_excluded(&mut self.tree, &self.root, &self.state);
                self.tree_kill.signal(&self.tree, &self.root, &self.state, signal);
                failpoints::pause_at("signalled");
            }
            LifecycleEffect::Kill => self.kill_tree(),
        }
    }

    /// Kills everything and says what came of it.
    pub(crate) fn kill_tree(&mut self) {
        failpoints::pause_at("killing");
        release_excluded(&mut self.tree, &self.root, &self.state);
        let killed = self.tree_kill.kill(&mut self.tree, &self.root, &self.state);
        if let Some(end) = killed.leader {
            self.on_leader_ended(end, TreeLiveness::Alive);
        }
        failpoints::pause_at("swept");
        self.handle_event(&TaskEvent::Swept { survivors: killed.survivors });
    }

    /// Writes records, takes them in, and tells the subscribers.
    pub(crate) fn record(&mut self, records: Vec<Record>) {
        let first = self.journal.write(&records);
        for (seq, record) in (first..).zip(records) {
            self.clients.publish(seq, &record);
            // The step that made the record is the one that takes it in.
            let _recorded_anyway = self.state.apply(record);
        }
    }

    /// Gathers what is known at the end, and writes siding's own line when siding ended it.
    fn closed_record(&mut self, ended: &Phase, at: MonotonicMs) -> CloseSummary {
        self.pump.drain();
        let report = self.tree_kill.report();
        if let Some(line) = self.format_stop_line(ended) {
            self.pump.append_siding_line(&line);
        }
        let is_released = matches!(ended, Phase::Ended { outcome: Outcome::Released { .. }, .. });
        let proof = match (self.tree_kill.gave_up(), self.tree.is_discovered()) {
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
            peaks: Some(self.resource_monitor.final_peaks()),
            proof: proof.to_owned(),
        }
    }

    /// Returns the line for the output of a task that did not end by itself.
    fn format_stop_line(&self, ended: &Phase) -> Option<String> {
        let (Phase::Stopping { intent, .. } | Phase::Killing { intent, .. }) =
            self.state.lifecycle.phase()
        else {
            return None;
        };
        let Phase::Ended { .. } = ended else { return None };
        let report = self.tree_kill.report().unwrap_or_default();
        let survivors = match report.survivors.len() {
            0 if report.unproven.is_some() => "; what is left could not be seen".to_owned(),
            0 => String::new(),
            count => format!("; {count} could not be ended, see `siding show`"),
        };
        let count = report.ended_total;
        let noun = if count == 1 { "process" } else { "processes" };
        Some(format!("{}; ended {count} {noun}{survivors}", format_cause(&self.state, intent)))
    }

    fn handle_request(&mut self, id: ClientId, request: ShimRequest) {
        let reply = match request {
            ShimRequest::Ping => ShimMessage::Done,
            ShimRequest::Subscribe { follow } => {
                self.clients.subscribe(id, follow);
                ShimMessage::Done
            }
            ShimRequest::Place { why } => {
                self.handle_event(&TaskEvent::Placed { why });
                ShimMessage::Done
            }
            ShimRequest::Extend { to_ms, by_ms } => self.extend(to_ms, by_ms),
            ShimRequest::Release { by } => self.release(by),
            ShimRequest::InputWritten => {
                self.on_input_written();
                ShimMessage::Done
            }
            ShimRequest::CloseStdin => match self.input.take() {
                Some(closed) => {
                    drop(closed);
                    // Whoever read it sees its end and goes on.
                    self.on_input_written();
                    ShimMessage::Done
                }
                None => ShimMessage::Refused {
                    why: "its standard input is closed already, or was never a pipe".to_owned(),
                },
            },
            ShimRequest::Why => {
                self.clients.await_evidence(id);
                let Self { root, dir, state, pump, tree, .. } = self;
                self.stall.request_evidence(&TaskContext { root, dir, state, pump, tree });
                return;
            }
            ShimRequest::Usage => {
                let Self { root, dir, state, pump, tree, .. } = self;
                let peaks = self.resource_monitor.measure_now(&TaskContext {
                    root,
                    dir,
                    state,
                    pump,
                    tree,
                });
                self.clients.send_message(id, &ShimMessage::Usage { peaks });
                ShimMessage::Done
            }
            ShimRequest::Stop { by, grace_ms, signal } => {
                self.clients.await_end(id);
                self.request_stop(&by, grace_ms, signal);
                return;
            }
        };
        self.clients.send_message(id, &reply);
    }

    /// Tells those who wait, makes the end durable and clears the stage, in this order: nobody
    /// waits for a disk.
    pub(crate) fn shutdown(mut self) {
        failpoints::pause_at("ended");
        self.clients.notify_ended();
        failpoints::pause_at("told");
        self.journal.sync();
        self.journal.finish();
        siding_core::recover::clear_ended(&self.root, &self.dir, &self.state);
    }
}

fn format_cause(state: &TaskState, intent: &StopIntent) -> String {
    match &intent.reason {
        StopReason::Deadline { limit_ms } => format!(
            "stopped at its deadline of {}",
            duration::format_duration(std::time::Duration::from_millis(*limit_ms))
        ),
        StopReason::Stop { by } => format!("stopped by {by}"),
        StopReason::LeaderExit => "its shell has ended and nothing was to linger".to_owned(),
        StopReason::Limit { which } => {
            let recorded = state.breaches.iter().find(|breach| breach.which == *which);
            let detail = recorded.map_or(which.flag_name(), |breach| breach.detail.as_str());
            format!("stopped at its limit {detail}")
        }
    }
}
