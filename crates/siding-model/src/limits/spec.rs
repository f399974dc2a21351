//! What somebody asked for.

use serde::{Deserialize, Serialize};

use super::breach::Breach;
use crate::outcome::LimitKind;

/// What happens when a limit is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// It is put on record, and the task goes on.
    #[default]
    Notice,
    /// The task is stopped as by its deadline.
    Stop,
}

/// Limits of one task. Zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Memory of the tree, in bytes. What processes share counts once.
    pub memory: u64,
    /// Memory that the machine is to have left (`MemAvailable`), in bytes. Passed by a task that
    /// alone could make up for what is missing.
    pub min_available: u64,
    /// Processes of the tree.
    pub processes: u64,
    /// Open descriptors of all its processes together.
    pub fds: u64,
    /// Time at nine tenths of a core or more without any output, in milliseconds.
    pub cpu_spin_ms: u64,
    /// Age of a TCP connection, in milliseconds.
    pub connection_age_ms: u64,
    /// Bytes sent to one remote address over TCP.
    pub sent: u64,
    /// Bytes of output a second, on the average over ten seconds.
    pub output_rate: u64,
    /// What happens then.
    pub on_limit: OnLimit,
}

/// What a task may use and not be told that the machine is short, in bytes, or a sixteenth of what
/// is to be left: where a little is missing, everybody could make up for it.
const MIN_BLAMED_BYTES: u64 = 64 << 20;

impl Limits {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self { on_limit: self.on_limit, ..Self::default() }
    }

    /// Returns one of them, `None` when it was not set.
    #[must_use]
    pub fn get(&self, which: LimitKind) -> Option<u64> {
        let limit = match which {
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

    /// Returns how much a task has to use, in bytes, to be told that the machine is short: what is
    /// missing, and more than the small ones use. `None` when nothing is missing, nobody looked, or
    /// it was not asked for.
    #[must_use]
    pub fn memory_blame_threshold(&self, available: Option<u64>) -> Option<u64> {
        let missing = self.min_available.checked_sub(available?).filter(|missing| *missing > 0)?;
        Some(missing.max(MIN_BLAMED_BYTES.min(self.min_available / 16)))
    }

    /// Whether a task is ended for a breach.
    #[must_use]
    pub fn stops_at(&self, breach: &Breach) -> bool {
        self.on_limit == OnLimit::Stop && !breach.watchdog
    }

    /// Whether connections have to be looked at.
    #[must_use]
    pub const fn needs_connections(&self) -> bool {
        self.connection_age_ms > 0 || self.sent > 0
    }
}
