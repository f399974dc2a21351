//! Looking whether a task is ready, for its shim: as long as the task lives, and for next to nothing.
//!
//! Where [`Waiter`](super::Waiter) is one call with a bound, this goes on until it is so. It takes no
//! inotify instance, of which a user has few, and its looks grow apart ([`Patience`]).

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use regex::Regex;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::spec::TaskSpec;
use siding_model::task_view::WaitDetail;
use siding_model::wait::{Condition, LongWaitBackoff, ReadyRecord, SatisfiedCondition};

use super::file;
use super::http::Asking;
use super::output::Scan;
use crate::store::TaskDir;
use crate::sys::{clock, poll, sockets};

/// What a task is waited for with, and what of it was seen.
#[derive(Debug)]
pub struct Readiness {
    open: Vec<Open>,
    patience: LongWaitBackoff,
}

/// One condition. What came true once counts, whatever becomes of it.
#[derive(Debug)]
struct Open {
    condition: Condition,
    look: Look,
}

/// How a condition is looked at.
#[derive(Debug)]
enum Look {
    /// It came true.
    Done(WaitDetail),
    /// At what the task writes.
    Output(Box<Scan>),
    /// Now and then.
    Paced,
    /// By a thread that asks.
    Asking(Asking),
}

impl Readiness {
    /// Begins to look, `None` when nothing is waited for. Output is looked at from its beginning.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when a pattern is no regular expression.
    pub fn new(spec: &TaskSpec, now: MonotonicMs) -> io::Result<Option<Self>> {
        let open = spec.wait_for.iter().map(Open::new).collect::<io::Result<Vec<_>>>()?;
        Ok((!open.is_empty()).then(|| Self { open, patience: LongWaitBackoff::new(now) }))
    }

    /// Returns what becomes readable when an address has answered.
    pub fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().filter_map(|one| match &one.look {
            Look::Asking(asking) => Some(asking.source()),
            Look::Done(_) | Look::Output(_) | Look::Paced => None,
        })
    }

    /// Returns when to come back to [`Self::look`]; `None` while only output or an answer can bring
    /// something.
    #[must_use]
    pub fn wake_at(&self) -> Option<MonotonicMs> {
        let at = self.open.iter().filter_map(|one| match &one.look {
            Look::Output(scan) => scan.wake_at(),
            Look::Paced => Some(self.patience.next_check_at()),
            Look::Done(_) | Look::Asking(_) => None,
        });
        at.min()
    }

    /// Looks at what was written since the last look.
    pub fn output_grown(&mut self, dir: &TaskDir, now: MonotonicMs) {
        // What cannot be read now is read with what follows it.
        self.each_scan(|scan| scan.more(dir, now).unwrap_or_default());
    }

    /// Looks at what is due. `members` gives the task's processes.
    pub fn look(&mut self, spec: &TaskSpec, now: MonotonicMs, members: impl FnOnce() -> Vec<i32>) {
        self.each_scan(|scan| scan.settle(now));
        self.take_answers();
        let is_paced = |one: &Open| matches!(one.look, Look::Paced);
        if now < self.patience.next_check_at() || !self.open.iter().any(is_paced) {
            return;
        }
        let from = clock::mono();
        let needs_members =
            |one: &Open| is_paced(one) && matches!(one.condition, Condition::Port(_));
        let members = if self.open.iter().any(needs_members) { members() } else { Vec::new() };
        for one in self.open.iter_mut().filter(|one| is_paced(one)) {
            one.look_now(spec, &members);
        }
        self.patience.record_check(from, clock::mono());
    }

    /// Looks for the last time, at what a task that has ended leaves: its output and its files. Who
    /// listens or answers now is another.
    pub fn last_look(&mut self, dir: &TaskDir, spec: &TaskSpec) {
        self.each_scan(|scan| scan.finish(dir).unwrap_or_default());
        for one in &mut self.open {
            if let (Condition::File(path), Look::Paced) = (&one.condition, &one.look) {
                one.take(file::there(&Path::new(&spec.cwd).join(path)));
            }
        }
    }

    /// Returns what was seen, once all is there.
    #[must_use]
    pub fn found(&self, at: MonotonicMs) -> Option<ReadyRecord> {
        let met = |one: &Open| match &one.look {
            Look::Done(detail) => Some(SatisfiedCondition {
                condition: one.condition.clone(),
                detail: detail.clone(),
            }),
            Look::Output(_) | Look::Paced | Look::Asking(_) => None,
        };
        let by = self.open.iter().map(met).collect::<Option<Vec<_>>>()?;
        Some(ReadyRecord { at, by })
    }

    fn each_scan(&mut self, mut look: impl FnMut(&mut Scan) -> Option<WaitDetail>) {
        for one in &mut self.open {
            if let Look::Output(scan) = &mut one.look {
                let found = look(scan);
                one.take(found);
            }
        }
    }

    fn take_answers(&mut self) {
        for one in &mut self.open {
            if let Look::Asking(asking) = &mut one.look
                && poll::ready(asking.source())
            {
                let status = asking.status();
                // One that ended without an answer is begun anew.
                one.look = Look::Paced;
                one.take(status.map(|status| WaitDetail::Http { status }));
            }
        }
    }
}

impl Open {
    fn new(condition: &Condition) -> io::Result<Self> {
        let look = match condition {
            Condition::Output(pattern) => {
                let pattern = Regex::new(pattern)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                Look::Output(Box::new(Scan::new(pattern)))
            }
            Condition::Exit | Condition::Port(_) | Condition::Http(_) | Condition::File(_) => {
                Look::Paced
            }
        };
        Ok(Self { condition: condition.clone(), look })
    }

    fn take(&mut self, found: Option<WaitDetail>) {
        if let Some(detail) = found {
            self.look = Look::Done(detail);
        }
    }

    fn look_now(&mut self, spec: &TaskSpec, members: &[i32]) {
        match &self.condition {
            Condition::Port(port) => {
                let port = port.get();
                let pid = sockets::listener_of(members, port);
                self.take(pid.map(|pid| WaitDetail::Port { port, pid }));
            }
            Condition::File(path) => {
                self.take(file::there(&Path::new(&spec.cwd).join(path)));
            }
            // For want of a thread or a descriptor it is tried again.
            Condition::Http(url) => {
                if let Ok(asking) = Asking::patiently(url.clone()) {
                    self.look = Look::Asking(asking);
                }
            }
            // Told by the end itself, and refused before it comes here.
            Condition::Exit | Condition::Output(_) => {}
        }
    }
}

/// Returns whether a task that ended while nobody kept it had become ready, as far as what it left
/// tells.
#[must_use]
pub fn ready_after_all(dir: &TaskDir, state: &TaskState, at: MonotonicMs) -> Option<ReadyRecord> {
    if !state.is_waiting_for_ready() {
        return None;
    }
    let mut readiness = Readiness::new(&state.spec, at).ok()??;
    readiness.last_look(dir, &state.spec);
    readiness.found(at)
}
