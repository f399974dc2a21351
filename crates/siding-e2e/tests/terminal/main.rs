//! Tests of tasks with a terminal, with real programs and real crashes: what the program sees, the
//! keys of agents, the person who takes over, secrets, and the survival of the terminal when its
//! shim is killed. Tests of programs that are not installed are skipped with a message.

mod attach;
mod cast;
mod ends;
mod holder;
mod keys;
mod kill_points;
mod lease;
mod nested;
mod output;
mod password_prompts;
mod programs;
mod queries;
mod secrets;
mod sizes;
mod start;
mod support;

/// Reads a number from an environment variable, or returns `default` if the variable is not set.
fn env_number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}
