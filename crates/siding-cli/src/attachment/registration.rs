//! Registers this terminal with the shim: the size, and the lease of the task's terminal.

use siding_core::task::watch::TaskWatch;
use siding_model::lifecycle::Phase;
use siding_model::protocol::ShimRequest;

use super::{TerminalCaller, announcement};
use crate::failure::Failure;

impl TerminalCaller<'_> {
    /// Registers this terminal once the command of this call runs: the person has the task's
    /// terminal from the start, and its size is that of this terminal. Before that, the mirror of a
    /// remote task would refuse the lease, and a refusal also drops the keys that were typed
    /// meanwhile.
    pub(super) fn register_if_running(&mut self, watch: &TaskWatch<'_>) -> Result<(), Failure> {
        if self.is_registered || !self.options.owns_command {
            return Ok(());
        }
        let (_, state) = watch.state()?;
        if matches!(state.lifecycle.phase(), Phase::Running { .. }) {
            self.is_registered = true;
            self.register();
        }
        Ok(())
    }

    /// Registers this terminal with the next requests. A shim that has not seen this connection
    /// before knows neither the size nor the lease.
    pub(super) fn register(&mut self) {
        self.must_take |= self.options.owns_command;
        self.must_report_size = true;
        self.must_fit_size = true;
    }

    /// Sends the requests about the lease and the size that are due.
    pub(super) fn send_registration(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        if std::mem::take(&mut self.must_take) {
            let (by, in_foreground) = (self.requester(), self.options.owns_command);
            watch.send(&ShimRequest::TerminalTake { by, in_foreground })?;
        }
        if std::mem::take(&mut self.must_fit_size) {
            self.fit_size(watch)?;
            self.announced.must_update_title = true;
        }
        Ok(())
    }

    /// Gives the task's terminal the size of this one. The shim learns the size even if both are
    /// equal, so that this size applies again when another person leaves.
    fn fit_size(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        if self.options.is_read_only || !self.keys.is_reading() {
            return Ok(());
        }
        let Some(size) = announcement::own_size() else { return Ok(()) };
        let is_different = self.task_size != Some(size);
        if is_different || self.must_report_size {
            watch.send(&ShimRequest::TerminalResize { size })?;
            self.must_report_size = false;
            self.task_size = Some(size);
        }
        if is_different {
            // No record confirms a size that the task's terminal has already.
            self.announced.requested_size = Some(size);
        }
        Ok(())
    }
}
