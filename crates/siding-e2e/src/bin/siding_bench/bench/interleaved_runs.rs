//! Runs several contenders in turns, so that a change in the machine's load affects all of them.

use std::time::Duration;

use anyhow::Result;

use super::samples::Samples;

/// A program or function under comparison. Each call runs it once and returns the duration.
pub(super) type Contender<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// The number of rounds; each contender runs once per round.
#[derive(Debug, Clone, Copy)]
pub(super) struct InterleavedRounds {
    /// Rounds at the start that fill the caches for all contenders, and whose times are discarded.
    pub(super) warm_up: usize,
    pub(super) counted: usize,
}

/// Runs all contenders in turns. Each round starts with a different contender, so that no contender
/// always runs after the same predecessor.
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

/// Runs a program to its end and returns the time from its start until this process detected the
/// end. Returns an error if the program failed.
pub(super) fn time_command(command: &mut std::process::Command) -> Result<Duration> {
    let started = std::time::Instant::now();
    let status = command.status()?;
    let took = started.elapsed();
    anyhow::ensure!(status.success(), "{command:?} ended with {status}");
    Ok(took)
}
