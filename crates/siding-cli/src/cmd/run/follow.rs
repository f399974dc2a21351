//! Waiting for a task in the foreground: until its end, its shell's end, the budget, or a signal.
//!
//! One loop and one `poll`, for what the shim says, for signals, and for a reader who takes more of
//! the output. So none of them waits for another, and the budget for none.

use std::os::fd::AsFd;

use siding_core::run::{self, ShimEvent};
use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, poll};
use siding_core::watch::TaskWatch;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;

use super::begin::Plan;
use super::live::{Live, Step};
use crate::context::Task;
use crate::failure::Failure;

/// How long a shim may take to put a task into the background, in milliseconds.
const PLACE_MS: u64 = 10_000;
/// How long a reader may take nothing before the call returns without the rest of the output, in
/// milliseconds. The output of a command that ended by itself is waited for: a pager reads slowly.
const READER_MS: u64 = 5_000;

/// What to show meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// The output, as it comes.
    Output,
    /// Nothing.
    Nothing,
}

/// Why the wait is over.
#[derive(Debug)]
pub(super) enum End {
    /// There is nothing more to wait for: this is how the task stands.
    Over(Box<Task>),
    /// This caller was told to leave. The task goes on.
    Left(Signal),
}

/// What the wait came to, while the rest of the output is not shown yet.
#[derive(Debug)]
enum Came {
    /// The command or its shell is over: this is how the task stood.
    Over(Box<Task>),
    /// Its budget is over, or it is in the background as was asked, perhaps once it was ready.
    Back,
}

/// What came of the wait.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) end: End,
    /// Offset behind the output that the caller was given, `None` when it was to be given none.
    pub(super) shown: Option<u64>,
    /// Bytes that the command had written by then and nobody took.
    pub(super) unshown: u64,
}

/// Waits.
pub(super) fn follow(
    watch: &mut TaskWatch<'_>,
    plan: &Plan,
    signals: &SignalFd,
    show: Show,
) -> Result<Followed, Failure> {
    let live = match show {
        Show::Output => Some(Live::new(watch)?),
        Show::Nothing => None,
    };
    let budget = plan.budget.map(|budget| u64::try_from(budget.as_millis()).unwrap_or(u64::MAX));
    let foreground = plan.spec.placement == Placement::Foreground;
    let why = plan.hand_over;
    let mut follower = Follower {
        watch,
        signals,
        live,
        foreground,
        budget,
        why,
        is_running: false,
        interrupts: 0,
    };
    let end = follower.wait()?;
    let unshown = follower.live.as_ref().map_or(0, Live::left);
    let shown = follower.live.map(|live| {
        live.finish();
        live.shown()
    });
    Ok(Followed { end, shown, unshown })
}

struct Follower<'f, 'r> {
    watch: &'f mut TaskWatch<'r>,
    signals: &'f SignalFd,
    live: Option<Live>,
    /// Whether the command started in the foreground.
    foreground: bool,
    /// How long the caller is kept waiting, in milliseconds; `None` until the end.
    budget: Option<u64>,
    /// Why the command is in the background once that time has passed.
    why: BackgroundReason,
    is_running: bool,
    interrupts: u32,
}

/// What there is to do.
#[derive(Debug, Clone, Copy, Default)]
struct Ready {
    heard: bool,
    signal: bool,
    reader: bool,
}

/// What a look at the signals found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    /// The command was asked to stop.
    Stop,
    Leave(Signal),
}

impl Follower<'_, '_> {
    fn wait(&mut self) -> Result<End, Failure> {
        let started = clock::monotonic_now();
        let mut end: Option<Came> = None;
        loop {
            if end.is_none() && self.watch.is_finished() {
                end = Some(Came::Back);
                self.measure()?;
            }
            match end.take_if(|_| !self.has_more()) {
                Some(Came::Over(task)) => return Ok(End::Over(task)),
                Some(Came::Back) => {
                    let task = self.standing()?;
                    if task.state.is_live() {
                        return Ok(End::Over(task));
                    }
                    // It has ended meanwhile, and what it wrote until then is not shown yet.
                    self.measure()?;
                    if !self.has_more() {
                        return Ok(End::Over(task));
                    }
                    end = Some(Came::Over(task));
                }
                None => {}
            }
            let left = match end {
                // A caller who asked for the background waits for the exec all the same, so that
                // it learns of a command that does not exist.
                None => self
                    .budget
                    .filter(|_| self.is_running)
                    .map(|budget| budget.saturating_sub(clock::monotonic_now().ms_since(started))),
                Some(Came::Over(_)) if self.interrupts == 0 => None,
                Some(_) => Some(READER_MS),
            };
            let ready = self.poll(end.is_none(), left)?;
            let mut told = if ready.signal { self.take_signals()? } else { Told::Nothing };
            if told == Told::Nothing && ready.reader && self.show()? == Step::Unread {
                // What has ended the reader was meant for the command as well.
                told = self.take_signals()?;
                if told == Told::Nothing && self.interrupts == 0 {
                    // Whoever read is gone, perhaps with the host: the task goes on by itself.
                    told = Told::Leave(Signal::PIPE);
                }
            }
            match told {
                Told::Leave(signal) => return Ok(End::Left(signal)),
                // There is nothing to stop any more, only something to show.
                Told::Stop if matches!(end, Some(Came::Over(_))) || self.watch.is_finished() => {
                    return Ok(End::Left(Signal::INT));
                }
                // Also when it was in the background already: to the person it never left.
                Told::Stop => end = None,
                Told::Nothing if ready.heard => end = self.hear()?,
                Told::Nothing if end.is_none() && left == Some(0) => {
                    end = Some(self.hand_over(self.why)?);
                }
                Told::Nothing => {
                    // Nobody takes the rest.
                    if end.take_if(|_| left.is_some() && !ready.reader).is_some() {
                        self.measure()?;
                        return Ok(End::Over(self.standing()?));
                    }
                }
            }
        }
    }

    /// Returns how the task stands now.
    fn standing(&self) -> Result<Box<Task>, Failure> {
        let (dir, story) = self.watch.read_notices()?;
        Ok(Box::new(Task::of(dir, story)))
    }

    /// Whether there is output to be shown.
    fn has_more(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.wants().is_some())
    }

    fn poll(&self, hears: bool, left: Option<u64>) -> Result<Ready, Failure> {
        let reader = self.live.as_ref().and_then(Live::wants);
        let source = self.watch.source().filter(|_| hears);
        let fds: Vec<_> = [Some(self.signals.as_fd()), source].into_iter().flatten().collect();
        let ready = match reader {
            Some(reader) => poll::wait_readable_or_writable(&fds, reader, left),
            None => poll::wait_readable(&fds, left),
        };
        let ready = ready.map_err(|error| Failure::new(format!("could not wait: {error}")))?;
        Ok(Ready {
            signal: ready[0],
            heard: source.is_some() && ready[1],
            reader: reader.is_some() && ready.last() == Some(&true),
        })
    }

    fn show(&mut self) -> Result<Step, Failure> {
        self.live.as_mut().map_or(Ok(Step::On), |live| live.step(self.watch))
    }

    fn measure(&mut self) -> Result<(), Failure> {
        self.live.as_mut().map_or(Ok(()), |live| live.measure(self.watch))
    }

    /// Takes the next message. Returns what the wait came to by it.
    fn hear(&mut self) -> Result<Option<Came>, Failure> {
        let heard = run::recv_event(self.watch)?;
        if let Some(live) = &mut self.live {
            match heard {
                // Another shim may have taken over, and knows nothing of who follows.
                ShimEvent::MayBeNewShim => live.ask_for_more(self.watch)?,
                ShimEvent::OutputGrown => live.grown(self.watch)?,
                // The shim follows from now on; what came before, to this shim or to a dead one, is
                // stored. And after the end nothing comes.
                ShimEvent::RequestDone | ShimEvent::Finished(..) => live.measure(self.watch)?,
                ShimEvent::Ready(..) | ShimEvent::Running | ShimEvent::Nothing => {}
            }
        }
        Ok(match heard {
            ShimEvent::Finished(dir, story) => Some(Came::Over(Box::new(Task::of(dir, *story)))),
            // It goes on, as was asked for.
            ShimEvent::Ready(..) => Some(self.hand_over(BackgroundReason::Asked)?),
            ShimEvent::Running | ShimEvent::MayBeNewShim => {
                self.is_running = true;
                None
            }
            ShimEvent::OutputGrown | ShimEvent::RequestDone | ShimEvent::Nothing => None,
        })
    }

    /// Puts the task into the background. What it has written by then is still to be shown.
    fn hand_over(&mut self, why: BackgroundReason) -> Result<Came, Failure> {
        // Once: an interrupt may call it back.
        self.budget = None;
        if self.foreground {
            // The shim decides: when the end came first, this changes nothing.
            self.watch.request(&ShimRequest::Place { why }, PLACE_MS)?;
        }
        self.measure()?;
        Ok(Came::Back)
    }

    /// An interrupt ends the command, a second one at once. Being ended or hung up on leaves it
    /// alone: that is how a host dies, and its commands go on.
    fn take_signals(&mut self) -> Result<Told, Failure> {
        let mut told = Told::Nothing;
        for signal in self.signals.read_pending() {
            if signal != Signal::INT {
                return Ok(Told::Leave(signal));
            }
            self.interrupts += 1;
            let grace_ms = (self.interrupts > 1).then_some(0);
            let by = "user".to_owned();
            self.watch.send(&ShimRequest::Stop { by, grace_ms, signal: Some(Signal::INT) })?;
            told = Told::Stop;
        }
        Ok(told)
    }
}
