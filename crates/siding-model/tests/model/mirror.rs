//! Simulates a remote machine, the mirror of its task and the network between them. At any point
//! the network may break, or the mirror may be killed and replaced by one that continues from its
//! journal.

use std::collections::VecDeque;

use proptest::prelude::*;
use siding_model::executor::RemoteExecutor;
use siding_model::journal::{TaskState, replay};
use siding_model::lifecycle::LifecycleEffect;
use siding_model::outcome::Outcome;
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::record::{CloseSummary, NEWEST_FORMAT, Record};
use siding_model::remote::{
    ExecutorFacts, MirrorAction, MirrorContext, MirrorMachine, REMOTE_PROTOCOL, RemoteMessage,
    RemotePosition, RemoteRequest, UnsentTask,
};
use siding_model::spec::TaskSpec;

use crate::journal::run_live;
use crate::random_histories::{self, EventHistory};
use crate::sample_records;

/// Time between two attempts to connect, in milliseconds.
const CONNECT_PAUSE_MS: u64 = 20_000;

/// A step of the world.
#[derive(Debug, Clone, Copy)]
enum WorldStep {
    /// The mirror connects, over a shared connection or a new one.
    Connect { is_shared: bool },
    /// The remote machine carries out the requests that have arrived.
    Serve,
    /// The remote task advances by a record and some output.
    Advance,
    /// The remote machine sends its new records and output.
    Send,
    /// One message arrives at the mirror.
    Deliver,
    /// The connection breaks. Messages in transit to the remote machine may still arrive.
    Break { delivers_requests: bool },
    /// The mirror is killed.
    Kill { delivers_requests: bool },
    /// A client requests a stop.
    Stop,
}

fn any_step() -> impl Strategy<Value = WorldStep> {
    prop_oneof![
        3 => any::<bool>().prop_map(|is_shared| WorldStep::Connect { is_shared }),
        3 => Just(WorldStep::Serve),
        3 => Just(WorldStep::Advance),
        3 => Just(WorldStep::Send),
        8 => Just(WorldStep::Deliver),
        1 => any::<bool>().prop_map(|delivers_requests| WorldStep::Break { delivers_requests }),
        1 => any::<bool>().prop_map(|delivers_requests| WorldStep::Kill { delivers_requests }),
        1 => Just(WorldStep::Stop),
    ]
}

/// A message to the mirror, with the bytes of output.
#[derive(Debug, Clone)]
enum Delivery {
    Message(RemoteMessage),
    Output { at: usize, bytes: Vec<u8> },
}

/// The remote machine: the task's complete history, of which `records` and `bytes` have happened.
struct Remote {
    journal: Vec<Record>,
    output: Vec<u8>,
    /// Number of records that exist; zero before the start.
    records: usize,
    bytes: usize,
    starts: u32,
    /// The position of the mirror that the current connection serves.
    served: Option<RemotePosition>,
}

impl Remote {
    fn new(history: &EventHistory) -> Self {
        let (life, mut journal) = run_live(history);
        if life.is_ended() {
            journal.push(Record::Closed(Box::default()));
        }
        let output = (0..journal.len() * 7).map(|at| (at % 251) as u8).collect();
        Self { journal, output, records: 0, bytes: 0, starts: 0, served: None }
    }

    fn serve(&mut self, request: RemoteRequest) -> Vec<Delivery> {
        let answer = |message| vec![Delivery::Message(message)];
        let position = match request {
            RemoteRequest::Start { position, .. } => {
                if self.records == 0 {
                    (self.starts, self.records) = (self.starts + 1, 1);
                }
                position
            }
            RemoteRequest::Follow { .. } if self.records == 0 => {
                return answer(RemoteMessage::Unknown);
            }
            RemoteRequest::Follow { position, .. } => position,
            RemoteRequest::Forward(_)
            | RemoteRequest::Input { .. }
            | RemoteRequest::InputEnd { .. } => return Vec::new(),
        };
        self.served = Some(position);
        let Some(Record::Accepted(accepted)) = self.journal.first() else { panic!("no start") };
        answer(RemoteMessage::Accepted { at: accepted.at, wall: accepted.wall })
    }

    fn advance(&mut self) {
        if self.records > 0 && self.records < self.journal.len() {
            self.bytes = (self.bytes + 7).min(self.output.len());
            self.records += 1;
        }
    }

    fn send(&mut self) -> Vec<Delivery> {
        let Some(position) = &mut self.served else { return Vec::new() };
        let mut sent = Vec::new();
        let from = usize::try_from(position.bytes).expect("small");
        if from < self.bytes {
            sent.push(Delivery::Output { at: from, bytes: self.output[from..self.bytes].to_vec() });
            position.bytes = self.bytes as u64;
        }
        let known = usize::try_from(position.records).expect("small");
        for record in &self.journal[known + 1..self.records.max(known + 1)] {
            let record = Box::new(record.clone());
            sent.push(Delivery::Message(RemoteMessage::Record { record }));
            position.records += 1;
        }
        let has_ended = matches!(self.journal.last(), Some(Record::Closed(_)));
        if has_ended && self.records == self.journal.len() {
            sent.push(Delivery::Message(RemoteMessage::End));
        }
        sent
    }
}

/// The whole world.
struct World {
    remote: Remote,
    machine: MirrorMachine,
    /// The mirror's journal, its state, and the stored output.
    records: Vec<Record>,
    state: TaskState,
    output: Vec<u8>,
    is_connected: bool,
    to_remote: VecDeque<RemoteRequest>,
    to_mirror: VecDeque<Delivery>,
    now: MonotonicMs,
}

impl World {
    fn new(history: &EventHistory) -> Self {
        let executor = RemoteExecutor {
            name: "build".to_owned(),
            destination: Some("build".to_owned()),
            program: None,
            slurm: None,
            ssh_variables: Vec::new(),
        };
        let spec = TaskSpec { executor: Some(Box::new(executor)), ..history.spec.clone() };
        let mut accepted = sample_records::accepted_task(spec);
        accepted.format = NEWEST_FORMAT;
        let now = accepted.at;
        let unsent = UnsentTask { spec: history.spec.clone(), variables: Vec::new() };
        Self {
            remote: Remote::new(history),
            machine: MirrorMachine::new(facts(), Some(unsent)),
            records: vec![Record::Accepted(Box::new(accepted.clone()))],
            state: TaskState::new(accepted),
            output: Vec::new(),
            is_connected: false,
            to_remote: VecDeque::new(),
            to_mirror: VecDeque::new(),
            now,
        }
    }

    fn take(&mut self, step: WorldStep) {
        match step {
            WorldStep::Connect { is_shared } if !self.is_connected && self.state.is_live() => {
                self.now = self.now.plus_ms(CONNECT_PAUSE_MS);
                let actions = self.machine.on_due(self.state_context());
                let connects = actions.contains(&MirrorAction::Connect);
                self.carry_out(actions);
                if connects {
                    self.connect(is_shared);
                }
            }
            WorldStep::Connect { .. } => {}
            WorldStep::Serve => self.serve(),
            WorldStep::Advance => self.remote.advance(),
            WorldStep::Send => {
                let sent = self.remote.send();
                self.to_mirror.extend(sent);
            }
            WorldStep::Deliver => self.deliver(),
            WorldStep::Break { delivers_requests } => {
                self.cut(delivers_requests);
                if std::mem::take(&mut self.is_connected) && self.state.is_live() {
                    let actions = step_machine(self, |machine, context| {
                        machine.on_broken(context, "broken pipe")
                    });
                    self.carry_out(actions);
                }
            }
            WorldStep::Kill { delivers_requests } => {
                self.cut(delivers_requests);
                self.is_connected = false;
                self.machine = MirrorMachine::new(facts(), None);
            }
            WorldStep::Stop if self.state.is_live() => {
                let actions = step_machine(self, |machine, context| {
                    machine.stop(context, "user", None, None)
                });
                self.carry_out(actions);
            }
            WorldStep::Stop => {}
        }
    }

    fn state_context(&self) -> MirrorContext<'_> {
        MirrorContext {
            state: &self.state,
            output_bytes: self.output.len() as u64,
            monotonic: self.now,
            wall: UnixMs(0),
        }
    }

    fn connect(&mut self, is_shared: bool) {
        self.is_connected = true;
        self.to_mirror.push_back(Delivery::Message(RemoteMessage::Hello {
            protocol: REMOTE_PROTOCOL,
            version: "1".to_owned(),
            machine: "remote".to_owned(),
            now: self.now.plus_ms(1_000_000),
            wall: UnixMs(5),
        }));
        let actions =
            step_machine(self, |machine, context| machine.on_connected(context, is_shared));
        self.carry_out(actions);
    }

    fn serve(&mut self) {
        while let Some(request) = self.to_remote.pop_front() {
            let answers = self.remote.serve(request);
            self.to_mirror.extend(answers);
        }
    }

    fn deliver(&mut self) {
        if !self.state.is_live() {
            return;
        }
        match self.to_mirror.pop_front() {
            Some(Delivery::Output { at, bytes }) => {
                let new = &bytes[self.output.len().saturating_sub(at).min(bytes.len())..];
                assert!(at <= self.output.len(), "output is missing");
                self.output.extend_from_slice(new);
            }
            Some(Delivery::Message(message)) => {
                let actions =
                    step_machine(self, |machine, context| machine.on_message(context, message));
                self.carry_out(actions);
            }
            None => {}
        }
    }

    /// Ends the connection at the remote machine.
    fn cut(&mut self, delivers_requests: bool) {
        if delivers_requests {
            self.serve();
        }
        self.to_remote.clear();
        self.to_mirror.clear();
        self.remote.served = None;
    }

    fn carry_out(&mut self, actions: Vec<MirrorAction>) {
        for action in actions {
            match action {
                MirrorAction::Record(records) => self.append(records),
                MirrorAction::RecordEvent(event) => {
                    let at = self.state_context().now();
                    let (_, effects) = self.state.lifecycle.step(&event, at);
                    let closes = effects.contains(&LifecycleEffect::Close);
                    let closed = closes.then(|| Record::Closed(Box::<CloseSummary>::default()));
                    self.append(
                        std::iter::once(Record::Event { at, event }).chain(closed).collect(),
                    );
                }
                MirrorAction::Send(request) => self.to_remote.push_back(request),
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
    }

    fn append(&mut self, records: Vec<Record>) {
        for record in records {
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
                while self.remote.records > 0 && self.remote.records < self.remote.journal.len() {
                    self.remote.advance();
                }
                self.take(WorldStep::Send);
            }
        }
    }
}

fn facts() -> ExecutorFacts {
    ExecutorFacts {
        name: "build".to_owned(),
        program: None,
        processor: "x86_64".to_owned(),
        job: None,
    }
}

fn step_machine(
    world: &mut World,
    step: impl FnOnce(&mut MirrorMachine, MirrorContext<'_>) -> Vec<MirrorAction>,
) -> Vec<MirrorAction> {
    let World { machine, state, output, now, .. } = world;
    let output_bytes = output.len() as u64;
    step(machine, MirrorContext { state, output_bytes, monotonic: *now, wall: UnixMs(0) })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The task is started at most once, its outcome in the mirror is that of the remote machine,
    /// and the output is complete. For a task that was not started, this is the only outcome.
    #[test]
    fn a_mirror_is_true_whatever_breaks(
        history in random_histories::any_history(),
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut world = World::new(&history);
        for step in steps {
            world.take(step);
        }
        world.finish();
        prop_assert!(world.remote.starts <= 1, "it was started {} times", world.remote.starts);
        let journal = sample_records::journal_lines(&world.records).concat();
        let replayed = replay(&journal).map(|replayed| replayed.state);
        prop_assert_eq!(replayed, Ok(world.state.clone()));
        let outcome = world.state.lifecycle.outcome();
        if world.remote.starts == 0 {
            let is_true = matches!(
                outcome,
                Some(Outcome::FailedToStart { .. } | Outcome::Lost { .. } | Outcome::Stopped { .. })
            );
            prop_assert!(is_true, "{outcome:?}");
            prop_assert!(world.output.is_empty());
            return Ok(());
        }
        let remote = sample_records::replay_states(&world.remote.journal).pop().expect("a start");
        prop_assert_eq!(outcome, remote.lifecycle.outcome());
        prop_assert_eq!(&world.state.leader_end, &remote.leader_end);
        prop_assert_eq!(&world.output[..], &world.remote.output[..world.remote.bytes]);
    }
}

fn empty_history() -> EventHistory {
    EventHistory { spec: sample_records::task_spec(), steps: Vec::new() }
}

/// A machine that accepts the connection and does not answer must not delay a stop.
#[test]
fn a_stop_before_the_task_is_sent_ends_it_and_the_attempt_to_connect() {
    let mut world = World::new(&empty_history());
    world.now = world.now.plus_ms(CONNECT_PAUSE_MS);
    world.is_connected = true;
    let actions = step_machine(&mut world, |machine, context| machine.on_connected(context, false));
    assert_eq!(actions, [], "the task is sent after the first message");
    let actions = step_machine(&mut world, |machine, context| {
        assert!(!machine.can_forward_stop());
        machine.stop(context, "user", None, None)
    });
    assert_eq!(actions[0], MirrorAction::Disconnect { retry_at_once: false });
    world.carry_out(actions);
    let expected = Outcome::Stopped { by: "user".to_owned() };
    assert_eq!(world.state.lifecycle.outcome(), Some(&expected));
    assert!(world.to_remote.is_empty() && !world.is_connected);
}

/// The remote machine may run a task that was sent, so only its answer ends the task.
#[test]
fn a_stop_after_the_task_was_sent_is_recorded_and_forwarded_with_the_answer() {
    let mut world = World::new(&empty_history());
    world.take(WorldStep::Connect { is_shared: true });
    world.take(WorldStep::Stop);
    assert!(world.state.is_live());
    let pending = world.state.remote.as_ref().and_then(|remote| remote.pending_stop.as_ref());
    assert_eq!(pending.map(|stop| stop.by.as_str()), Some("user"));
    assert!(!world.machine.can_forward_stop());
    world.take(WorldStep::Serve);
    world.take(WorldStep::Deliver);
    world.take(WorldStep::Deliver);
    assert!(world.machine.can_forward_stop());
    assert!(matches!(world.to_remote.back(), Some(RemoteRequest::Forward(_))));
}
