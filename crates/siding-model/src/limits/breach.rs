//! A breach: an exceeded limit, in numbers and as text.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::LimitKind;
use crate::process::MonotonicMs;
use crate::{duration, size};

/// One occurrence of an exceeded limit, with everything that its notice contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Breach {
    /// Time at which the breach was found, in milliseconds of the monotonic clock.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub at: MonotonicMs,
    /// The exceeded limit; `which` before format 6 of the journal.
    #[serde(alias = "which")]
    pub limit_kind: LimitKind,
    /// The measured value: bytes, a count, milliseconds, or bytes per second.
    pub value: u64,
    /// The allowed value, in the unit of `value`.
    pub limit: u64,
    /// Address of the remote end, for limits on connections.
    #[serde(default)]
    pub remote: Option<String>,
    /// A sentence for people: the name of the limit, the numbers, and the responsible process if it
    /// is known.
    pub detail: String,
    /// Whether a watchdog's threshold was exceeded instead of a limit. The task then continues,
    /// whatever the value of `on_limit`.
    #[serde(default)]
    pub watchdog: bool,
}

/// The process that contributes most to a breach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BreachSource {
    /// The part of the value that this process contributes, for limits that sum over processes.
    pub(super) share: Option<u64>,
    pub(super) pid: i32,
    /// Name of the process; empty until the caller fills it in.
    pub(super) command: String,
}

impl BreachSource {
    /// Returns a source without a share. The caller fills in the process's name if the breach is
    /// new.
    pub(super) const fn from_pid(pid: i32) -> Self {
        Self { share: None, pid, command: String::new() }
    }
}

impl Breach {
    /// Builds the record of an exceeded limit. `numbers` are the measured and the allowed value.
    pub(super) fn new(
        at: MonotonicMs,
        limit_kind: LimitKind,
        numbers: (u64, u64),
        remote: Option<String>,
        part: Option<&BreachSource>,
    ) -> Self {
        let (value, limit) = numbers;
        let with = if limit_kind == LimitKind::Sent { "to" } else { "with" };
        let to = remote.as_ref().map_or_else(String::new, |remote| format!(" {with} {remote}"));
        let who = format_source(limit_kind, part);
        let detail = format!(
            "{}: {} {}{to}, limit {}{who}",
            limit_kind.flag_name(),
            format_amount(limit_kind, value),
            unit_noun(limit_kind, value),
            format_amount(limit_kind, limit)
        );
        Self { at, limit_kind, value, limit, remote, detail, watchdog: false }
    }

    /// Builds the record of a watchdog's finding. `numbers` are the measured value and the
    /// threshold in `setting`.
    pub(super) fn from_watchdog(
        at: MonotonicMs,
        (limit_kind, setting): (LimitKind, &str),
        numbers: (u64, u64),
        remote: Option<String>,
        part: Option<&BreachSource>,
    ) -> Self {
        let (value, limit) = numbers;
        let to = remote.as_ref().map_or_else(String::new, |remote| format!(" to {remote}"));
        let noun = match limit_kind {
            LimitKind::ConnectionAge => "of sending over one connection",
            LimitKind::Memory
            | LimitKind::Processes
            | LimitKind::Fds
            | LimitKind::CpuSpin
            | LimitKind::Sent
            | LimitKind::OutputRate => unit_noun(limit_kind, value),
        };
        let detail = format!(
            "{setting}: {} {noun}{to}, threshold {}{}",
            format_amount(limit_kind, value),
            format_amount(limit_kind, limit),
            format_source(limit_kind, part)
        );
        Self { at, limit_kind, value, limit, remote, detail, watchdog: true }
    }

    /// Builds the record of low memory on this machine: `available` bytes are left, and the task
    /// uses `used` bytes.
    pub(super) fn from_low_memory(
        at: MonotonicMs,
        (available, limit): (u64, u64),
        used: u64,
        part: Option<&BreachSource>,
    ) -> Self {
        let limit_kind = LimitKind::Memory;
        let most = part.map(|part| format!(", most of it in pid {} ({})", part.pid, part.command));
        let detail = format!(
            "min-available: {} of memory left on the machine, limit {}; stopping this task would \
             free {}{}",
            format_amount(limit_kind, available),
            format_amount(limit_kind, limit),
            format_amount(limit_kind, used),
            most.unwrap_or_default(),
        );
        Self { at, limit_kind, value: available, limit, remote: None, detail, watchdog: false }
    }

    /// Returns whether the breach is low memory on the machine. The value of such a breach is below
    /// its limit; all other limits are upper limits.
    pub(super) const fn is_low_memory(&self) -> bool {
        matches!(self.limit_kind, LimitKind::Memory) && self.value < self.limit
    }

    /// Builds the record for a memory limit that the kernel enforces and at which it killed
    /// `processes` processes.
    #[must_use]
    pub fn from_kernel_kill(at: MonotonicMs, limit: u64, processes: u64) -> Self {
        let limit_kind = LimitKind::Memory;
        let noun = if processes == 1 { "process" } else { "processes" };
        let detail = format!(
            "{}: more than {} was needed, and the kernel killed {} {noun}",
            limit_kind.flag_name(),
            format_amount(limit_kind, limit),
            format_thousands(processes)
        );
        Self { at, limit_kind, value: limit, limit, remote: None, detail, watchdog: false }
    }
}

/// Returns the clause that names the process responsible for a breach; empty if it is unknown.
fn format_source(limit_kind: LimitKind, part: Option<&BreachSource>) -> String {
    part.map_or_else(String::new, |BreachSource { share, pid, command }| {
        let of = if limit_kind == LimitKind::Memory { "of it" } else { "of them" };
        let share = share.map(|share| format!("{} {of} in", format_amount(limit_kind, share)));
        format!("; {} pid {pid} ({command})", share.as_deref().unwrap_or("by"))
    })
}

/// Returns the noun that follows the value of a breach.
const fn unit_noun(limit_kind: LimitKind, value: u64) -> &'static str {
    match limit_kind {
        LimitKind::Memory => "of memory",
        LimitKind::Processes if value == 1 => "process",
        LimitKind::Processes => "processes",
        LimitKind::Fds if value == 1 => "open descriptor",
        LimitKind::Fds => "open descriptors",
        LimitKind::CpuSpin => "of computing without output",
        LimitKind::ConnectionAge => "of a connection",
        LimitKind::Sent => "sent",
        LimitKind::OutputRate => "of output",
    }
}

/// Formats a number with the unit of its limit.
#[must_use]
pub fn format_amount(limit_kind: LimitKind, number: u64) -> String {
    match limit_kind {
        LimitKind::Memory | LimitKind::Sent => size::format_size(number),
        LimitKind::OutputRate => format!("{}/s", size::format_size(number)),
        LimitKind::Processes | LimitKind::Fds => format_thousands(number),
        LimitKind::CpuSpin | LimitKind::ConnectionAge => {
            duration::format_duration(Duration::from_millis(number))
        }
    }
}

/// Formats a number with commas as thousands separators.
fn format_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_breach_detail_contains_everything_for_a_notice() {
        let part = |share| BreachSource { share, pid: 123, command: "node".to_owned() };
        let detail = |limit_kind, pair, remote: Option<&str>, part: Option<&BreachSource>| {
            Breach::new(MonotonicMs(5), limit_kind, pair, remote.map(str::to_owned), part).detail
        };
        assert_eq!(
            detail(LimitKind::Fds, (4_096, 1_000), None, Some(&part(Some(4_090)))),
            "max-fds: 4,096 open descriptors, limit 1,000; 4,090 of them in pid 123 (node)"
        );
        assert_eq!(
            detail(LimitKind::Memory, (600 << 20, 512 << 20), None, Some(&part(Some(590 << 20)))),
            "max-memory: 600MiB of memory, limit 512MiB; 590MiB of it in pid 123 (node)"
        );
        assert_eq!(
            detail(LimitKind::Processes, (1_000_000, 9), None, None),
            "max-processes: 1,000,000 processes, limit 9"
        );
        assert_eq!(
            detail(LimitKind::CpuSpin, (61_000, 60_000), None, Some(&part(None))),
            "max-cpu-spin: 1m 1s of computing without output, limit 1m; by pid 123 (node)"
        );
        assert_eq!(
            detail(
                LimitKind::ConnectionAge,
                (70_000, 60_000),
                Some("192.0.2.1"),
                Some(&part(None))
            ),
            "max-connection-age: 1m 10s of a connection with 192.0.2.1, limit 1m; by pid 123 \
             (node)"
        );
        assert_eq!(
            detail(LimitKind::Sent, (3 << 20, 1 << 20), Some("192.0.2.1"), None),
            "max-sent: 3MiB sent to 192.0.2.1, limit 1MiB"
        );
        assert_eq!(
            detail(LimitKind::OutputRate, (3 << 20, 1 << 20), None, None),
            "max-output-rate: 3MiB/s of output, limit 1MiB/s"
        );
        assert_eq!(
            Breach::from_kernel_kill(MonotonicMs(5), 512 << 20, 2).detail,
            "max-memory: more than 512MiB was needed, and the kernel killed 2 processes"
        );
    }
}
