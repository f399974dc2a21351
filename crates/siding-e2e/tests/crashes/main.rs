//! Crash tests. They kill shims, clients, hosts and processes of tasks, at failpoints and at random
//! moments. Afterwards, each recorded task gets exactly one outcome, its journal can be replayed,
//! and a stop leaves no process of the task.

mod concurrency;
mod failpoints;
mod forged_journals;
mod host_kills;
mod mass_takeover;
mod monitor;
mod notices;
mod random_kills;
mod readiness;
mod sessions;
mod shared_shim;
mod state;
mod takeover;
mod test_tasks;
mod unseen;

/// Reads a number from an environment variable, or returns `default` if the variable is not set.
fn env_number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}
