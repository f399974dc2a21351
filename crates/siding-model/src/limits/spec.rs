//! The limits that a caller requests.

use serde::{Deserialize, Serialize};

use super::breach::Breach;
use crate::outcome::LimitKind;

/// The action when a limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// The breach is recorded, and the task continues.
    #[default]
    Notice,
    /// The task is stopped as at its deadline.
    Stop,
}

/// The limits of one task. Zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Memory of the tree, in bytes, in which shared memory counts once.
    pub memory: u64,
    /// Memory that must remain available on the machine (`MemAvailable`), in bytes. When less is
    /// available, a task breaches this limit if its end alone would resolve the shortage.
    pub min_available: u64,
    /// Number of processes in the tree.
    pub processes: u64,
    /// Open descriptors of all processes together.
    pub fds: u64,
    /// Time at nine tenths of a core or more without any output, in milliseconds.
    pub cpu_spin_ms: u64,
    /// Age of a TCP connection, in milliseconds.
    pub connection_age_ms: u64,
    /// Bytes sent to one remote address over TCP.
    pub sent: u64,
    /// Output rate in bytes per second, averaged over ten seconds.
    pub output_rate: u64,
    /// The action when a limit is exceeded.
    pub on_limit: OnLimit,
}

/// Memory below which a task is never responsible for a shortage, in bytes. If a sixteenth of
/// `min_available` is less, this sixteenth applies. Without this floor every task would be
/// responsible for a shortage of a few bytes.
const MIN_BLAMED_BYTES: u64 = 64 << 20;

impl Limits {
    /// Returns whether no limit is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self { on_limit: self.on_limit, ..Self::default() }
    }

    /// Returns the value of a limit, or `None` if the limit is not set.
    #[must_use]
    pub fn get(&self, limit_kind: LimitKind) -> Option<u64> {
        let limit = match limit_kind {
            LimitKind::Memory => self.memory,
            LimitKind::Processes => self.processes,
            LimitKind::Fds => self.fds,
            LimitKind::CpuSpin => self.cpu_spin_ms,
            LimitKind::ConnectionAge => self.connection_age_ms,
            LimitKind::Sent => self.sent,
            LimitKind::OutputRate => self.output_rate,
        };
        (limit > 0).then_some(limit)
    }

    /// Returns the memory, in bytes, at and above which a task is responsible for a shortage: the
    /// missing amount, but at least the floor for small tasks. Returns `None` when no memory is
    /// missing, `available` was not measured, or the limit is not set.
    #[must_use]
    pub fn memory_blame_threshold(&self, available: Option<u64>) -> Option<u64> {
        let missing = self.min_available.checked_sub(available?).filter(|missing| *missing > 0)?;
        Some(missing.max(MIN_BLAMED_BYTES.min(self.min_available / 16)))
    }

    /// Returns whether the task is stopped for this breach.
    #[must_use]
    pub fn stops_at(&self, breach: &Breach) -> bool {
        self.on_limit == OnLimit::Stop && !breach.watchdog
    }

    /// Returns whether samples must include connections.
    #[must_use]
    pub const fn needs_connections(&self) -> bool {
        self.connection_age_ms > 0 || self.sent > 0
    }
}
