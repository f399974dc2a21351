//! Telling a server: each notice as a POST, in order, by a thread that nobody waits for.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::time::{Duration, Instant};

use siding_model::notice::{Answer, DELIVERY_MAX, NoticeId, NoticeView, next_try};
use siding_model::settings::Webhook;
use siding_model::span::human;

use super::request::{Client, Failed};
use crate::failure::Failure;
use crate::render::json;

/// Notices that wait for their turn. A server that is away for ten minutes finds as many later.
const QUEUE: usize = 64;
/// Time for what is under way when nobody reads any more.
const LAST_WORDS: Duration = Duration::from_secs(10);

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
        let mut worker = Worker { server: server.clone(), client, impatience, said: None };
        let run = move || {
            let _closed_at_the_end: std::sync::mpsc::Sender<()> = ended;
            for letter in letters {
                worker.deliver(&letter);
            }
        };
        let started = std::thread::Builder::new().name("webhook".to_owned()).spawn(run);
        started.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        Ok(Some(Self { server, queue, patience, done }))
    }

    /// Puts a notice into the queue. One that finds no room is said and lost to the server.
    pub(super) fn send(&self, notice: &NoticeView) {
        let id = notice.notice_id;
        let body = match json::line(notice) {
            Ok(line) => line.trim_end().to_owned(),
            Err(failure) => {
                failure.report();
                return;
            }
        };
        let why = match self.queue.try_send(Letter { id, body }) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => format!("{QUEUE} others wait for it"),
            Err(TrySendError::Disconnected(_)) => "its thread has ended".to_owned(),
        };
        eprintln!("siding: webhook {}: notice {id} was not sent: {why}", self.server);
    }

    /// Lets what waits be tried once more, for a short time.
    pub(super) fn finish(self) {
        let Self { server, queue, patience, done } = self;
        drop((queue, patience));
        if done.recv_timeout(LAST_WORDS) == Err(RecvTimeoutError::Timeout) {
            eprintln!("siding: webhook {server}: not all notices were sent: it is too slow");
        }
    }
}

/// The thread's own.
struct Worker {
    server: String,
    client: Client,
    impatience: Receiver<()>,
    /// What was said last, since the last success: once is enough.
    said: Option<String>,
}

impl Worker {
    fn deliver(&mut self, letter: &Letter) {
        let begin = Instant::now();
        for failures in 1.. {
            let failed = match self.client.post(&letter.body) {
                Ok(()) => {
                    self.said = None;
                    return;
                }
                Err(failed) => failed,
            };
            if failed.answer == Answer::Refused {
                return self.say(&failed, &format!("notice {} was not sent", letter.id));
            }
            let dice = RandomState::new().hash_one(failures);
            let Some(wait) = next_try(failures, begin.elapsed(), failed.asked, dice) else {
                return self.lose(letter.id, &failed.why);
            };
            self.say(&failed, &format!("trying again for {}", human(DELIVERY_MAX)));
            // Nothing is ever sent through it: it is closed.
            if self.impatience.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                return self.lose(letter.id, &failed.why);
            }
        }
    }

    fn lose(&self, id: NoticeId, why: &str) {
        eprintln!("siding: webhook {}: {why}; notice {id} was not sent", self.server);
    }

    fn say(&mut self, failed: &Failed, what: &str) {
        if self.said.as_ref() != Some(&failed.why) {
            eprintln!("siding: webhook {}: {}; {what}", self.server, failed.why);
            self.said = Some(failed.why.clone());
        }
    }
}
