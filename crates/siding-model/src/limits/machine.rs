//! A machine that is short of memory, and whether a task is behind it.

use super::asked::Limits;
use super::breach::{Breach, Part};
use super::episodes::MAX_TOLD;
use super::usage::Usage;

/// How much more than was asked for must be left before the machine counts as well again, in
/// percent: a value that swings around the limit is one shortage.
const BACK_PERCENT: u64 = 110;

/// What one task has to do with the memory that the machine has left.
#[derive(Debug, Clone)]
pub(super) struct Shortage {
    is_told: bool,
    times: u8,
}

impl Shortage {
    /// Begins; `told` is what is on record already.
    pub(super) fn new(told: &[Breach]) -> Self {
        Self { is_told: told.iter().any(Breach::is_of_machine), times: 0 }
    }

    /// Takes in one look. Returns what is to be told, and whether the next look should come soon.
    ///
    /// A task is told of a shortage when it alone could make up for it. So the small ones beside a
    /// large one are spared, and nobody is told when many small ones fill the machine together.
    pub(super) fn read(
        &mut self,
        limits: &Limits,
        usage: &Usage,
        name: &dyn Fn(i32) -> String,
    ) -> (Option<Breach>, bool) {
        let Some(available) = usage.available_bytes.filter(|_| limits.min_available > 0) else {
            return (None, false);
        };
        let enough = limits.min_available / 100 * BACK_PERCENT;
        let used = usage.memory_bytes();
        let Some(least) = limits.blamed_from(Some(available)) else {
            self.is_told &= available < enough;
            return (None, available < enough);
        };
        if used < least || self.is_told || self.times >= MAX_TOLD {
            return (None, used >= least);
        }
        self.is_told = true;
        self.times += 1;
        let largest = usage.processes.iter().max_by_key(|one| one.resident_bytes);
        let part = largest.map(|one| Part {
            share: None,
            pid: one.process.pid,
            command: name(one.process.pid),
        });
        let numbers = (available, limits.min_available);
        (Some(Breach::of_machine(usage.at, numbers, used, part.as_ref())), true)
    }
}
