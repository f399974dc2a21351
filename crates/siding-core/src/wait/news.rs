//! Sleeping until there is something to look at, and taking in what it is.

use std::os::fd::BorrowedFd;

use siding_model::process::MonotonicMs;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::record::Record;
use siding_model::task_view::WaitDetail;
use siding_model::wait::Condition;

use super::file::Files;
use super::http::Asking;
use super::output::Scan;
use super::waiter::{WaitError, Waiter};
use crate::sys::{clock, poll};

impl Waiter<'_> {
    /// Sleeps until something happens or is due.
    pub(super) fn sleep(&self) -> Result<(), WaitError> {
        let timeout = self.wake_at().ms_since(clock::mono());
        poll::wait(&self.sources(), Some(timeout))
            .map(drop)
            .map_err(|source| WaitError::Io { doing: "wait", source })
    }

    /// Returns what becomes readable when something happens.
    #[must_use]
    pub fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let live = self.tasks.iter().filter(|one| !one.over);
        let shims = live.filter_map(|one| one.watch.source());
        let files = self.files.as_ref().and_then(Files::source);
        shims.chain(files).chain(self.asking.iter().flatten().map(Asking::source)).collect()
    }

    /// Takes in what has happened.
    pub(super) fn take_in(&mut self) -> Result<(), WaitError> {
        let live: Vec<(usize, BorrowedFd<'_>)> = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, one)| !one.over)
            .filter_map(|(task, one)| one.watch.source().map(|source| (task, source)))
            .collect();
        let sources: Vec<BorrowedFd<'_>> = live.iter().map(|(_, source)| *source).collect();
        let ready = poll::wait(&sources, Some(0))
            .map_err(|source| WaitError::Io { doing: "wait", source })?;
        let heard: Vec<usize> = live
            .iter()
            .zip(ready)
            .filter(|(_, ready)| *ready)
            .map(|((task, _), _)| *task)
            .collect();
        for task in heard {
            self.hear(task)?;
        }
        if self.files.as_ref().and_then(Files::source).is_some_and(poll::ready) {
            self.files.iter().for_each(Files::drain);
            self.files_at = MonotonicMs(0);
        }
        self.take_answers();
        Ok(())
    }

    /// Returns when there is something to look at, whatever happens: at the latest the bound.
    #[must_use]
    pub fn wake_at(&self) -> MonotonicMs {
        let mut at = self.wait.wake_at();
        if !self.open(|one| matches!(one, Condition::Port(_))).is_empty() {
            at = at.min(self.ports.next_check_at());
        }
        if self.files.is_some() {
            at = at.min(self.files_at);
        }
        // One that has been found is looked at no more, so nothing would ever take its time away.
        let open = self.open(|one| matches!(one, Condition::Output(_)));
        let scans = open.iter().filter_map(|&(task, on)| self.tasks[task].scans[on].as_ref());
        scans.filter_map(Scan::wake_at).fold(at, MonotonicMs::min)
    }

    /// Takes in what a shim said.
    pub(super) fn hear(&mut self, task: usize) -> Result<(), WaitError> {
        let one = &mut self.tasks[task];
        let (mut grown, mut again, mut over) = (false, false, false);
        let renewed = one.watch.renewed();
        loop {
            match one.watch.take()? {
                // Told once for each request, so that a slow reader is not flooded.
                Some(ShimMessage::Output { .. }) => (grown, again) = (true, true),
                // What grew between that and the next request is seen when it is answered.
                Some(ShimMessage::Done) => grown = true,
                Some(ShimMessage::Record { record, .. }) => match record.as_deref() {
                    Some(Record::Closed(_)) => over = true,
                    Some(_) => {}
                    None => over |= !one.watch.state()?.1.is_live(),
                },
                Some(
                    ShimMessage::Refused { .. }
                    | ShimMessage::CannotStart { .. }
                    | ShimMessage::Why { .. }
                    | ShimMessage::Usage { .. },
                ) => {}
                None => break,
            }
        }
        if one.watch.renewed() != renewed {
            // Another shim took over, and knows nothing of this waiter.
            (grown, again) = (true, true);
        }
        if again && one.reads_output() {
            one.watch.send(&ShimRequest::Subscribe { follow: true })?;
        }
        if over {
            // It is on record. Nobody waits for the shim to tidy up.
            return self.end(task);
        }
        if grown {
            self.look_at_output(task)?;
        }
        self.take_end(task)
    }

    /// Takes in what addresses have answered: good for every task that has not ended.
    pub(super) fn take_answers(&mut self) {
        for condition in 0..self.asking.len() {
            let Some(asking) = &mut self.asking[condition] else { continue };
            if !poll::ready(asking.source()) {
                continue;
            }
            let status = asking.status();
            self.asking[condition] = None;
            let Some(status) = status else { continue };
            for task in 0..self.tasks.len() {
                if !self.tasks[task].over {
                    self.holds(task, condition, Some(WaitDetail::Http { status }));
                }
            }
        }
    }
}
