//! Flow control: how far a foreground command may be ahead of the reader of its output.
//!
//! The call that shows the output reports from time to time how much it has shown. Once the shim
//! has stored [`max_unshown_bytes`] more, it leaves the output in the FIFO, so that the command
//! waits for its reader, as the writer of a full pipe does. Without such reports the shim always
//! reads, and a slow reader misses the output that is no longer kept.

use crate::lifecycle::{Lifecycle, Phase};
use crate::outcome::Placement;

/// The largest number of bytes that a command may be ahead of its reader.
const MAX_UNSHOWN_BYTES: u64 = 8 << 20;
/// The smallest such number. If less than four times as much is kept, a slow reader may miss
/// output.
const MIN_UNSHOWN_BYTES: u64 = 64 << 10;

/// Returns the number of bytes by which a command may be ahead of the reader of its output before
/// it must wait. The last `keep_tail` bytes of the output are kept. The bytes beyond this number
/// are reserved for the data that the shim moves in one step, and for the FIFO, which is emptied
/// when the command ends.
#[must_use]
pub fn max_unshown_bytes(keep_tail: u64) -> u64 {
    (keep_tail / 4).clamp(MIN_UNSHOWN_BYTES, MAX_UNSHOWN_BYTES)
}

/// Returns the offset from which the shim leaves the output of a task in the FIFO, after a call has
/// shown the output up to the offset `shown`. `None` in the background, and while the task is being
/// stopped, because its processes must be able to write before they end.
#[must_use]
pub fn output_limit(lifecycle: &Lifecycle, keep_tail: u64, shown: u64) -> Option<u64> {
    let is_waiting = match lifecycle.phase() {
        Phase::Starting { .. } | Phase::Running { .. } | Phase::Lingering { .. } => {
            lifecycle.placement() == Placement::Foreground
        }
        Phase::Stopping { .. } | Phase::Killing { .. } | Phase::Ended { .. } => false,
    };
    is_waiting.then(|| shown.saturating_add(max_unshown_bytes(keep_tail)))
}

/// Returns the number of shown bytes after which a call reports its progress: less than
/// [`max_unshown_bytes`], so that a command never waits for a reader that has received everything.
#[must_use]
pub fn report_step_bytes(keep_tail: u64) -> u64 {
    max_unshown_bytes(keep_tail) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_be_ahead_by_a_quarter_of_the_kept_tail_and_at_most_8_mib() {
        for (keep_tail, ahead) in [
            (0, 64 << 10),
            (256 << 10, 64 << 10),
            (2 << 20, 512 << 10),
            (56 << 20, 8 << 20),
            (u64::MAX, 8 << 20),
        ] {
            assert_eq!(max_unshown_bytes(keep_tail), ahead, "{keep_tail}");
            assert!((1..ahead).contains(&report_step_bytes(keep_tail)), "{keep_tail}");
        }
    }
}
