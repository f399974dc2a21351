//! Waiting for a task in the foreground: until its end, its shell's end, the budget, or a signal.

use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};

use siding_core::output;
use siding_core::run::{self, Heard};
use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, file, poll};
use siding_core::watch::Watch;
use siding_model::outcome::{Placement, Why};
use siding_model::protocol::Request;
use siding_model::signal::Signal;

use super::begin::Plan;
use crate::context::Task;
use crate::failure::Failure;

/// How long a shim may take to put a task into the background, in milliseconds.
const PLACE_MS: u64 = 10_000;
/// Bytes shown at once.
const BLOCK: usize = 64 << 10;

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
    /// The command or its shell is over: this is how the task stands.
    Over(Box<Task>),
    /// Its budget is over, or it is in the background as was asked, perhaps once it was ready.
    Returned,
    /// This caller was told to leave. The task goes on.
    Left(Signal),
}

/// Waits.
pub(super) fn follow(
    watch: &mut Watch<'_>,
    plan: &Plan,
    signals: &SignalFd,
    show: Show,
) -> Result<End, Failure> {
    let mut live = match show {
        Show::Output => Some(Live::new(watch, plan.spec.keep_head)?),
        Show::Nothing => None,
    };
    let end = wait(watch, plan, signals, live.as_mut())?;
    if let Some(live) = &mut live
        && !live.print(watch)?
    {
        return Ok(End::Left(Signal::PIPE));
    }
    Ok(end)
}

fn wait(
    watch: &mut Watch<'_>,
    plan: &Plan,
    signals: &SignalFd,
    mut live: Option<&mut Live>,
) -> Result<End, Failure> {
    let started = clock::mono();
    let budget_ms = plan.budget.map(|budget| u64::try_from(budget.as_millis()).unwrap_or(u64::MAX));
    let mut is_running = false;
    let mut interrupts = 0;
    loop {
        // A caller who asked for the background waits for the exec all the same, so that it
        // learns of a command that does not exist.
        let left = budget_ms
            .filter(|_| is_running)
            .map(|budget| budget.saturating_sub(clock::mono().ms_since(started)));
        let Some(source) = watch.source() else { return Ok(End::Returned) };
        let ready = poll::wait(&[source, signals.as_fd()], left)
            .map_err(|error| Failure::new(format!("could not wait: {error}")))?;
        if ready[1] {
            match interrupted(watch, signals, &mut interrupts)? {
                Some(signal) => return Ok(End::Left(signal)),
                None => continue,
            }
        }
        if ready[0] {
            match hear(watch, live.as_deref_mut())? {
                Step::Over(task) => return Ok(End::Over(task)),
                // It goes on, as was asked for.
                Step::Ready => {
                    if plan.spec.placement == Placement::Foreground {
                        watch.ask(&Request::Place { why: Why::Asked }, PLACE_MS)?;
                    }
                    return Ok(End::Returned);
                }
                Step::Running => is_running = true,
                // Whoever read is gone, perhaps with the host: the task goes on by itself.
                Step::Unread => return Ok(End::Left(Signal::PIPE)),
                Step::Nothing => {}
            }
            continue;
        }
        if left == Some(0) {
            if plan.spec.placement != Placement::Foreground {
                return Ok(End::Returned);
            }
            // The shim decides: when the end came first, this changes nothing.
            watch.ask(&Request::Place { why: Why::Budget }, PLACE_MS)?;
            return Ok(End::Returned);
        }
    }
}

/// What a message means for the wait.
enum Step {
    Over(Box<Task>),
    Ready,
    Unread,
    Running,
    Nothing,
}

fn hear(watch: &mut Watch<'_>, live: Option<&mut Live>) -> Result<Step, Failure> {
    let heard = run::hear(watch)?;
    if let Some(live) = live {
        match heard {
            // Another shim may have taken over, and knows nothing of who follows.
            Heard::Again => live.ask_for_more(watch)?,
            Heard::Grown => {
                if !live.print(watch)? {
                    return Ok(Step::Unread);
                }
                live.ask_for_more(watch)?;
            }
            // The shim follows from now on; what came before, to this shim or to a dead one, is
            // stored.
            Heard::Done if !live.print(watch)? => return Ok(Step::Unread),
            Heard::Done | Heard::Over(..) | Heard::Ready(..) | Heard::Running | Heard::Nothing => {}
        }
    }
    Ok(match heard {
        Heard::Over(dir, story) => Step::Over(Box::new(Task::of(dir, *story))),
        Heard::Ready(..) => Step::Ready,
        Heard::Running | Heard::Again => Step::Running,
        Heard::Grown | Heard::Done | Heard::Nothing => Step::Nothing,
    })
}

/// An interrupt ends the command, a second one at once. Being ended or hung up on leaves it alone:
/// that is how a host dies, and its commands go on.
fn interrupted(
    watch: &mut Watch<'_>,
    signals: &SignalFd,
    interrupts: &mut u32,
) -> Result<Option<Signal>, Failure> {
    for signal in signals.take() {
        if signal != Signal::INT {
            return Ok(Some(signal));
        }
        *interrupts += 1;
        let grace_ms = (*interrupts > 1).then_some(0);
        let by = "user".to_owned();
        watch.send(&Request::Stop { by, grace_ms, signal: Some(Signal::INT) })?;
    }
    Ok(None)
}

/// The output, shown as it comes.
#[derive(Debug)]
struct Live {
    file: Option<OwnedFd>,
    keep_head: u64,
    shown: u64,
}

impl Live {
    fn new(watch: &mut Watch<'_>, keep_head: u64) -> Result<Self, Failure> {
        let live = Self { file: None, keep_head, shown: 0 };
        live.ask_for_more(watch)?;
        Ok(live)
    }

    fn ask_for_more(&self, watch: &mut Watch<'_>) -> Result<(), Failure> {
        Ok(watch.send(&Request::Subscribe { follow: true })?)
    }

    /// Prints what is new, exactly as the command wrote it. Returns whether somebody reads.
    fn print(&mut self, watch: &Watch<'_>) -> Result<bool, Failure> {
        let failed = |error| Failure::new(format!("could not show the output: {error}"));
        if self.file.is_none() {
            self.file = file::open_at(watch.dir()?, output::FILE, file::Open::Read).ok();
        }
        let Some(file) = &self.file else { return Ok(true) };
        let bytes = file::facts(file).map_err(failed)?.len;
        if let Some(gap) = output::gap_of(file, bytes, self.keep_head)
            && (gap.from..gap.to).contains(&self.shown)
        {
            eprintln!(
                "siding: {} bytes came too fast to be shown and are gone",
                gap.to - self.shown
            );
            self.shown = gap.to;
        }
        let mut stdout = std::io::stdout().lock();
        let mut buffer = vec![0; BLOCK];
        while self.shown < bytes {
            let most = BLOCK.min(usize::try_from(bytes - self.shown).unwrap_or(BLOCK));
            let count = file::read_at(file, &mut buffer[..most], self.shown).map_err(failed)?;
            if count == 0 {
                break;
            }
            match stdout.write_all(&buffer[..count]).and_then(|()| stdout.flush()) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(false),
                result => result.map_err(failed)?,
            }
            self.shown += count as u64;
        }
        Ok(true)
    }
}
