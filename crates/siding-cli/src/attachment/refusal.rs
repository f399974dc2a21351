//! Handles keys that do not reach the program, for example because its machine is not reachable.

use siding_core::sys::clock;
use siding_model::foreground_call::CallEvent;
use siding_model::signal::Signal;
use siding_model::terminal::RefusedKeys;
use siding_model::text::make_visible;

use super::TerminalCaller;
use crate::render;

impl TerminalCaller<'_> {
    /// Returns whether a stop was requested that the machine of the task has not confirmed.
    pub(crate) const fn is_stop_delayed(&self) -> bool {
        self.is_stop_delayed
    }

    /// Returns the stop of the command that Ctrl-C requests.
    pub(super) fn interrupt(&mut self) -> CallEvent {
        self.last_signal = Some(Signal::INT);
        CallEvent::Interrupted { signal: Signal::INT }
    }

    /// Handles the refusal of a request by the shim: of keys, of the state of the terminal, or of a
    /// stop that takes longer.
    pub(super) fn on_refused(&mut self, why: &str) {
        let note = format!("not typed: {}", make_visible(why));
        if self.drop_keys(why, &note, self.knows_refusal) {
            self.knows_refusal = true;
        }
    }

    /// Handles keys that may have been typed, because the answer of the shim is lost.
    pub(super) fn on_unconfirmed(&mut self, why: &str) {
        let note = format!(
            "it is unknown whether the last keys were typed: {}; look at the screen before you \
             type again",
            make_visible(why)
        );
        // The next refused keys are another case.
        self.knows_refusal = false;
        self.drop_keys(why, &note, false);
    }

    /// Drops the unanswered keys, because they have not reached the program, or may not have.
    /// `note` informs the person, unless this `is_known`. Returns whether there were such keys.
    fn drop_keys(&mut self, why: &str, note: &str, is_known: bool) -> bool {
        self.refusal = Some(why.to_owned());
        let now = clock::monotonic_now();
        self.interrupts.restart_check(now);
        if !self.queue.drop_sent() {
            return false;
        }
        match self.interrupts.on_refused() {
            RefusedKeys::Stop if self.options.owns_command => self.interrupt_at = Some(now),
            RefusedKeys::FirstInterrupt if self.options.owns_command => {
                render::print_note(&format!("{note}; another Ctrl-C stops the command"));
            }
            RefusedKeys::Stop | RefusedKeys::FirstInterrupt | RefusedKeys::Lost => {
                if !is_known {
                    render::print_note(note);
                }
            }
        }
        true
    }

    /// Handles an interruption of the connection to the machine of the task, or its end.
    pub(super) fn on_connection_changed(&mut self, unreachable: Option<&str>) {
        match unreachable {
            Some(why) => render::print_note(&format!(
                "its machine is not reachable ({}); the command continues there, and no key reaches \
                 it until the connection is established again",
                make_visible(why)
            )),
            None => {
                // The connections of its clients to the remote shim have ended.
                self.register();
                if self.output.is_full_screen() {
                    // The note has overwritten a part of the screen.
                    let _best_effort = self.show_present_screen(0);
                } else {
                    render::print_note("its machine is reachable again");
                }
            }
        }
        self.must_fit_size = true;
    }

    /// Prints that the machine of the task has not confirmed a stop.
    pub(super) fn show_stop_delay(&mut self) {
        self.is_stop_delayed = true;
        let why = self.refusal.as_deref().unwrap_or("its machine does not answer");
        let (id, why) = (self.id, make_visible(why));
        render::print_note(&format!("{id} is not stopped yet: {why}; another Ctrl-C returns"));
    }
}
