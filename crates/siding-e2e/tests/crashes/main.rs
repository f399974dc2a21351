//! Whoever is killed, at whatever moment: the record tells the truth, and nothing is left behind.

mod crowd;
mod fixtures;
mod handed;
mod harness;
mod monitor;
mod notices;
mod points;
mod random;
mod ready;
mod rescue;
mod sessions;
mod state;
mod tasks;
mod together;
mod unseen;

/// A number that the environment may choose.
fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}
