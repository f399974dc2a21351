//! Which ended tasks may be deleted: by the retention rule, or at a person's request
//! ([`RemovalFacts::refusal`]).
//!
//! The retention rule is a pure function from the existing ended tasks to those to delete. The rule
//! uses the recorded end of a task, not the times of files, and never selects a task that may still
//! have processes.

use std::time::Duration;

use crate::process::UnixMs;
use crate::size::Bytes;

/// An ended task, as input of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedTask<Id> {
    /// Id that is returned if the task is to be deleted.
    pub id: Id,
    /// Time of the end. A time in the future, for example after the clock was set back, is treated
    /// as the present.
    pub ended_at: UnixMs,
    /// Disk usage of the task's directory.
    pub bytes: Bytes,
    /// Whether the task must be kept whatever the limits are. The reaper sets this for a task that
    /// may still have processes.
    pub must_be_kept: bool,
    /// Whether the task has unacknowledged notices, and for how long they are kept.
    pub unread_notices: UnreadNotices,
}

/// Whether a task has notices that its session has not acknowledged, and for how long the session
/// can request them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadNotices {
    /// The task has no unread notices.
    NoNotices,
    /// The session is alive, so it can request the notices at any time. No age limit applies to the
    /// task.
    ForLiveSession,
    /// The session is over and may be resumed, or is the implicit one, which has no owner. The age
    /// limit for ended tasks applies to the task.
    ForSession,
}

/// Factor for the limits on number and size that apply to tasks with unread notices. The factor
/// bounds the space for tasks whose notices are never requested.
const UNREAD_LIMIT_FACTOR: u64 = 2;

/// Limits on the ended tasks that are kept. A limit of zero keeps only the tasks to which the limit
/// does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Maximum time for which an ended task is kept.
    pub age: Duration,
    /// Maximum number of ended tasks that are kept.
    pub tasks: u32,
    /// Maximum disk space for the directories of all ended tasks together.
    pub bytes: Bytes,
}

impl Default for RetentionLimits {
    /// Returns seven days, 1,000 tasks, 2 GiB.
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 60 * 60), tasks: 1_000, bytes: Bytes::gib(2) }
    }
}

/// Returns the tasks to delete, in the order of deletion.
///
/// In each of two groups, the oldest tasks come first, and tasks are taken only until the limits
/// hold. The first group has the tasks without unread notices, and those that ended more than the
/// maximum age ago and whose session is not alive. The second group, other tasks with unread
/// notices, follows only while the remaining tasks exceed twice the limits. A task with [`EndedTask::must_be_kept`] is never returned, although
/// its size is counted: such tasks alone may exceed the limits. Tasks that ended in the same
/// millisecond are ordered by id, so that two concurrent cleanups delete the same tasks.
#[must_use]
pub fn expired_tasks<Id: Copy + Ord>(
    ended: &[EndedTask<Id>],
    limits: &RetentionLimits,
    now: UnixMs,
) -> Vec<Id> {
    let mut count = ended.len();
    let mut bytes = ended.iter().fold(0_u64, |sum, task| sum.saturating_add(task.bytes.0));
    let mut deletable: Vec<_> = ended.iter().filter(|task| !task.must_be_kept).collect();
    deletable.sort_unstable_by_key(|task| (task.ended_at, task.id));
    let too_old = |task: &EndedTask<Id>| age_at(task.ended_at, now) >= limits.age;
    let is_kept = |task: &EndedTask<Id>| match task.unread_notices {
        UnreadNotices::NoNotices => false,
        UnreadNotices::ForLiveSession => true,
        UnreadNotices::ForSession => !too_old(task),
    };
    let (unread, read): (Vec<_>, Vec<_>) = deletable.into_iter().partition(|task| is_kept(task));

    let mut delete = Vec::new();
    let mut take = |from: Vec<&EndedTask<Id>>, times: u64, by_age: bool| {
        let tasks = usize::try_from(u64::from(limits.tasks).saturating_mul(times));
        let tasks = tasks.unwrap_or(usize::MAX);
        let most = limits.bytes.0.saturating_mul(times);
        for task in from {
            if count <= tasks && bytes <= most && !(by_age && too_old(task)) {
                break;
            }
            delete.push(task.id);
            count -= 1;
            bytes = bytes.saturating_sub(task.bytes.0);
        }
    };
    take(read, 1, true);
    take(unread, UNREAD_LIMIT_FACTOR, false);
    delete
}

/// The facts about a task that decide whether the task is removed at a person's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalFacts {
    /// Whether the task has not ended.
    pub is_live: bool,
    /// Whether processes of the task may still run.
    pub may_have_processes: bool,
    /// Number of notices that the task's session has not acknowledged.
    pub undelivered: usize,
    /// Whether the request includes notices that were not delivered.
    pub removes_undelivered: bool,
}

/// The reason why a task is not removed; completes the sentence "the task …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RemovalRefusal {
    /// The task runs, so its shim would write to removed files.
    #[error("has not ended")]
    Live,
    /// Without the record of the task, no command could find and end these processes.
    #[error("may still have processes")]
    Processes,
    /// The session would never learn of these events.
    #[error("has {count} {} been delivered", Self::notices_have_not(*count))]
    Undelivered {
        /// Number of notices that were not delivered.
        count: usize,
    },
}

impl RemovalRefusal {
    const fn notices_have_not(count: usize) -> &'static str {
        if count == 1 { "notice that has not" } else { "notices that have not" }
    }
}

impl RemovalFacts {
    /// Returns the reason to refuse the removal, or `None` if the task may be removed.
    #[must_use]
    pub const fn refusal(self) -> Option<RemovalRefusal> {
        if self.is_live {
            Some(RemovalRefusal::Live)
        } else if self.may_have_processes {
            Some(RemovalRefusal::Processes)
        } else if self.undelivered > 0 && !self.removes_undelivered {
            Some(RemovalRefusal::Undelivered { count: self.undelivered })
        } else {
            None
        }
    }
}

/// Returns whether a time is at least `age` ago. The result is false for a time in the future, for
/// example after the clock was set back.
#[must_use]
pub fn is_older_than(at: UnixMs, age: Duration, now: UnixMs) -> bool {
    at <= now && self::age_at(at, now) >= age
}

fn age_at(at: UnixMs, now: UnixMs) -> Duration {
    // The difference of two `i64` values can overflow an `i64`.
    let ms = i128::from(now.0) - i128::from(at.0);
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HOUR_MS: i64 = 60 * 60 * 1000;
    const NOW: UnixMs = UnixMs(1_000 * HOUR_MS);

    fn ended_task(id: u32, hours_ago: i64, bytes: u64) -> EndedTask<u32> {
        let (at, bytes) = (UnixMs(NOW.0 - hours_ago * HOUR_MS), Bytes(bytes));
        EndedTask {
            id,
            ended_at: at,
            bytes,
            must_be_kept: false,
            unread_notices: UnreadNotices::NoNotices,
        }
    }

    fn limits(hours: u64, tasks: u32, bytes: u64) -> RetentionLimits {
        RetentionLimits { age: Duration::from_secs(hours * 3600), tasks, bytes: Bytes(bytes) }
    }

    #[test]
    fn only_an_ended_task_without_processes_is_removed_on_request() {
        let facts = RemovalFacts {
            is_live: false,
            may_have_processes: false,
            undelivered: 0,
            removes_undelivered: false,
        };
        assert_eq!(facts.refusal(), None);
        let undelivered = RemovalFacts { undelivered: 2, ..facts };
        let refusal = undelivered.refusal().expect("the notices would be lost");
        assert_eq!(refusal.to_string(), "has 2 notices that have not been delivered");
        let forced = RemovalFacts { removes_undelivered: true, ..undelivered };
        assert_eq!(forced.refusal(), None);
        let held = RemovalFacts { may_have_processes: true, ..forced };
        assert_eq!(held.refusal(), Some(RemovalRefusal::Processes));
        assert_eq!(RemovalFacts { is_live: true, ..held }.refusal(), Some(RemovalRefusal::Live));
    }

    #[test]
    fn nothing_expires_within_all_limits() {
        let tasks = [ended_task(1, 9, 10), ended_task(2, 1, 10)];
        assert!(expired_tasks(&tasks, &limits(10, 2, 20), NOW).is_empty());
        assert!(expired_tasks::<u32>(&[], &limits(0, 0, 0), NOW).is_empty());
    }

    #[test]
    fn each_limit_expires_the_oldest_first() {
        let tasks = [ended_task(3, 1, 10), ended_task(1, 9, 10), ended_task(2, 5, 10)];
        assert_eq!(expired_tasks(&tasks, &limits(5, 9, 99), NOW), [1, 2]);
        assert_eq!(expired_tasks(&tasks, &limits(99, 1, 99), NOW), [1, 2]);
        assert_eq!(expired_tasks(&tasks, &limits(99, 9, 25), NOW), [1]);
        assert_eq!(expired_tasks(&tasks, &limits(99, 0, 99), NOW), [1, 2, 3]);
    }

    #[test]
    fn a_task_with_a_live_owner_is_kept_and_counted() {
        let mut tasks = [ended_task(1, 99, 100), ended_task(2, 5, 10), ended_task(3, 1, 10)];
        tasks[0].must_be_kept = true;
        assert_eq!(expired_tasks(&tasks, &limits(10, 9, 110), NOW), [2]);
        assert_eq!(expired_tasks(&tasks, &limits(0, 0, 0), NOW), [2, 3]);
    }

    fn with_unread_notices(task: EndedTask<u32>, unread: UnreadNotices) -> EndedTask<u32> {
        EndedTask { unread_notices: unread, ..task }
    }

    #[test]
    fn tasks_without_unread_notices_expire_first() {
        let tasks = [
            with_unread_notices(ended_task(1, 9, 10), UnreadNotices::ForSession),
            ended_task(2, 5, 10),
            ended_task(3, 1, 10),
        ];
        assert_eq!(expired_tasks(&tasks, &limits(99, 2, 99), NOW), [2]);
        assert_eq!(expired_tasks(&tasks, &limits(99, 1, 99), NOW), [2, 3]);
        assert_eq!(expired_tasks(&tasks, &limits(99, 9, 15), NOW), [2, 3]);
    }

    #[test]
    fn unread_notices_are_kept_while_they_can_be_requested() {
        let old = ended_task(1, 99, 10);
        let kept = |news| {
            expired_tasks(&[with_unread_notices(old, news)], &limits(10, 9, 99), NOW).is_empty()
        };
        assert!(!kept(UnreadNotices::NoNotices));
        assert!(
            !kept(UnreadNotices::ForSession),
            "an ended session keeps notices only up to the age limit"
        );
        assert!(kept(UnreadNotices::ForLiveSession));
    }

    #[test]
    fn unread_notices_are_bounded_at_twice_the_limits() {
        let tasks: Vec<_> = (1..=5)
            .map(|id| {
                with_unread_notices(
                    ended_task(id, 9 - i64::from(id), 10),
                    UnreadNotices::ForLiveSession,
                )
            })
            .collect();
        assert!(expired_tasks(&tasks, &limits(99, 3, 99), NOW).is_empty());
        assert_eq!(expired_tasks(&tasks, &limits(99, 2, 99), NOW), [1]);
        assert_eq!(expired_tasks(&tasks, &limits(99, 9, 10), NOW), [1, 2, 3]);
        assert_eq!(expired_tasks(&tasks, &limits(0, 0, 0), NOW), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_clock_set_back_expires_nothing() {
        let future = ended_task(1, -500, 1);
        assert!(expired_tasks(&[future], &limits(1, 9, 99), NOW).is_empty());
        let extreme = EndedTask { ended_at: UnixMs(i64::MIN), ..future };
        assert_eq!(expired_tasks(&[extreme], &limits(1, 9, 99), UnixMs(i64::MAX)), [1]);
    }

    #[test]
    fn the_default_limits_are_the_documented_ones() {
        assert_eq!(RetentionLimits::default(), limits(7 * 24, 1000, 2 << 30));
    }

    fn any_tasks() -> impl Strategy<Value = Vec<EndedTask<u32>>> {
        let news = prop_oneof![
            3 => Just(UnreadNotices::NoNotices),
            1 => Just(UnreadNotices::ForSession),
            1 => Just(UnreadNotices::ForLiveSession),
        ];
        let row = (-5_i64..50, 0_u64..50, any::<bool>(), news);
        prop::collection::vec(row, 0..30).prop_map(|rows| {
            let numbered = (0..).zip(rows);
            numbered
                .map(|(id, (hours, bytes, must_be_kept, unread))| EndedTask {
                    must_be_kept,
                    unread_notices: unread,
                    ..ended_task(id, hours, bytes)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn the_retention_rules_hold(
            tasks in any_tasks(),
            (hours, count, bytes) in (0_u64..60, 0_u32..30, 0_u64..900),
        ) {
            let limits = limits(hours, count, bytes);
            let expired_ids = expired_tasks(&tasks, &limits, NOW);
            let set: BTreeSet<_> = expired_ids.iter().copied().collect();
            let find = |id: &u32| tasks.iter().find(|task| task.id == *id).expect("a known id");
            let too_old = |task: &EndedTask<u32>| age_at(task.ended_at, NOW) >= limits.age;
            let is_read = |task: &&EndedTask<u32>| match task.unread_notices {
                UnreadNotices::NoNotices => true,
                UnreadNotices::ForLiveSession => false,
                UnreadNotices::ForSession => too_old(task),
            };
            let fits = |kept: &[&EndedTask<u32>], times: u64| {
                kept.len() as u64 <= u64::from(count) * times
                    && kept.iter().map(|task| task.bytes.0).sum::<u64>() <= bytes * times
            };

            // The result has no duplicates and no task with a live owner. Tasks without unread
            // notices precede the others, and within each group the oldest come first.
            prop_assert_eq!(set.len(), expired_ids.len());
            prop_assert!(expired_ids.iter().all(|id| !find(id).must_be_kept));
            prop_assert!(expired_ids.is_sorted_by_key(|id| (!is_read(&find(id)), find(id).ended_at, *id)));
            // No deletable task that is kept is older than a deleted task of its group.
            let kept: Vec<_> = tasks.iter().filter(|task| !set.contains(&task.id)).collect();
            for read in [true, false] {
                let stays = kept.iter().filter(|t| !t.must_be_kept && is_read(t) == read);
                let goes = expired_ids.iter().map(find).filter(|t| is_read(t) == read);
                if let (Some(stays), Some(goes)) =
                    (stays.map(|t| (t.ended_at, t.id)).min(), goes.map(|t| (t.ended_at, t.id)).max())
                {
                    prop_assert!(goes < stays);
                }
            }
            // The remaining tasks exceed the limits only if all of them have live owners or unread
            // notices. They exceed twice the limits only if all of them have live owners.
            let deletable = |read: bool| kept.iter().any(|t| !t.must_be_kept && is_read(t) == read);
            prop_assert!(fits(&kept, 1) || !deletable(true));
            prop_assert!(fits(&kept, 2) || !deletable(false));
            prop_assert!(!kept.iter().any(|t| !t.must_be_kept && is_read(t) && too_old(t)));
            // The last deletion was necessary.
            if let Some(last) = expired_ids.last().map(find) {
                let mut with_last = kept.clone();
                with_last.push(last);
                let times = if is_read(&last) { 1 } else { 2 };
                prop_assert!(!fits(&with_last, times) || (is_read(&last) && too_old(last)));
            }
            // A second run deletes nothing more.
            let remaining: Vec<_> = kept.into_iter().copied().collect();
            prop_assert!(expired_tasks(&remaining, &limits, NOW).is_empty());
        }
    }
}
