//! Whoever is killed, at whatever moment: the record tells the truth, and nothing is left behind.

mod crowd;
mod fixtures;
mod harness;
mod points;
mod random;
mod rescue;
mod sessions;
mod state;
mod tasks;
