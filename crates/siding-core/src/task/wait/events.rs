//! Waits for messages of shims, changes of files and HTTP results, and processes them.

use std::os::fd::BorrowedFd;

use siding_model::process::MonotonicMs;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::record::Record;
use siding_model::wait::{Condition, WaitDetail};

use super::waiter::{WaitError, Waiter};
use crate::sys::{clock, poll};
use crate::task::readiness::file::FileWatcher;
use crate::task::readiness::http::HttpProbe;
use crate::task::readiness::output_scan::OutputScan;

impl Waiter<'_> {
    /// Sleeps until an event arrives or a check is due.
    pub(super) fn poll_sources(&self) -> Result<(), WaitError> {
        let timeout = self.wake_at().ms_since(clock::monotonic_now());
        poll::wait_readable(&self.sources(), Some(timeout))
            .map(drop)
            .map_err(|source| WaitError::Io { doing: "wait", source })
    }

    /// Returns the descriptors that become readable on an event.
    #[must_use]
    pub fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let live = self.tasks.iter().filter(|one| !one.is_finished);
        let shims = live.filter_map(|one| one.watch.source());
        let files = self.file_watcher.as_ref().and_then(FileWatcher::source);
        shims.chain(files).chain(self.http_probes.iter().flatten().map(HttpProbe::source)).collect()
    }

    /// Processes the messages and changes that have arrived, without waiting.
    pub(super) fn handle_events(&mut self) -> Result<(), WaitError> {
        let live: Vec<(usize, BorrowedFd<'_>)> = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, one)| !one.is_finished)
            .filter_map(|(task, one)| one.watch.source().map(|source| (task, source)))
            .collect();
        let sources: Vec<BorrowedFd<'_>> = live.iter().map(|(_, source)| *source).collect();
        let ready = poll::wait_readable(&sources, Some(0))
            .map_err(|source| WaitError::Io { doing: "wait", source })?;
        let readable: Vec<usize> = live
            .iter()
            .zip(ready)
            .filter(|(_, ready)| *ready)
            .map(|((task, _), _)| *task)
            .collect();
        for task in readable {
            self.recv_messages(task)?;
        }
        if self.file_watcher.as_ref().and_then(FileWatcher::source).is_some_and(poll::is_readable) {
            self.file_watcher.iter().for_each(FileWatcher::drain);
            self.next_file_check = MonotonicMs(0);
        }
        self.read_http_results();
        Ok(())
    }

    /// Returns the time of the next check, or of the end of the wait if that is earlier.
    #[must_use]
    pub fn wake_at(&self) -> MonotonicMs {
        let mut at = self.wait.wake_at();
        if !self.open_conditions(|one| matches!(one, Condition::Port(_))).is_empty() {
            at = at.min(self.port_interval.next_check_at());
        }
        if self.file_watcher.is_some() {
            at = at.min(self.next_file_check);
        }
        // A met condition is not checked again, so its due time would stay in the past forever.
        let open = self.open_conditions(|one| matches!(one, Condition::Output(_)));
        let scans = open.iter().filter_map(|&(task, on)| self.tasks[task].scans[on].as_ref());
        scans.filter_map(OutputScan::wake_at).fold(at, MonotonicMs::min)
    }

    /// Processes the messages of a shim, and checks the conditions that they may have met.
    pub(super) fn recv_messages(&mut self, task: usize) -> Result<(), WaitError> {
        let one = &mut self.tasks[task];
        let (mut grown, mut again) = (false, false);
        let renewed = one.watch.reconnects();
        loop {
            let message = match one.watch.try_recv() {
                // The shim that has replaced a killed one accepts no connection, and the time limit
                // of the wait has passed.
                Err(error)
                    if error.is_timeout() && clock::monotonic_now() >= self.connect_until =>
                {
                    return Ok(());
                }
                result => result?,
            };
            match message {
                // The shim sends this message once for each request to follow, so that a slow
                // reader is not flooded. The request is therefore repeated below.
                Some(ShimMessage::Output { .. }) => (grown, again) = (true, true),
                // Output that was written before the request took effect is checked now.
                Some(ShimMessage::Done) => grown = true,
                Some(ShimMessage::Record { record, .. }) => match record.as_deref() {
                    // The end is recorded, so the wait need not continue until the shim has
                    // cleaned up. No further message is received, because the end of the
                    // connection would start a recovery, which repeats the cleanup.
                    Some(Record::Closed(_)) => return self.finish_task(task),
                    Some(_) => {}
                    None if !one.watch.state()?.1.is_live() => return self.finish_task(task),
                    None => {}
                },
                Some(
                    ShimMessage::Refused { .. }
                    | ShimMessage::CannotStart { .. }
                    | ShimMessage::Why { .. }
                    | ShimMessage::Usage { .. }
                    | ShimMessage::Terminal { .. }
                    | ShimMessage::TerminalWritten { .. }
                    | ShimMessage::KeysRefused { .. }
                    | ShimMessage::OutputDiffers { .. }
                    | ShimMessage::WriteUnconfirmed { .. }
                    | ShimMessage::ResizeRefused { .. },
                ) => {}
                None => break,
            }
        }
        if one.watch.reconnects() != renewed {
            // A new shim does not inherit the requests to follow that its predecessor received.
            (grown, again) = (true, true);
        }
        if again && one.reads_output() {
            one.watch.send(&ShimRequest::Subscribe { follow: true, shown: None })?;
        }
        if grown {
            self.check_output(task)?;
        }
        self.check_end(task)
    }

    /// Processes the HTTP results. A status meets the condition for every task that has not ended.
    pub(super) fn read_http_results(&mut self) {
        for condition in 0..self.http_probes.len() {
            let Some(asking) = &mut self.http_probes[condition] else { continue };
            if !poll::is_readable(asking.source()) {
                continue;
            }
            let status = asking.read_status();
            self.http_probes[condition] = None;
            let Some(status) = status else { continue };
            for task in 0..self.tasks.len() {
                if !self.tasks[task].is_finished {
                    self.record_met(task, condition, Some(WaitDetail::Http { status }));
                }
            }
        }
    }
}
