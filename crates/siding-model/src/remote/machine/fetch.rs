//! The decisions of a mirror about the files that it copies back to this machine.
//!
//! The files are copied once the command has ended, and its end is recorded after that, so that a
//! reader of the end finds the files. The records that report the end are held back meanwhile. If
//! the connection breaks, the remote machine sends them again.
//!
//! A stop that a client of the mirror requests prevents the copying, or ends it if it has begun.
//! The end of the session, and a stop on the remote machine, do not affect the copying.

use crate::file_sync::{FetchFailure, SkippedLinks};
use crate::journal::TaskState;
use crate::lifecycle::{Phase, TaskEvent};
use crate::mirror::RemoteEvent;
use crate::outcome::Outcome;
use crate::record::Record;

use super::{Actions, MirrorAction, MirrorContext, MirrorMachine, SESSION_REQUESTER};

/// The reason why a path could not be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchError {
    /// The message of rsync or ssh, or the reason. The text is untrusted.
    pub why: String,
    /// Whether the connection may be the cause, so that another attempt may succeed.
    pub is_interruption: bool,
}

/// The state of copying files back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchPhase {
    /// No path is being copied.
    Idle,
    /// A path is being copied.
    Running,
    /// The actions that end the task were returned.
    Ending,
}

/// The progress of copying files back.
#[derive(Debug)]
pub(super) struct FetchProgress {
    phase: FetchPhase,
    /// Number of paths that were copied or could not be copied.
    done: usize,
    failed: Vec<FetchFailure>,
    /// The symbolic links that were left out of the paths that were copied.
    skipped_links: SkippedLinks,
    /// Whether the current path is tried for the second time over a working connection.
    is_retry: bool,
    /// Whether the remote machine has sent all of its records while files were copied.
    has_remote_ended: bool,
}

impl FetchProgress {
    pub(super) const fn new() -> Self {
        Self {
            phase: FetchPhase::Idle,
            done: 0,
            failed: Vec::new(),
            skipped_links: SkippedLinks { count: 0, names: Vec::new() },
            is_retry: false,
            has_remote_ended: false,
        }
    }

    /// Returns whether nothing more is expected of the remote machine.
    pub(super) const fn needs_no_connection(&self) -> bool {
        match self.phase {
            FetchPhase::Idle => false,
            FetchPhase::Running => self.has_remote_ended,
            FetchPhase::Ending => true,
        }
    }

    /// Gives the current path another attempt, because the machine was not reachable meanwhile.
    pub(super) const fn forget_attempt(&mut self) {
        self.is_retry = false;
    }

    const fn is_running(&self) -> bool {
        matches!(self.phase, FetchPhase::Running)
    }

    /// Ends the copying of a path. Returns false if no path was being copied.
    const fn leave_running(&mut self) -> bool {
        let was_running = self.is_running();
        if was_running {
            self.phase = FetchPhase::Idle;
        }
        was_running
    }
}

impl MirrorMachine {
    /// Records the records that are held back, unless the files must be copied first. `next` is the
    /// state after these records.
    pub(super) fn record_or_fetch(
        &mut self,
        context: MirrorContext<'_>,
        next: &TaskState,
    ) -> Actions {
        if self.fetch.is_running() {
            return Vec::new();
        }
        let has_ended =
            next.closed.is_some() || matches!(next.lifecycle.phase(), Phase::Lingering { .. });
        if has_ended && needs_fetch(context, next) {
            return self.begin_fetch(context);
        }
        self.release_records(context, next)
    }

    /// Returns the action that records the records that are held back. The records that end the
    /// task stay until the summary has arrived.
    fn release_records(&mut self, context: MirrorContext<'_>, next: &TaskState) -> Actions {
        if !next.is_live() && next.closed.is_none() {
            return Vec::new();
        }
        let records = std::mem::take(&mut self.ending);
        let end = next.closed.as_ref().map(|closed| closed.output.bytes);
        let mut actions = match end {
            Some(at) => self.append_problems(context, at),
            None => Vec::new(),
        };
        if !records.is_empty() {
            actions.push(MirrorAction::Record(records));
        }
        actions
    }

    /// Returns the action that appends the lines about paths and links that were not copied to the
    /// output, which ends at `at`.
    fn append_problems(&mut self, context: MirrorContext<'_>, at: u64) -> Actions {
        if context.state.spec.fetch.is_some() {
            self.fetch.phase = FetchPhase::Ending;
        }
        let recorded = context.remote();
        let (failed, links) = match &recorded.failed_fetches {
            Some(failed) => (failed, &recorded.skipped_links),
            None => (&self.fetch.failed, &self.fetch.skipped_links),
        };
        let lines = failed.iter().map(FetchFailure::output_line).chain([links.output_line()]);
        let text: String = lines.collect();
        if text.is_empty() { Vec::new() } else { vec![MirrorAction::AppendOutput { at, text }] }
    }

    /// Begins or continues to copy, unless a stop was requested before.
    fn begin_fetch(&mut self, context: MirrorContext<'_>) -> Actions {
        let requesters = context.remote().stop_requesters;
        match requesters.into_iter().find(|by| by != SESSION_REQUESTER) {
            Some(by) => self.end_stopped_fetch(context, &by),
            None => self.fetch_next_path(context),
        }
    }

    fn fetch_next_path(&mut self, context: MirrorContext<'_>) -> Actions {
        let fetch = context.state.spec.fetch.as_ref();
        let path = fetch.and_then(|fetch| fetch.paths.get(self.fetch.done)).cloned();
        let Some(path) = path else { return self.end_fetch(context) };
        self.fetch.phase = FetchPhase::Running;
        vec![MirrorAction::Fetch { path }]
    }

    /// Handles the result of copying a path: the symbolic links that were left out, or the error.
    #[must_use]
    pub fn on_fetched(
        &mut self,
        context: MirrorContext<'_>,
        result: Result<SkippedLinks, FetchError>,
    ) -> Actions {
        if !self.fetch.leave_running() {
            return Vec::new();
        }
        match result {
            // The next connection shows whether the machine is reachable.
            Err(error) if error.is_interruption && !self.fetch.is_retry => {
                self.fetch.is_retry = true;
                self.fetch.has_remote_ended = false;
                self.ending = Vec::new();
                self.phase = super::LinkPhase::Down;
                self.lost_at = Some(context.wall);
                return vec![MirrorAction::Disconnect { retry_at_once: true }];
            }
            Err(error) => self.fail_path(context, error.why),
            Ok(links) => self.fetch.skipped_links.append(links),
        }
        self.fetch.done += 1;
        self.fetch.is_retry = false;
        self.fetch_next_path(context)
    }

    /// Ends the copying because a stop was requested. Does nothing unless files are being copied.
    pub(super) fn cancel_fetch(&mut self, context: MirrorContext<'_>, by: &str) -> Actions {
        if !self.fetch.leave_running() {
            return Vec::new();
        }
        let mut actions = vec![MirrorAction::CancelFetch];
        actions.extend(self.end_stopped_fetch(context, by));
        actions
    }

    /// Records that the remaining paths were not copied because of a stop.
    fn end_stopped_fetch(&mut self, context: MirrorContext<'_>, by: &str) -> Actions {
        let count = context.state.spec.fetch.as_ref().map_or(0, |fetch| fetch.paths.len());
        while self.fetch.done < count {
            self.fail_path(context, format!("{by} requested a stop"));
            self.fetch.done += 1;
        }
        self.end_fetch(context)
    }

    fn fail_path(&mut self, context: MirrorContext<'_>, why: String) {
        let fetch = context.state.spec.fetch.as_ref();
        if let Some(path) = fetch.and_then(|fetch| fetch.paths.get(self.fetch.done)) {
            self.fetch.failed.push(FetchFailure { path: path.clone(), why });
        }
    }

    /// Records that the files were copied, and then the records that were held back meanwhile.
    fn end_fetch(&mut self, context: MirrorContext<'_>) -> Actions {
        let (failed, skipped_links) = (self.fetch.failed.clone(), self.fetch.skipped_links.clone());
        let at = context.now();
        let fetched = Record::Remote(RemoteEvent::Fetched { at, failed, skipped_links });
        let mut next = context.state.clone();
        let held = self.ending.iter().cloned();
        // Each of these records was applied to the same state when it arrived.
        let follows =
            std::iter::once(fetched.clone()).chain(held).try_for_each(|record| next.apply(record));
        let mut actions = vec![MirrorAction::Record(vec![fetched])];
        if let Err(why) = follows {
            actions.extend(self.end_unreadable(&why));
        } else if self.fetch.has_remote_ended && next.closed.is_none() {
            actions.extend(self.end_without_summary(context));
        } else {
            actions.extend(self.release_records(context, &next));
        }
        actions
    }

    /// Handles the message that the remote machine has sent all of its records although the task
    /// has not ended here. Either files are still being copied, or a crash of the remote machine
    /// lost the summary or records that this machine has.
    pub(super) fn on_remote_end(&mut self, context: MirrorContext<'_>) -> Actions {
        if self.fetch.is_running() {
            self.fetch.has_remote_ended = true;
            return Vec::new();
        }
        if needs_fetch(context, context.state) {
            self.fetch.has_remote_ended = true;
            return self.begin_fetch(context);
        }
        self.end_without_summary(context)
    }

    /// Ends a task without the summary of the remote machine.
    pub(super) fn end_without_summary(&mut self, context: MirrorContext<'_>) -> Actions {
        let mut records = std::mem::take(&mut self.ending);
        let mut next = context.state.clone();
        let ends = |record: &Record| next.apply(record.clone()).is_err() || !next.is_live();
        let live_count = records.iter().position(ends).unwrap_or(records.len());
        let event = |record: Record| {
            if let Record::Event { event, .. } = record { Some(event) } else { None }
        };
        let ending = records.split_off(live_count).into_iter().find_map(event);
        let mut actions = Vec::new();
        if !records.is_empty() {
            actions.push(MirrorAction::Record(records));
        }
        actions.extend(self.append_problems(context, context.output_bytes));
        actions.extend(self.end(ending.unwrap_or_else(|| TaskEvent::Vanished {
            why: format!("the records of {} lack its end", self.executor.name),
        })));
        actions
    }
}

/// Returns whether the files must be copied before the end of the command is recorded. A command
/// that was not started has changed none.
fn needs_fetch(context: MirrorContext<'_>, next: &TaskState) -> bool {
    let was_started = !matches!(next.lifecycle.outcome(), Some(Outcome::FailedToStart { .. }));
    let remote = context.state.remote.as_ref();
    let is_done = remote.is_some_and(|remote| remote.failed_fetches.is_some());
    was_started && !is_done && context.state.spec.fetch.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::RemoteExecutor;
    use crate::file_sync::FetchRequest;
    use crate::lifecycle::TreeLiveness;
    use crate::mirror::RemoteClock;
    use crate::outcome::LeaderEnd;
    use crate::process::{BootId, LeaderRef, MonotonicMs, ProcRef, UnixMs};
    use crate::record::{AcceptedTask, CloseSummary, NEWEST_FORMAT, OutputTotals};
    use crate::remote::{ExecutorFacts, REMOTE_PROTOCOL, RemoteMessage};
    use crate::sample::sample_task_spec;
    use crate::spec::TaskSpec;

    /// Bytes of the remote output.
    const OUTPUT_BYTES: u64 = 20;

    /// A mirror that follows a running task with the paths `a` and `b`.
    struct World {
        machine: MirrorMachine,
        state: TaskState,
    }

    impl World {
        fn new() -> Self {
            let mut world = Self::with_accepted_task();
            let leader = LeaderRef::Unidentified { pid: 7 };
            world.state.apply(event(TaskEvent::Spawned { leader })).expect("it was accepted");
            world
        }

        fn with_accepted_task() -> Self {
            let executor = RemoteExecutor {
                name: "build".to_owned(),
                destination: Some("build".to_owned()),
                slurm: None,
                program: None,
                ssh_variables: Vec::new(),
            };
            let paths = ["a", "b"].map(str::to_owned).to_vec();
            let fetch = FetchRequest { directory: "/local".to_owned(), paths };
            let spec = TaskSpec {
                executor: Some(Box::new(executor)),
                fetch: Some(Box::new(fetch)),
                ..sample_task_spec("b-4k7q0n2m8x5t".parse().expect("an id"))
            };
            let accepted = AcceptedTask {
                format: NEWEST_FORMAT,
                boot: BootId("boot".to_owned()),
                at: MonotonicMs(0),
                wall: UnixMs(0),
                shim: ProcRef { pid: 1, start_ticks: 1 },
                cgroup: None,
                adopted: None,
                spec,
            };
            let facts = ExecutorFacts {
                name: "build".to_owned(),
                program: None,
                processor: "x86_64".to_owned(),
                job: None,
            };
            let mirror = MirrorMachine::new(facts, None);
            let mut world = Self { machine: mirror, state: TaskState::new(accepted) };
            let clock = RemoteClock { monotonic_ahead_ms: 0, wall_ahead_ms: 0 };
            let (at, wall) = (MonotonicMs(0), UnixMs(0));
            let machine = "build07".to_owned();
            world.record(RemoteEvent::Sent { at });
            world.record(RemoteEvent::Accepted { at, wall, machine, clock });
            world
        }

        fn record(&mut self, event: RemoteEvent) {
            self.state.apply(Record::Remote(event)).expect("it follows");
        }

        /// Takes a step, and applies the records to the state. Returns the actions.
        fn step(
            &mut self,
            step: impl FnOnce(&mut MirrorMachine, MirrorContext<'_>) -> Actions,
        ) -> Actions {
            let context = MirrorContext {
                state: &self.state,
                output_bytes: OUTPUT_BYTES,
                monotonic: MonotonicMs(9),
                wall: UnixMs(9),
            };
            let actions = step(&mut self.machine, context);
            let records = actions.iter().filter_map(|action| {
                if let MirrorAction::Record(records) = action {
                    Some(records.clone())
                } else {
                    None
                }
            });
            for record in records.flatten().collect::<Vec<_>>() {
                self.state.apply(record).expect("it follows");
            }
            actions
        }

        fn reconnect(&mut self) {
            let (now, wall) = (MonotonicMs(9), UnixMs(9));
            let hello = RemoteMessage::Hello {
                protocol: REMOTE_PROTOCOL,
                version: "1".to_owned(),
                machine: "build07".to_owned(),
                now,
                wall,
            };
            let _sent = self.step(|machine, context| machine.on_connected(context, true));
            let _known = self.step(|machine, context| machine.on_message(context, hello));
            let accepted = RemoteMessage::Accepted { at: now, wall };
            let _recorded = self.step(|machine, context| machine.on_message(context, accepted));
        }

        fn receive(&mut self, record: Record) -> Actions {
            let message = RemoteMessage::Record { record: Box::new(record) };
            self.step(|machine, context| machine.on_message(context, message))
        }

        /// Receives the records of a command that has ended. Returns the last actions.
        fn receive_end(&mut self) -> Actions {
            let first = self.receive(event(leader_ended(TreeLiveness::Empty)));
            assert_eq!(first, Vec::new());
            self.receive(closed())
        }

        fn fetched(&mut self, result: Result<(), FetchError>) -> Actions {
            self.fetched_without(result.map(|()| SkippedLinks::default()))
        }

        fn fetched_without(&mut self, result: Result<SkippedLinks, FetchError>) -> Actions {
            self.step(|machine, context| machine.on_fetched(context, result))
        }
    }

    fn event(event: TaskEvent) -> Record {
        Record::Event { at: MonotonicMs(5), event }
    }

    fn leader_ended(tree: TreeLiveness) -> TaskEvent {
        let end = LeaderEnd::Exited { code: 0 };
        TaskEvent::LeaderEnded { end, tree, final_cwd: None, pipeline: None }
    }

    fn closed() -> Record {
        let output = OutputTotals { bytes: OUTPUT_BYTES, gap: None, lost: 0 };
        Record::Closed(Box::new(CloseSummary { output, ..CloseSummary::default() }))
    }

    fn error(why: &str, is_interruption: bool) -> Result<(), FetchError> {
        Err(FetchError { why: why.to_owned(), is_interruption })
    }

    fn fetch(path: &str) -> Actions {
        vec![MirrorAction::Fetch { path: path.to_owned() }]
    }

    #[test]
    fn the_end_is_recorded_after_the_files_are_copied() {
        let mut world = World::new();
        assert_eq!(world.receive_end(), fetch("a"));
        assert!(world.state.is_live());
        // The remote machine has sent everything, and closes the connection.
        assert_eq!(
            world.step(|machine, context| machine.on_message(context, RemoteMessage::End)),
            []
        );
        let closed = world.step(|machine, context| machine.on_broken(context, "closed"));
        assert_eq!(closed, [MirrorAction::Disconnect { retry_at_once: false }]);
        assert_eq!(world.step(|machine, context| machine.on_due(context)), []);
        assert_eq!(world.fetched(Ok(())), fetch("b"));
        assert_eq!(world.fetched(Ok(())).len(), 2);
        assert!(!world.state.is_live() && world.state.closed.is_some());
        let remote = world.state.remote.expect("a mirror");
        assert_eq!(remote.failed_fetches, Some(Vec::new()));
    }

    #[test]
    fn the_end_of_the_shell_waits_for_the_files_even_if_processes_live_on() {
        let mut world = World::new();
        assert_eq!(world.receive(event(leader_ended(TreeLiveness::Alive))), fetch("a"));
        assert_eq!(world.fetched(Ok(())), fetch("b"));
        let _recorded = world.fetched(Ok(()));
        assert!(matches!(world.state.lifecycle.phase(), Phase::Lingering { .. }));
        let end = world.receive(event(TaskEvent::TreeEmpty));
        assert_eq!(end, []);
        assert_eq!(world.receive(closed()).len(), 1, "nothing is copied again");
        assert!(!world.state.is_live());
    }

    #[test]
    fn a_failure_is_a_line_after_the_output_and_changes_no_outcome() {
        let mut world = World::new();
        let _first = world.receive_end();
        assert_eq!(world.fetched(error("no such file", false)), fetch("b"));
        let actions = world.fetched(Ok(()));
        let text = "siding: could not fetch a: no such file\n".to_owned();
        assert_eq!(actions[1], MirrorAction::AppendOutput { at: OUTPUT_BYTES, text });
        assert_eq!(world.state.lifecycle.outcome(), Some(&Outcome::Exited { code: 0 }));
    }

    #[test]
    fn an_interruption_is_tried_again_once() {
        let mut world = World::new();
        let _first = world.receive_end();
        let retry = [MirrorAction::Disconnect { retry_at_once: true }];
        assert_eq!(world.fetched(error("broken", true)), retry);
        assert_eq!(world.receive_end(), fetch("a"), "the remote machine sends the end again");
        assert_eq!(world.fetched(error("broken", true)), fetch("b"));
        let _last = world.fetched(Ok(()));
        let failed = world.state.remote.and_then(|remote| remote.failed_fetches);
        assert_eq!(failed.expect("it was tried")[0].path, "a");
    }

    #[test]
    fn attempts_while_the_machine_is_unreachable_do_not_count() {
        let mut world = World::new();
        let _first = world.receive_end();
        for _ in 0..3 {
            let retry = [MirrorAction::Disconnect { retry_at_once: true }];
            assert_eq!(world.fetched(error("broken", true)), retry);
            let _down = world.step(|machine, context| machine.on_broken(context, "no route"));
            world.reconnect();
            assert_eq!(world.receive_end(), fetch("a"));
        }
    }

    #[test]
    fn a_stop_ends_the_copying_except_at_the_end_of_the_session() {
        let mut world = World::new();
        let _first = world.receive_end();
        let _end = world.step(|machine, context| machine.on_message(context, RemoteMessage::End));
        let session = SESSION_REQUESTER;
        let ignored = world.step(|machine, context| machine.stop(context, session, None, None));
        assert_eq!(ignored, []);
        let actions = world.step(|machine, context| machine.stop(context, "user", None, None));
        assert_eq!(actions.first(), Some(&MirrorAction::CancelFetch));
        let failed = world.state.remote.as_ref().and_then(|remote| remote.failed_fetches.clone());
        let paths: Vec<String> =
            failed.expect("it was tried").into_iter().map(|failure| failure.path).collect();
        assert_eq!(paths, ["a", "b"]);
        assert!(!world.state.is_live());
    }

    fn links(name: &str) -> SkippedLinks {
        SkippedLinks { count: 1, names: vec![name.to_owned()] }
    }

    #[test]
    fn links_that_are_left_out_are_recorded_and_named_after_the_output() {
        let mut world = World::new();
        let _first = world.receive_end();
        let _second = world.fetched_without(Ok(links("a/link")));
        let actions = world.fetched_without(Ok(links("b/link")));
        let MirrorAction::AppendOutput { at, text } = &actions[1] else { panic!("{actions:?}") };
        assert_eq!(*at, OUTPUT_BYTES);
        assert!(text.contains("2 symbolic links") && text.contains("a/link, b/link"), "{text}");
        let remote = world.state.remote.as_ref().expect("a mirror");
        assert_eq!((remote.skipped_links.count, &remote.failed_fetches), (2, &Some(Vec::new())));
    }

    fn failed_paths(world: &World) -> Vec<(String, String)> {
        let remote = world.state.remote.as_ref();
        let failed = remote.and_then(|remote| remote.failed_fetches.clone());
        failed.expect("it has ended").into_iter().map(|one| (one.path, one.why)).collect()
    }

    fn stop(world: &mut World, by: &str) {
        let _recorded = world.step(|machine, context| machine.stop(context, by, None, None));
    }

    #[test]
    fn a_stop_before_the_copying_prevents_it_except_at_the_end_of_the_session() {
        for by in [SESSION_REQUESTER, "user"] {
            let mut world = World::new();
            stop(&mut world, by);
            stop(&mut world, SESSION_REQUESTER);
            let asked = TaskEvent::StopAsked { by: by.to_owned(), grace_ms: None, signal: None };
            let _recorded = world.receive(event(asked));
            let actions = world.receive_end();
            if by == SESSION_REQUESTER {
                assert_eq!(actions, fetch("a"));
                continue;
            }
            assert!(!world.state.is_live());
            let why = "user requested a stop".to_owned();
            let expected = ["a", "b"].map(|path| (path.to_owned(), why.clone()));
            assert_eq!(failed_paths(&world), expected);
        }
    }

    #[test]
    fn a_stop_while_the_copying_is_interrupted_prevents_the_next_attempt() {
        let mut world = World::new();
        let _first = world.receive_end();
        let _second = world.fetched(Ok(()));
        let _retry = world.fetched(error("broken", true));
        let _down = world.step(|machine, context| machine.on_broken(context, "no route"));
        stop(&mut world, "user");
        world.reconnect();
        let actions = world.receive_end();
        assert!(!actions.contains(&fetch("b")[0]), "{actions:?}");
        let expected = [("b".to_owned(), "user requested a stop".to_owned())];
        assert_eq!(failed_paths(&world), expected);
        assert_eq!(world.state.lifecycle.outcome(), Some(&Outcome::Exited { code: 0 }));
    }

    #[test]
    fn a_stop_prevents_the_copying_of_a_new_mirror_and_without_a_summary() {
        let mut world = World::new();
        let by = "user".to_owned();
        let at = MonotonicMs(6);
        world.record(RemoteEvent::StopPending { at, by, grace_ms: None, signal: None });
        let _held = world.receive(event(leader_ended(TreeLiveness::Empty)));
        let actions =
            world.step(|machine, context| machine.on_message(context, RemoteMessage::End));
        assert_eq!(failed_paths(&world).len(), 2);
        assert!(matches!(actions.last(), Some(MirrorAction::RecordEvent(_))), "{actions:?}");
    }

    #[test]
    fn a_command_that_was_not_started_has_no_files() {
        let mut world = World::with_accepted_task();
        let error = "no such file".to_owned();
        let failed = event(TaskEvent::SpawnFailed { error, errno: 2 });
        assert_eq!(world.receive(failed), []);
        assert_eq!(world.receive(closed()).len(), 1);
        assert!(!world.state.is_live());
    }

    #[test]
    fn a_new_mirror_does_not_copy_again_and_repeats_the_line() {
        let mut world = World::new();
        let failed = vec![FetchFailure { path: "a".to_owned(), why: "no such file".to_owned() }];
        let skipped_links = links("b/link");
        world.record(RemoteEvent::Fetched { at: MonotonicMs(6), failed, skipped_links });
        let actions = world.receive_end();
        let MirrorAction::AppendOutput { at, text } = &actions[0] else { panic!("{actions:?}") };
        assert_eq!((*at, text.lines().count()), (OUTPUT_BYTES, 2), "{text}");
        assert!(!world.state.is_live());
    }
}
