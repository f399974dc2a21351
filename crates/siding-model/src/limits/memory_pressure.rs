//! Detection of low memory on the machine, and of the task that causes it.

use super::breach::{Breach, BreachSource};
use super::episodes::MAX_BREACHES_PER_LIMIT;
use super::spec::Limits;
use super::usage::Usage;

/// Available memory at which a shortage is over, in percent of the required amount. Memory that
/// oscillates around the limit counts as one shortage, because it must recover by this margin
/// before the next one is reported.
const RECOVERY_PERCENT: u64 = 110;

/// The state of the low-memory check for one task.
#[derive(Debug, Clone)]
pub(super) struct MemoryPressure {
    is_recorded: bool,
    breach_count: u8,
}

impl MemoryPressure {
    /// Starts the check. A shortage with a breach in `recorded` is not reported again.
    pub(super) fn new(recorded: &[Breach]) -> Self {
        Self { is_recorded: recorded.iter().any(Breach::is_low_memory), breach_count: 0 }
    }

    /// Processes one sample. Returns the breach to record, and whether the next sample should be
    /// taken soon.
    ///
    /// A task breaches the limit if its end alone would resolve the shortage. A small task next to
    /// a large one is therefore not blamed, and no task is blamed when many small tasks fill the
    /// memory together.
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
