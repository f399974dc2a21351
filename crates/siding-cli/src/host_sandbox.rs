//! The sandbox in which a host may run this call.

/// The hint for a command that its host runs in a sandbox.
pub(crate) const HINT: &str = "this command runs in the sandbox of its host, in which siding \
     can start nothing; siding's MCP tool `run` starts commands outside, and siding supervises the \
     host's own background commands";

/// Variables that hosts set for commands in their sandbox: Claude Code the first one, Codex the
/// others.
const SANDBOX_VARIABLES: [&str; 3] =
    ["SANDBOX_RUNTIME", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"];

/// Returns whether a host runs this command in its sandbox. Such a sandbox typically refuses Unix
/// sockets, hides the processes of the host, and makes the state directory read-only, so that no
/// task can be started.
pub(crate) fn contains_this_call() -> bool {
    SANDBOX_VARIABLES.iter().any(|name| std::env::var_os(name).is_some_and(|set| !set.is_empty()))
}
