//! The connection of a mirror: starts ssh, passes the messages to the state machine, and carries
//! out its actions. For a cluster whose commands are on this machine, siding runs in place of
//! ssh.

use std::io;
use std::process::Stdio;

use siding_core::remote::{ProgramCopy, ssh};
use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_model::executor::RemoteExecutor;
use siding_model::process::MonotonicMs;
use siding_model::remote::{
    MirrorAction, MirrorContext, MirrorMachine, ReceivedMessage, RemoteMessage, RemoteRequest,
};
use siding_model::wait::CheckBackoff;

use super::Mirror;
use super::link::RemoteLink;
use crate::failpoints;

/// First and longest pause between two attempts to connect, in milliseconds.
const RETRY_PAUSE_MS: (u64, u64) = (500, 60_000);
/// Input may fill the capacity of the pipe to ssh divided by this number.
const INPUT_SHARE: usize = 4;

/// The running ssh, or the pause before the next attempt.
#[derive(Debug)]
pub(super) struct MirrorConnection {
    executor: RemoteExecutor,
    /// The siding program to copy; `None` if the executor names an installed one.
    copy: Option<ProgramCopy>,
    link: Option<(RemoteLink, Purpose)>,
    /// The ssh that the next attempt to connect uses, if it was started in advance.
    started_link: Option<StartedLink>,
    /// The schedule of the attempts to connect.
    backoff: CheckBackoff,
}

/// The result of starting ssh, to which no request has been sent.
#[derive(Debug)]
struct StartedLink {
    link: io::Result<RemoteLink>,
    /// Whether another task had already opened a connection.
    is_shared: bool,
}

/// The purpose of a running ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Follow,
    /// Copies the program to the remote machine.
    Install,
}

impl MirrorConnection {
    pub(super) const fn new(executor: RemoteExecutor, copy: Option<ProgramCopy>) -> Self {
        Self { executor, copy, link: None, started_link: None, backoff: new_backoff() }
    }

    /// Starts ssh for the first attempt to connect, so that ssh connects while the task is being
    /// recorded. `root` is the state directory.
    pub(super) fn start_in_advance(&mut self, root: &StateDir) {
        self.started_link = Some(self.start_link(root));
    }

    fn start_link(&self, root: &StateDir) -> StartedLink {
        let Self { executor, copy, .. } = self;
        // This check must come first, because ssh may create the shared connection.
        let is_shared = ssh::has_shared_connection(executor);
        let mut command = match executor.destination {
            Some(_) => ssh::serve_command(executor, copy.as_ref()),
            None => ssh::local_serve_command(root, executor),
        };
        StartedLink { link: RemoteLink::start(&mut command), is_shared }
    }

    /// Returns the running ssh.
    pub(super) fn link(&self) -> Option<&RemoteLink> {
        self.link.as_ref().map(|(link, _)| link)
    }

    pub(super) const fn executor(&self) -> &RemoteExecutor {
        &self.executor
    }

    /// Returns the time of the next attempt to connect; `None` while ssh runs.
    pub(super) fn wake_at(&self) -> Option<MonotonicMs> {
        self.link.is_none().then(|| self.backoff.next_check_at())
    }

    pub(super) fn receive_errors(&mut self) {
        if let Some((link, _)) = &mut self.link {
            link.receive_errors();
        }
    }

    /// Sends a request, and the bytes that follow it, without waiting. Returns false if that is not
    /// possible.
    fn send(&mut self, request: &RemoteRequest, bytes: &[u8]) -> bool {
        self.link.as_mut().is_some_and(|(link, _)| link.send(request, bytes).is_ok())
    }

    /// Returns the maximum number of bytes of input in transit, so that the pipe to ssh has space
    /// for requests.
    pub(super) fn max_sent_input(&self) -> usize {
        self.link().map_or(0, RemoteLink::request_pipe_bytes) / INPUT_SHARE
    }
}

const fn new_backoff() -> CheckBackoff {
    CheckBackoff::new(RETRY_PAUSE_MS.0, RETRY_PAUSE_MS.1)
}

impl Mirror {
    /// Advances the state machine by one event, and carries out the resulting actions.
    pub(super) fn step(
        &mut self,
        step: impl FnOnce(&mut MirrorMachine, MirrorContext<'_>) -> Vec<MirrorAction>,
    ) {
        let Self { machine, task, output, .. } = self;
        let context = MirrorContext {
            state: task.state(),
            output_bytes: output.bytes(),
            monotonic: clock::monotonic_now(),
            wall: clock::unix_now(),
        };
        let actions = step(machine, context);
        self.carry_out(actions);
    }

    /// Connects if an attempt is due and no earlier copy of files is still running.
    pub(super) fn connect_if_due(&mut self, now: MonotonicMs) {
        if self.connection.wake_at().is_some_and(|at| at <= now) {
            self.connection.backoff.record_check(now, now);
            if !self.has_earlier_copy() {
                self.step(|machine, context| machine.on_due(context));
            }
        }
    }

    /// Carries out the actions of a step.
    pub(super) fn carry_out(&mut self, actions: Vec<MirrorAction>) {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            match action {
                MirrorAction::Record(records) => self.record(records),
                MirrorAction::RecordEvent(event) => self.record_event(event),
                MirrorAction::Send(request) => {
                    if !self.send(&request, &[]) {
                        let why = "a request exceeds 1 MiB, or ssh does not read it";
                        return self.on_broken(why);
                    }
                }
                MirrorAction::Respond { number, message } => self.respond(number, &message),
                MirrorAction::Connect => self.connect(),
                MirrorAction::Install => self.install(),
                MirrorAction::Fetch { path } => self.start_fetch(path),
                MirrorAction::CancelFetch => self.cancel_fetch(),
                MirrorAction::AppendOutput { at, text } => {
                    return self.append_output((at, text), actions.collect());
                }
                MirrorAction::Disconnect { retry_at_once } => {
                    self.connection.link = None;
                    if retry_at_once {
                        self.connection.backoff = new_backoff();
                    }
                    self.answer_forwarded();
                    self.on_input_disconnected();
                }
            }
        }
    }

    /// Sends a request, and the bytes that follow it, over the present connection.
    pub(super) fn send(&mut self, request: &RemoteRequest, bytes: &[u8]) -> bool {
        failpoints::pause_at(match request {
            RemoteRequest::Start { .. } => "sending",
            RemoteRequest::Follow { .. } => "following",
            RemoteRequest::Forward(_) => "forwarding",
            RemoteRequest::Input { .. } | RemoteRequest::InputEnd { .. } => "sending_input",
        });
        self.connection.send(request, bytes)
    }

    fn connect(&mut self) {
        let started = self.connection.started_link.take();
        let StartedLink { link, is_shared } =
            started.unwrap_or_else(|| self.connection.start_link(self.task.root()));
        match link {
            Ok(link) => {
                self.connection.link = Some((link, Purpose::Follow));
                self.step(|machine, context| machine.on_connected(context, is_shared));
            }
            Err(error) => self.on_broken(&error.to_string()),
        }
    }

    fn install(&mut self) {
        self.connection.link = None;
        let MirrorConnection { executor, copy, .. } = &self.connection;
        // This action occurs only for an executor that names no installed program.
        let Some(copy) = copy else { return };
        let started = ProgramCopy::open().and_then(|program| {
            let mut command = ssh::install_command(executor, copy);
            RemoteLink::start(command.stdin(Stdio::from(program)))
        });
        match started {
            Ok(link) => self.connection.link = Some((link, Purpose::Install)),
            Err(error) => self.on_installed(Some(&error.to_string())),
        }
    }

    fn on_installed(&mut self, error: Option<&str>) {
        self.step(|machine, context| machine.on_installed(context, error));
    }

    /// Receives messages, or the end of the connection.
    pub(super) fn on_messages(&mut self) {
        let Some((link, _)) = &mut self.connection.link else { return };
        let is_open = link.receive().unwrap_or(false);
        self.handle_messages();
        if !is_open && self.task.is_live() {
            self.on_closed();
        }
    }

    /// Handles the received messages, until output cannot be stored.
    pub(super) fn handle_messages(&mut self) {
        while self.task.is_live() && self.unstored.is_none() {
            let Some((link, _)) = &mut self.connection.link else { return };
            match link.next_message() {
                Ok(Some(ReceivedMessage::Output { at, bytes })) => self.store(at, &bytes),
                Ok(Some(ReceivedMessage::Message(RemoteMessage::InputPosition(position)))) => {
                    self.on_input_position(position);
                }
                Ok(Some(ReceivedMessage::Message(message))) => {
                    self.step(|machine, context| machine.on_message(context, message));
                }
                Ok(None) => return,
                Err(error) => return self.on_broken(&error.to_string()),
            }
        }
    }

    /// Handles the end of ssh.
    fn on_closed(&mut self) {
        let Some((link, purpose)) = self.connection.link.take() else { return };
        let (status, error) = link.close();
        let why = error.unwrap_or_else(|| "the connection was closed".to_owned());
        let has_succeeded = status.is_some_and(|status| status.success());
        match purpose {
            Purpose::Install => self.on_installed((!has_succeeded).then_some(why.as_str())),
            Purpose::Follow => self.on_broken(&why),
        }
    }

    pub(super) fn on_broken(&mut self, why: &str) {
        if self.task.is_live() {
            self.step(|machine, context| machine.on_broken(context, why));
        }
    }
}
