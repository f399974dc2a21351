//! Deduplication of breaches: one for each time a limit is passed.

use super::breach::Breach;
use crate::outcome::Limit;

/// How far a value must have come back before a limit counts as kept again, in percent of it.
pub(super) const BACK_PERCENT: u64 = 90;
/// Breaches of one limit that are told of one task. A value that swings around its limit for hours
/// must not fill the journal.
pub(super) const MAX_TOLD: u8 = 16;

/// The recorded breaches of one task, and those that still hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Episodes {
    /// Limits that are passed now.
    over: Vec<Limit>,
    /// Remotes with a recorded breach, for limits that count once for each remote.
    remotes: Vec<(Limit, String)>,
    told: [u8; Limit::ALL.len()],
}

impl Episodes {
    /// Starts with the recorded breaches. `is_for_each_remote` selects the limits that count once for
    /// each remote.
    pub(super) fn new<'b>(
        on_record: impl Iterator<Item = &'b Breach>,
        is_for_each_remote: impl Fn(Limit) -> bool,
    ) -> Self {
        let mut episodes = Self::default();
        for breach in on_record {
            match &breach.remote {
                Some(remote) if is_for_each_remote(breach.which) => {
                    episodes.remotes.push((breach.which, remote.clone()));
                }
                Some(_) | None => episodes.over.push(breach.which),
            }
        }
        episodes
    }

    /// Whether a limit is newly passed. Notes it.
    pub(super) fn is_news(&mut self, which: Limit, value: u64, limit: u64) -> bool {
        if value <= limit {
            if value < share(limit, BACK_PERCENT) {
                self.over.retain(|over| *over != which);
            }
            return false;
        }
        if self.over.contains(&which) || !self.has_room(which) {
            return false;
        }
        self.over.push(which);
        true
    }

    /// Whether a limit is newly passed with a remote. Notes it.
    pub(super) fn is_new_remote(
        &mut self,
        which: Limit,
        remote: &str,
        value: u64,
        limit: u64,
    ) -> bool {
        let is_told =
            || self.remotes.iter().any(|(told, other)| (*told, other.as_str()) == (which, remote));
        if value <= limit || is_told() || !self.has_room(which) {
            return false;
        }
        self.remotes.push((which, remote.to_owned()));
        true
    }

    /// Counts one more breach of a limit, unless [`MAX_TOLD`] are recorded.
    fn has_room(&mut self, which: Limit) -> bool {
        let told = &mut self.told[which as usize];
        let has_room = *told < MAX_TOLD;
        *told += u8::from(has_room);
        has_room
    }
}

/// Returns so many percent of a number.
pub(super) const fn share(of: u64, percent: u64) -> u64 {
    of / 100 * percent + of % 100 * percent / 100
}
