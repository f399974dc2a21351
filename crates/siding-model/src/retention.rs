//! Which ended tasks may go.
//!
//! The rule is pure: it is given what is there, and returns what to delete. It judges by when a
//! task ended, never by the time of a file, and never touches a task that somebody still needs.

use std::time::Duration;

use crate::process::Wall;
use crate::size::Bytes;

/// An ended task, as the rule sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended<Id> {
    /// Which task.
    pub id: Id,
    /// When it ended. A time in the future, after the clock was set back, counts as now.
    pub at: Wall,
    /// What its directory takes on disk.
    pub bytes: Bytes,
    /// Whether a reader must not lose it yet: its owner lives and has not seen its end.
    pub owner_live: bool,
}

/// Bounds on what is kept. Zero keeps nothing that may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long an ended task is kept.
    pub age: Duration,
    /// How many ended tasks are kept.
    pub tasks: u32,
    /// How much all of them may take.
    pub bytes: Bytes,
}

impl Default for Limits {
    /// Returns seven days, 1,000 tasks, 2 GiB.
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 60 * 60), tasks: 1_000, bytes: Bytes::gib(2) }
    }
}

/// Returns the tasks to delete, oldest first, so that a deletion cut short took the right ones.
///
/// It goes as far as the limits need and no further: what it returns is a beginning of the list
/// of deletable tasks ordered by their end. A task with [`Ended::owner_live`] is never returned,
/// but counts: with enough of them the limits are exceeded, and nothing is lost. Tasks that ended
/// in the same millisecond are ordered by id, so two cleaners agree.
#[must_use]
pub fn expired<Id: Copy + Ord>(ended: &[Ended<Id>], limits: &Limits, now: Wall) -> Vec<Id> {
    let mut count = ended.len();
    let mut bytes = ended.iter().fold(0_u64, |sum, task| sum.saturating_add(task.bytes.0));
    let mut deletable: Vec<_> = ended.iter().filter(|task| !task.owner_live).collect();
    deletable.sort_unstable_by_key(|task| (task.at, task.id));

    let tasks = usize::try_from(limits.tasks).unwrap_or(usize::MAX);
    let too_old = |task: &Ended<Id>| age(task.at, now) >= limits.age;
    let mut delete = Vec::new();
    for task in deletable {
        if count <= tasks && bytes <= limits.bytes.0 && !too_old(task) {
            break;
        }
        delete.push(task.id);
        count -= 1;
        bytes = bytes.saturating_sub(task.bytes.0);
    }
    delete
}

fn age(at: Wall, now: Wall) -> Duration {
    // The difference of two i64 needs more than an i64.
    let ms = i128::from(now.0) - i128::from(at.0);
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HOUR_MS: i64 = 60 * 60 * 1000;
    const NOW: Wall = Wall(1_000 * HOUR_MS);

    fn task(id: u32, hours_ago: i64, bytes: u64) -> Ended<u32> {
        Ended { id, at: Wall(NOW.0 - hours_ago * HOUR_MS), bytes: Bytes(bytes), owner_live: false }
    }

    fn limits(hours: u64, tasks: u32, bytes: u64) -> Limits {
        Limits { age: Duration::from_secs(hours * 3600), tasks, bytes: Bytes(bytes) }
    }

    #[test]
    fn nothing_goes_while_all_limits_hold() {
        let tasks = [task(1, 9, 10), task(2, 1, 10)];
        assert!(expired(&tasks, &limits(10, 2, 20), NOW).is_empty());
        assert!(expired::<u32>(&[], &limits(0, 0, 0), NOW).is_empty());
    }

    #[test]
    fn each_limit_takes_the_oldest_first() {
        let tasks = [task(3, 1, 10), task(1, 9, 10), task(2, 5, 10)];
        assert_eq!(expired(&tasks, &limits(5, 9, 99), NOW), [1, 2]);
        assert_eq!(expired(&tasks, &limits(99, 1, 99), NOW), [1, 2]);
        assert_eq!(expired(&tasks, &limits(99, 9, 25), NOW), [1]);
        assert_eq!(expired(&tasks, &limits(99, 0, 99), NOW), [1, 2, 3]);
    }

    #[test]
    fn what_a_reader_needs_stays_and_counts() {
        let mut tasks = [task(1, 99, 100), task(2, 5, 10), task(3, 1, 10)];
        tasks[0].owner_live = true;
        assert_eq!(expired(&tasks, &limits(10, 9, 110), NOW), [2]);
        assert_eq!(expired(&tasks, &limits(0, 0, 0), NOW), [2, 3]);
    }

    #[test]
    fn a_clock_set_back_makes_nothing_old() {
        let future = task(1, -500, 1);
        assert!(expired(&[future], &limits(1, 9, 99), NOW).is_empty());
        let extreme = Ended { at: Wall(i64::MIN), ..future };
        assert_eq!(expired(&[extreme], &limits(1, 9, 99), Wall(i64::MAX)), [1]);
    }

    #[test]
    fn the_default_limits_are_the_documented_ones() {
        assert_eq!(Limits::default(), limits(7 * 24, 1000, 2 << 30));
    }

    fn any_tasks() -> impl Strategy<Value = Vec<Ended<u32>>> {
        prop::collection::vec((-5_i64..50, 0_u64..50, any::<bool>()), 0..30).prop_map(|rows| {
            let numbered = (0..).zip(rows);
            numbered
                .map(|(id, (hours, bytes, owner_live))| Ended {
                    owner_live,
                    ..task(id, hours, bytes)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn the_rules_hold(
            tasks in any_tasks(),
            (hours, count, bytes) in (0_u64..60, 0_u32..30, 0_u64..900),
        ) {
            let limits = limits(hours, count, bytes);
            let gone = expired(&tasks, &limits, NOW);
            let set: BTreeSet<_> = gone.iter().copied().collect();
            let find = |id: &u32| tasks.iter().find(|task| task.id == *id).expect("a given task");
            let fits = |kept: &[&Ended<u32>]| {
                kept.len() <= count as usize
                    && kept.iter().map(|task| task.bytes.0).sum::<u64>() <= bytes
                    && !kept.iter().any(|t| !t.owner_live && age(t.at, NOW) >= limits.age)
            };

            // Each at most once, oldest first, none that is needed.
            prop_assert_eq!(set.len(), gone.len());
            prop_assert!(gone.is_sorted_by_key(|id| (find(id).at, *id)));
            prop_assert!(gone.iter().all(|id| !find(id).owner_live));
            // Nothing deletable that stays is older than something that goes.
            let kept: Vec<_> = tasks.iter().filter(|task| !set.contains(&task.id)).collect();
            let oldest_kept = kept.iter().filter(|t| !t.owner_live).map(|t| (t.at, t.id)).min();
            if let (Some(kept), Some(gone)) = (oldest_kept, gone.last().map(find)) {
                prop_assert!((gone.at, gone.id) < kept);
            }
            // The limits hold, unless only what is needed is left.
            prop_assert!(fits(&kept) || kept.iter().all(|task| task.owner_live));
            // The last one had to go.
            if let Some(last) = gone.last().map(find) {
                let mut with_last = kept.clone();
                with_last.push(last);
                prop_assert!(!fits(&with_last));
            }
            // What was decided once is final: nothing more goes.
            let left: Vec<_> = kept.into_iter().copied().collect();
            prop_assert!(expired(&left, &limits, NOW).is_empty());
        }
    }
}
