//! Simulates a job in a cluster, siding on the machine that submits the job, and the mirror of its
//! task. At any point the job may be interrupted or ended, the connection may break, or the mirror
//! may be killed and replaced by one that continues from its journal.

mod cluster;
mod outcomes;

use std::collections::VecDeque;

use proptest::prelude::*;
use siding_model::executor::{RemoteExecutor, SlurmOptions};
use siding_model::journal::{TaskState, replay};
use siding_model::lifecycle::{LifecycleEffect, Phase, TaskEvent};
use siding_model::mirror::{JobEnd, RemoteEvent};
use siding_model::outcome::{Outcome, Placement};
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::protocol::ShimRequest;
use siding_model::record::{CloseSummary, NEWEST_FORMAT, Record};
use siding_model::remote::{
    ExecutorFacts, JobRequest, MirrorAction, MirrorContext, MirrorMachine, REMOTE_PROTOCOL,
    RemoteMessage, RemoteRequest, UnsentTask,
};
use siding_model::spec::TaskSpec;

use crate::random_histories::EventHistory;
use crate::sample_records;

use cluster::{Cluster, Delivery, Scenario, any_scenario};
use outcomes::is_true_outcome;

/// Time between two attempts to connect, in milliseconds.
const CONNECT_PAUSE_MS: u64 = 20_000;

/// A step of the world.
#[derive(Debug, Clone, Copy)]
enum WorldStep {
    /// The mirror connects, over a shared connection or a new one.
    Connect { is_shared: bool },
    /// The submitting machine carries out the requests that have arrived.
    Serve,
    /// The status of a job that waits changes.
    ChangeStatus,
    /// A node begins the next attempt.
    BeginAttempt,
    /// The current attempt advances by a record and some output.
    Advance,
    /// The cluster interrupts the current attempt, and the job waits again.
    Interrupt,
    /// The job ends.
    EndJob,
    /// The submitting machine sends the new status, records and output.
    Send,
    /// One message arrives at the mirror.
    Deliver,
    /// The connection breaks. Requests in transit may still arrive.
    Break { delivers_requests: bool },
    /// The mirror is killed.
    Kill { delivers_requests: bool },
    /// A client requests a stop.
    Stop,
}

fn any_step() -> impl Strategy<Value = WorldStep> {
    prop_oneof![
        4 => any::<bool>().prop_map(|is_shared| WorldStep::Connect { is_shared }),
        4 => Just(WorldStep::Serve),
        2 => Just(WorldStep::ChangeStatus),
        2 => Just(WorldStep::BeginAttempt),
        3 => Just(WorldStep::Advance),
        1 => Just(WorldStep::Interrupt),
        1 => Just(WorldStep::EndJob),
        4 => Just(WorldStep::Send),
        10 => Just(WorldStep::Deliver),
        1 => any::<bool>().prop_map(|delivers_requests| WorldStep::Break { delivers_requests }),
        1 => any::<bool>().prop_map(|delivers_requests| WorldStep::Kill { delivers_requests }),
        1 => Just(WorldStep::Stop),
    ]
}

/// The whole world.
struct World {
    scenario: Scenario,
    cluster: Cluster,
    machine: MirrorMachine,
    /// The mirror's journal, its state, and the stored output.
    records: Vec<Record>,
    state: TaskState,
    output: Vec<u8>,
    is_connected: bool,
    to_cluster: VecDeque<RemoteRequest>,
    to_mirror: VecDeque<Delivery>,
    /// Whether the job is in the queue or runs, according to the current connection.
    is_followed: bool,
    /// Whether a stop was forwarded since the job was followed.
    has_forwarded_stop: bool,
    /// The requester of a stop that no record of the task contains.
    stop_requester: Option<String>,
    /// The end that the mirror has received, with the phase of the task and the pending stop at
    /// that moment.
    received_end: Option<(JobEnd, Phase, Option<String>)>,
    now: MonotonicMs,
}

impl World {
    fn new(scenario: Scenario) -> Self {
        let executor = RemoteExecutor {
            name: "cluster".to_owned(),
            destination: None,
            program: None,
            slurm: Some(SlurmOptions::default()),
            ssh_variables: Vec::new(),
        };
        let spec = TaskSpec { executor: Some(Box::new(executor)), ..scenario.spec.clone() };
        let mut accepted = sample_records::accepted_task(spec);
        accepted.format = NEWEST_FORMAT;
        let now = accepted.at;
        let unsent = UnsentTask { spec: scenario.spec.clone(), variables: Vec::new() };
        Self {
            cluster: Cluster::new(&scenario),
            scenario,
            machine: MirrorMachine::new(facts(), Some(unsent)),
            records: vec![Record::Accepted(Box::new(accepted.clone()))],
            state: TaskState::new(accepted),
            output: Vec::new(),
            is_connected: false,
            to_cluster: VecDeque::new(),
            to_mirror: VecDeque::new(),
            is_followed: false,
            has_forwarded_stop: false,
            stop_requester: None,
            received_end: None,
            now,
        }
    }

    fn take(&mut self, step: WorldStep) {
        match step {
            WorldStep::Connect { is_shared } => self.connect(is_shared),
            WorldStep::Serve => self.serve(),
            WorldStep::ChangeStatus => self.cluster.status += 1,
            WorldStep::BeginAttempt => self.cluster.begin_attempt(),
            WorldStep::Advance => self.cluster.advance(),
            WorldStep::Interrupt => self.cluster.interrupt(),
            WorldStep::EndJob => self.cluster.end_job(&self.scenario.end),
            WorldStep::Send => {
                let sent = self.cluster.send(self.now);
                self.to_mirror.extend(sent);
            }
            WorldStep::Deliver => self.deliver(),
            WorldStep::Break { delivers_requests } => {
                self.cut(delivers_requests);
                if std::mem::take(&mut self.is_connected) && self.state.is_live() {
                    self.step(|machine, context| machine.on_broken(context, "broken pipe"));
                }
            }
            WorldStep::Kill { delivers_requests } => {
                self.cut(delivers_requests);
                self.is_connected = false;
                self.machine = MirrorMachine::new(facts(), None);
            }
            WorldStep::Stop if self.state.is_live() => {
                self.step(|machine, context| machine.stop(context, "user", None, None));
                self.expect_forwarded_stop();
            }
            WorldStep::Stop => {}
        }
    }

    fn connect(&mut self, is_shared: bool) {
        if self.is_connected || !self.state.is_live() {
            return;
        }
        self.now = self.now.plus_ms(CONNECT_PAUSE_MS);
        let mut connects = false;
        self.step(|machine, context| {
            let actions = machine.on_due(context);
            connects = actions.contains(&MirrorAction::Connect);
            actions
        });
        if !connects {
            return;
        }
        self.is_connected = true;
        self.to_mirror.push_back(Delivery::Message(RemoteMessage::Hello {
            protocol: REMOTE_PROTOCOL,
            version: "1".to_owned(),
            machine: "login".to_owned(),
            now: self.now.plus_ms(1_000_000),
            wall: UnixMs(5),
        }));
        self.step(|machine, context| machine.on_connected(context, is_shared));
    }

    fn serve(&mut self) {
        while let Some(request) = self.to_cluster.pop_front() {
            let answers = self.cluster.serve(request);
            self.to_mirror.extend(answers);
        }
    }

    fn deliver(&mut self) {
        if !self.state.is_live() {
            return;
        }
        match self.to_mirror.pop_front() {
            Some(Delivery::Output { at, bytes }) => self.store(at, &bytes),
            Some(Delivery::Message(message)) => {
                match &message {
                    RemoteMessage::Accepted { .. } => {
                        (self.is_followed, self.has_forwarded_stop) = (true, false);
                    }
                    RemoteMessage::Queued { .. } => self.is_followed = true,
                    RemoteMessage::JobEnded { end } => {
                        let (end, phase) = (end.clone(), self.cluster.phase());
                        self.received_end = Some((end, phase, self.stop_requester.clone()));
                    }
                    RemoteMessage::Missing { .. }
                    | RemoteMessage::Hello { .. }
                    | RemoteMessage::Node { .. }
                    | RemoteMessage::Requeued { .. }
                    | RemoteMessage::Record { .. }
                    | RemoteMessage::Output { .. }
                    | RemoteMessage::Shim { .. }
                    | RemoteMessage::InputPosition(_)
                    | RemoteMessage::Unknown
                    | RemoteMessage::Refused { .. }
                    | RemoteMessage::End => {}
                }
                self.step(|machine, context| machine.on_message(context, message));
                self.expect_forwarded_stop();
            }
            None => {}
        }
    }

    /// Stores output as a mirror does: its offset counts from the beginning of the attempt.
    fn store(&mut self, at: usize, bytes: &[u8]) {
        let earlier = self.state.remote.as_ref().map_or(0, |remote| remote.earlier_output_bytes);
        let at = at + usize::try_from(earlier).expect("small");
        assert!(at <= self.output.len(), "output is missing");
        let new = &bytes[(self.output.len() - at).min(bytes.len())..];
        self.output.extend_from_slice(new);
    }

    /// Asserts that a stop that the task has not recorded was forwarded over this connection.
    fn expect_forwarded_stop(&self) {
        if self.is_connected && self.is_followed && self.state.is_live() {
            let is_pending = self.stop_requester.is_some();
            assert!(!is_pending || self.has_forwarded_stop, "the stop was not forwarded");
        }
    }

    /// Ends the connection at the submitting machine.
    fn cut(&mut self, delivers_requests: bool) {
        if delivers_requests {
            self.serve();
        }
        self.to_cluster.clear();
        self.to_mirror.clear();
        self.cluster.served = None;
        (self.is_followed, self.has_forwarded_stop) = (false, false);
    }

    /// Takes a step of the mirror, and carries out its actions. The time advances before each of
    /// them.
    fn step(
        &mut self,
        step: impl FnOnce(&mut MirrorMachine, MirrorContext<'_>) -> Vec<MirrorAction>,
    ) {
        let Self { machine, state, output, now, .. } = self;
        let output_bytes = output.len() as u64;
        let context = MirrorContext { state, output_bytes, monotonic: *now, wall: UnixMs(0) };
        for action in step(machine, context) {
            self.now = self.now.plus_ms(1);
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: MirrorAction) {
        match action {
            MirrorAction::Record(records) => self.append(records),
            MirrorAction::RecordEvent(event) => {
                let at = self.now.max(self.state.last_event_at);
                let (next, effects) = self.state.lifecycle.step(&event, at);
                if next == self.state.lifecycle {
                    return;
                }
                let closes = effects.contains(&LifecycleEffect::Close);
                let closed = closes.then(|| Record::Closed(Box::<CloseSummary>::default()));
                self.append(std::iter::once(Record::Event { at, event }).chain(closed).collect());
            }
            MirrorAction::Send(request) => {
                if let RemoteRequest::Forward(forwarded) = &request
                    && matches!(forwarded.request, ShimRequest::Stop { .. })
                {
                    self.has_forwarded_stop = true;
                }
                self.to_cluster.push_back(request);
            }
            MirrorAction::Disconnect { .. } => {
                self.is_connected = false;
                self.cut(false);
            }
            // The specification requests no files.
            MirrorAction::Connect
            | MirrorAction::Install
            | MirrorAction::Respond { .. }
            | MirrorAction::Fetch { .. }
            | MirrorAction::CancelFetch
            | MirrorAction::AppendOutput { .. } => {}
        }
    }

    fn append(&mut self, records: Vec<Record>) {
        for record in records {
            if let Record::Remote(RemoteEvent::StopPending { by, .. }) = &record {
                self.stop_requester = Some(by.clone());
            }
            if let Record::Event { event: TaskEvent::StopAsked { .. }, .. } = &record {
                self.stop_requester = None;
            }
            self.state.apply(record.clone()).expect("each record follows the ones before it");
            self.records.push(record);
        }
    }

    /// Runs the simulation to its end, over connections that do not break.
    fn finish(&mut self) {
        for _ in 0..10 {
            self.take(WorldStep::Connect { is_shared: false });
            for _ in 0..3 {
                self.take(WorldStep::Serve);
                while !self.to_mirror.is_empty() && self.state.is_live() {
                    self.take(WorldStep::Deliver);
                }
                self.cluster.begin_attempt();
                for _ in 0..self.cluster.present().map_or(0, |attempt| attempt.journal.len()) {
                    self.cluster.advance();
                }
                self.cluster.end_job(&self.scenario.end);
                self.take(WorldStep::Send);
            }
        }
    }

    /// Returns the output of each attempt that the mirror knows, from the offsets in its journal.
    /// The attempts between two known ones had no connection to the mirror.
    fn outputs(&self) -> Vec<(usize, &[u8])> {
        let mut starts = vec![(0, 0)];
        for record in &self.records {
            if let Record::Remote(RemoteEvent::Requeued { attempt, output_bytes, .. }) = record {
                let number = |number: u64| usize::try_from(number).expect("small");
                starts.push((number(u64::from(*attempt)), number(*output_bytes)));
            }
        }
        let ends = starts.iter().skip(1).map(|(_, end)| *end).chain([self.output.len()]);
        let parts = starts.iter().zip(ends);
        parts.map(|((attempt, start), end)| (*attempt, &self.output[*start..end])).collect()
    }
}

fn facts() -> ExecutorFacts {
    ExecutorFacts {
        name: "cluster".to_owned(),
        program: None,
        processor: "x86_64".to_owned(),
        job: Some(JobRequest::default()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The job is submitted at most once. The task ends once, with the outcome of its last attempt
    /// or of its job, and the output of all attempts is neither lost nor repeated.
    #[test]
    fn a_mirror_of_a_job_is_true_whatever_breaks(
        scenario in any_scenario(),
        steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let mut world = World::new(scenario);
        for step in steps {
            world.take(step);
        }
        world.finish();
        let journal = sample_records::journal_lines(&world.records).concat();
        let replayed = replay(&journal).map(|replayed| replayed.state);
        prop_assert_eq!(replayed, Ok(world.state.clone()));
        let Some(outcome) = world.state.lifecycle.outcome() else {
            panic!("the task has not ended: {:?}", world.state.lifecycle)
        };
        let ends = world.records.iter().filter(|record| matches!(record, Record::Closed(_)));
        prop_assert_eq!(ends.count(), 1);
        let remote = world.state.remote.as_ref().expect("a mirror");
        let attempt = world.cluster.current.unwrap_or(0);
        prop_assert_eq!(remote.attempt as usize, attempt, "the number of restarts");
        if world.cluster.submissions == 0 {
            let is_true = matches!(
                outcome,
                Outcome::FailedToStart { .. } | Outcome::Lost { .. } | Outcome::Stopped { .. }
            );
            prop_assert!(is_true, "{outcome:?}");
        } else if let Some((end, phase, requester)) = &world.received_end {
            let is_true = is_true_outcome(outcome, end, phase, requester.as_deref());
            prop_assert!(is_true, "{outcome:?} after {end:?} in {phase:?}");
        } else {
            let Phase::Ended { outcome: recorded, .. } = world.cluster.phase() else {
                panic!("the attempt has not ended")
            };
            prop_assert_eq!(outcome, &recorded);
        }
        let outputs = world.outputs();
        for (number, output) in &outputs {
            prop_assert!(world.cluster.attempts[*number].output.starts_with(output));
        }
        let last = outputs.last().map(|(_, output)| output.len());
        prop_assert_eq!(last, Some(world.cluster.bytes), "the output of the last attempt");
    }
}

/// The time limit of a job ends a task even if the task has no deadline because a person waits.
#[test]
fn the_time_limit_of_a_job_ends_the_task_of_a_person_with_a_deadline() {
    for deadline_from_background in [true, false] {
        let spec = TaskSpec {
            deadline_from_background,
            placement: Placement::Foreground,
            ..sample_records::task_spec()
        };
        let history = EventHistory { spec: spec.clone(), steps: Vec::new() };
        let attempts = vec![history];
        let mut world = World::new(Scenario { spec, attempts, end: JobEnd::TimeLimit });
        world.finish();
        let outcome = world.state.lifecycle.outcome();
        assert!(matches!(outcome, Some(Outcome::Deadline { .. })), "{outcome:?}");
    }
}
