//! The shim's one loop: wait for something to happen, and let the keepers attend to it.

use std::os::fd::{AsFd, BorrowedFd};

use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, memory, poll};

use crate::keeper::{Keeper, Turn};

/// What a shim keeps.
#[derive(Debug)]
pub(crate) struct Kept {
    keepers: Vec<Keeper>,
    signals: SignalFd,
    /// Whether memory was used that is not needed again.
    is_spent: bool,
}

impl Kept {
    /// Returns what is kept from now on, with the signals that are read from it.
    pub(crate) fn new(keepers: Vec<Keeper>, signals: SignalFd) -> Self {
        // A command may end at once: what its start has used is let go of with the first look at a
        // silent one.
        Self { keepers, signals, is_spent: false }
    }

    /// Has what was used until now let go of at once.
    pub(crate) fn spent(self) -> Self {
        Self { is_spent: true, ..self }
    }
}

/// Keeps tasks until all have ended.
///
/// It hardly uses the stack, and neither does the wait: what lies there stays in memory for as long as a
/// task runs. Whatever needs more is a function of its own.
pub(crate) fn keep(Kept { mut keepers, signals, mut is_spent }: Kept) {
    keepers.iter_mut().for_each(Keeper::arrive);
    loop {
        is_spent |= turn(&mut keepers);
        if keepers.is_empty() {
            return;
        }
        if is_spent {
            // Last: it may be long before this shim wakes again.
            memory::release_unused();
            is_spent = false;
        }
        attend(&mut keepers, &signals);
    }
}

/// Has done what is due by now, and lets those go that have ended. Returns whether memory was used that
/// will not be needed soon.
#[inline(never)]
fn turn(keepers: &mut Vec<Keeper>) -> bool {
    let mut is_spent = false;
    let is_over = |keeper: &mut Keeper| {
        let turn = keeper.turn();
        is_spent |= turn == Turn::Spent;
        turn == Turn::Over
    };
    let ended: Vec<Keeper> = keepers.extract_if(.., is_over).collect();
    // Last, since it waits for the disk.
    ended.into_iter().for_each(Keeper::leave);
    is_spent
}

/// Waits until something is due, and has it attended to. The only place that blocks.
fn attend(keepers: &mut [Keeper], signals: &SignalFd) {
    let wake_at = keepers.iter_mut().filter_map(Keeper::wake_at).min();
    let mut sources: Vec<BorrowedFd<'_>> = vec![signals.as_fd()];
    let mut counts = Vec::with_capacity(keepers.len());
    for keeper in keepers.iter() {
        let own = keeper.sources();
        counts.push(own.len());
        sources.extend(own);
    }
    let timeout = wake_at.map(|at| at.ms_since(clock::monotonic_now()));
    // It can only fail for want of kernel memory; then everything is simply looked at.
    let ready =
        poll::wait_readable(&sources, timeout).unwrap_or_else(|_| vec![true; sources.len()]);
    drop(sources);
    let came = ready[0].then(|| signals.read_pending());
    let mut ready = &ready[1..];
    for (keeper, count) in keepers.iter_mut().zip(counts) {
        let (own, others) = ready.split_at(count);
        ready = others;
        keeper.attend(own, came.as_deref());
    }
}
