//! The shim's one loop: wait for something to happen, and let the keepers attend to it.

use std::os::fd::{AsFd, BorrowedFd};

use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, poll};

use crate::keeper::Keeper;

/// Keeps tasks until all have ended.
pub(crate) fn keep(mut keepers: Vec<Keeper>, signals: &SignalFd) {
    keepers.iter_mut().for_each(Keeper::arrive);
    loop {
        let ended: Vec<Keeper> = keepers.extract_if(.., |keeper| !keeper.turn()).collect();
        // Last, since it waits for the disk.
        ended.into_iter().for_each(Keeper::leave);
        if keepers.is_empty() {
            return;
        }
        attend(&mut keepers, signals);
    }
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
    let timeout = wake_at.map(|at| at.ms_since(clock::mono()));
    // It can only fail for want of kernel memory; then everything is simply looked at.
    let ready = poll::wait(&sources, timeout).unwrap_or_else(|_| vec![true; sources.len()]);
    drop(sources);
    let came = ready[0].then(|| signals.take());
    let mut ready = &ready[1..];
    for (keeper, count) in keepers.iter_mut().zip(counts) {
        let (own, others) = ready.split_at(count);
        ready = others;
        keeper.attend(own, came.as_deref());
    }
}
