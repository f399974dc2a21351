//! The verbs whose processes are hard to kill, because they are many or keep changing their pid.

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use siding_e2e::tree_plan::SplitMix64;

use super::executor::hang;
use super::puppet_process::PuppetProcess;
use super::stream_verbs::{BEAT_INTERVAL, BeatFile};
use super::syscalls::{self, ForkSide};

/// Maximum number of concurrent processes in a fork storm.
const MAX_BOMB_PROCESSES: u64 = 4096;
/// A storm with `--refill` creates at most this many processes per slot, averaged over the slots,
/// so that it ends.
const MAX_REFILL_FACTOR: i32 = 200;
/// Pause of a process after a failed fork.
const FORK_RETRY_DELAY: Duration = Duration::from_millis(5);

/// Forks repeatedly and exits in the parent, so that the pid changes with each fork. The last child
/// exits when `time` has passed or the sandbox is being cleaned up.
pub(super) fn hop(actor: &mut PuppetProcess, time: Duration, beat: Option<&Path>) -> ! {
    let heart = beat
        .map(|path| BeatFile::open(path).unwrap_or_else(|error| actor.fail_verb("hop", &error)));
    actor.announce("hop", &[("ms", time.as_millis().to_string())]);
    let started_at = Instant::now();
    let mut last_beat = started_at;
    let mut hops = 0_u64;
    while started_at.elapsed() < time && !actor.shutdown_requested() {
        match syscalls::fork() {
            Ok(ForkSide::Parent(_)) => syscalls::exit(0),
            Ok(ForkSide::Child) => {
                actor.init_after_fork();
                let _best_effort = rustix::process::setsid();
                hops += 1;
            }
            // Zombies of earlier hops can exhaust the process limit until their subreaper or init
            // reaps them.
            Err(_) => std::thread::sleep(FORK_RETRY_DELAY),
        }
        if let Some(heart) = heart.as_ref().filter(|_| last_beat.elapsed() >= BEAT_INTERVAL) {
            heart.append_beat();
            last_beat = Instant::now();
        }
    }
    actor.log_step("hopped", &[("hops", hops.to_string())]);
    syscalls::exit(0)
}

/// The state that all processes of a storm share.
#[derive(Debug, Clone, Copy)]
struct ForkStorm {
    /// Number of slots claimed so far, including the first process and failed forks. While it is
    /// below the number of slots, the next process takes the slot with this index.
    started: &'static AtomicI32,
    /// One slot per process: its pid, the pid of the process that is about to fork it, or 0 if the
    /// slot is unused or its fork failed. A slot becomes free when its process is reaped, just as
    /// RLIMIT_NPROC counts a process until then.
    slots: &'static [AtomicI32],
    setsid: bool,
    refill: bool,
}

/// Starts a fork storm with the caller as its first member.
pub(super) fn fork_bomb(
    actor: &mut PuppetProcess,
    max_processes: u64,
    setsid: bool,
    refill: bool,
) -> ! {
    if max_processes == 0 || max_processes > MAX_BOMB_PROCESSES {
        actor.fail_verb("bomb", &format!("wants 1 to {MAX_BOMB_PROCESSES} processes"));
    }
    let words = match syscalls::shared_words(1 + max_processes as usize) {
        Ok(words) => words,
        Err(error) => actor.fail_verb("bomb", &error),
    };
    let storm = ForkStorm { started: &words[0], slots: &words[1..], setsid, refill };
    storm.started.store(1, Ordering::SeqCst);
    storm.slots[0].store(actor.identity().pid as i32, Ordering::SeqCst);
    actor.announce("bomb", &[("most", max_processes.to_string())]);
    while !actor.shutdown_requested() {
        match storm.free_slot(actor) {
            Some(slot) => storm.fork_into(actor, slot),
            None if refill => std::thread::sleep(FORK_RETRY_DELAY),
            None => hang(),
        }
    }
    syscalls::exit(0)
}

impl ForkStorm {
    /// Claims a slot for a new process: a slot that was never used, if there is one. Otherwise,
    /// with `--refill`, picks a random slot and claims it if it has become free.
    fn free_slot(&self, actor: &PuppetProcess) -> Option<&'static AtomicI32> {
        let me = actor.identity().pid as i32;
        let size = self.slots.len() as i32;
        let bound = if self.refill { size.saturating_mul(MAX_REFILL_FACTOR) } else { size };
        if self.started.load(Ordering::SeqCst) < size {
            let number = self.started.fetch_add(1, Ordering::SeqCst);
            if let Some(slot) = self.slots.get(number as usize) {
                slot.store(me, Ordering::SeqCst);
                return Some(slot);
            }
        }
        if !self.refill || self.started.load(Ordering::SeqCst) >= bound {
            return None;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let mut rng = SplitMix64((now.tv_nsec as u64) << 32 | me as u64);
        let slot = &self.slots[rng.next_below(self.slots.len() as u64) as usize];
        let holder = slot.load(Ordering::SeqCst);
        if holder != 0 && syscalls::is_pid_in_use(holder) {
            return None;
        }
        slot.compare_exchange(holder, me, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        self.started.fetch_add(1, Ordering::SeqCst);
        Some(slot)
    }

    fn fork_into(&self, actor: &mut PuppetProcess, slot: &AtomicI32) {
        match syscalls::fork() {
            Ok(ForkSide::Child) => {
                actor.init_after_fork();
                slot.store(actor.identity().pid as i32, Ordering::SeqCst);
                if self.setsid {
                    let _best_effort = rustix::process::setsid();
                }
                actor.log_step("bomb", &[]);
            }
            Ok(ForkSide::Parent(_)) => {}
            Err(_) => {
                slot.store(0, Ordering::SeqCst);
                std::thread::sleep(FORK_RETRY_DELAY);
            }
        }
    }
}
