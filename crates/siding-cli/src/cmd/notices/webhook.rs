//! Sends notices to a webhook on a separate thread, in order, each in one POST request.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::time::{Duration, Instant};

use siding_model::duration::format_duration;
use siding_model::notice::{
    DeliveryStatus, MAX_DELIVERY_TIME, NoticeId, NoticeView, next_retry_delay,
};
use siding_model::settings::Webhook;

use super::failures::DeliveryFailures;
use super::webhook_client::WebhookClient;
use crate::failure::Failure;
use crate::render::json;

/// Maximum number of notices that wait in the queue, besides the one that is being sent. A server
/// that was unreachable receives them when it can be reached again.
const MAX_QUEUED_NOTICES: usize = 64;
/// Maximum time that siding waits before its exit for queued requests to finish.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time between a failed request and the report of its error. If the next attempt is due
/// earlier, the error is reported before that attempt. If siding ends during this time, one
/// message reports the error and that the notice was not sent.
const REPORT_DELAY: Duration = Duration::from_secs(2);

/// A notice in the queue, as the body of its request.
struct WebhookRequest {
    id: NoticeId,
    body: String,
}

/// Queues notices for the thread that sends them.
#[derive(Debug)]
pub(super) struct WebhookSender {
    server: String,
    queue: SyncSender<WebhookRequest>,
    /// Failures to queue a notice; the thread has its own record of failed requests.
    failures: DeliveryFailures,
    /// Number of queued notices that are not yet delivered or abandoned.
    in_flight: Arc<AtomicUsize>,
    /// Dropping this sender makes the thread stop retrying.
    retry_token: std::sync::mpsc::Sender<()>,
    /// Disconnected when the thread ends, after it has emptied the queue.
    done: Receiver<()>,
}

impl WebhookSender {
    /// Starts the thread; returns `None` if no address is set.
    pub(super) fn start(webhook: &Webhook) -> Result<Option<Self>, Failure> {
        let Some(client) = WebhookClient::new(webhook)? else { return Ok(None) };
        let (queue, requests) = sync_channel(MAX_QUEUED_NOTICES);
        let (retry_token, retry_cancelled) = channel();
        let (ended, done) = channel();
        let server = webhook.to_string();
        let under_way = Arc::new(AtomicUsize::new(0));
        let losses = DeliveryFailures::new(&server);
        let mut worker =
            WebhookWorker { client, retry_cancelled, failures: losses, reported_error: None };
        let in_flight_count = Arc::clone(&under_way);
        let run = move || {
            let _keeps_alive: std::sync::mpsc::Sender<()> = ended;
            for request in requests {
                worker.deliver(&request);
                in_flight_count.fetch_sub(1, Ordering::Relaxed);
            }
            worker.failures.report_unnamed();
        };
        let started = std::thread::Builder::new().name("webhook".to_owned()).spawn(run);
        started.map_err(|error| Failure::new(format!("could not start a thread: {error}")))?;
        let losses = DeliveryFailures::new(&server);
        Ok(Some(Self { server, queue, failures: losses, in_flight: under_way, retry_token, done }))
    }

    /// Queues a notice. If the queue is full or its thread has ended, reports that the notice was
    /// not sent to the server.
    pub(super) fn send(&mut self, notice: &NoticeView) {
        let id = notice.notice_id;
        let body = match json::to_line(notice) {
            Ok(line) => line.trim_end().to_owned(),
            Err(failure) => {
                failure.report();
                return;
            }
        };
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let why = match self.queue.try_send(WebhookRequest { id, body }) {
            Ok(()) => return self.failures.record_success(),
            Err(TrySendError::Full(_)) => {
                format!("{MAX_QUEUED_NOTICES} others are waiting")
            }
            Err(TrySendError::Disconnected(_)) => "its thread has ended".to_owned(),
        };
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.failures.record_failure(id, &why);
    }

    /// Stops retries, and waits up to `DRAIN_TIMEOUT` until each queued notice has been sent or has
    /// failed at least once.
    pub(super) fn finish(self) {
        let Self {
            server,
            queue,
            failures: mut losses,
            in_flight: under_way,
            retry_token: patience,
            done,
        } = self;
        losses.report_unnamed();
        drop((queue, patience));
        if done.recv_timeout(DRAIN_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            let unsent = under_way.load(Ordering::Relaxed);
            let them = if unsent == 1 { "notice was" } else { "notices were" };
            errln!("siding: webhook {server}: it is too slow; {unsent} {them} not sent");
        }
    }
}

/// State of the thread that sends the requests.
struct WebhookWorker {
    client: WebhookClient,
    retry_cancelled: Receiver<()>,
    failures: DeliveryFailures,
    /// The error that was reported last. It is not reported again until a request has succeeded or
    /// another error has been reported.
    reported_error: Option<String>,
}

impl WebhookWorker {
    fn deliver(&mut self, request: &WebhookRequest) {
        let started = Instant::now();
        for failures in 1.. {
            let failed = match self.client.post(&request.body) {
                Ok(()) => {
                    self.reported_error = None;
                    return self.failures.record_success();
                }
                Err(failed) => failed,
            };
            let jitter_seed = RandomState::new().hash_one(failures);
            let wait = match failed.answer {
                DeliveryStatus::Rejected => None,
                DeliveryStatus::RetryLater | DeliveryStatus::Accepted => {
                    next_retry_delay(failures, started.elapsed(), failed.retry_after, jitter_seed)
                }
            };
            let Some(wait) = wait else {
                return self.failures.record_failure(request.id, &failed.why);
            };
            let silent_wait = wait.min(REPORT_DELAY);
            let cancelled = self.is_cancelled_within(silent_wait) || {
                self.report_error(&failed.why);
                self.is_cancelled_within(wait - silent_wait)
            };
            if cancelled {
                return self.failures.record_failure(request.id, &failed.why);
            }
        }
    }

    /// Waits for `wait`, or until retrying is canceled. Returns whether it was canceled.
    fn is_cancelled_within(&self, wait: Duration) -> bool {
        // No value is ever sent through this channel: dropping the sender is the signal.
        self.retry_cancelled.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected)
    }

    fn report_error(&mut self, why: &str) {
        if self.reported_error.as_deref() != Some(why) {
            let bound = format_duration(MAX_DELIVERY_TIME);
            errln!("siding: webhook {}: {why}; trying again for {bound}", self.failures.server());
            self.reported_error = Some(why.to_owned());
        }
    }
}
