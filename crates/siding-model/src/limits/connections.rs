//! The TCP connections of a task over time: their ages, and the bytes sent to each remote.

use std::collections::{BTreeMap, HashMap};

use super::usage::{Connection, SentToRemote};
use crate::process::MonotonicMs;

/// Maximum number of tracked connections, and of tracked remotes. The shim's memory must not grow
/// with a task that connects to thousands of remotes, so further connections and remotes are
/// ignored.
const MAX_TRACKED_ENTRIES: usize = 1_024;
/// Rate at and above which a connection is an upload, in bytes per second. The rate of keepalives
/// is lower.
const MIN_UPLOAD_BYTES_PER_SECOND: u64 = 1 << 10;
/// Maximum number of remotes in a report.
const MAX_REPORTED_REMOTES: usize = 16;

/// The tracked connections of a task.
///
/// The kernel counts bytes for each connection and forgets a closed one, so the totals for each
/// remote are kept here. A connection that opens and closes between two samples is missed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionLog {
    open: HashMap<u64, TrackedConnection>,
    sent: BTreeMap<String, SentBytes>,
}

/// Bytes that were sent to one remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct SentBytes {
    total: u64,
    /// Bytes sent over connections whose remote end is outside the task.
    to_others: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TrackedConnection {
    first_seen: MonotonicMs,
    last_seen: MonotonicMs,
    sent: u64,
    received: u64,
    is_internal: bool,
    /// The traffic between the last two samples.
    window: TransferWindow,
}

/// The traffic of a connection in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TransferWindow {
    ms: u64,
    sent: u64,
    received: u64,
}

impl TrackedConnection {
    fn new(now: MonotonicMs) -> Self {
        Self {
            first_seen: now,
            last_seen: now,
            sent: 0,
            received: 0,
            is_internal: false,
            window: TransferWindow::default(),
        }
    }

    /// Updates the connection from a new sample. Returns the number of bytes sent since the
    /// previous sample.
    fn update(&mut self, now: MonotonicMs, one: &Connection) -> u64 {
        let more = one.sent.saturating_sub(self.sent);
        self.window = TransferWindow {
            ms: now.ms_since(self.last_seen),
            sent: more,
            received: one.received.saturating_sub(self.received),
        };
        // A set flag stays set: the remote end can no longer be found in the task once its process
        // has exited.
        self.is_internal |= one.is_internal;
        self.last_seen = now;
        self.sent = self.sent.max(one.sent);
        self.received = self.received.max(one.received);
        more
    }
}

impl ConnectionLog {
    /// Records the connections of one sample, and forgets the connections that are not in it.
    pub fn record_sample(&mut self, now: MonotonicMs, connections: &[Connection]) {
        for one in connections {
            let has_room =
                self.open.len() < MAX_TRACKED_ENTRIES || self.open.contains_key(&one.cookie);
            if !has_room {
                continue;
            }
            let known = self.open.entry(one.cookie).or_insert_with(|| TrackedConnection::new(now));
            let more = known.update(now, one);
            if more > 0
                && (self.sent.len() < MAX_TRACKED_ENTRIES || self.sent.contains_key(&one.remote))
            {
                let total = self.sent.entry(one.remote.clone()).or_default();
                total.total = total.total.saturating_add(more);
                if !known.is_internal {
                    total.to_others = total.to_others.saturating_add(more);
                }
            }
        }
        self.open.retain(|cookie, _| connections.iter().any(|one| one.cookie == *cookie));
    }

    /// Returns whether the connection with this socket cookie was tracked at the last sample.
    #[must_use]
    pub fn contains(&self, cookie: u64) -> bool {
        self.open.contains_key(&cookie)
    }

    /// Returns the time since the connection was first observed, in milliseconds; zero for an
    /// unknown cookie.
    #[must_use]
    pub fn age_ms(&self, cookie: u64, now: MonotonicMs) -> u64 {
        self.open.get(&cookie).map_or(0, |known| now.ms_since(known.first_seen))
    }

    /// Returns whether a connection uploads data: between the last two samples it sent more than it
    /// received, at a rate above that of keepalives. In its first sample a connection needs only to
    /// have sent more than it received. Small queries with larger responses do not count as an
    /// upload.
    #[must_use]
    pub fn is_upload(&self, cookie: u64) -> bool {
        self.open.get(&cookie).is_some_and(|known| {
            let TransferWindow { ms, sent, received } = known.window;
            sent > received
                && sent.saturating_mul(1_000) >= MIN_UPLOAD_BYTES_PER_SECOND.saturating_mul(ms)
        })
    }

    /// Returns the bytes sent to each remote.
    pub fn sent_by_remote(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sent.iter().map(|(remote, bytes)| (remote.as_str(), bytes.total))
    }

    /// Returns the bytes sent to each remote, without those sent over connections between processes
    /// of the task.
    pub fn sent_to_others(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sent.iter().map(|(remote, bytes)| (remote.as_str(), bytes.to_others))
    }

    /// Returns the remotes that received the most bytes, the largest first.
    #[must_use]
    pub fn top_remotes(&self) -> Vec<SentToRemote> {
        let mut most: Vec<SentToRemote> = self
            .sent_by_remote()
            .map(|(remote, bytes)| SentToRemote { remote: remote.to_owned(), bytes })
            .collect();
        most.sort_by_key(|one| std::cmp::Reverse(one.bytes));
        most.truncate(MAX_REPORTED_REMOTES);
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
    fn a_closed_connection_keeps_its_sent_bytes_but_not_its_age() {
        let mut ledger = ConnectionLog::default();
        ledger.record_sample(MonotonicMs(0), &[connection(1, "a", 10), connection(2, "b", 1)]);
        ledger.record_sample(MonotonicMs(1_000), &[connection(1, "a", 25), connection(3, "a", 5)]);
        ledger.record_sample(MonotonicMs(2_000), &[connection(3, "a", 5)]);
        assert_eq!(
            ledger.top_remotes(),
            [
                SentToRemote { remote: "a".to_owned(), bytes: 30 },
                SentToRemote { remote: "b".to_owned(), bytes: 1 }
            ]
        );
        assert_eq!(
            (ledger.age_ms(3, MonotonicMs(2_500)), ledger.age_ms(1, MonotonicMs(2_500))),
            (1_500, 0)
        );
        assert!(ledger.contains(3) && !ledger.contains(1));
    }

    #[test]
    fn internal_traffic_is_not_counted_as_sent_to_others() {
        let mut ledger = ConnectionLog::default();
        let inside = |sent| Connection { is_internal: true, ..connection(1, "127.0.0.1", sent) };
        ledger.record_sample(MonotonicMs(0), &[inside(10), connection(2, "127.0.0.1", 1)]);
        // The process that held the connection has exited, and the kernel has delivered the data
        // that was still in flight.
        ledger.record_sample(
            MonotonicMs(1_000),
            &[Connection { pid: 0, ..connection(1, "127.0.0.1", 15) }],
        );
        assert_eq!(ledger.sent_by_remote().collect::<Vec<_>>(), [("127.0.0.1", 16)]);
        assert_eq!(ledger.sent_to_others().collect::<Vec<_>>(), [("127.0.0.1", 1)]);
    }

    #[test]
    fn an_upload_sends_more_than_it_receives_and_more_than_keepalives() {
        let is_upload = |seconds: u64, sent: u64, received: u64| {
            let mut ledger = ConnectionLog::default();
            ledger.record_sample(
                MonotonicMs(0),
                &[Connection { received: 7, ..connection(1, "a", 5) }],
            );
            let later = Connection { received: 7 + received, ..connection(1, "a", 5 + sent) };
            ledger.record_sample(MonotonicMs(seconds * 1_000), &[later]);
            ledger.is_upload(1)
        };
        assert!(is_upload(60, 60 << 10, 0) && is_upload(1, 5_000, 100));
        assert!(!is_upload(60, 1_000, 0), "keepalives");
        assert!(!is_upload(60, 9 << 20, 90 << 20), "queries and their results");
        assert!(!is_upload(60, 0, 0) && !ConnectionLog::default().is_upload(1));
    }

    #[test]
    fn the_log_is_bounded_for_thousands_of_remotes() {
        let mut ledger = ConnectionLog::default();
        let many: Vec<_> = (0..5_000).map(|n| connection(n, &n.to_string(), 1)).collect();
        ledger.record_sample(MonotonicMs(0), &many);
        assert_eq!(
            (ledger.open.len(), ledger.sent.len()),
            (MAX_TRACKED_ENTRIES, MAX_TRACKED_ENTRIES)
        );
        assert_eq!(ledger.top_remotes().len(), MAX_REPORTED_REMOTES);
    }
}
