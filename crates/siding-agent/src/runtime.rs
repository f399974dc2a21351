//! Threads that drive what waits.

use std::io;
use std::ops::Deref;

use tokio::runtime::{Builder, Runtime};

/// A runtime whose end nobody waits for: what still waits then is nobody's, and a name that is being
/// looked up can take half a minute.
#[derive(Debug)]
pub(crate) struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    /// Starts so many threads of this name.
    ///
    /// # Errors
    ///
    /// The operating system's.
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
        self.0.as_ref().expect("it is taken only when the engine is dropped")
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
