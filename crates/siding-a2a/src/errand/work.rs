//! Does what [`Follow`] decides.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::follow::{Ask, Event, Follow, Step};
use super::link::{Heard, Link};
use super::{Errand, exit};

/// How long a cancel may take: less than the usual `kill_grace`, after which this is killed.
const CANCEL: Duration = Duration::from_secs(8);
/// Attempts to find the server, and the pause between two.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// Events that may wait to be written.
const WAITING: usize = 16;

/// Sends the message and follows the task to its end. Returns one of [`exit`].
///
/// SIGTERM and SIGINT have the server cancel the task.
///
/// # Errors
///
/// The operating system's, when this cannot begin.
pub fn work(errand: &Errand) -> std::io::Result<u8> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let code = runtime.block_on(async {
        let wish = Wish {
            end: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        Ok::<_, std::io::Error>(follow(errand, wish).await)
    });
    runtime.shutdown_background();
    code
}

/// Somebody wants it ended.
struct Wish {
    end: Signal,
    interrupt: Signal,
}

impl Wish {
    async fn come(&mut self) {
        tokio::select! {
            _ = self.end.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn follow(errand: &Errand, mut wish: Wish) -> u8 {
    let opened = tokio::select! {
        opened = open(errand) => opened,
        () = wish.come() => {
            write("canceled before anything was sent\n");
            return exit::CANCELED;
        }
    };
    let link = match opened {
        Ok(link) => Arc::new(link),
        Err(code) => return code,
    };
    let (follow, first) = Follow::begin(&errand.url, link.streams());
    let (sender, heard) = channel(WAITING);
    let mut at_work = AtWork { link, follow, sender, number: 0, running: None };
    at_work.perform(first);
    at_work.listen(heard, wish).await
}

/// Finds the server, which may just be starting.
async fn open(errand: &Errand) -> Result<Link, u8> {
    let mut tries = 0;
    loop {
        tries += 1;
        // What happens before there is a task is told in the same words.
        let (mut follow, _) = Follow::begin(&errand.url, true);
        let event = match Link::open(errand).await {
            Ok(link) => return Ok(link),
            Err(Event::Broken { .. }) if tries < TRIES => {
                sleep(PAUSE).await;
                continue;
            }
            Err(Event::Broken { why, .. }) => Event::Hopeless(format!("no connection: {why}")),
            Err(event) => event,
        };
        for step in follow.turn(event) {
            match step {
                Step::Write(text) => write(&text),
                Step::End(code) => return Err(code),
                Step::Ask(..) => {}
            }
        }
        return Err(exit::FAILED);
    }
}

struct AtWork {
    link: Arc<Link>,
    follow: Follow,
    sender: Sender<Heard>,
    /// The number of the last request: what is heard of one before counts for nothing.
    number: u64,
    running: Option<AbortHandle>,
}

impl AtWork {
    /// Hears what happens until it is over.
    async fn listen(mut self, mut heard: Receiver<Heard>, mut wish: Wish) -> u8 {
        let mut until: Option<Instant> = None;
        loop {
            let bound = async {
                match until {
                    Some(moment) => sleep_until(moment).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                Some((number, event)) = heard.recv() => {
                    if number != self.number {
                        continue;
                    }
                    event
                }
                () = wish.come() => {
                    until.get_or_insert_with(|| Instant::now() + CANCEL);
                    Event::Cancel
                }
                () = bound => Event::Broken {
                    why: format!("no answer within {} s", CANCEL.as_secs()),
                    reached: true,
                },
            };
            for step in self.follow.turn(event) {
                if let Some(code) = self.perform(step) {
                    return code;
                }
            }
        }
    }

    /// Does one step. Returns the exit code when it was the last.
    fn perform(&mut self, step: Step) -> Option<u8> {
        match step {
            Step::Write(text) => write(&text),
            Step::Ask(ask, pause) => self.ask(ask, pause),
            Step::End(code) => return Some(code),
        }
        None
    }

    fn ask(&mut self, ask: Ask, pause: Duration) {
        self.number += 1;
        if let Some(running) = self.running.take() {
            running.abort();
        }
        let (link, number, sender) = (Arc::clone(&self.link), self.number, self.sender.clone());
        let task = self.follow.task().map(str::to_owned);
        let request = tokio::spawn(async move {
            sleep(pause).await;
            let end = link.ask(ask, task.as_deref(), (number, &sender)).await;
            // Nobody listens any more when it is over.
            let _nobody = sender.send((number, end)).await;
        });
        self.running = Some(request.abort_handle());
    }
}

/// Writes to standard output. Who read it may have gone: the task is followed all the same.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _unread = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
