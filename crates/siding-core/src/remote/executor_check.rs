//! The check whether an executor can run tasks.

use siding_model::executor::ExecutorSettings;

/// The result of a connection to an executor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecutorCheck {
    /// Whether the executor can run tasks now.
    pub reachable: bool,
    /// Version of siding there; `None` if it is unknown.
    pub version: Option<String>,
    /// Name of the machine, as it calls itself; `None` if it is unknown. The text is untrusted.
    pub machine: Option<String>,
    /// The guarantees that are weaker there, each in a few words. The texts are untrusted.
    pub weaker: Vec<String>,
    /// The last message of ssh, or the reason why the executor cannot run tasks. The text is
    /// untrusted.
    pub error: Option<String>,
}

/// Connects to the executor with this name, and returns what is known about it.
#[must_use]
pub fn check(executor: &ExecutorSettings, name: &str) -> ExecutorCheck {
    let host = &executor.host;
    let error = format!("this siding cannot connect to `{name}` (`{host}`) yet");
    ExecutorCheck { error: Some(error), ..ExecutorCheck::default() }
}
