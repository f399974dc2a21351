//! Keeping an adopted process that cannot be put on record, on a full disk, say.
//!
//! Nobody else keeps it, so its deadline and the end of its session hold all the same. Nothing can be
//! recorded first: the host's output file is the only place that tells of the end.

use std::os::fd::AsFd as _;
use std::time::Duration;

use siding_core::sys::{clock, poll};
use siding_model::duration;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TreeLiveness;
use siding_model::process::MonotonicMs;

use crate::adopt::Held;
use crate::ending::Ending;
use crate::hosted::Hosted;
use crate::kin::{Kin, Stranger};
use crate::lease::Lease;

/// Time between two tries to put a process on record, in milliseconds. A full disk stays full for
/// minutes.
const AGAIN_MS: u64 = 2_000;

/// Keeps the process until it may be tried again to put it on record. Returns whether there is still
/// anything to keep.
pub(crate) fn keep(held: &Held, lease: &mut Lease) -> bool {
    let spec = &held.adoption.spec;
    let deadline = held.adoption.at.plus_ms(spec.deadline_ms);
    let due = [Some(clock::monotonic_now().plus_ms(AGAIN_MS)), Some(deadline), lease.wake_at()];
    let until = due.into_iter().flatten().min().unwrap_or(deadline);
    let leader = (!held.leader.is_dead()).then(|| held.leader.as_fd());
    let owner = lease.source();
    let fds: Vec<_> = leader.into_iter().chain(owner).collect();
    let ready =
        poll::wait_readable(&fds, Some(until.ms_since(clock::monotonic_now()))).unwrap_or_default();
    let owner_ended = owner.is_some() && ready.last() == Some(&true);
    if owner_ended {
        lease.owner_ended(&held.root, spec);
    }
    let now = clock::monotonic_now();
    if now >= deadline {
        let limit = duration::format_duration(Duration::from_millis(spec.deadline_ms));
        end(held, &format!("stopped at its deadline of {limit}"));
    } else if lease.is_over(&held.root, spec, now) {
        end(held, "stopped by session");
    }
    !held.leader.is_dead() || held.has_left_any()
}

/// Ends the whole tree, and says so in the host's file.
fn end(held: &Held, cause: &str) {
    let spec = &held.adoption.spec;
    let state = TaskState::new(held.accepted());
    let mut kin = Kin::strays(&held.root, &state, Stranger::Gone, &[], None);
    let mut ending = Ending::default();
    ending.signal(&kin, &held.root, &state, spec.signal);
    let until = clock::monotonic_now().plus_ms(spec.grace_ms);
    if !ends_by(until, &mut kin, held, &state) {
        ending.kill(&mut kin, &held.root, &state);
    }
    let count = ending.report().map_or(0, |report| report.ended_total);
    let noun = if count == 1 { "process" } else { "processes" };
    let text = format!("{cause}; ended {count} {noun}; the state directory took no record of it");
    if let Some(mut output) = held.file.as_ref().and_then(Hosted::of_host) {
        output.say(&text);
    }
}

/// Whether nothing of the tree is left by then.
fn ends_by(until: MonotonicMs, kin: &mut Kin, held: &Held, state: &TaskState) -> bool {
    loop {
        if kin.look_now(&held.root, state).tree == TreeLiveness::Empty {
            return true;
        }
        let left = until.ms_since(clock::monotonic_now());
        if left == 0 {
            return false;
        }
        let _looked_at_below = poll::wait_readable(&kin.sources(), Some(left));
    }
}
