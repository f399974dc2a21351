//! How work that is under way is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wish that something end, shared by all who are to hear of it.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Wishes it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was wished.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
