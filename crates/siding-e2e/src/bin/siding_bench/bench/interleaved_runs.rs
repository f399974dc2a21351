//! Runs several contenders in turns.

use std::time::Duration;

use anyhow::Result;

use super::samples::Samples;

/// One contender: runs once and returns how long that took.
pub(super) type Contender<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// The number of rounds; each contender runs once per round.
#[derive(Debug, Clone, Copy)]
pub(super) struct InterleavedRounds {
    /// Rounds at the start that fill the caches for all contenders, and whose times are discarded.
    pub(super) warm_up: usize,
    pub(super) counted: usize,
}

/// Runs all contenders in turns. Each round starts with another contender, so that none always runs
/// after the same one.
pub(super) fn run_rounds(
    rounds: InterleavedRounds,
    contenders: &mut [Contender<'_>],
) -> Result<Vec<Samples>> {
    let mut samples = vec![Samples::default(); contenders.len()];
    for round in 0..rounds.warm_up + rounds.counted {
        for offset in 0..contenders.len() {
            let index = (round + offset) % contenders.len();
            let took = contenders[index]()?;
            if round >= rounds.warm_up {
                samples[index].push_time(took);
            }
        }
    }
    Ok(samples)
}

/// Runs a program, and returns the time until its successful exit was known.
pub(super) fn time_command(command: &mut std::process::Command) -> Result<Duration> {
    let started = std::time::Instant::now();
    let status = command.status()?;
    let took = started.elapsed();
    anyhow::ensure!(status.success(), "{command:?} ended with {status}");
    Ok(took)
}
