//! The sizes of a terminal over time.

use serde::{Deserialize, Serialize};
use siding_model::terminal::{TerminalSize, TerminalState};

/// The sizes of a task's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalHistory {
    /// Size at the start.
    pub initial: TerminalSize,
    /// Later sizes in order, each with the output offset from which it applies.
    pub resizes: Vec<(u64, TerminalSize)>,
}

impl From<&TerminalState> for TerminalHistory {
    fn from(state: &TerminalState) -> Self {
        let resizes = state.resizes.iter().map(|resize| (resize.offset, resize.size));
        Self { initial: state.initial_size, resizes: resizes.collect() }
    }
}

impl TerminalHistory {
    /// Returns the history up to an offset.
    pub(crate) fn up_to(&self, offset: u64) -> Self {
        let resizes = self.resizes.iter().take_while(|(from, _)| *from <= offset);
        Self { initial: self.initial, resizes: resizes.copied().collect() }
    }

    /// Returns the last size.
    pub(crate) fn size(&self) -> TerminalSize {
        self.resizes.last().map_or(self.initial, |(_, size)| *size)
    }

    /// Returns the total number of rows by which the terminal grows after an offset.
    pub(crate) fn growth_after(&self, offset: u64) -> usize {
        let known = self.up_to(offset);
        let mut rows = known.size().rows;
        let later = self.resizes.iter().skip(known.resizes.len());
        let growth = later.map(|(_, size)| {
            let added = size.rows.saturating_sub(rows);
            rows = size.rows;
            usize::from(added)
        });
        growth.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_growth_of_a_terminal_is_the_sum_of_its_growths() {
        let size = |rows| TerminalSize { columns: 80, rows };
        let resizes = vec![(10, size(30)), (20, size(20)), (30, size(50))];
        let history = TerminalHistory { initial: size(24), resizes };
        assert_eq!(history.growth_after(0), 6 + 30);
        assert_eq!(history.growth_after(10), 30);
        assert_eq!(history.growth_after(30), 0);
        assert_eq!(history.up_to(25).size(), size(20));
    }
}
