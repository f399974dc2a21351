//! Looking whether a task is ready, for its shim: as long as the task lives, and for next to nothing.
//!
//! Where [`Waiter`](crate::wait::Waiter) is one call with a bound, this goes on until it is so. It takes no
//! inotify instance, of which a user has few, and its looks grow apart ([`Patience`]).

pub(crate) mod file;
pub(crate) mod http;
pub(crate) mod output_scan;
pub(crate) mod port;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use regex::Regex;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::spec::TaskSpec;
use siding_model::wait::WaitDetail;
use siding_model::wait::{Condition, LongWaitBackoff, ReadyRecord, SatisfiedCondition};

use self::http::HttpProbe;
use self::output_scan::OutputScan;
use crate::store::TaskDir;
use crate::sys::{clock, poll, tcp_sockets};

/// What a task is waited for with, and what of it was seen.
#[derive(Debug)]
pub struct Readiness {
    conditions: Vec<OpenCondition>,
    backoff: LongWaitBackoff,
}

/// One condition. What came true once counts, whatever becomes of it.
#[derive(Debug)]
struct OpenCondition {
    condition: Condition,
    check: ConditionCheck,
}

/// How a condition is looked at.
#[derive(Debug)]
enum ConditionCheck {
    /// It came true.
    Met(WaitDetail),
    /// At what the task writes.
    Output(Box<OutputScan>),
    /// Now and then.
    Periodic,
    /// By a thread that asks.
    Http(HttpProbe),
}

impl Readiness {
    /// Begins to look, `None` when nothing is waited for. Output is looked at from its beginning.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when a pattern is no regular expression.
    pub fn new(spec: &TaskSpec, now: MonotonicMs) -> io::Result<Option<Self>> {
        let open = spec.wait_for.iter().map(OpenCondition::new).collect::<io::Result<Vec<_>>>()?;
        Ok((!open.is_empty())
            .then(|| Self { conditions: open, backoff: LongWaitBackoff::new(now) }))
    }

    /// Returns what becomes readable when an address has answered.
    pub fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.conditions.iter().filter_map(|one| match &one.check {
            ConditionCheck::Http(asking) => Some(asking.source()),
            ConditionCheck::Met(_) | ConditionCheck::Output(_) | ConditionCheck::Periodic => None,
        })
    }

    /// Returns when to come back to [`Self::look`]; `None` while only output or an answer can bring
    /// something.
    #[must_use]
    pub fn wake_at(&self) -> Option<MonotonicMs> {
        let at = self.conditions.iter().filter_map(|one| match &one.check {
            ConditionCheck::Output(scan) => scan.wake_at(),
            ConditionCheck::Periodic => Some(self.backoff.next_check_at()),
            ConditionCheck::Met(_) | ConditionCheck::Http(_) => None,
        });
        at.min()
    }

    /// Looks at what was written since the last look.
    pub fn scan_output(&mut self, dir: &TaskDir, now: MonotonicMs) {
        // What cannot be read now is read with what follows it.
        self.for_each_scan(|scan| scan.scan_new(dir, now).unwrap_or_default());
    }

    /// Looks at what is due. `members` gives the task's processes.
    pub fn check_due(
        &mut self,
        spec: &TaskSpec,
        now: MonotonicMs,
        members: impl FnOnce() -> Vec<i32>,
    ) {
        self.for_each_scan(|scan| scan.scan_partial_line(now));
        self.read_http_results();
        let is_paced = |one: &OpenCondition| matches!(one.check, ConditionCheck::Periodic);
        if now < self.backoff.next_check_at() || !self.conditions.iter().any(is_paced) {
            return;
        }
        let from = clock::monotonic_now();
        let needs_members =
            |one: &OpenCondition| is_paced(one) && matches!(one.condition, Condition::Port(_));
        let members =
            if self.conditions.iter().any(needs_members) { members() } else { Vec::new() };
        for one in self.conditions.iter_mut().filter(|one| is_paced(one)) {
            one.check_now(spec, &members);
        }
        self.backoff.record_check(from, clock::monotonic_now());
    }

    /// Looks for the last time, at what a task that has ended leaves: its output and its files. Who
    /// listens or answers now is another.
    pub fn check_after_end(&mut self, dir: &TaskDir, spec: &TaskSpec) {
        self.for_each_scan(|scan| scan.scan_remaining(dir).unwrap_or_default());
        for one in &mut self.conditions {
            if let (Condition::File(path), ConditionCheck::Periodic) = (&one.condition, &one.check)
            {
                one.set_met(file::check_exists(&Path::new(&spec.cwd).join(path)));
            }
        }
    }

    /// Returns what was seen, once all is there.
    #[must_use]
    pub fn ready_if_all_met(&self, at: MonotonicMs) -> Option<ReadyRecord> {
        let met = |one: &OpenCondition| match &one.check {
            ConditionCheck::Met(detail) => Some(SatisfiedCondition {
                condition: one.condition.clone(),
                detail: detail.clone(),
            }),
            ConditionCheck::Output(_) | ConditionCheck::Periodic | ConditionCheck::Http(_) => None,
        };
        let by = self.conditions.iter().map(met).collect::<Option<Vec<_>>>()?;
        Some(ReadyRecord { at, by })
    }

    fn for_each_scan(&mut self, mut look: impl FnMut(&mut OutputScan) -> Option<WaitDetail>) {
        for one in &mut self.conditions {
            if let ConditionCheck::Output(scan) = &mut one.check {
                let found = look(scan);
                one.set_met(found);
            }
        }
    }

    fn read_http_results(&mut self) {
        for one in &mut self.conditions {
            if let ConditionCheck::Http(asking) = &mut one.check
                && poll::is_readable(asking.source())
            {
                let status = asking.read_status();
                // One that ended without an answer is begun anew.
                one.check = ConditionCheck::Periodic;
                one.set_met(status.map(|status| WaitDetail::Http { status }));
            }
        }
    }
}

impl OpenCondition {
    fn new(condition: &Condition) -> io::Result<Self> {
        let look = match condition {
            Condition::Output(pattern) => {
                let pattern = Regex::new(pattern)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                ConditionCheck::Output(Box::new(OutputScan::new(pattern)))
            }
            Condition::Exit | Condition::Port(_) | Condition::Http(_) | Condition::File(_) => {
                ConditionCheck::Periodic
            }
        };
        Ok(Self { condition: condition.clone(), check: look })
    }

    fn set_met(&mut self, found: Option<WaitDetail>) {
        if let Some(detail) = found {
            self.check = ConditionCheck::Met(detail);
        }
    }

    fn check_now(&mut self, spec: &TaskSpec, members: &[i32]) {
        match &self.condition {
            Condition::Port(port) => {
                let port = port.get();
                let pid = tcp_sockets::find_listener(members, port);
                self.set_met(pid.map(|pid| WaitDetail::Port { port, pid }));
            }
            Condition::File(path) => {
                self.set_met(file::check_exists(&Path::new(&spec.cwd).join(path)));
            }
            // For want of a thread or a descriptor it is tried again.
            Condition::Http(url) => {
                if let Ok(asking) = HttpProbe::start_with_backoff(url.clone()) {
                    self.check = ConditionCheck::Http(asking);
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
pub fn ready_after_end(dir: &TaskDir, state: &TaskState, at: MonotonicMs) -> Option<ReadyRecord> {
    if !state.is_waiting_for_ready() {
        return None;
    }
    let mut readiness = Readiness::new(&state.spec, at).ok()??;
    readiness.check_after_end(dir, &state.spec);
    readiness.ready_if_all_met(at)
}
