//! The supervisor of one task: it owns the components that observe the task, and records what they
//! report.
//!
//! Every change of the phase goes through [`TaskSupervisor::handle_event`], in this order: the
//! model's step, the record, the clients, then the effects. A signal is sent after its intent is
//! recorded, as far as the disk permits, so that a crash at any point leaves a journal that is
//! true.

mod checks;
mod closing;
mod requests;
mod resume;
mod terminal_requests;

use std::os::fd::OwnedFd;

use siding_core::sys::clock;
use siding_model::lifecycle::{LifecycleEffect, Phase, TaskEvent, TreeLiveness};
use siding_model::outcome::{BackgroundReason, LeaderEnd};
use siding_model::process::MonotonicMs;
use siding_model::protocol::{SHIM_SIGNAL_REQUESTER, ShimMessage};
use siding_model::record::{CloseSummary, Record};
use siding_model::signal::Signal;

use crate::clients::{Client, ClientEvent, ClientId, Clients, UNKNOWN_REQUEST};
use crate::deadline_notice::DeadlineNoticeTimer;
use crate::excluded_programs::release_excluded;
use crate::failpoints;
use crate::lease::Lease;
use crate::line_monitor::LineMonitor;
use crate::output_pump::OutputPump;
use crate::poll_set::{PollSet, Source};
use crate::process_tree::ProcessTree;
use crate::proxy_handle::ProxyHandle;
use crate::readiness::ReadinessProbe;
use crate::resource_monitor::ResourceMonitor;
use crate::shell_command::{LeaderReporter, ShellReport};
use crate::stall::StallWatch;
use crate::task_record::TaskRecord;
use crate::terminal::TaskTerminal;
use crate::tree_kill::TreeKill;

/// One task with the components that observe it.
#[derive(Debug)]
pub(crate) struct TaskSupervisor {
    task: TaskRecord,
    output: OutputPump,
    tree: ProcessTree,
    tree_kill: TreeKill,
    /// Reports the facts about the leader's end that its exit status does not contain.
    reporter: LeaderReporter,
    /// The shim's write end of the task's standard input, which stays open until a client closes
    /// it. `None` after that, after a takeover, and for a task whose input is not a pipe.
    stdin: Option<OwnedFd>,
    proxy: ProxyHandle,
    /// The task's terminal; `None` for a task without one, or if the terminal had hung up before a
    /// takeover.
    terminal: Option<TaskTerminal>,
    clients: Clients,
    lease: Lease,
    deadline_notice: DeadlineNoticeTimer,
    readiness: ReadinessProbe,
    stall: StallWatch,
    resources: ResourceMonitor,
}

/// The state of a task after a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopStatus {
    /// The task is live, or has ended and its final record is not yet written.
    Live,
    /// Like [`Self::Live`], and the tick used memory that will not be needed soon.
    LiveMemoryUsed,
    /// The task has ended, and its final record is written or was discarded.
    Finished,
}

impl TaskSupervisor {
    /// Returns the supervisor of a task that is recorded.
    pub(crate) fn new(
        task: TaskRecord,
        output: OutputPump,
        tree: ProcessTree,
        clients: Clients,
        lease: Lease,
    ) -> Self {
        let now = clock::monotonic_now();
        let stall = StallWatch::new(task.state(), output.bytes(), now);
        let resources = ResourceMonitor::new(task.state(), output.bytes(), now);
        Self {
            task,
            output,
            tree,
            tree_kill: TreeKill::default(),
            reporter: LeaderReporter::Silent,
            stdin: None,
            proxy: ProxyHandle::default(),
            terminal: None,
            clients,
            lease,
            deadline_notice: DeadlineNoticeTimer::default(),
            readiness: ReadinessProbe::default(),
            stall,
            resources,
        }
    }

    /// Adds the parts that exist only in the shim that started the leader. A takeover cannot
    /// restore them.
    pub(crate) fn with_leader(
        self,
        reporter: LeaderReporter,
        stdin: Option<OwnedFd>,
        proxy: ProxyHandle,
    ) -> Self {
        Self { reporter, stdin, proxy, ..self }
    }

    /// Adds the conditions of the task's readiness.
    pub(crate) fn with_readiness(self, readiness: ReadinessProbe) -> Self {
        Self { readiness, ..self }
    }

    /// Adds the task's terminal.
    pub(crate) fn with_terminal(self, terminal: Option<TaskTerminal>) -> Self {
        Self { terminal, ..self }
    }

    /// Adds a client that is already connected.
    pub(crate) fn add_client(&mut self, client: Client) {
        self.clients.add(client);
    }

    /// Performs all due actions. The loop starts again after a due event, an expired lease and a
    /// check of the tree, because each of them may make another event due.
    pub(crate) fn tick(&mut self) -> LoopStatus {
        let mut used_memory = false;
        self.task.retry_if_due(clock::monotonic_now());
        while self.task.is_live() {
            let now = clock::monotonic_now();
            if let Some(event) = self.task.state().lifecycle.due_event(now) {
                self.handle_event(&event);
                continue;
            }
            used_memory |= self.output.release_if_quiet(now);
            self.clients.resume_accepting(now);
            self.record_due_lines(now);
            if self.lease.has_expired(self.task.root(), self.task.spec(), now) {
                self.request_stop("session", None, None);
                continue;
            }
            if self.tree.wake_at().is_some_and(|at| now >= at) {
                self.check_tree();
                continue;
            }
            self.record_near_deadline(now);
            self.return_idle_terminal(now);
            self.replace_terminal_holder(now);
            self.poll_output(now);
            used_memory |= self.check_readiness(now);
            used_memory |= self.check_stall(now);
            used_memory |= self.check_limits(now);
            if self.task.is_live() {
                return if used_memory { LoopStatus::LiveMemoryUsed } else { LoopStatus::Live };
            }
        }
        // The shim stays until the final record is written, because otherwise a takeover would
        // record an unknown outcome.
        if self.task.retry_at().is_some() { LoopStatus::Live } else { LoopStatus::Finished }
    }

    /// Returns the time of the next tick, which comes earlier if a source becomes readable. `None`
    /// if nothing is due at a known time, for example because the task has ended.
    pub(crate) fn wake_at(&mut self) -> Option<MonotonicMs> {
        if !self.task.is_live() {
            return self.task.retry_at();
        }
        self.stall.set_output_held(self.is_output_held());
        let wake_at = [
            self.task.retry_at(),
            self.task.state().lifecycle.wake_at(),
            self.deadline_notice.wake_at(self.task.state()),
            self.output.wake_at(),
            self.output_poll_at(),
            self.lease.wake_at(),
            self.output.line_monitor().and_then(LineMonitor::wake_at),
            self.stall.wake_at(self.task.state()),
            self.resources.wake_at(self.task.state()),
            self.tree.wake_at(),
            self.readiness.wake_at(self.task.state()),
            self.clients.wake_at(),
            self.terminal.as_ref().and_then(TaskTerminal::wake_at),
        ];
        wake_at.into_iter().flatten().min()
    }

    /// Adds the descriptors to poll for this task, which has this `index` in the set; none if the
    /// task has ended.
    pub(crate) fn add_sources<'fd>(&'fd self, index: usize, poll_set: &mut PollSet<'fd>) {
        if !self.task.is_live() {
            return;
        }
        if !self.is_output_held() {
            poll_set.add(index, Source::Output, self.output.sources());
        }
        poll_set.add(index, Source::TreeMember, self.tree.sources());
        let holder = self.terminal.as_ref().and_then(TaskTerminal::holder_source);
        poll_set.add(index, Source::TerminalHolder, holder);
        poll_set.add(index, Source::SessionOwner, self.lease.source());
        poll_set.add(index, Source::Readiness, self.readiness.sources(self.task.state()));
        poll_set.add(index, Source::Proxy, self.proxy.source());
        for (id, socket) in self.clients.sources() {
            poll_set.add(index, Source::Client(id), [socket]);
        }
        poll_set.add(index, Source::Listener, self.clients.listener_source());
    }

    /// Moves new output into the output file.
    pub(crate) fn on_output_readable(&mut self) {
        let limit = self.output_limit();
        if self.output.move_available(self.task.dir(), limit) {
            self.on_output();
        }
    }

    /// Handles signals to the shim, SIGCHLD among them.
    pub(crate) fn on_signals(&mut self, signals: &[Signal]) {
        for signal in signals {
            if [Signal::TERM, Signal::INT].contains(signal) {
                // The system is shutting down, or a user terminates the shim. The task is stopped
                // as for a client's request. If the task has already ended, the shim gives up the
                // records that it could not write, and exits.
                if !self.request_stop(SHIM_SIGNAL_REQUESTER, None, None) && !self.task.is_live() {
                    self.task.discard_pending();
                }
            }
        }
        if self.task.is_live() {
            self.check_tree();
        }
    }

    /// Checks the tree after a process that is not a child of the shim has ended.
    pub(crate) fn on_member_exited(&mut self) {
        if self.task.is_live() {
            self.check_tree();
        }
    }

    /// Searches for another owner of the session.
    pub(crate) fn on_owner_exited(&mut self) {
        self.lease.on_owner_ended(self.task.root(), self.task.spec());
    }

    /// Records the hosts that the proxy has denied, and the end of the proxy.
    pub(crate) fn on_proxy_readable(&mut self) {
        if self.task.is_live() {
            let denied = self.proxy.take_denied(clock::monotonic_now());
            self.record(denied);
        }
    }

    /// Receives a client's request and carries it out.
    pub(crate) fn on_client_readable(&mut self, id: ClientId) {
        match self.clients.recv_event(id) {
            ClientEvent::Request(request) => self.handle_request(id, request),
            ClientEvent::Malformed => {
                let why = UNKNOWN_REQUEST.to_owned();
                self.clients.send_message(id, &ShimMessage::Refused { why });
            }
            ClientEvent::WouldBlock | ClientEvent::Disconnected => {}
        }
    }

    /// Accepts the clients that connect.
    pub(crate) fn on_connection(&mut self) {
        // Disconnected clients are removed first: if they filled the list, a client that is still
        // connected would be disconnected to make room.
        self.remove_disconnected_clients();
        self.clients.accept();
    }

    /// Removes disconnected clients. If the starter is one of them, the task moves to the
    /// background.
    pub(crate) fn remove_disconnected_clients(&mut self) {
        if self.clients.remove_disconnected() && self.task.is_live() {
            self.handle_event(&TaskEvent::Placed { why: BackgroundReason::User });
        }
        self.return_terminal_of_disconnected();
    }

    /// Processes new output: restarts the measurement of the silence, records a failed write, scans
    /// the output for the readiness conditions, and notifies the followers.
    pub(crate) fn on_output(&mut self) {
        self.stall.on_output(clock::monotonic_now());
        if let Some((from, error)) = self.output.take_failure() {
            let at = clock::monotonic_now();
            self.record(vec![Record::OutputLost { at, from, error: error.to_string() }]);
        }
        self.readiness.scan_output(self.task.dir());
        self.answer_terminal_queries();
        self.clients.notify_output_grown(self.output.bytes());
    }

    /// Checks the tree, because a process of the tree may have ended.
    fn check_tree(&mut self) {
        release_excluded(&mut self.tree, self.task.root(), self.task.state());
        let status = self.tree.check(self.task.root(), self.task.state());
        // The breach is recorded before the leader's end, whose SIGKILL would otherwise have no
        // known sender.
        if let Some(breach) =
            self.resources.memory_limit_kill(self.task.state(), clock::monotonic_now())
        {
            self.on_limit_passed(breach);
        }
        match status.leader {
            Some(end) => self.on_leader_ended(end, status.tree),
            None if status.tree == TreeLiveness::Empty => self.on_tree_empty(),
            None => {}
        }
    }

    /// Records the leader's end. `tree` tells whether other processes are left.
    fn on_leader_ended(&mut self, mut end: LeaderEnd, tree: TreeLiveness) {
        failpoints::pause_at("leader_ended");
        // The leader received a SIGKILL that the shim did not send, and the OOM killer has killed
        // recently. Neither fact alone would show that the OOM killer ended the leader.
        if let LeaderEnd::Signaled { signal: Signal::KILL, by } = &mut end
            && matches!(self.task.state().lifecycle.phase(), Phase::Running { .. })
            && self.resources.saw_oom_kill(clock::monotonic_now())
        {
            *by = Some(LeaderEnd::OOM_SENDER.to_owned());
        }
        if let (LeaderEnd::Signaled { signal, by: by @ None }, Some(terminal)) =
            (&mut end, &self.terminal)
        {
            *by = terminal.find_signal_sender(*signal, clock::monotonic_now());
        }
        // By now the leader has written all its output to the FIFO. There is no end of file to wait
        // for: a process that lingers may keep the FIFO open.
        self.output.drain();
        let reporter = std::mem::replace(&mut self.reporter, LeaderReporter::Silent);
        let ShellReport { final_cwd, pipeline } = reporter.report(&self.task.spec().cwd, &end);
        self.handle_event(&TaskEvent::LeaderEnded { end, tree, final_cwd, pipeline });
    }

    /// Records that no process is left.
    fn on_tree_empty(&mut self) {
        let known = self.task.state().leader_end.is_some();
        if known {
            self.handle_event(&TaskEvent::TreeEmpty);
        } else {
            // This shim took over a task whose leader was not recorded, and either found no process
            // of the task or could not open a pidfd of the leader.
            let why = "its shim was killed, and the shim that took over did not observe its end";
            self.handle_event(&TaskEvent::Vanished { why: why.to_owned() });
        }
    }

    /// Starts the stop of the task, or shortens the grace of a stop in progress. Returns false if
    /// neither is possible, for example because the task has ended.
    fn request_stop(&mut self, by: &str, grace_ms: Option<u64>, signal: Option<Signal>) -> bool {
        self.handle_event(&TaskEvent::StopAsked { by: by.to_owned(), grace_ms, signal })
    }

    /// Applies an event: steps the lifecycle, records the event, and carries out the effects. If
    /// the event changes nothing, does nothing and returns false.
    pub(crate) fn handle_event(&mut self, event: &TaskEvent) -> bool {
        let at = clock::monotonic_now();
        let (next, effects) = self.task.state().lifecycle.step(event, at);
        if next == self.task.state().lifecycle {
            return false;
        }
        let mut records = vec![Record::Event { at, event: event.clone() }];
        if effects.contains(&LifecycleEffect::Close) {
            records.push(Record::Closed(Box::new(self.close_summary(next.phase(), at))));
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

    /// Carries out an effect of an event that is recorded.
    fn apply_effect(&mut self, effect: LifecycleEffect) {
        match effect {
            // `handle_event` has written the record of the event and the final record.
            LifecycleEffect::Record | LifecycleEffect::Close => {}
            LifecycleEffect::Signal(signal) => {
                // The intent is written to the disk before the first signal: after a crash the end
                // must not look like a failure of the command.
                self.task.sync();
                failpoints::pause_at("intent");
                release_excluded(&mut self.tree, self.task.root(), self.task.state());
                self.tree_kill.signal(&self.tree, self.task.root(), self.task.state(), signal);
                failpoints::pause_at("signalled");
            }
            LifecycleEffect::Kill => self.kill_tree(),
        }
    }

    /// Kills the tree, and records the number of survivors, which may be 0.
    pub(crate) fn kill_tree(&mut self) {
        failpoints::pause_at("killing");
        release_excluded(&mut self.tree, self.task.root(), self.task.state());
        let killed = self.tree_kill.kill(&mut self.tree, self.task.root(), self.task.state());
        if let Some(end) = killed.leader {
            self.on_leader_ended(end, TreeLiveness::Alive);
        }
        failpoints::pause_at("swept");
        self.handle_event(&TaskEvent::Swept { survivors: killed.survivors });
    }

    /// Appends records to the journal, and publishes them to the subscribers.
    pub(crate) fn record(&mut self, records: Vec<Record>) {
        let Self { task, clients, .. } = self;
        task.append(records, |seq, record| clients.publish(seq, record));
    }

    /// Collects the summary for the final record, and adds siding's line to the output of a task
    /// that siding ended. The line is omitted while a person's call shows the output: such a call
    /// reports the end itself, and its output may be the input of another program.
    fn close_summary(&mut self, ended: &Phase, at: MonotonicMs) -> CloseSummary {
        self.output.drain();
        let report = self.tree_kill.report();
        let state = self.task.state();
        if let Some(line) = closing::format_stop_line(state, ended, report.as_ref())
            && !self.has_person_waiting()
        {
            self.output.append_siding_line(&line);
        }
        CloseSummary {
            wall: clock::unix_now(),
            at,
            report,
            output: self.output.totals(),
            peaks: Some(self.resources.final_peaks()),
            proof: closing::format_proof(&self.tree, state, ended, &self.tree_kill).to_owned(),
        }
    }

    /// Notifies the clients that wait for the end, then makes the final record durable and removes
    /// the files that only a live task needs. In this order, no client waits for the disk.
    pub(crate) fn shutdown(mut self) {
        failpoints::pause_at("ended");
        self.clients.notify_ended();
        failpoints::pause_at("notified");
        if let Some(terminal) = self.terminal.take() {
            terminal.close();
        }
        self.task.close();
    }
}
