//! The cluster of a job, and siding on the machine that submits the job.

use proptest::prelude::*;
use siding_model::lifecycle::Phase;
use siding_model::mirror::{JobEnd, JobStatus};
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::protocol::ShimRequest;
use siding_model::record::Record;
use siding_model::remote::{ForwardedRequest, RemoteMessage, RemotePosition, RemoteRequest};
use siding_model::spec::TaskSpec;

use crate::journal::run_live;
use crate::random_histories::{self, EventHistory};
use crate::sample_records;

/// Milliseconds by which the clock of a node is ahead.
const NODE_AHEAD_MS: u64 = 7;
/// A deadline that is far away when the job ends, in milliseconds.
const LATE_DEADLINE_MS: u64 = 100_000_000;

/// The attempts of a job, and the end of the job if its last attempt does not end by itself.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) spec: TaskSpec,
    pub(super) attempts: Vec<EventHistory>,
    pub(super) end: JobEnd,
}

pub(super) fn any_scenario() -> impl Strategy<Value = Scenario> {
    let attempts = prop::collection::vec(random_histories::any_history(), 1..4);
    (attempts, any_job_end(), any::<bool>(), any::<bool>()).prop_map(
        |(mut attempts, end, is_late, is_of_person)| {
            let mut spec = attempts[0].spec.clone();
            if is_late {
                spec.deadline_ms += LATE_DEADLINE_MS;
                spec.cap_ms += 2 * LATE_DEADLINE_MS;
            }
            spec.deadline_from_background = is_of_person;
            for attempt in &mut attempts {
                attempt.spec = spec.clone();
            }
            Scenario { spec, attempts, end }
        },
    )
}

fn any_job_end() -> impl Strategy<Value = JobEnd> {
    prop_oneof![
        2 => Just(JobEnd::Cancelled { by: "scancel".to_owned() }),
        2 => Just(JobEnd::TimeLimit),
        1 => Just(JobEnd::OutOfMemory),
        1 => Just(JobEnd::NotStarted { why: "no disk".to_owned() }),
        1 => Just(JobEnd::Lost { why: "NODE_FAIL".to_owned() }),
    ]
}

/// A message to the mirror, or bytes of the output of an attempt.
#[derive(Debug, Clone)]
pub(super) enum Delivery {
    Message(RemoteMessage),
    Output { at: usize, bytes: Vec<u8> },
}

/// The complete records and output of an attempt. The output of each attempt differs.
pub(super) struct Attempt {
    pub(super) journal: Vec<Record>,
    pub(super) output: Vec<u8>,
}

impl Attempt {
    fn new(number: usize, history: &EventHistory) -> Self {
        let (life, mut journal) = run_live(history);
        if life.is_ended() {
            journal.push(Record::Closed(Box::default()));
        }
        let output = (0..journal.len() * 7).map(|at| ((at + 83 * number) % 251) as u8).collect();
        Self { journal, output }
    }
}

/// The connection that the submitting machine serves.
pub(super) struct ServedConnection {
    position: RemotePosition,
    is_accepted: bool,
    /// The status that was sent last.
    status: Option<u32>,
}

/// The cluster with the machine that submits the job.
pub(super) struct Cluster {
    pub(super) attempts: Vec<Attempt>,
    pub(super) submissions: u32,
    /// Index of the present or the last attempt; `None` before the first.
    pub(super) current: Option<usize>,
    is_waiting: bool,
    pub(super) status: u32,
    /// Number of records of that attempt, and of bytes of its output.
    records: usize,
    pub(super) bytes: usize,
    end: Option<JobEnd>,
    pub(super) served: Option<ServedConnection>,
}

impl Cluster {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let attempts = scenario.attempts.iter().enumerate();
        Self {
            attempts: attempts.map(|(number, history)| Attempt::new(number, history)).collect(),
            submissions: 0,
            current: None,
            is_waiting: true,
            status: 0,
            records: 0,
            bytes: 0,
            end: None,
            served: None,
        }
    }

    pub(super) fn present(&self) -> Option<&Attempt> {
        self.current.map(|current| &self.attempts[current])
    }

    /// Returns whether the current attempt has recorded its end, with the summary.
    fn is_complete(&self) -> bool {
        self.present().is_some_and(|attempt| {
            self.records == attempt.journal.len()
                && matches!(attempt.journal.last(), Some(Record::Closed(_)))
        })
    }

    fn has_job(&self) -> bool {
        self.submissions > 0 && self.end.is_none() && !self.is_complete()
    }

    /// Returns the phase of the current attempt, according to its records.
    pub(super) fn phase(&self) -> Phase {
        self.present().map_or(Phase::Starting { stop: None }, |attempt| {
            let states = sample_records::replay_states(&attempt.journal[..self.records]);
            states.last().expect("there are records").lifecycle.phase().clone()
        })
    }

    pub(super) fn begin_attempt(&mut self) {
        let next = self.current.map_or(0, |current| current + 1);
        if self.has_job() && self.is_waiting && next < self.attempts.len() {
            (self.current, self.is_waiting) = (Some(next), false);
            (self.records, self.bytes) = (1, 0);
        }
    }

    pub(super) fn advance(&mut self) {
        let Some(attempt) = self.current.map(|current| &self.attempts[current]) else { return };
        if self.has_job() && !self.is_waiting && self.records < attempt.journal.len() {
            self.bytes = (self.bytes + 7).min(attempt.output.len());
            self.records += 1;
        }
    }

    pub(super) fn interrupt(&mut self) {
        let has_next = self.current.is_some_and(|current| current + 1 < self.attempts.len());
        self.is_waiting |= self.has_job() && has_next;
    }

    pub(super) fn end_job(&mut self, end: &JobEnd) {
        if self.has_job() {
            self.end = Some(end.clone());
        }
    }

    pub(super) fn serve(&mut self, request: RemoteRequest) -> Vec<Delivery> {
        let position = match request {
            RemoteRequest::Start { position, .. } => {
                self.submissions = self.submissions.max(1);
                position
            }
            RemoteRequest::Follow { .. } if self.submissions == 0 => {
                return vec![Delivery::Message(RemoteMessage::Unknown)];
            }
            RemoteRequest::Follow { position, .. } => position,
            RemoteRequest::Forward(ForwardedRequest {
                request: ShimRequest::Stop { by, .. },
                ..
            }) => {
                // The cluster handles the stop of a waiting job. A running job follows its own
                // history.
                if self.served.as_ref().is_some_and(|served| !served.is_accepted) {
                    self.end_job(&JobEnd::Cancelled { by });
                }
                return Vec::new();
            }
            RemoteRequest::Forward(_)
            | RemoteRequest::Input { .. }
            | RemoteRequest::InputEnd { .. } => return Vec::new(),
        };
        self.served = Some(ServedConnection { position, is_accepted: false, status: None });
        Vec::new()
    }

    pub(super) fn send(&mut self, now: MonotonicMs) -> Vec<Delivery> {
        let Some(mut served) = self.served.take() else { return Vec::new() };
        let mut sent = Vec::new();
        if let Some(current) = self.current {
            let attempt = u32::try_from(current).expect("small");
            if attempt > served.position.attempt {
                let why = "the job was requeued".to_owned();
                sent.push(Delivery::Message(RemoteMessage::Requeued { attempt, why }));
                let position = RemotePosition { records: 0, bytes: 0, attempt };
                served = ServedConnection { position, is_accepted: false, status: None };
            }
            self.send_attempt(current, &mut served, now, &mut sent);
        }
        if self.is_complete() {
            sent.push(Delivery::Message(RemoteMessage::End));
        } else if let Some(end) = &self.end {
            sent.push(Delivery::Message(RemoteMessage::JobEnded { end: end.clone() }));
        } else {
            if self.is_waiting && served.status != Some(self.status) {
                served.status = Some(self.status);
                let status = job_status(self.status);
                sent.push(Delivery::Message(RemoteMessage::Queued { status }));
            }
            self.served = Some(served);
        }
        sent
    }

    fn send_attempt(
        &self,
        current: usize,
        served: &mut ServedConnection,
        now: MonotonicMs,
        sent: &mut Vec<Delivery>,
    ) {
        let attempt = &self.attempts[current];
        if !served.is_accepted {
            served.is_accepted = true;
            let Some(Record::Accepted(accepted)) = attempt.journal.first() else {
                panic!("no start")
            };
            let machine = "n1".to_owned();
            let now = now.plus_ms(NODE_AHEAD_MS);
            sent.push(Delivery::Message(RemoteMessage::Node { machine, now, wall: UnixMs(3) }));
            let (at, wall) = (accepted.at, accepted.wall);
            sent.push(Delivery::Message(RemoteMessage::Accepted { at, wall }));
        }
        let position = &mut served.position;
        let from = usize::try_from(position.bytes).expect("small");
        if from < self.bytes {
            let bytes = attempt.output[from..self.bytes].to_vec();
            sent.push(Delivery::Output { at: from, bytes });
            position.bytes = self.bytes as u64;
        }
        let known = usize::try_from(position.records).expect("small");
        for record in &attempt.journal[known + 1..self.records.max(known + 1)] {
            let record = Box::new(record.clone());
            sent.push(Delivery::Message(RemoteMessage::Record { record }));
            position.records += 1;
        }
    }
}

fn job_status(number: u32) -> JobStatus {
    JobStatus {
        job_id: Some("7".to_owned()),
        state: "PENDING".to_owned(),
        reason: Some(format!("reason {number}")),
        expected_start: None,
    }
}
