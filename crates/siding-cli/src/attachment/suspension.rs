//! Suspends the call of a person and continues it, and handles the state of the terminal that
//! decides about Ctrl-Z and Ctrl-C.

use siding_core::sys::{procfs, signals};
use siding_core::task::watch::TaskWatch;
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;
use siding_model::terminal::TerminalFacts;

use super::TerminalCaller;
use crate::failure::Failure;
use crate::key_reader::KEYBOARD_SIGNALS;
use crate::render;

/// The note about a command that continues after Ctrl-C was pressed twice.
const IGNORED_INTERRUPTS_NOTE: &str = "the command ignores Ctrl-C; another Ctrl-C stops it with \
                                       everything that it started";
/// The note about a command that continues while its call is suspended.
const SUSPENDED_NOTE: &str =
    "Ctrl-Z suspends only this call; the command continues, and `fg` shows it again";

/// The content of a terminal when this process was suspended.
#[derive(Debug)]
pub(super) enum SuspendedScreen {
    /// Lines of output, with these modes.
    Lines { modes: String },
    /// The screen of a full-screen program, which is drawn again.
    Full,
}

impl TerminalCaller<'_> {
    /// Handles a signal that is about the terminal. Returns false for any other signal.
    pub(super) fn handle_terminal_signal(&mut self, signal: Signal) -> bool {
        if signal == Signal::WINCH {
            self.must_fit_size = true;
            return true;
        }
        if signal == Signal::TSTP {
            self.suspend();
        }
        if signal == Signal::CONT || signal == Signal::TSTP {
            self.resume();
        }
        KEYBOARD_SIGNALS.contains(&signal)
    }

    /// Restores the terminal, and stops this process until the shell continues it. The command
    /// continues.
    fn suspend(&mut self) {
        if self.suspended.is_none() {
            self.suspended = Some(if self.output.is_full_screen() {
                SuspendedScreen::Full
            } else {
                SuspendedScreen::Lines { modes: self.output.terminal_modes() }
            });
            self.output.reset_terminal();
        }
        self.keys.suspend();
    }

    /// Reads keys again if this process is in the foreground of the terminal.
    fn resume(&mut self) {
        self.keys.resume();
        if !self.keys.is_reading() {
            return;
        }
        if self.suspended.is_some() {
            self.register();
        }
        let shown = match self.suspended.take() {
            Some(SuspendedScreen::Full) => self.show_present_screen(0),
            Some(SuspendedScreen::Lines { modes }) => self.output.show_bytes(modes.as_bytes()),
            None => Ok(()),
        };
        // Without the screen, the next output of the program draws it.
        let _best_effort = shown;
    }

    /// Processes the state of the task's terminal, which this process has requested.
    pub(super) fn on_facts(
        &mut self,
        watch: &mut TaskWatch<'_>,
        facts: &TerminalFacts,
    ) -> Result<(), Failure> {
        if self.interrupts.on_facts(facts) {
            render::print_note(IGNORED_INTERRUPTS_NOTE);
        }
        let can_be_continued = !procfs::is_own_group_orphaned();
        let decision = self.suspend_key.on_facts(facts, can_be_continued);
        self.queue.push(&decision.forwarded);
        if decision.is_suspended {
            render::print_note(SUSPENDED_NOTE);
            // An agent may type while the person does something else.
            watch.send(&ShimRequest::TerminalReturn)?;
            // The key stops the whole job of the shell, such as a script that contains this call.
            // This process also receives the signal, and restores the terminal before it stops.
            signals::signal_own_group(Signal::TSTP);
        }
        Ok(())
    }

    /// Passes on the keys that wait for the state of the terminal, because that state will not
    /// arrive.
    pub(super) fn release_keys(&mut self) {
        let released = self.suspend_key.release();
        self.queue.push(&released);
    }
}
