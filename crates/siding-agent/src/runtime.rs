//! A tokio runtime that does not delay the exit of the process.

use std::io;
use std::ops::Deref;

use tokio::runtime::{Builder, Runtime};

/// A tokio runtime whose drop does not wait for the futures and blocking calls that still run on
/// it. At exit nothing uses their results, and a DNS lookup can block for half a minute.
#[derive(Debug)]
pub(crate) struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    /// Starts a runtime with this number of worker threads.
    ///
    /// # Errors
    ///
    /// The error of a failed system call.
    pub(crate) fn start(name: &str, threads: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }
}

impl Deref for BackgroundRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("taken only on drop")
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
