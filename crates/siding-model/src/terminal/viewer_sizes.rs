//! The size of a task's terminal if several people are attached to it.

use super::{TerminalSize, ViewerId};

/// The sizes of the terminals of the people who are attached to a task. The task's terminal has the
/// size of the person who has attached, typed or resized a window last. When that person leaves, it
/// gets back the size of the previous one.
#[derive(Debug, Clone, Default)]
pub struct ViewerSizes {
    /// The person whose size applies is at the end.
    sizes: Vec<(ViewerId, TerminalSize)>,
}

impl ViewerSizes {
    /// Returns an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { sizes: Vec::new() }
    }

    /// Records the size of a person's terminal, which the task's terminal takes.
    pub fn set(&mut self, viewer: ViewerId, size: TerminalSize) {
        self.sizes.retain(|(known, _)| *known != viewer);
        self.sizes.push((viewer, size));
    }

    /// Records that a person has typed. The client of a person whose size does not apply requests
    /// the size before it sends the key.
    pub fn record_keystroke(&mut self, viewer: ViewerId) {
        if let Some(index) = self.sizes.iter().position(|(known, _)| *known == viewer) {
            let entry = self.sizes.remove(index);
            self.sizes.push(entry);
        }
    }

    /// Removes people who have left. Returns the size that the task's terminal has from now on;
    /// `None` if its size remains unchanged, because no size was removed or none is left.
    pub fn remove(&mut self, gone: &[ViewerId]) -> Option<TerminalSize> {
        let before = self.sizes.len();
        self.sizes.retain(|(viewer, _)| !gone.contains(viewer));
        let (_, size) = self.sizes.last()?;
        (self.sizes.len() < before).then_some(*size)
    }

    /// Returns the people whose sizes are known.
    pub fn viewers(&self) -> impl Iterator<Item = ViewerId> {
        self.sizes.iter().map(|(viewer, _)| *viewer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNA: ViewerId = ViewerId(1);
    const BEN: ViewerId = ViewerId(2);
    const CARA: ViewerId = ViewerId(3);

    fn columns(columns: u16) -> TerminalSize {
        TerminalSize { columns, rows: 24 }
    }

    #[test]
    fn the_size_of_the_remaining_person_comes_back() {
        let mut sizes = ViewerSizes::new();
        sizes.set(ANNA, columns(90));
        sizes.set(BEN, columns(80));
        sizes.set(CARA, columns(70));
        sizes.record_keystroke(BEN);
        assert_eq!(sizes.remove(&[BEN]), Some(columns(70)));
        assert_eq!(sizes.remove(&[BEN]), None, "BEN has left before");
        assert_eq!(sizes.remove(&[CARA]), Some(columns(90)));
        assert_eq!(sizes.remove(&[ANNA]), None, "no person is left");
    }

    #[test]
    fn people_who_leave_together_leave_no_size_behind() {
        let mut sizes = ViewerSizes::new();
        for (viewer, size) in [(ANNA, 90), (BEN, 80), (CARA, 70)] {
            sizes.set(viewer, columns(size));
        }
        assert_eq!(sizes.remove(&[CARA, BEN]), Some(columns(90)));
        assert!(sizes.viewers().eq([ANNA]));
    }

    #[test]
    fn a_person_who_has_typed_last_keeps_the_size_when_another_leaves() {
        let mut sizes = ViewerSizes::new();
        sizes.set(ANNA, columns(90));
        sizes.set(BEN, columns(80));
        sizes.record_keystroke(ANNA);
        assert_eq!(sizes.remove(&[BEN]), Some(columns(90)));
    }
}
