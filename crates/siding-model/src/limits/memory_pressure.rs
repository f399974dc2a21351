//! A machine that is short of memory, and whether a task is behind it.

use super::breach::{Breach, BreachSource};
use super::episodes::MAX_BREACHES_PER_LIMIT;
use super::spec::Limits;
use super::usage::Usage;

/// How much more than was asked for must be left before the machine counts as well again, in
/// percent: a value that swings around the limit is one shortage.
const RECOVERY_PERCENT: u64 = 110;

/// What one task has to do with the memory that the machine has left.
#[derive(Debug, Clone)]
pub(super) struct MemoryPressure {
    is_recorded: bool,
    breach_count: u8,
}

impl MemoryPressure {
    /// Begins; `told` is what is on record already.
    pub(super) fn new(recorded: &[Breach]) -> Self {
        Self { is_recorded: recorded.iter().any(Breach::is_low_memory), breach_count: 0 }
    }

    /// Takes in one look. Returns what is to be told, and whether the next look should come soon.
    ///
    /// A task is told of a shortage when it alone could make up for it. So the small ones beside a
    /// large one are spared, and nobody is told when many small ones fill the machine together.
    pub(super) fn record_usage(
        &mut self,
        limits: &Limits,
        usage: &Usage,
        name: &dyn Fn(i32) -> String,
    ) -> (Option<Breach>, bool) {
        let Some(available) = usage.available_bytes.filter(|_| limits.min_available > 0) else {
            return (None, false);
        };
        let enough = limits.min_available / 100 * RECOVERY_PERCENT;
        let used = usage.memory_bytes();
        let Some(least) = limits.memory_blame_threshold(Some(available)) else {
            self.is_recorded &= available < enough;
            return (None, available < enough);
        };
        if used < least || self.is_recorded || self.breach_count >= MAX_BREACHES_PER_LIMIT {
            return (None, used >= least);
        }
        self.is_recorded = true;
        self.breach_count += 1;
        let largest = usage.processes.iter().max_by_key(|one| one.resident_bytes);
        let part = largest.map(|one| BreachSource {
            share: None,
            pid: one.process.pid,
            command: name(one.process.pid),
        });
        let numbers = (available, limits.min_available);
        (Some(Breach::from_low_memory(usage.at, numbers, used, part.as_ref())), true)
    }
}
