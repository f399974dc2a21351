//! Runs several contenders in turns, so that a change in the machine's load affects all of them.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

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

/// Returns a contender that reports the start and the end of each of its runs, which may last
/// minutes.
pub(super) fn with_progress<'a>(name: String, mut contender: Contender<'a>) -> Contender<'a> {
    Box::new(move || {
        eprintln!("    running {name}");
        let took = contender()?;
        eprintln!("    took {:.1} s", took.as_secs_f64());
        Ok(took)
    })
}

/// Runs a program to its end and returns the time from its start until this process detected the
/// end. Returns an error if the program failed.
pub(super) fn time_command(command: &mut Command) -> Result<Duration> {
    let started = Instant::now();
    let status = command.status()?;
    let took = started.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(took)
}

/// Starts `count` calls concurrently, and returns the time from the first start until this process
/// detected the last end. Returns an error if a call failed.
pub(super) fn time_concurrent_calls(
    count: usize,
    start: impl Fn() -> std::io::Result<Child>,
) -> Result<Duration> {
    let started = Instant::now();
    let calls = (0..count).map(|_| start()).collect::<std::io::Result<Vec<_>>>()?;
    for mut call in calls {
        let status = call.wait()?;
        ensure!(status.success(), "a call ended with {status}");
    }
    Ok(started.elapsed())
}
