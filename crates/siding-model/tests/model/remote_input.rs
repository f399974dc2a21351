//! The standard input of a remote task: at any point the connection breaks, the remote side is
//! killed during a write, or the mirror is killed and another one takes over.

use std::collections::VecDeque;

use proptest::prelude::*;
use siding_model::remote::{
    INPUT_WINDOW_BYTES, InputAction, InputPosition, InputReceiver, InputSender, RemoteInputState,
};

/// Maximum number of bytes in transit; small, so that the test reaches this limit.
const MAX_SENT_BYTES: usize = 50;

/// A step of the world.
#[derive(Debug, Clone, Copy)]
enum WorldStep {
    /// A new connection replaces the previous one, which has delivered none or all of its messages.
    Connect { delivers_input: bool },
    /// The mirror reads at most this many bytes of the source.
    Read(usize),
    /// The mirror sends all messages that it may send.
    Send,
    /// One message arrives at the remote side.
    DeliverInput,
    /// The FIFO accepts at most this many bytes.
    Write(usize),
    /// One position arrives at the mirror.
    DeliverPosition,
    /// The remote side is killed after it has written to the FIFO, and before it stores the
    /// position.
    KillWriter,
    /// The mirror is killed, and another one takes over.
    KillMirror,
    /// The task closes its input.
    CloseReader,
}

fn any_step() -> impl Strategy<Value = WorldStep> {
    prop_oneof![
        4 => any::<bool>().prop_map(|delivers_input| WorldStep::Connect { delivers_input }),
        10 => (0_usize..60).prop_map(WorldStep::Read),
        10 => Just(WorldStep::Send),
        10 => Just(WorldStep::DeliverInput),
        10 => (0_usize..40).prop_map(WorldStep::Write),
        10 => Just(WorldStep::DeliverPosition),
    ]
}

fn any_fault() -> impl Strategy<Value = WorldStep> {
    prop_oneof![
        Just(WorldStep::KillWriter),
        Just(WorldStep::KillMirror),
        Just(WorldStep::CloseReader),
    ]
}

/// The world: a source, the mirror, a connection, the remote side and the FIFO of the task.
struct World {
    source: Vec<u8>,
    read_bytes: usize,
    sender: InputSender,
    is_loss_recorded: bool,
    to_remote: VecDeque<InputAction>,
    to_mirror: VecDeque<InputPosition>,
    /// `None` without a connection.
    receiver: Option<InputReceiver>,
    /// The position that the remote machine has stored.
    stored: InputPosition,
    /// The bytes in the FIFO, and the number of times that its end was written.
    fifo: Vec<u8>,
    ends: usize,
    has_reader: bool,
}

impl World {
    fn new(source: Vec<u8>) -> Self {
        Self {
            source,
            read_bytes: 0,
            sender: InputSender::default(),
            is_loss_recorded: false,
            to_remote: VecDeque::new(),
            to_mirror: VecDeque::new(),
            receiver: None,
            stored: InputPosition { bytes: 0, state: RemoteInputState::Open },
            fifo: Vec::new(),
            ends: 0,
            has_reader: true,
        }
    }

    fn take(&mut self, step: WorldStep) {
        match step {
            WorldStep::Connect { delivers_input } => {
                self.disconnect(delivers_input);
                self.receiver = Some(InputReceiver::new(self.stored));
                self.to_mirror.push_back(self.stored);
            }
            WorldStep::Read(max) => self.read(max),
            WorldStep::Send => self.send(),
            WorldStep::DeliverInput => self.deliver_input(),
            WorldStep::Write(max) => self.write(max),
            WorldStep::DeliverPosition => {
                if let Some(position) = self.to_mirror.pop_front() {
                    self.sender.on_position(position, MAX_SENT_BYTES);
                }
            }
            WorldStep::KillWriter => {
                let Some(receiver) = self.receiver.take() else { return };
                if let Some(byte) = receiver.pending().first().filter(|_| self.has_reader) {
                    self.fifo.push(*byte);
                    self.stored.state = RemoteInputState::Uncertain;
                }
                self.disconnect(false);
            }
            WorldStep::KillMirror => {
                self.disconnect(true);
                self.sender = InputSender::without_source(self.is_loss_recorded);
            }
            WorldStep::CloseReader => self.has_reader = false,
        }
    }

    /// Ends the connection.
    fn disconnect(&mut self, delivers_input: bool) {
        while delivers_input && self.receiver.is_some() && !self.to_remote.is_empty() {
            self.deliver_input();
            self.write(usize::MAX);
        }
        self.receiver = None;
        self.to_remote.clear();
        self.to_mirror.clear();
        self.sender.on_disconnected();
    }

    fn read(&mut self, max: usize) {
        let free = self.sender.free_bytes();
        assert!(free <= INPUT_WINDOW_BYTES, "the window is exceeded");
        let rest = &self.source[self.read_bytes..];
        let count = max.min(free).min(rest.len());
        // Only the end of the source gives no bytes.
        if free > 0 && (count > 0 || rest.is_empty()) {
            self.sender.on_read(&rest[..count]);
            self.read_bytes += count;
        }
    }

    fn send(&mut self) {
        while let Some(action) = self.sender.next_action() {
            if let InputAction::RecordLoss { arrived_bytes } = action {
                assert!(arrived_bytes <= self.fifo.len() as u64, "more than has arrived");
                assert!(!self.is_loss_recorded, "the loss is recorded twice");
                self.is_loss_recorded = true;
            } else {
                self.to_remote.push_back(action);
            }
        }
        let sent = self.to_remote.iter().map(|action| match action {
            InputAction::Send { bytes, .. } => bytes.len(),
            InputAction::RecordLoss { .. } | InputAction::SendEnd { .. } => 0,
        });
        assert!(sent.sum::<usize>() <= MAX_SENT_BYTES, "too many bytes are on their way");
    }

    fn deliver_input(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        let received = match self.to_remote.pop_front() {
            Some(InputAction::Send { at, bytes }) => receiver.on_bytes(at, &bytes),
            Some(InputAction::SendEnd { at }) => receiver.on_end(at),
            Some(InputAction::RecordLoss { .. }) | None => Ok(()),
        };
        assert_eq!(received, Ok(()));
    }

    fn write(&mut self, max: usize) {
        let Some(receiver) = &mut self.receiver else { return };
        let before = receiver.position();
        let count = max.min(receiver.pending().len());
        if receiver.must_close() {
            self.ends += 1;
            receiver.on_closed();
        } else if count > 0 && !self.has_reader {
            receiver.on_closed();
        } else {
            self.fifo.extend_from_slice(&receiver.pending()[..count]);
            receiver.on_written(count);
        }
        self.stored = receiver.position();
        if self.stored != before {
            self.to_mirror.push_back(self.stored);
        }
    }

    /// Runs the simulation to its end, over a connection that does not break.
    fn finish(&mut self) {
        self.take(WorldStep::Connect { delivers_input: false });
        for _ in 0..self.source.len() + 10 {
            for step in [WorldStep::DeliverPosition, WorldStep::Read(60), WorldStep::Send] {
                self.take(step);
            }
            while !self.to_remote.is_empty() {
                self.take(WorldStep::DeliverInput);
            }
            self.take(WorldStep::Write(40));
        }
    }
}

fn any_source() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Each byte reaches the FIFO once and in order, and the end follows the last one once.
    #[test]
    fn broken_connections_neither_lose_nor_repeat_input(
        source in any_source(),
        steps in prop::collection::vec(any_step(), 0..100),
    ) {
        let mut world = World::new(source);
        for step in steps {
            world.take(step);
            prop_assert!(world.source.starts_with(&world.fifo), "{:?}", world.fifo);
            prop_assert!(world.ends == 0 || world.fifo == world.source, "it ended too early");
        }
        world.finish();
        prop_assert_eq!(&world.fifo, &world.source);
        prop_assert_eq!((world.ends, world.is_loss_recorded), (1, false));
        prop_assert!(world.sender.is_closed());
    }

    /// After a crash, the FIFO contains the beginning of the source. The loss is recorded and the
    /// input is closed, unless the FIFO contains the whole source or no process reads the FIFO.
    #[test]
    fn an_input_that_ends_early_has_a_recorded_loss(
        source in any_source(),
        before in prop::collection::vec(any_step(), 0..60),
        fault in any_fault(),
        after in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut world = World::new(source);
        for step in before.into_iter().chain([fault]).chain(after) {
            world.take(step);
            prop_assert!(world.source.starts_with(&world.fifo), "{:?}", world.fifo);
            let may_end = world.fifo == world.source || world.is_loss_recorded;
            prop_assert!(world.ends == 0 || may_end, "it ended without a recorded loss");
        }
        world.finish();
        prop_assert!(world.sender.is_closed());
        prop_assert!(world.ends == 1 || !world.has_reader, "{} ends", world.ends);
    }
}
