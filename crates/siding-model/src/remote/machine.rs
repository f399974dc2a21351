//! The decisions of a mirror about its connection: a state machine without effects.
//!
//! ```text
//!           ┌────────────── broken: at once, or after a growing pause ──────────────┐
//!           ▼                                                                       │
//!  Down ──due──► Opened ──hello──► Requested ──accepted──► Followed ──────broken────┤
//!                  │                   │                                            │
//!                  │ missing           └──refused, unknown──► the task ends         │
//!                  ▼                                                                │
//!              Installing ──────────────────installed───────────────────────────────┘
//! ```
//!
//! In a cluster, `Queued` comes between `Requested` and `Followed`, and again after each attempt that
//! the cluster interrupts.
//!
//! Over a shared connection the task is requested before the first message. A step returns actions,
//! which the caller carries out in their order.

mod fetch;

use crate::journal::TaskState;
use crate::lifecycle::TaskEvent;
use crate::mirror::{RemoteClock, RemoteEvent, RemoteState};
use crate::outcome::Placement;
use crate::process::{MonotonicMs, UnixMs};
use crate::protocol::{ShimMessage, ShimRequest};
use crate::record::Record;
use crate::spec::TaskSpec;

use super::protocol::{JobRequest, REMOTE_PROTOCOL, RemoteMessage, RemotePosition, RemoteRequest};
use fetch::FetchProgress;

use super::translate::{local_message, local_record, with_directory_advice, with_earlier_output};
pub use fetch::FetchError;

mod job;
mod requests;

/// Time after which a request of a broken connection no longer arrives, in milliseconds. ssh gives
/// up a dead connection after 45 seconds.
const MAX_REQUEST_AGE_MS: u64 = 60_000;

/// Minimum time, in milliseconds, for which a connection must have followed the task to be replaced
/// without a pause. A connection that breaks sooner may break every time.
const MIN_FOLLOWED_MS: u64 = 5_000;

/// The requester of a stop at the end of the session.
pub const SESSION_REQUESTER: &str = "session";

/// A task that the remote machine has not accepted yet, as it is sent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsentTask {
    /// The specification for the remote machine.
    pub spec: TaskSpec,
    /// Variables of the command.
    pub variables: Vec<(String, String)>,
}

/// The facts about the executor that decisions and messages need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorFacts {
    /// The name in the settings.
    pub name: String,
    /// The path of siding there, if the settings name one.
    pub program: Option<String>,
    /// The processor for which the local program was built.
    pub processor: String,
    /// The job, if the remote machine submits the task to Slurm.
    pub job: Option<JobRequest>,
}

/// The facts about the task at the moment of a step.
#[derive(Debug, Clone, Copy)]
pub struct MirrorContext<'s> {
    /// The state from the mirror's journal.
    pub state: &'s TaskState,
    /// Length of the output file in bytes, including the part whose disk space was freed.
    pub output_bytes: u64,
    /// The local monotonic clock.
    pub monotonic: MonotonicMs,
    /// The local wall clock.
    pub wall: UnixMs,
}

impl MirrorContext<'_> {
    /// Returns the current time on the clock of the task's records. After a restart of this machine
    /// the monotonic clock starts again, and the time of the last event is used instead.
    #[must_use]
    pub fn now(&self) -> MonotonicMs {
        self.monotonic.max(self.state.last_event_at)
    }

    fn remote(&self) -> RemoteState {
        self.state.remote.clone().unwrap_or_default()
    }
}

/// The effect of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorAction {
    /// Append the records in one step.
    Record(Vec<Record>),
    /// Record an event on which the mirror has decided; with a summary if it ends the task.
    RecordEvent(TaskEvent),
    /// Send the request. If that fails, the connection counts as broken.
    Send(RemoteRequest),
    /// Pass the message to the client whose request has this number.
    Respond {
        /// The number of the request.
        number: u64,
        /// The message of the remote shim.
        message: ShimMessage,
    },
    /// Start ssh, to follow the task.
    Connect,
    /// End ssh, and start it to copy the program to the remote machine.
    Install,
    /// End ssh, and answer the clients whose requests were forwarded.
    Disconnect {
        /// Whether the next attempt to connect is due immediately instead of after a growing pause.
        retry_at_once: bool,
    },
    /// Copy this path of the specification's `fetch` to this machine.
    Fetch {
        /// The path.
        path: String,
    },
    /// End the copying of a path.
    CancelFetch,
    /// Append a text to the output that ends at this offset, unless the output already contains the
    /// text. The following actions wait until the text is stored.
    AppendOutput {
        /// End of the remote output.
        at: u64,
        /// Complete lines.
        text: String,
    },
}

/// The first message of the remote siding.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hello {
    machine: String,
    clock: RemoteClock,
}

/// The state of the connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum LinkPhase {
    #[default]
    Down,
    /// ssh was started.
    Opened { hello: Option<Hello>, is_requested: bool },
    /// The task waits in the queue of a cluster, or runs there and was not accepted yet. A stop can
    /// be forwarded.
    Queued { hello: Option<Hello>, since: MonotonicMs },
    /// The remote machine follows the task, so requests can be forwarded.
    Followed { since: MonotonicMs },
}

/// The state machine of a mirror's connection.
#[derive(Debug)]
pub struct MirrorMachine {
    executor: ExecutorFacts,
    /// `None` once the remote machine has accepted the task, and after a takeover, because the
    /// variables of the command are not on disk.
    unsent: Option<UnsentTask>,
    phase: LinkPhase,
    /// The records that end the remote task, until the summary has arrived and the requested files
    /// are copied. All of them are recorded in one step, so that no reader finds an ended task
    /// without a summary.
    ending: Vec<Record>,
    fetch: FetchProgress,
    /// Whether this process has copied the program to the remote machine.
    has_installed: bool,
    /// The time at which the last followed connection broke.
    lost_at: Option<UnixMs>,
    next_number: u64,
}

type Actions = Vec<MirrorAction>;

/// Returns why a copy of this program cannot replace the program that is missing on a remote
/// machine; `None` if it can. `name` is the name of the executor, `program` the path in its
/// settings, and `processors` are the remote and the local processor.
#[must_use]
pub fn missing_program_reason(
    name: &str,
    program: Option<&str>,
    processors: (&str, &str),
) -> Option<String> {
    let (remote, local) = processors;
    match program {
        Some(program) => Some(format!(
            "there is no program `{program}`; install siding there, or remove `program` from \
             [executor.{name}]"
        )),
        None if remote != local => Some(format!(
            "this siding runs on {local}, and the processor there is {remote}; install siding \
             there, and set `program` in [executor.{name}]"
        )),
        None => None,
    }
}

impl MirrorMachine {
    /// Creates the machine without a connection. `unsent` is the task, if this process has it.
    #[must_use]
    pub const fn new(executor: ExecutorFacts, unsent: Option<UnsentTask>) -> Self {
        Self {
            executor,
            unsent,
            phase: LinkPhase::Down,
            ending: Vec::new(),
            fetch: FetchProgress::new(),
            has_installed: false,
            lost_at: None,
            next_number: 0,
        }
    }

    /// Returns the name of the executor.
    #[must_use]
    pub fn executor_name(&self) -> &str {
        &self.executor.name
    }

    /// Decides whether to connect now that an attempt is due.
    #[must_use]
    pub fn on_due(&self, context: MirrorContext<'_>) -> Actions {
        if self.unsent.is_none() && context.remote().sent_at.is_none() {
            let error = "its shim was killed before it was sent".to_owned();
            return vec![MirrorAction::RecordEvent(TaskEvent::SpawnFailed { error, errno: 0 })];
        }
        if self.fetch.needs_no_connection() {
            return Vec::new();
        }
        vec![MirrorAction::Connect]
    }

    /// Handles the start of ssh. Over a shared connection, the task is sent immediately, which
    /// saves a round trip. Otherwise ssh may fail, and a task that was not sent is known not to
    /// run.
    #[must_use]
    pub fn on_connected(&mut self, context: MirrorContext<'_>, is_shared: bool) -> Actions {
        self.phase = LinkPhase::Opened { hello: None, is_requested: false };
        if is_shared || context.remote().sent_at.is_some() {
            self.request_task(context)
        } else {
            Vec::new()
        }
    }

    /// Handles a message of the remote machine, except for output.
    #[must_use]
    pub fn on_message(&mut self, context: MirrorContext<'_>, message: RemoteMessage) -> Actions {
        match message {
            RemoteMessage::Hello { protocol, version, machine, now, wall } => {
                if protocol != REMOTE_PROTOCOL {
                    let why = format!(
                        "siding {version} there is not compatible with this one; install the same \
                         version"
                    );
                    return self.fail_start(context, &why);
                }
                let clock = RemoteClock::measure((now, wall), (context.monotonic, context.wall));
                self.on_hello(context, Hello { machine, clock })
            }
            RemoteMessage::Queued { status } => self.on_queued(context, status),
            RemoteMessage::Node { machine, now, wall } => {
                let clock = RemoteClock::measure((now, wall), (context.monotonic, context.wall));
                self.on_node(Hello { machine, clock })
            }
            RemoteMessage::Requeued { attempt, why } => self.on_requeued(context, attempt, why),
            RemoteMessage::JobEnded { end } => self.on_job_ended(context, end),
            RemoteMessage::Accepted { at, wall } => self.on_accepted(context, at, wall),
            RemoteMessage::Record { record } => self.on_record(context, *record),
            RemoteMessage::Shim { number, message } => {
                let earlier = context.state.remote.as_ref().map_or(0, |it| it.earlier_output_bytes);
                vec![MirrorAction::Respond { number, message: local_message(message, earlier) }]
            }
            RemoteMessage::Unknown => self.on_unknown(context),
            RemoteMessage::Refused { why } => self.fail_start(context, &why),
            RemoteMessage::Missing { processor } => self.on_missing(context, &processor),
            RemoteMessage::End => self.on_remote_end(context),
            // The caller handles these messages.
            RemoteMessage::Output { .. } | RemoteMessage::InputPosition(_) => Vec::new(),
        }
    }

    fn on_hello(&mut self, context: MirrorContext<'_>, hello: Hello) -> Actions {
        match &mut self.phase {
            LinkPhase::Opened { hello: known, is_requested } => {
                *known = Some(hello);
                if *is_requested { Vec::new() } else { self.request_task(context) }
            }
            LinkPhase::Down | LinkPhase::Queued { .. } | LinkPhase::Followed { .. } => Vec::new(),
        }
    }

    /// Names the task to the remote machine, and sends it unless it was accepted before.
    fn request_task(&mut self, context: MirrorContext<'_>) -> Actions {
        if let LinkPhase::Opened { is_requested, .. } = &mut self.phase {
            *is_requested = true;
        }
        let remote = context.remote();
        let position = RemotePosition {
            records: remote.copied_records,
            bytes: context.output_bytes.saturating_sub(remote.earlier_output_bytes),
            attempt: remote.attempt,
        };
        let protocol = REMOTE_PROTOCOL;
        let job = self.executor.job.clone().map(Box::new);
        let request = match &self.unsent {
            Some(UnsentTask { spec, variables }) => RemoteRequest::Start {
                protocol,
                spec: Box::new(spec.clone()),
                env: variables.clone(),
                position,
                job,
            },
            None => {
                let task_id = context.state.spec.task_id;
                RemoteRequest::Follow { protocol, task_id, position, job }
            }
        };
        // The record comes first: after a crash, the next mirror must know that the remote machine
        // may run the task.
        let sent = Record::Remote(RemoteEvent::Sent { at: context.now() });
        let record = remote.sent_at.is_none().then(|| MirrorAction::Record(vec![sent]));
        record.into_iter().chain([MirrorAction::Send(request)]).collect()
    }

    fn on_accepted(
        &mut self,
        context: MirrorContext<'_>,
        at: MonotonicMs,
        wall: UnixMs,
    ) -> Actions {
        let (LinkPhase::Opened { hello: Some(hello), .. }
        | LinkPhase::Queued { hello: Some(hello), .. }) = &self.phase
        else {
            return self.on_broken(context, "the remote siding did not begin with its version");
        };
        let Hello { machine, clock } = hello;
        let remote = context.remote();
        let event = if remote.clock.is_none() {
            let (at, wall) = (clock.to_local(at), clock.to_local_wall(wall));
            Some(RemoteEvent::Accepted { at, wall, machine: machine.clone(), clock: *clock })
        } else {
            remote.unreachable.is_some().then(|| RemoteEvent::Reachable { at: context.now() })
        };
        if remote.unreachable.is_some() {
            self.fetch.forget_attempt();
        }
        self.unsent = None;
        self.has_installed = false;
        self.lost_at = None;
        self.phase = LinkPhase::Followed { since: context.monotonic };
        let mut actions: Actions = event
            .into_iter()
            .map(|event| MirrorAction::Record(vec![Record::Remote(event)]))
            .collect();
        if let Placement::Background { why } = context.state.lifecycle.placement()
            && context.state.spec.placement == Placement::Foreground
        {
            actions.extend(self.forward(ShimRequest::Place { why }, None));
        }
        actions.extend(self.forward_pending_stop(remote));
        actions
    }

    fn on_record(&mut self, context: MirrorContext<'_>, record: Record) -> Actions {
        let remote = context.remote();
        let Some(clock) = remote.clock else {
            return self.on_broken(context, "a record arrived before the task was accepted");
        };
        let Some(local) = local_record(clock, record) else { return Vec::new() };
        let local = with_earlier_output(local, remote.earlier_output_bytes);
        let spec = &context.state.spec;
        let local = match &spec.executor {
            Some(executor) => {
                with_directory_advice(local, executor, remote.machine.as_deref(), &spec.cwd)
            }
            None => local,
        };
        let mut records = std::mem::take(&mut self.ending);
        records.push(local);
        let mut next = context.state.clone();
        if let Err(why) = records.iter().cloned().try_for_each(|record| next.apply(record)) {
            return self.end_unreadable(&why);
        }
        self.ending = records;
        self.record_or_fetch(context, &next)
    }

    /// Ends a task whose records cannot be followed.
    fn end_unreadable(&mut self, why: &str) -> Actions {
        let why = format!("the records of {} cannot be followed: {why}", self.executor.name);
        self.end(TaskEvent::Vanished { why })
    }

    /// Handles the message that the remote machine does not have the task. A request over an
    /// earlier connection may still be in transit.
    fn on_unknown(&mut self, context: MirrorContext<'_>) -> Actions {
        let RemoteState { clock, sent_at, .. } = context.remote();
        let age_ms = sent_at.map_or(0, |sent_at| context.now().ms_since(sent_at));
        if clock.is_none() && age_ms < MAX_REQUEST_AGE_MS {
            self.phase = LinkPhase::Down;
            return vec![MirrorAction::Disconnect { retry_at_once: false }];
        }
        let name = &self.executor.name;
        let why = match clock {
            None => format!("the connection to {name} broke before it was started there"),
            Some(_) => format!("its record was removed from {name}"),
        };
        self.end(TaskEvent::Vanished { why })
    }

    /// Copies the program to a remote machine that lacks it, if it can run there.
    fn on_missing(&mut self, context: MirrorContext<'_>, processor: &str) -> Actions {
        let ExecutorFacts { name, program, processor: local, .. } = &self.executor;
        let why = match missing_program_reason(name, program.as_deref(), (processor, local)) {
            Some(why) => why,
            None if self.has_installed => {
                "siding was copied there, but cannot be executed; install siding there, and set \
                 `program`"
                    .to_owned()
            }
            None => {
                self.phase = LinkPhase::Down;
                return vec![MirrorAction::Install];
            }
        };
        self.fail_start(context, &why)
    }

    /// Handles the end of the ssh that copied the program; `error` is its message if it failed.
    #[must_use]
    pub fn on_installed(&mut self, context: MirrorContext<'_>, error: Option<&str>) -> Actions {
        match error {
            None => {
                self.has_installed = true;
                vec![MirrorAction::Disconnect { retry_at_once: true }]
            }
            Some(error) => {
                self.fail_start(context, &format!("siding could not be copied there: {error}"))
            }
        }
    }

    /// Handles a connection that broke or could not be established.
    #[must_use]
    pub fn on_broken(&mut self, context: MirrorContext<'_>, why: &str) -> Actions {
        let followed_since = match std::mem::take(&mut self.phase) {
            LinkPhase::Followed { since } | LinkPhase::Queued { since, .. } => Some(since),
            LinkPhase::Down | LinkPhase::Opened { .. } => None,
        };
        if self.fetch.needs_no_connection() {
            return vec![MirrorAction::Disconnect { retry_at_once: false }];
        }
        // The remote machine sends these records again.
        self.ending = Vec::new();
        let remote = context.remote();
        if self.is_unsent(context) {
            return self.fail_start(context, why);
        }
        let retry_at_once = followed_since
            .is_some_and(|since| context.monotonic.ms_since(since) >= MIN_FOLLOWED_MS);
        let mut actions = vec![MirrorAction::Disconnect { retry_at_once }];
        if followed_since.is_some() {
            self.lost_at = Some(context.wall);
        } else if remote.unreachable.is_none() {
            let wall = self.lost_at.unwrap_or(context.wall);
            let event = RemoteEvent::Unreachable { at: context.now(), wall, why: why.to_owned() };
            actions.push(MirrorAction::Record(vec![Record::Remote(event)]));
        }
        actions
    }

    /// Ends a task that certainly was not started, for a reason that also holds for the next attempt.
    /// A task that the remote machine may have is unreachable instead.
    fn fail_start(&mut self, context: MirrorContext<'_>, why: &str) -> Actions {
        let remote = context.remote();
        let is_known_there = remote.clock.is_some() || remote.queued.is_some();
        if is_known_there || self.unsent.is_none() {
            return self.on_broken(context, why);
        }
        let error = format!("{}: {why}", self.executor.name);
        self.end(TaskEvent::SpawnFailed { error, errno: 0 })
    }

    fn end(&mut self, event: TaskEvent) -> Actions {
        self.phase = LinkPhase::Down;
        let disconnect = MirrorAction::Disconnect { retry_at_once: false };
        vec![disconnect, MirrorAction::RecordEvent(event)]
    }
}
