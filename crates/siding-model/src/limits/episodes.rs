//! Deduplication of breaches: a limit that stays exceeded over many samples gives one breach.

use super::breach::Breach;
use crate::outcome::LimitKind;

/// Percentage of a limit. Once the limit is exceeded, the value must fall below this percentage
/// before the limit can be breached again.
pub(super) const RECOVERY_PERCENT: u64 = 90;
/// Maximum number of breaches of one limit that one shim records, so that a value that oscillates
/// around its limit for hours does not fill the journal.
pub(super) const MAX_BREACHES_PER_LIMIT: u8 = 16;

/// The recorded breaches of a task, and the limits that are currently exceeded.
#[derive(Debug, Clone, Default)]
pub(super) struct Episodes {
    /// Limits that are currently exceeded.
    exceeded: Vec<LimitKind>,
    /// Remotes with a recorded breach, for limits that apply to each remote. A remote has at most
    /// one breach of each limit.
    remotes: Vec<(LimitKind, String)>,
    breach_counts: [u8; LimitKind::ALL.len()],
}

impl Episodes {
    /// Restores the state after the recorded breaches. `is_for_each_remote` selects the limits that
    /// apply to each remote.
    pub(super) fn new<'b>(
        on_record: impl Iterator<Item = &'b Breach>,
        is_for_each_remote: impl Fn(LimitKind) -> bool,
    ) -> Self {
        let mut episodes = Self::default();
        for breach in on_record {
            match &breach.remote {
                Some(remote) if is_for_each_remote(breach.limit_kind) => {
                    episodes.remotes.push((breach.limit_kind, remote.clone()));
                }
                Some(_) | None => episodes.exceeded.push(breach.limit_kind),
            }
        }
        episodes
    }

    /// Returns whether a limit is newly exceeded. If so, remembers this breach.
    pub(super) fn is_newly_exceeded(
        &mut self,
        limit_kind: LimitKind,
        value: u64,
        limit: u64,
    ) -> bool {
        if value <= limit {
            if value < percent_of(limit, RECOVERY_PERCENT) {
                self.exceeded.retain(|over| *over != limit_kind);
            }
            return false;
        }
        if self.exceeded.contains(&limit_kind) || !self.count_breach(limit_kind) {
            return false;
        }
        self.exceeded.push(limit_kind);
        true
    }

    /// Returns whether a limit is newly exceeded for a remote. If so, remembers this breach.
    pub(super) fn is_newly_exceeded_by_remote(
        &mut self,
        limit_kind: LimitKind,
        remote: &str,
        value: u64,
        limit: u64,
    ) -> bool {
        let is_reported = || {
            self.remotes
                .iter()
                .any(|(reported, other)| (*reported, other.as_str()) == (limit_kind, remote))
        };
        if value <= limit || is_reported() || !self.count_breach(limit_kind) {
            return false;
        }
        self.remotes.push((limit_kind, remote.to_owned()));
        true
    }

    /// Counts one more breach of a limit. Returns false if [`MAX_BREACHES_PER_LIMIT`] breaches are
    /// already recorded.
    fn count_breach(&mut self, limit_kind: LimitKind) -> bool {
        let count = &mut self.breach_counts[limit_kind as usize];
        let has_room = *count < MAX_BREACHES_PER_LIMIT;
        *count += u8::from(has_room);
        has_room
    }
}

/// Returns the share of `of` that is `percent` percent. No step overflows while `percent` is at
/// most 100.
pub(super) const fn percent_of(of: u64, percent: u64) -> u64 {
    of / 100 * percent + of % 100 * percent / 100
}
