//! The programs that use the terminal in place of the screen.

use std::io;
use std::process::{Command, ExitStatus};

use siding_core::sys::signals;
use siding_model::id::TaskId;

use super::EventLoop;
use crate::pager::{self, PagedForm};
use crate::{TopError, attach};

impl EventLoop {
    /// Shows the output of a task in the pager.
    pub(super) fn open_pager(&mut self, id: TaskId) -> Result<(), TopError> {
        let Some(shown) = self.pager.clone() else {
            self.app.show_error("no pager: set PAGER, for example to less");
            return Ok(());
        };
        let form = PagedForm::choose(self.view.root(), id);
        let ended = self.run_in_place(pager::pager_command(&shown, id, form))?;
        match ended.map(|status| pager::pager_failure(&shown, status)) {
            Ok(None) => {}
            Ok(Some(failure)) => self.app.show_error(failure),
            Err(error) => self.app.show_error(format!("the pager could not be started: {error}")),
        }
        Ok(())
    }

    /// Connects this terminal with that of a task.
    pub(super) fn attach(&mut self, id: TaskId) -> Result<(), TopError> {
        let ended = self.run_in_place(attach::attach_command(id, self.app.is_read_only))?;
        match ended.map(|status| attach::attach_failure(id, status)) {
            Ok(None) => {}
            Ok(Some(failure)) => self.app.show_error(failure),
            Err(error) => self.app.show_error(format!("siding could not be started: {error}")),
        }
        Ok(())
    }

    /// Runs a program in place of the screen, and shows the screen again after its end.
    fn run_in_place(
        &mut self,
        command: io::Result<Command>,
    ) -> Result<io::Result<ExitStatus>, TopError> {
        self.console.leave();
        let ended = command.and_then(|mut command| signals::run_in_foreground(&mut command));
        self.console.reenter().map_err(TopError::Terminal)?;
        self.is_dirty = true;
        self.refresh();
        Ok(ended)
    }
}
