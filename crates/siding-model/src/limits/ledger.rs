//! Connections over time: how old each is, and what went to each remote.

use std::collections::{BTreeMap, HashMap};

use super::usage::{Connection, Sent};
use crate::process::Mono;

/// Connections and remotes that are remembered. Beyond it new ones are not counted: a task that
/// talks to thousands of remotes must not make its shim grow.
const MOST: usize = 1_024;
/// Bytes a second from which on a connection sends more than signs of life.
const MIN_UPLOAD_RATE: u64 = 1 << 10;
/// Remotes that are told.
const TOLD: usize = 16;

/// What is known of a task's connections.
///
/// The kernel counts for each connection, so what a closed one had sent is kept here. What a
/// connection sends that begins and ends between two looks is not seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    open: HashMap<u64, Known>,
    sent: BTreeMap<String, SentBytes>,
}

/// Bytes that went to one remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct SentBytes {
    all: u64,
    /// Those that went to somebody other than the task itself.
    to_others: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    first_seen: Mono,
    last_seen: Mono,
    sent: u64,
    received: u64,
    is_internal: bool,
    /// What went over it between the last two looks.
    window: Window,
}

/// What went over a connection in some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Window {
    ms: u64,
    sent: u64,
    received: u64,
}

impl Known {
    fn new(now: Mono) -> Self {
        Self {
            first_seen: now,
            last_seen: now,
            sent: 0,
            received: 0,
            is_internal: false,
            window: Window::default(),
        }
    }

    /// Takes in another look at it. Returns how much more it has sent.
    fn update(&mut self, now: Mono, one: &Connection) -> u64 {
        let more = one.sent.saturating_sub(self.sent);
        self.window = Window {
            ms: now.ms_since(self.last_seen),
            sent: more,
            received: one.received.saturating_sub(self.received),
        };
        // Once nobody holds it, its other end cannot be found any more.
        self.is_internal |= one.is_internal;
        self.last_seen = now;
        self.sent = self.sent.max(one.sent);
        self.received = self.received.max(one.received);
        more
    }
}

impl Ledger {
    /// Takes in the connections of one look.
    pub fn take(&mut self, now: Mono, connections: &[Connection]) {
        for one in connections {
            let has_room = self.open.len() < MOST || self.open.contains_key(&one.cookie);
            if !has_room {
                continue;
            }
            let known = self.open.entry(one.cookie).or_insert_with(|| Known::new(now));
            let more = known.update(now, one);
            if more > 0 && (self.sent.len() < MOST || self.sent.contains_key(&one.remote)) {
                let total = self.sent.entry(one.remote.clone()).or_default();
                total.all = total.all.saturating_add(more);
                if !known.is_internal {
                    total.to_others = total.to_others.saturating_add(more);
                }
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

    /// Whether a connection sent between the last two looks, and more than it received: something is
    /// uploaded. A query and its answer, or a sign of life now and then, is none.
    #[must_use]
    pub fn is_upload(&self, cookie: u64) -> bool {
        self.open.get(&cookie).is_some_and(|known| {
            let Window { ms, sent, received } = known.window;
            sent > received && sent.saturating_mul(1_000) >= MIN_UPLOAD_RATE.saturating_mul(ms)
        })
    }

    /// Returns what went to each remote.
    pub fn sent(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sent.iter().map(|(remote, bytes)| (remote.as_str(), bytes.all))
    }

    /// Returns what went to each remote, but for what the task sent to itself.
    pub fn sent_to_others(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sent.iter().map(|(remote, bytes)| (remote.as_str(), bytes.to_others))
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
        Connection { cookie, remote: remote.to_owned(), sent, pid: 7, ..Connection::default() }
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
    fn what_a_task_sends_to_itself_goes_to_nobody_else() {
        let mut ledger = Ledger::default();
        let inside = |sent| Connection { is_internal: true, ..connection(1, "127.0.0.1", sent) };
        ledger.take(Mono(0), &[inside(10), connection(2, "127.0.0.1", 1)]);
        // Its holder has gone, and what was under way has arrived.
        ledger.take(Mono(1_000), &[Connection { pid: 0, ..connection(1, "127.0.0.1", 15) }]);
        assert_eq!(ledger.sent().collect::<Vec<_>>(), [("127.0.0.1", 16)]);
        assert_eq!(ledger.sent_to_others().collect::<Vec<_>>(), [("127.0.0.1", 1)]);
    }

    #[test]
    fn an_upload_sends_more_than_it_receives_and_more_than_signs_of_life() {
        let is_upload = |seconds: u64, sent: u64, received: u64| {
            let mut ledger = Ledger::default();
            ledger.take(Mono(0), &[Connection { received: 7, ..connection(1, "a", 5) }]);
            let later = Connection { received: 7 + received, ..connection(1, "a", 5 + sent) };
            ledger.take(Mono(seconds * 1_000), &[later]);
            ledger.is_upload(1)
        };
        assert!(is_upload(60, 60 << 10, 0) && is_upload(1, 5_000, 100));
        assert!(!is_upload(60, 1_000, 0), "signs of life");
        assert!(!is_upload(60, 9 << 20, 90 << 20), "queries and their results");
        assert!(!is_upload(60, 0, 0) && !Ledger::default().is_upload(1));
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
