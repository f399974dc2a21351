//! Telling a server: each notice as a POST, in order, by a thread that nobody waits for.

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

use super::losses::Losses;
use super::request::Client;
use crate::failure::Failure;
use crate::render::json;

/// Notices that wait for their turn. A server that is away for ten minutes finds as many later.
const QUEUE: usize = 64;
/// Time for what is under way when nobody reads any more.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Longest time a server in trouble is not spoken of: most are back at once, and whoever leaves
/// meanwhile is told only that a notice was not sent.
const UNSPOKEN: Duration = Duration::from_secs(2);

/// A notice on its way.
struct Letter {
    id: NoticeId,
    body: String,
}

/// Hands notices to the thread that sends them.
#[derive(Debug)]
pub(super) struct Sender {
    server: String,
    queue: SyncSender<Letter>,
    /// Those that found no room.
    losses: Losses,
    /// Those that were taken and neither delivered nor given up so far.
    under_way: Arc<AtomicUsize>,
    /// Closed to say that nobody waits for another try.
    patience: std::sync::mpsc::Sender<()>,
    /// Closed by the thread when it has nothing left.
    done: Receiver<()>,
}

impl Sender {
    /// Starts the thread, or returns nothing when no address is set.
    pub(super) fn start(webhook: &Webhook) -> Result<Option<Self>, Failure> {
        let Some(client) = Client::new(webhook)? else { return Ok(None) };
        let (queue, letters) = sync_channel(QUEUE);
        let (patience, impatience) = channel();
        let (ended, done) = channel();
        let server = webhook.to_string();
        let under_way = Arc::new(AtomicUsize::new(0));
        let losses = Losses::new(&server);
        let mut worker = Worker { client, impatience, losses, in_trouble: None };
        let left = Arc::clone(&under_way);
        let run = move || {
            let _closed_at_the_end: std::sync::mpsc::Sender<()> = ended;
            for letter in letters {
                worker.deliver(&letter);
                left.fetch_sub(1, Ordering::Relaxed);
            }
            worker.losses.rest();
        };
        let started = std::thread::Builder::new().name("webhook".to_owned()).spawn(run);
        started.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        let losses = Losses::new(&server);
        Ok(Some(Self { server, queue, losses, under_way, patience, done }))
    }

    /// Puts a notice into the queue. One that finds no room is said and lost to the server.
    pub(super) fn send(&mut self, notice: &NoticeView) {
        let id = notice.notice_id;
        let body = match json::line(notice) {
            Ok(line) => line.trim_end().to_owned(),
            Err(failure) => {
                failure.report();
                return;
            }
        };
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let why = match self.queue.try_send(Letter { id, body }) {
            Ok(()) => return self.losses.over(),
            Err(TrySendError::Full(_)) => format!("{QUEUE} others wait for their turn"),
            Err(TrySendError::Disconnected(_)) => "its thread has ended".to_owned(),
        };
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.losses.lose(id, &why);
    }

    /// Lets what waits be tried once more, for a short time.
    pub(super) fn finish(self) {
        let Self { server, queue, mut losses, under_way, patience, done } = self;
        losses.rest();
        drop((queue, patience));
        if done.recv_timeout(LAST_WORDS) == Err(RecvTimeoutError::Timeout) {
            let left = under_way.load(Ordering::Relaxed);
            let them = if left == 1 { "notice was" } else { "notices were" };
            errln!("siding: webhook {server}: it is too slow; {left} {them} not sent");
        }
    }
}

/// The thread's own.
struct Worker {
    client: Client,
    impatience: Receiver<()>,
    losses: Losses,
    /// What was last said to be the trouble, since the last success: once is enough.
    in_trouble: Option<String>,
}

impl Worker {
    fn deliver(&mut self, letter: &Letter) {
        let begin = Instant::now();
        for failures in 1.. {
            let failed = match self.client.post(&letter.body) {
                Ok(()) => {
                    self.in_trouble = None;
                    return self.losses.over();
                }
                Err(failed) => failed,
            };
            let dice = RandomState::new().hash_one(failures);
            let wait = match failed.answer {
                DeliveryStatus::Rejected => None,
                DeliveryStatus::RetryLater | DeliveryStatus::Accepted => {
                    next_retry_delay(failures, begin.elapsed(), failed.asked, dice)
                }
            };
            let Some(wait) = wait else { return self.losses.lose(letter.id, &failed.why) };
            let unspoken = wait.min(UNSPOKEN);
            let left = self.is_left(unspoken) || {
                self.say(&failed.why);
                self.is_left(wait - unspoken)
            };
            if left {
                return self.losses.lose(letter.id, &failed.why);
            }
        }
    }

    /// Waits, or returns early, that nobody reads any more.
    fn is_left(&self, wait: Duration) -> bool {
        // Nothing is ever sent through it: it is closed.
        self.impatience.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected)
    }

    fn say(&mut self, why: &str) {
        if self.in_trouble.as_deref() != Some(why) {
            let bound = format_duration(MAX_DELIVERY_TIME);
            errln!("siding: webhook {}: {why}; trying again for {bound}", self.losses.server());
            self.in_trouble = Some(why.to_owned());
        }
    }
}
