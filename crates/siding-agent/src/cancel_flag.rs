//! A flag by which one thread cancels the work of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag, shared between threads, that requests the end of an operation.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Sets the flag, permanently. The operation ends when it next checks the flag.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns whether the end of the operation has been requested.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
