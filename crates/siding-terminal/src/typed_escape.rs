//! A typed Escape, which a program may not have acted on although it has read the key.

use siding_model::process::MonotonicMs;
use siding_model::terminal::ReaderFact;

/// The byte of the Escape key, with which the sequences of other keys begin too.
const ESCAPE: u8 = 0x1b;
/// Maximum time for which a program is taken to wait for the rest of a sequence, in milliseconds.
/// The longest usual time is one second (`timeoutlen` of vim, `ESCDELAY` of ncurses).
const DECISION_MS: u64 = 1_500;

/// The last typed key was Escape. A program that has read it waits, with a timeout, for the rest of
/// a sequence, and acts on the key only after the timeout.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TypedEscape {
    first_wait: Option<TimedWait>,
}

/// A wait with a timeout, which lasts as long as the CPU time of the thread stays the same.
#[derive(Debug, Clone, Copy)]
struct TimedWait {
    cpu_ns: u64,
    seen_at: MonotonicMs,
}

impl TypedEscape {
    /// Returns the Escape at the end of typed bytes; `None` if the last key was another one.
    pub(crate) fn at_end_of(bytes: &[u8]) -> Option<Self> {
        (bytes.last() == Some(&ESCAPE)).then(Self::default)
    }

    /// Returns whether the program, which has read the key and waits for input, may still wait for
    /// the rest of a sequence: it has not run since it was first seen in a wait with a timeout.
    pub(crate) fn is_undecided(&mut self, reader: Option<ReaderFact>, now: MonotonicMs) -> bool {
        let Some(cpu_ns) = reader.and_then(|reader| reader.timed_wait_cpu_ns) else {
            return false;
        };
        let first = self.first_wait.get_or_insert(TimedWait { cpu_ns, seen_at: now });
        first.cpu_ns == cpu_ns && now.ms_since(first.seen_at) < DECISION_MS
    }
}

#[cfg(test)]
mod tests {
    use siding_model::process::ProcRef;

    use super::*;

    fn reader(timed_wait_cpu_ns: Option<u64>) -> Option<ReaderFact> {
        let process = ProcRef { pid: 7, start_ticks: 70 };
        Some(ReaderFact { process, is_in_read: false, timed_wait_cpu_ns })
    }

    #[test]
    fn an_escape_is_decided_when_the_program_has_run_again() {
        for bytes in [&b""[..], b"x", b"\x1b[A", b"\x1bx"] {
            assert!(TypedEscape::at_end_of(bytes).is_none(), "{bytes:?}");
        }
        let now = MonotonicMs(1_000);
        let typed = || TypedEscape::at_end_of(b"x\x1b").expect("it ends with Escape");
        let mut escape = typed();
        assert!(escape.is_undecided(reader(Some(5)), now));
        assert!(escape.is_undecided(reader(Some(5)), MonotonicMs(2_000)));
        assert!(!escape.is_undecided(reader(Some(6)), MonotonicMs(2_001)));
        let mut ignored = typed();
        assert!(ignored.is_undecided(reader(Some(5)), now));
        assert!(!ignored.is_undecided(reader(Some(5)), MonotonicMs(2_500)), "the time is limited");
        // A program without a timeout waits for the next key.
        assert!(!typed().is_undecided(reader(None), now));
        assert!(!typed().is_undecided(None, now));
    }
}
