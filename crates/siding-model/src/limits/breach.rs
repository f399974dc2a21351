//! A limit that was passed, in numbers and in words.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::Limit;
use crate::process::Mono;
use crate::settings::Key;
use crate::{size, span};

/// A limit that was passed, once for each time it happened. Holds all that a notice says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Breach {
    /// When it was seen, in milliseconds of the monotonic clock.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub at: Mono,
    /// Which limit.
    pub which: Limit,
    /// What was found: bytes, a number, milliseconds, or bytes a second.
    pub value: u64,
    /// What was allowed.
    pub limit: u64,
    /// The remote it is about, for connections.
    #[serde(default)]
    pub remote: Option<String>,
    /// One sentence for a person: the limit's name, both numbers, and who is behind it.
    pub detail: String,
    /// Whether it is a watchdog's threshold and no limit: the task goes on, whatever `on_limit` says.
    #[serde(default)]
    pub watchdog: bool,
}

/// Who is behind a breach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// How much of it, for limits that have parts.
    pub(super) share: Option<u64>,
    /// The process.
    pub(super) pid: i32,
    /// Its name.
    pub(super) command: String,
}

impl Part {
    /// A process that is behind all of it. Its name is not known yet.
    pub(super) const fn by(pid: i32) -> Self {
        Self { share: None, pid, command: String::new() }
    }
}

impl Breach {
    /// Puts it in words. `numbers` are what was found and what was allowed.
    pub(super) fn new(
        at: Mono,
        which: Limit,
        numbers: (u64, u64),
        remote: Option<String>,
        part: Option<&Part>,
    ) -> Self {
        let (value, limit) = numbers;
        let with = if which == Limit::Sent { "to" } else { "with" };
        let to = remote.as_ref().map_or_else(String::new, |remote| format!(" {with} {remote}"));
        let who = behind(which, part);
        let detail = format!(
            "{}: {} {}{to}, limit {}{who}",
            which.flag(),
            amount(which, value),
            what(which, value),
            amount(which, limit)
        );
        Self { at, which, value, limit, remote, detail, watchdog: false }
    }

    /// Puts in words what a watchdog has found. `numbers` are that and the threshold of `setting`.
    pub(super) fn of_watchdog(
        at: Mono,
        (which, setting): (Limit, Key),
        numbers: (u64, u64),
        remote: Option<String>,
        part: Option<&Part>,
    ) -> Self {
        let (value, limit) = numbers;
        let to = remote.as_ref().map_or_else(String::new, |remote| format!(" to {remote}"));
        let noun = match which {
            Limit::ConnectionAge => "of sending over one connection",
            Limit::Memory
            | Limit::Processes
            | Limit::Fds
            | Limit::CpuSpin
            | Limit::Sent
            | Limit::OutputRate => what(which, value),
        };
        let detail = format!(
            "{setting}: {} {noun}{to}, told from {} on{}",
            amount(which, value),
            amount(which, limit),
            behind(which, part)
        );
        Self { at, which, value, limit, remote, detail, watchdog: true }
    }

    /// Says that the machine has only so many bytes of memory left, and that the task has so many.
    pub(super) fn of_machine(
        at: Mono,
        (available, limit): (u64, u64),
        used: u64,
        part: Option<&Part>,
    ) -> Self {
        let which = Limit::Memory;
        let most = part.map(|part| format!(", most of it pid {} ({}),", part.pid, part.command));
        let detail = format!(
            "min-available: {} of memory left on the machine, limit {}; {}{} would make up for it",
            amount(which, available),
            amount(which, limit),
            amount(which, used),
            most.unwrap_or_default(),
        );
        Self { at, which, value: available, limit, remote: None, detail, watchdog: false }
    }

    /// Whether it is the machine that has too little left. Every other limit is passed upwards.
    pub(super) const fn is_of_machine(&self) -> bool {
        matches!(self.which, Limit::Memory) && self.value < self.limit
    }

    /// Says that the kernel, which was told to hold the limit on memory, has ended so many
    /// processes at it.
    #[must_use]
    pub fn by_kernel(at: Mono, limit: u64, processes: u64) -> Self {
        let which = Limit::Memory;
        let noun = if processes == 1 { "process" } else { "processes" };
        let detail = format!(
            "{}: more than {} was needed, and the kernel ended {} {noun} for it",
            which.flag(),
            amount(which, limit),
            thousands(processes)
        );
        Self { at, which, value: limit, limit, remote: None, detail, watchdog: false }
    }
}

/// Returns who is behind a breach, as the end of its sentence.
fn behind(which: Limit, part: Option<&Part>) -> String {
    part.map_or_else(String::new, |Part { share, pid, command }| {
        let of = if which == Limit::Memory { "of it" } else { "of them" };
        let share = share.map(|share| format!("{} {of} in", amount(which, share)));
        format!("; {} pid {pid} ({command})", share.as_deref().unwrap_or("by"))
    })
}

/// Returns what stands behind the number.
const fn what(which: Limit, value: u64) -> &'static str {
    match which {
        Limit::Memory => "of memory",
        Limit::Processes if value == 1 => "process",
        Limit::Processes => "processes",
        Limit::Fds if value == 1 => "open descriptor",
        Limit::Fds => "open descriptors",
        Limit::CpuSpin => "of computing without output",
        Limit::ConnectionAge => "of a connection",
        Limit::Sent => "sent",
        Limit::OutputRate => "of output",
    }
}

/// Returns a number with the unit of its limit.
fn amount(which: Limit, number: u64) -> String {
    match which {
        Limit::Memory | Limit::Sent => size::human(number),
        Limit::OutputRate => format!("{}/s", size::human(number)),
        Limit::Processes | Limit::Fds => thousands(number),
        Limit::CpuSpin | Limit::ConnectionAge => span::human(Duration::from_millis(number)),
    }
}

/// Returns a number with commas between its thousands.
fn thousands(number: u64) -> String {
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
    fn each_breach_says_all_a_notice_needs() {
        let part = |share| Part { share, pid: 123, command: "node".to_owned() };
        let told = |which, pair, remote: Option<&str>, part: Option<&Part>| {
            Breach::new(Mono(5), which, pair, remote.map(str::to_owned), part).detail
        };
        assert_eq!(
            told(Limit::Fds, (4_096, 1_000), None, Some(&part(Some(4_090)))),
            "max-fds: 4,096 open descriptors, limit 1,000; 4,090 of them in pid 123 (node)"
        );
        assert_eq!(
            told(Limit::Memory, (600 << 20, 512 << 20), None, Some(&part(Some(590 << 20)))),
            "max-memory: 600MiB of memory, limit 512MiB; 590MiB of it in pid 123 (node)"
        );
        assert_eq!(
            told(Limit::Processes, (1_000_000, 9), None, None),
            "max-processes: 1,000,000 processes, limit 9"
        );
        assert_eq!(
            told(Limit::CpuSpin, (61_000, 60_000), None, Some(&part(None))),
            "max-cpu-spin: 1m 1s of computing without output, limit 1m; by pid 123 (node)"
        );
        assert_eq!(
            told(Limit::ConnectionAge, (70_000, 60_000), Some("192.0.2.1"), Some(&part(None))),
            "max-connection-age: 1m 10s of a connection with 192.0.2.1, limit 1m; by pid 123 \
             (node)"
        );
        assert_eq!(
            told(Limit::Sent, (3 << 20, 1 << 20), Some("192.0.2.1"), None),
            "max-sent: 3MiB sent to 192.0.2.1, limit 1MiB"
        );
        assert_eq!(
            told(Limit::OutputRate, (3 << 20, 1 << 20), None, None),
            "max-output-rate: 3MiB/s of output, limit 1MiB/s"
        );
        assert_eq!(
            Breach::by_kernel(Mono(5), 512 << 20, 2).detail,
            "max-memory: more than 512MiB was needed, and the kernel ended 2 processes for it"
        );
    }
}
