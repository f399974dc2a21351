//! Connections over time: how old each is, and what went to each remote.

use std::collections::{BTreeMap, HashMap};

use super::usage::{Connection, Sent};
use crate::process::Mono;

/// Connections and remotes that are remembered. Beyond it new ones are not counted: a task that
/// talks to thousands of remotes must not make its shim grow.
const MOST: usize = 1_024;
/// Remotes that are told.
const TOLD: usize = 16;

/// What is known of a task's connections.
///
/// The kernel counts for each connection, so what a closed one had sent is kept here. What a
/// connection sends that begins and ends between two looks is not seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    open: HashMap<u64, Known>,
    sent: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    first_seen: Mono,
    sent: u64,
}

impl Ledger {
    /// Takes in the connections of one look.
    pub fn take(&mut self, now: Mono, connections: &[Connection]) {
        for one in connections {
            let has_room = self.open.len() < MOST || self.open.contains_key(&one.cookie);
            if !has_room {
                continue;
            }
            let known = self.open.entry(one.cookie).or_insert(Known { first_seen: now, sent: 0 });
            let more = one.sent.saturating_sub(known.sent);
            known.sent = known.sent.max(one.sent);
            if more > 0 && (self.sent.len() < MOST || self.sent.contains_key(&one.remote)) {
                let total = self.sent.entry(one.remote.clone()).or_default();
                *total = total.saturating_add(more);
            }
        }
        self.open.retain(|cookie, _| connections.iter().any(|one| one.cookie == *cookie));
    }

    /// Whether a connection was there at the last look.
    #[must_use]
    pub fn knows(&self, cookie: u64) -> bool {
        self.open.contains_key(&cookie)
    }

    /// Returns for how long a connection has been seen, in milliseconds.
    #[must_use]
    pub fn age_ms(&self, cookie: u64, now: Mono) -> u64 {
        self.open.get(&cookie).map_or(0, |known| now.ms_since(known.first_seen))
    }

    /// Returns what went to each remote.
    pub fn sent(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sent.iter().map(|(remote, bytes)| (remote.as_str(), *bytes))
    }

    /// Returns the remotes that got most, the largest first.
    #[must_use]
    pub fn most(&self) -> Vec<Sent> {
        let mut most: Vec<Sent> =
            self.sent().map(|(remote, bytes)| Sent { remote: remote.to_owned(), bytes }).collect();
        most.sort_by_key(|one| std::cmp::Reverse(one.bytes));
        most.truncate(TOLD);
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(cookie: u64, remote: &str, sent: u64) -> Connection {
        Connection { cookie, remote: remote.to_owned(), sent, pid: 7 }
    }

    #[test]
    fn what_a_closed_connection_sent_still_counts_and_its_age_does_not() {
        let mut ledger = Ledger::default();
        ledger.take(Mono(0), &[connection(1, "a", 10), connection(2, "b", 1)]);
        ledger.take(Mono(1_000), &[connection(1, "a", 25), connection(3, "a", 5)]);
        ledger.take(Mono(2_000), &[connection(3, "a", 5)]);
        assert_eq!(
            ledger.most(),
            [Sent { remote: "a".to_owned(), bytes: 30 }, Sent { remote: "b".to_owned(), bytes: 1 }]
        );
        assert_eq!((ledger.age_ms(3, Mono(2_500)), ledger.age_ms(1, Mono(2_500))), (1_500, 0));
        assert!(ledger.knows(3) && !ledger.knows(1));
    }

    #[test]
    fn thousands_of_remotes_do_not_make_it_grow() {
        let mut ledger = Ledger::default();
        let many: Vec<_> = (0..5_000).map(|n| connection(n, &n.to_string(), 1)).collect();
        ledger.take(Mono(0), &many);
        assert_eq!((ledger.open.len(), ledger.sent.len()), (MOST, MOST));
        assert_eq!(ledger.most().len(), TOLD);
    }
}
