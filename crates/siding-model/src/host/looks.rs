//! When a supervisor looks for commands in a sandbox.
//!
//! It sleeps until its bell is rung. Nobody can be trusted to ring it sparingly: the bell is within
//! reach of the sandbox. So each look has a least distance to the one before, and what rings in
//! between is one ring.

use crate::process::Mono;

/// What a byte in a supervisor's bell says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    /// A command runs now, or has gone to the background.
    Look,
    /// The host is about to run a command. It may be a while: it may ask a person first.
    Call,
    /// A command's call has returned.
    Called,
}

impl Ring {
    /// Returns the byte that says it.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Look => b'l',
            Self::Call => b'c',
            Self::Called => b'd',
        }
    }

    /// Reads a byte. One that says nothing asks for a look: looking is harmless.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        match byte {
            b'c' => Self::Call,
            b'd' => Self::Called,
            _ => Self::Look,
        }
    }
}

/// When the next look is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Looks {
    /// The next one.
    due: Option<Mono>,
    /// The one after that: what was started a moment ago may not show yet what it is.
    again: Option<Mono>,
    /// The last one.
    last: Option<Mono>,
    /// How many of [`Self::PAUSES_MS`] have passed since a call began; all of them while none runs.
    passed: Option<usize>,
}

impl Looks {
    /// Least time between two looks, in milliseconds.
    pub const LEAST_MS: u64 = 100;
    /// Time after a ring at which it is looked once more, in milliseconds.
    pub const AGAIN_MS: u64 = 500;
    /// Times between looks after a call began whose command has not rung itself, in milliseconds:
    /// about a minute altogether, and no more looks after that until the call returns.
    pub const PAUSES_MS: [u64; 8] = [250, 250, 500, 1_000, 2_000, 8_000, 16_000, 32_000];

    /// Takes in what was rung.
    pub fn rung(&mut self, bytes: &[u8], now: Mono) {
        for ring in bytes.iter().copied().map(Ring::of) {
            match ring {
                Ring::Look => self.ask_twice(now),
                Ring::Call => {
                    self.passed = Some(0);
                    self.plan(now);
                }
                Ring::Called => {
                    self.passed = None;
                    self.due = None;
                    self.ask_twice(now);
                }
            }
        }
    }

    /// Returns when the next look is due.
    #[must_use]
    pub fn wake_at(&self) -> Option<Mono> {
        let least = self.last.map(|last| last.plus_ms(Self::LEAST_MS));
        self.due.map(|due| least.map_or(due, |least| due.max(least)))
    }

    /// Whether a look is due.
    #[must_use]
    pub fn is_due(&self, now: Mono) -> bool {
        self.wake_at().is_some_and(|at| at <= now)
    }

    /// Notes that a look was taken.
    pub fn looked(&mut self, now: Mono) {
        self.last = Some(now);
        self.due = self.again.take();
        if let Some(passed) = &mut self.passed {
            *passed += 1;
            self.plan(now);
        }
    }

    fn ask_twice(&mut self, now: Mono) {
        self.ask_for(now);
        self.again = Some(now.plus_ms(Self::AGAIN_MS));
    }

    fn ask_for(&mut self, now: Mono) {
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// Plans the next look of a call that has not returned.
    fn plan(&mut self, now: Mono) {
        let pause = self.passed.and_then(|passed| Self::PAUSES_MS.get(passed));
        if let Some(pause) = pause {
            self.ask_for(now.plus_ms(*pause));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lets the time pass until nothing is due any more, and returns when it was looked.
    fn until_quiet(looks: &mut Looks) -> Vec<u64> {
        let mut taken = Vec::new();
        while let Some(at) = looks.wake_at() {
            looks.looked(at);
            taken.push(at.0);
            assert!(taken.len() < 100, "no end of looking");
        }
        taken
    }

    #[test]
    fn nobody_looks_before_the_bell_is_rung() {
        assert_eq!(Looks::default().wake_at(), None);
    }

    #[test]
    fn a_ring_from_a_command_is_a_look_at_once_and_another_a_moment_later() {
        let mut looks = Looks::default();
        looks.rung(&[Ring::Look.byte()], Mono(1_000));
        assert!(looks.is_due(Mono(1_000)));
        assert_eq!(until_quiet(&mut looks), [1_000, 1_500]);
    }

    #[test]
    fn a_call_is_looked_for_with_growing_pauses_until_it_returns() {
        let mut looks = Looks::default();
        looks.rung(&[Ring::Call.byte()], Mono(0));
        let taken = until_quiet(&mut looks);
        assert_eq!(&taken[..5], [250, 500, 1_000, 2_000, 4_000]);
        assert_eq!(taken.len(), Looks::PAUSES_MS.len());
        looks.rung(&[Ring::Call.byte()], Mono(100_000));
        looks.rung(&[Ring::Called.byte()], Mono(100_010));
        assert_eq!(until_quiet(&mut looks), [100_010, 100_510]);
    }

    proptest! {
        #[test]
        fn whatever_rings_costs_ten_looks_a_second_at_most(
            rings in prop::collection::vec((0_u64..40, any::<u8>()), 1..400),
        ) {
            let mut looks = Looks::default();
            let (mut now, mut last) = (Mono(0), None::<Mono>);
            for (pause, byte) in rings {
                now = now.plus_ms(pause);
                looks.rung(&[byte; 3], now);
                if looks.is_due(now) {
                    prop_assert!(last.is_none_or(|last| now.ms_since(last) >= Looks::LEAST_MS));
                    looks.looked(now);
                    last = Some(now);
                }
            }
            prop_assert!(until_quiet(&mut looks).len() <= Looks::PAUSES_MS.len() + 2);
        }
    }
}
