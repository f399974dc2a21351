//! Checks the conditions that make a task ready, from the start of the task until all of them are
//! met.
//!
//! A [`Waiter`](crate::task::wait::Waiter) is one call with a limit; this check continues until the
//! task is ready. The check uses no inotify instance, because a user has only a few (`inotify(7)`),
//! and the time between two checks grows with [`LongWaitBackoff`].

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
use siding_model::wait::{Condition, LongWaitBackoff, ReadyRecord, SatisfiedCondition, WaitDetail};

use self::http::HttpProbe;
use self::output_scan::OutputScan;
use crate::store::TaskDir;
use crate::sys::{clock, poll, tcp_sockets};

/// The conditions that make a task ready, each with the fact that met it, once there is one.
#[derive(Debug)]
pub struct Readiness {
    conditions: Vec<OpenCondition>,
    backoff: LongWaitBackoff,
}

/// A condition of the task. Once the condition is met, it is not checked again.
#[derive(Debug)]
struct OpenCondition {
    condition: Condition,
    check: ConditionCheck,
}

/// The method by which a condition is checked, or the fact that met it.
#[derive(Debug)]
enum ConditionCheck {
    /// The condition is met and needs no further check.
    Met(WaitDetail),
    /// New output is matched whenever the shim has stored it.
    Output(Box<OutputScan>),
    /// The condition is checked each time the backoff has passed.
    Periodic,
    /// A thread sends requests until a server has responded with a success or a redirect.
    Http(HttpProbe),
}

impl Readiness {
    /// Starts the checks; `None` if the task has no conditions. The task's output is matched from
    /// its beginning.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if a pattern is not a valid regular expression.
    pub fn new(spec: &TaskSpec, now: MonotonicMs) -> io::Result<Option<Self>> {
        let open = spec.wait_for.iter().map(OpenCondition::new).collect::<io::Result<Vec<_>>>()?;
        Ok((!open.is_empty())
            .then(|| Self { conditions: open, backoff: LongWaitBackoff::new(now) }))
    }

    /// Returns the descriptors that become readable when a server has responded with a success or a
    /// redirect, or when the thread that sends the requests has failed.
    pub fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.conditions.iter().filter_map(|one| match &one.check {
            ConditionCheck::Http(asking) => Some(asking.source()),
            ConditionCheck::Met(_) | ConditionCheck::Output(_) | ConditionCheck::Periodic => None,
        })
    }

    /// Returns the time at which [`Self::check_due`] is to be called; `None` if only new output or
    /// a response can meet a condition, or if all conditions are met.
    #[must_use]
    pub fn wake_at(&self) -> Option<MonotonicMs> {
        let at = self.conditions.iter().filter_map(|one| match &one.check {
            ConditionCheck::Output(scan) => scan.wake_at(),
            ConditionCheck::Periodic => Some(self.backoff.next_check_at()),
            ConditionCheck::Met(_) | ConditionCheck::Http(_) => None,
        });
        at.min()
    }

    /// Matches the output that was stored since the last call.
    pub fn scan_output(&mut self, dir: &TaskDir, now: MonotonicMs) {
        // After an I/O error the same range is read by the next call.
        self.for_each_scan(|scan| scan.scan_new(dir, now).unwrap_or_default());
    }

    /// Runs the checks that are due. `members` returns the task's processes.
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

    /// Checks the output and the files for the last time, after the end of a task. Ports and URLs
    /// are not checked, because a process that listens or responds then does not belong to the
    /// task.
    pub fn check_after_end(&mut self, dir: &TaskDir, spec: &TaskSpec) {
        self.for_each_scan(|scan| scan.scan_remaining(dir).unwrap_or_default());
        for one in &mut self.conditions {
            if let (Condition::File(path), ConditionCheck::Periodic) = (&one.condition, &one.check)
            {
                one.set_met(file::check_exists(&Path::new(&spec.cwd).join(path)));
            }
        }
    }

    /// Returns the readiness record once all conditions are met.
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

    fn for_each_scan(&mut self, mut check: impl FnMut(&mut OutputScan) -> Option<WaitDetail>) {
        for one in &mut self.conditions {
            if let ConditionCheck::Output(scan) = &mut one.check {
                let found = check(scan);
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
                // Without a status the thread has failed; the next periodic check starts another
                // thread.
                one.check = ConditionCheck::Periodic;
                one.set_met(status.map(|status| WaitDetail::Http { status }));
            }
        }
    }
}

impl OpenCondition {
    fn new(condition: &Condition) -> io::Result<Self> {
        let check = match condition {
            Condition::Output(pattern) => {
                let pattern = Regex::new(pattern)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                ConditionCheck::Output(Box::new(OutputScan::new(pattern)))
            }
            Condition::Exit | Condition::Port(_) | Condition::Http(_) | Condition::File(_) => {
                ConditionCheck::Periodic
            }
        };
        Ok(Self { condition: condition.clone(), check })
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
            // If no thread or descriptor is free, the next check tries again.
            Condition::Http(url) => {
                if let Ok(asking) = HttpProbe::start_with_backoff(url.clone()) {
                    self.check = ConditionCheck::Http(asking);
                }
            }
            // Conditions on output are not checked here: `OutputScan` matches the output as it
            // grows. An `exit` condition is rejected when the task is started.
            Condition::Exit | Condition::Output(_) => {}
        }
    }
}

/// Returns the readiness of a task that ended while it had no shim, as far as its output and files
/// prove it.
#[must_use]
pub fn ready_after_end(dir: &TaskDir, state: &TaskState, at: MonotonicMs) -> Option<ReadyRecord> {
    if !state.is_waiting_for_ready() {
        return None;
    }
    let mut readiness = Readiness::new(&state.spec, at).ok()??;
    readiness.check_after_end(dir, &state.spec);
    readiness.ready_if_all_met(at)
}
