//! Performs the steps that [`ClientState`] returns.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::{Connection, NumberedEvent};
use super::state::{ClientRequest, ClientState, Event, Step};
use super::{RemoteTask, exit};

/// Timeout of a cancel request: shorter than the default `kill_grace`, after which this process is
/// killed.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum number of attempts to connect, each [`CONNECT_RETRY_PAUSE`] after the previous one.
const MAX_CONNECT_TRIES: u32 = 5;
const CONNECT_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of events that wait for the driver.
const MAX_QUEUED_EVENTS: usize = 16;

/// Sends the message and follows the task to its end. Returns one of the codes in [`exit`].
///
/// SIGTERM and SIGINT cancel the task on the server.
///
/// # Errors
///
/// The I/O error when the runtime cannot be created or signals cannot be handled.
pub fn run_remote_task(remote_task: &RemoteTask) -> std::io::Result<u8> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let code = runtime.block_on(async {
        let cancel_signal = CancelSignal {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        Ok::<_, std::io::Error>(run_client(remote_task, cancel_signal).await)
    });
    runtime.shutdown_background();
    code
}

/// The signals that cancel the task.
struct CancelSignal {
    terminate: Signal,
    interrupt: Signal,
}

impl CancelSignal {
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn run_client(remote_task: &RemoteTask, mut cancel_signal: CancelSignal) -> u8 {
    let opened = tokio::select! {
        opened = connect(remote_task) => opened,
        () = cancel_signal.recv() => {
            print("canceled before anything was sent\n");
            return exit::CANCELED;
        }
    };
    let connection = match opened {
        Ok(link) => Arc::new(link),
        Err(code) => return code,
    };
    let (state, first) = ClientState::start(&remote_task.url, connection.supports_streaming());
    let (sender, events) = channel(MAX_QUEUED_EVENTS);
    let mut driver = Driver { connection, state, sender, request_number: 0, running: None };
    driver.perform(first);
    driver.run(events, cancel_signal).await
}

/// Connects to the server. Retries, because the server may still be starting.
async fn connect(remote_task: &RemoteTask) -> Result<Connection, u8> {
    let mut tries = 0;
    loop {
        tries += 1;
        // A failure before the task exists is reported in the same form as a later failure, through
        // a temporary state.
        let (mut state, _) = ClientState::start(&remote_task.url, true);
        let event = match Connection::open(remote_task).await {
            Ok(link) => return Ok(link),
            Err(Event::Disconnected { .. }) if tries < MAX_CONNECT_TRIES => {
                sleep(CONNECT_RETRY_PAUSE).await;
                continue;
            }
            Err(Event::Disconnected { why, .. }) => Event::Fatal(format!("no connection: {why}")),
            Err(event) => event,
        };
        for step in state.handle_event(event) {
            match step {
                Step::Write(text) => print(&text),
                Step::Exit(code) => return Err(code),
                Step::Request(..) => {}
            }
        }
        return Err(exit::FAILED);
    }
}

struct Driver {
    connection: Arc<Connection>,
    state: ClientState,
    sender: Sender<NumberedEvent>,
    /// The number of the current request. Events of earlier requests are ignored.
    request_number: u64,
    running: Option<AbortHandle>,
}

impl Driver {
    /// Handles events until the task is finished. Returns the exit code.
    async fn run(
        mut self,
        mut events: Receiver<NumberedEvent>,
        mut cancel_signal: CancelSignal,
    ) -> u8 {
        let mut until: Option<Instant> = None;
        loop {
            let bound = async {
                match until {
                    Some(moment) => sleep_until(moment).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                Some((number, event)) = events.recv() => {
                    if number != self.request_number {
                        continue;
                    }
                    event
                }
                () = cancel_signal.recv() => {
                    until.get_or_insert_with(|| Instant::now() + CANCEL_TIMEOUT);
                    Event::Cancel
                }
                () = bound => Event::Disconnected {
                    why: format!("no answer within {} s", CANCEL_TIMEOUT.as_secs()),
                    reached: true,
                },
            };
            for step in self.state.handle_event(event) {
                if let Some(code) = self.perform(step) {
                    return code;
                }
            }
        }
    }

    /// Performs one step. Returns the exit code after the last step.
    fn perform(&mut self, step: Step) -> Option<u8> {
        match step {
            Step::Write(text) => print(&text),
            Step::Request(ask, pause) => self.start_request(ask, pause),
            Step::Exit(code) => return Some(code),
        }
        None
    }

    fn start_request(&mut self, ask: ClientRequest, pause: Duration) {
        self.request_number += 1;
        if let Some(running) = self.running.take() {
            running.abort();
        }
        let (connection, number, sender) =
            (Arc::clone(&self.connection), self.request_number, self.sender.clone());
        let task = self.state.task_id().map(str::to_owned);
        let request = tokio::spawn(async move {
            sleep(pause).await;
            let end = connection.send_request(ask, task.as_deref(), (number, &sender)).await;
            // The send fails once the client has finished.
            let _receiver_dropped = sender.send((number, end)).await;
        });
        self.running = Some(request.abort_handle());
    }
}

/// Writes to standard output. A closed pipe is ignored, and the client keeps following the task.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _peer_gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
