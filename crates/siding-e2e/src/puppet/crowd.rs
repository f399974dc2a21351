//! Puppets that are hard to catch because they are many, or never the same.

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use siding_e2e::tree::Dice;

use super::actor::Actor;
use super::kernel::{self, Side};
use super::perform::hang;
use super::streams::{BEAT, Heart};

/// Most processes a storm may have.
const BOMB_MAX: u64 = 4096;
/// A refilling storm makes at most this many times its size in all.
const REFILL_TIMES: i32 = 200;
/// Pause of a member that found no room.
const NO_ROOM: Duration = Duration::from_millis(5);

/// Runs from number to number: each process lives for one fork. The last one exits.
pub(super) fn hop(actor: &mut Actor, time: Duration, beat: Option<&Path>) -> ! {
    let heart =
        beat.map(|path| Heart::open(path).unwrap_or_else(|error| actor.cannot("hop", &error)));
    actor.announce("hop", &[("ms", time.as_millis().to_string())]);
    let begun = Instant::now();
    let mut last_beat = begun;
    let mut hops = 0_u64;
    while begun.elapsed() < time && !actor.must_end() {
        match kernel::fork() {
            Ok(Side::Parent(_)) => kernel::exit(0),
            Ok(Side::Child) => {
                actor.born();
                let _cannot_fail = rustix::process::setsid();
                hops += 1;
            }
            // The table is full of our own zombies; whoever reaps makes room.
            Err(_) => std::thread::sleep(NO_ROOM),
        }
        if let Some(heart) = heart.as_ref().filter(|_| last_beat.elapsed() >= BEAT) {
            heart.beat();
            last_beat = Instant::now();
        }
    }
    actor.note("hopped", &[("hops", hops.to_string())]);
    kernel::exit(0)
}

/// The shared state of a storm.
#[derive(Debug, Clone, Copy)]
struct Storm {
    /// Numbers ever handed out; the first of them each open a new slot.
    begun: &'static AtomicI32,
    /// One slot a process: its number, or that of who is just filling it. A slot whose process
    /// was reaped is free again, as a slot of RLIMIT_NPROC is.
    slots: &'static [AtomicI32],
    setsid: bool,
    refill: bool,
}

/// Fork storm; the caller is its first member.
pub(super) fn bomb(actor: &mut Actor, most: u64, setsid: bool, refill: bool) -> ! {
    if most == 0 || most > BOMB_MAX {
        actor.cannot("bomb", &format!("wants 1 to {BOMB_MAX} processes"));
    }
    let words = match kernel::shared_words(1 + most as usize) {
        Ok(words) => words,
        Err(error) => actor.cannot("bomb", &error),
    };
    let storm = Storm { begun: &words[0], slots: &words[1..], setsid, refill };
    storm.begun.store(1, Ordering::SeqCst);
    storm.slots[0].store(actor.me().pid as i32, Ordering::SeqCst);
    actor.announce("bomb", &[("most", most.to_string())]);
    while !actor.must_end() {
        match storm.free_slot(actor) {
            Some(slot) => storm.fork_into(actor, slot),
            None if refill => std::thread::sleep(NO_ROOM),
            None => hang(),
        }
    }
    kernel::exit(0)
}

impl Storm {
    /// Takes a slot for a new process: a new one while there are, else, when it may refill, a
    /// random one if that has fallen free.
    fn free_slot(&self, actor: &Actor) -> Option<&'static AtomicI32> {
        let me = actor.me().pid as i32;
        let size = self.slots.len() as i32;
        let bound = if self.refill { size.saturating_mul(REFILL_TIMES) } else { size };
        if self.begun.load(Ordering::SeqCst) < size {
            let number = self.begun.fetch_add(1, Ordering::SeqCst);
            if let Some(slot) = self.slots.get(number as usize) {
                slot.store(me, Ordering::SeqCst);
                return Some(slot);
            }
        }
        if !self.refill || self.begun.load(Ordering::SeqCst) >= bound {
            return None;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let mut dice = Dice((now.tv_nsec as u64) << 32 | me as u64);
        let slot = &self.slots[dice.below(self.slots.len() as u64) as usize];
        let holder = slot.load(Ordering::SeqCst);
        if holder != 0 && kernel::in_use(holder) {
            return None;
        }
        slot.compare_exchange(holder, me, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        self.begun.fetch_add(1, Ordering::SeqCst);
        Some(slot)
    }

    fn fork_into(&self, actor: &mut Actor, slot: &AtomicI32) {
        match kernel::fork() {
            Ok(Side::Child) => {
                actor.born();
                slot.store(actor.me().pid as i32, Ordering::SeqCst);
                if self.setsid {
                    let _cannot_fail = rustix::process::setsid();
                }
                actor.note("bomb", &[]);
            }
            Ok(Side::Parent(_)) => {}
            Err(_) => {
                slot.store(0, Ordering::SeqCst);
                std::thread::sleep(NO_ROOM);
            }
        }
    }
}
