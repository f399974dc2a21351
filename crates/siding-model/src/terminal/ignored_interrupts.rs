//! The Ctrl-C keys that a command with a terminal ignores.

use super::TerminalFacts;
use crate::process::MonotonicMs;

/// Ctrl-C, as a terminal sends it.
pub const CTRL_C: u8 = 0x03;
/// Maximum time from the first to the second Ctrl-C, in milliseconds.
const REPEAT_MS: u64 = 3_000;
/// Time that a command has to end after the second Ctrl-C, in milliseconds.
const END_MS: u64 = 3_000;

/// Decides when Ctrl-C stops a command with a terminal. The key belongs to the program: the kernel
/// turns it into SIGINT, or an editor reads it. The next Ctrl-C stops the task only if the program
/// reads lines, waits for no input, and still runs some time after two Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IgnoredInterrupts {
    state: InterruptState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum InterruptState {
    #[default]
    None,
    /// Ctrl-C was pressed once, at this time.
    Once { at: MonotonicMs },
    /// Ctrl-C was pressed twice. At this time, the state of the terminal is requested.
    Twice { check_at: MonotonicMs },
    /// The state of the terminal was requested.
    Checking,
    /// The program ignores Ctrl-C; the next one stops the task.
    Ignored,
    /// Ctrl-C did not reach the program; the next Ctrl-C that does not reach it stops the task.
    Refused,
}

/// The effect of keys that did not reach the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedKeys {
    /// The keys are lost.
    Lost,
    /// The person must learn that another Ctrl-C stops the command.
    FirstInterrupt,
    /// The task must be stopped.
    Stop,
}

impl IgnoredInterrupts {
    /// Processes bytes that a person has typed for the program. Returns whether the task must be
    /// stopped. A byte other than Ctrl-C shows that the person uses the program, and resets the
    /// count.
    pub fn on_typed(&mut self, bytes: &[u8], now: MonotonicMs) -> bool {
        let mut stops = false;
        for &byte in bytes {
            if byte != CTRL_C {
                self.state = InterruptState::None;
                continue;
            }
            self.state = match self.state {
                InterruptState::Once { at } if now.ms_since(at) <= REPEAT_MS => {
                    InterruptState::Twice { check_at: now.plus_ms(END_MS) }
                }
                InterruptState::None | InterruptState::Once { .. } => {
                    InterruptState::Once { at: now }
                }
                InterruptState::Twice { .. }
                | InterruptState::Checking
                | InterruptState::Refused => self.state,
                InterruptState::Ignored => {
                    stops = true;
                    InterruptState::Ignored
                }
            };
        }
        stops
    }

    /// Returns whether Ctrl-C was the last key.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.state != InterruptState::None
    }

    /// Handles keys that did not reach the program, for example because its machine is unreachable.
    /// Even then, a person must be able to end the call.
    pub fn on_refused(&mut self) -> RefusedKeys {
        match self.state {
            InterruptState::None => RefusedKeys::Lost,
            InterruptState::Refused => RefusedKeys::Stop,
            InterruptState::Once { .. }
            | InterruptState::Twice { .. }
            | InterruptState::Checking
            | InterruptState::Ignored => {
                self.state = InterruptState::Refused;
                RefusedKeys::FirstInterrupt
            }
        }
    }

    /// Handles keys that have reached the program.
    pub fn on_accepted(&mut self, now: MonotonicMs) {
        if self.state == InterruptState::Refused {
            self.state = InterruptState::Once { at: now };
        }
    }

    /// Repeats a started check after a pause, because the requested state of the terminal may not
    /// arrive: the request was refused, or its shim was replaced.
    pub fn restart_check(&mut self, now: MonotonicMs) {
        if self.state == InterruptState::Checking {
            self.state = InterruptState::Twice { check_at: now.plus_ms(END_MS) };
        }
    }

    /// Returns when [`Self::start_check`] must be called; `None` if time has no effect.
    #[must_use]
    pub const fn check_at(&self) -> Option<MonotonicMs> {
        match self.state {
            InterruptState::Twice { check_at } => Some(check_at),
            InterruptState::None
            | InterruptState::Once { .. }
            | InterruptState::Checking
            | InterruptState::Ignored
            | InterruptState::Refused => None,
        }
    }

    /// Returns whether the caller must request the state of the terminal now, for
    /// [`Self::on_facts`].
    pub fn start_check(&mut self, now: MonotonicMs) -> bool {
        let is_due = self.check_at().is_some_and(|at| at <= now);
        if is_due {
            self.state = InterruptState::Checking;
        }
        is_due
    }

    /// Processes the requested state of the terminal. Returns whether the person must learn that the
    /// next Ctrl-C stops the command.
    pub fn on_facts(&mut self, facts: &TerminalFacts) -> bool {
        if self.state != InterruptState::Checking {
            return false;
        }
        // An editor reads single keys, and a calculator that waits for its next line has answered
        // Ctrl-C. Neither ignores the key.
        let ignores =
            facts.input.canonical && !facts.input.awaits_input() && !facts.is_reader_hidden;
        self.state = if ignores { InterruptState::Ignored } else { InterruptState::None };
        ignores
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcRef;
    use crate::terminal::{ReaderFact, TerminalInput, TerminalSize};

    const BUSY: TerminalFacts = TerminalFacts {
        output_bytes: 0,
        size: TerminalSize::DEFAULT,
        input: TerminalInput { echo: true, canonical: true, reader: None },
        is_reader_hidden: false,
        has_unread_input: false,
        taken_for_ms: None,
        is_leader_in_foreground: true,
    };

    /// Returns the state after two Ctrl-C at the times 0 and `second_ms`.
    fn pressed_twice(second_ms: u64) -> IgnoredInterrupts {
        let mut interrupts = IgnoredInterrupts::default();
        assert!(!interrupts.on_typed(b"\x03", MonotonicMs(0)));
        assert!(!interrupts.on_typed(b"\x03", MonotonicMs(second_ms)));
        interrupts
    }

    #[test]
    fn the_third_ctrl_c_stops_a_busy_program_that_reads_lines() {
        let mut interrupts = pressed_twice(1_000);
        assert_eq!(interrupts.check_at(), Some(MonotonicMs(4_000)));
        assert!(!interrupts.on_typed(b"\x03", MonotonicMs(2_000)), "it has time to end");
        assert!(!interrupts.start_check(MonotonicMs(3_999)));
        assert!(interrupts.start_check(MonotonicMs(4_000)));
        assert!(!interrupts.start_check(MonotonicMs(4_001)));
        assert!(interrupts.on_facts(&BUSY));
        assert!(interrupts.on_typed(b"\x03", MonotonicMs(9_000)));
        assert!(interrupts.on_typed(b"\x03", MonotonicMs(9_100)), "the next one kills it");
    }

    #[test]
    fn a_check_without_an_answer_is_repeated() {
        let mut interrupts = pressed_twice(100);
        interrupts.restart_check(MonotonicMs(200));
        assert_eq!(interrupts.check_at(), Some(MonotonicMs(3_100)), "no check has started");
        assert!(interrupts.start_check(MonotonicMs(3_100)));
        interrupts.restart_check(MonotonicMs(4_000));
        assert!(!interrupts.on_facts(&BUSY), "the answer to the lost request does not count");
        assert!(!interrupts.start_check(MonotonicMs(6_999)), "a refusal is not repeated at once");
        assert!(interrupts.start_check(MonotonicMs(7_000)));
        assert!(interrupts.on_facts(&BUSY));
        assert!(interrupts.on_typed(b"\x03", MonotonicMs(8_000)));
    }

    #[test]
    fn a_program_that_reads_its_terminal_keeps_ctrl_c() {
        let process = ProcRef { pid: 1, start_ticks: 1 };
        let reader = Some(ReaderFact { process, is_in_read: true, timed_wait_cpu_ns: None });
        for facts in [
            TerminalFacts { input: TerminalInput { reader, ..BUSY.input }, ..BUSY },
            TerminalFacts { input: TerminalInput { canonical: false, ..BUSY.input }, ..BUSY },
            TerminalFacts { is_reader_hidden: true, ..BUSY },
        ] {
            let mut interrupts = pressed_twice(100);
            assert!(interrupts.start_check(MonotonicMs(9_000)));
            assert!(!interrupts.on_facts(&facts), "{facts:?}");
            assert!(!interrupts.on_typed(b"\x03", MonotonicMs(9_100)));
        }
    }

    #[test]
    fn the_second_ctrl_c_that_does_not_reach_the_program_stops_it() {
        let mut interrupts = IgnoredInterrupts::default();
        assert!(!interrupts.on_typed(b"q", MonotonicMs(0)));
        assert_eq!(interrupts.on_refused(), RefusedKeys::Lost);
        for key in [b"\x03", b"q", b"\x03"] {
            assert!(!interrupts.on_typed(key, MonotonicMs(10)));
            let is_interrupt = key == b"\x03";
            let expected =
                if is_interrupt { RefusedKeys::FirstInterrupt } else { RefusedKeys::Lost };
            assert_eq!(interrupts.on_refused(), expected);
        }
        assert!(!interrupts.on_typed(b"\x03", MonotonicMs(9_000)));
        assert_eq!(interrupts.on_refused(), RefusedKeys::Stop);
        // Once a key reaches the program again, Ctrl-C belongs to the program.
        interrupts.on_accepted(MonotonicMs(9_100));
        assert!(!interrupts.on_typed(b"\x03", MonotonicMs(9_200)));
        assert_eq!(interrupts.check_at(), Some(MonotonicMs(12_200)));
    }

    #[test]
    fn slow_presses_and_other_keys_are_no_repetition() {
        assert_eq!(pressed_twice(3_001).check_at(), None);
        let mut interrupts = pressed_twice(100);
        assert!(!interrupts.on_typed(b"q", MonotonicMs(200)));
        assert_eq!(interrupts.check_at(), None);
        assert!(!interrupts.on_facts(&BUSY), "no state was requested");
    }
}
