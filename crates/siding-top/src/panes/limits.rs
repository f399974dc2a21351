//! The limits of a task, and how much of each is used.

use siding_core::processes::probe::{self, UsageFields};
use siding_live::LiveTask;
use siding_model::journal::TaskState;
use siding_model::limits::{OnLimit, PeakUsage, SentToRemote, format_amount};
use siding_model::outcome::LimitKind;
use siding_model::process::MonotonicMs;
use siding_model::size::format_size;

use super::labeled;
use crate::detail::PaneLine;
use crate::row::{format_ms, time_bar};
use crate::theme::Tone;

const LISTED_LIMITS: [LimitKind; 7] = [
    LimitKind::Memory,
    LimitKind::Processes,
    LimitKind::OutputRate,
    LimitKind::CpuSpin,
    LimitKind::Fds,
    LimitKind::ConnectionAge,
    LimitKind::Sent,
];

/// Formats the deadline, the limits and the recorded peaks. A limit has a bar if this program
/// measures its amount, or if the journal of an ended task contains the peak. Only the shim of a
/// running task knows the other amounts.
pub(super) fn format_limits(task: &LiveTask, state: &TaskState, now: MonotonicMs) -> Vec<PaneLine> {
    let mut lines = Vec::new();
    let elapsed = state.elapsed_ms(now);
    match state.lifecycle.deadline() {
        Some(deadline) => {
            let total = deadline.ms_since(state.started);
            lines.push(used_line("deadline", elapsed, total, format_ms));
        }
        None => lines.push(labeled("deadline", "none while a person waits for it")),
    }
    if let Some(limit) = state.job_limit() {
        lines.push(used_line("job limit", elapsed, limit.ms_since(state.started), format_ms));
    }
    let cap = state.lifecycle.cap().ms_since(state.started);
    lines.push(labeled("at most", &format!("{} in total", format_ms(cap))));
    let limits = &state.spec.limits;
    for kind in LISTED_LIMITS {
        let Some(limit) = limits.get(kind) else { continue };
        let format = |amount| format_amount(kind, amount);
        lines.push(match used_amount(task, kind) {
            Some(used) => used_line(label(kind), used, limit, format),
            None => labeled(label(kind), &format!("at most {}", format(limit))),
        });
    }
    if limits.is_none() {
        lines.push(PaneLine::new(Tone::Faint, "no limit on resources is set"));
    } else {
        let action = match limits.on_limit {
            OnLimit::Notice => "a notice is sent, and the task continues",
            OnLimit::Stop => "the task is stopped",
        };
        lines.push(labeled("at a limit", action));
    }
    for breach in &state.breaches {
        lines.push(PaneLine::new(Tone::Warning, breach.detail.clone()));
    }
    if task.is_live() {
        lines.push(PaneLine::new(
            Tone::Faint,
            "w shows the peaks that the shim has measured so far",
        ));
    }
    // The final record contains the usage.
    lines.extend(task.view.usage.iter().flat_map(|peaks| peak_lines("Peaks and totals", peaks)));
    lines
}

/// Formats the known peaks and totals of a task's usage, below a heading.
pub(crate) fn peak_lines(heading: &str, peaks: &PeakUsage) -> Vec<PaneLine> {
    let amounts = [
        (LimitKind::Memory, peaks.memory_bytes),
        (LimitKind::Processes, peaks.processes),
        (LimitKind::Fds, peaks.fds),
    ];
    let used = |(kind, amount): (LimitKind, Option<u64>)| {
        Some(labeled(label(kind), &format_amount(kind, amount?)))
    };
    let mut lines: Vec<PaneLine> = amounts.into_iter().filter_map(used).collect();
    lines.extend(peaks.cpu_ms.map(|ms| labeled("CPU time", &format_ms(ms))));
    let sent = |one: &SentToRemote| format!("{} to {}", format_size(one.bytes), one.remote);
    lines.extend(peaks.sent.iter().map(|one| labeled(label(LimitKind::Sent), &sent(one))));
    if !lines.is_empty() {
        lines.insert(0, PaneLine::new(Tone::Strong, heading));
    }
    lines
}

const fn label(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Memory => "memory",
        LimitKind::Processes => "processes",
        LimitKind::Fds => "descriptors",
        LimitKind::CpuSpin => "CPU spin",
        LimitKind::ConnectionAge => "connection",
        LimitKind::Sent => "sent",
        LimitKind::OutputRate => "output rate",
        _ => "limit",
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and fractions do not matter"
)]
fn used_amount(task: &LiveTask, kind: LimitKind) -> Option<u64> {
    if let Some(peaks) = &task.view.usage {
        return match kind {
            LimitKind::Memory => peaks.memory_bytes,
            LimitKind::Processes => peaks.processes,
            LimitKind::Fds => peaks.fds,
            LimitKind::Sent => peaks.sent.first().map(|one| one.bytes),
            // The journal contains no peak of these amounts.
            LimitKind::OutputRate | LimitKind::CpuSpin | LimitKind::ConnectionAge | _ => None,
        };
    }
    let usage = task.usage.as_ref().filter(|_| task.is_live())?;
    match kind {
        LimitKind::Memory => Some(usage.memory_bytes),
        LimitKind::Processes => Some(usage.process_count() as u64),
        LimitKind::OutputRate => usage.output_rate.map(|rate| rate as u64),
        LimitKind::Fds => {
            let wanted = UsageFields { runnable: false, fds: true };
            Some(probe::usage_of_processes(&usage.pids, wanted).iter().map(|one| one.fds).sum())
        }
        // Only the shim measures these amounts, and those that a newer version adds.
        LimitKind::CpuSpin | LimitKind::ConnectionAge | LimitKind::Sent | _ => None,
    }
}

fn used_line(label: &str, used: u64, limit: u64, format: impl Fn(u64) -> String) -> PaneLine {
    let line =
        labeled(label, &format!("{} {} of {}", time_bar(used, limit), format(used), format(limit)));
    // The line is emphasized from nine tenths of the limit.
    let is_near = u128::from(used) * 10 >= u128::from(limit) * 9;
    PaneLine { tone: if is_near { Tone::Warning } else { Tone::Normal }, ..line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::wrap_lines;

    #[test]
    fn a_limit_that_is_almost_reached_is_emphasized() {
        let line = |used: u64| used_line("memory", used, 100, |amount| format!("{amount} B"));
        assert_eq!(line(50), PaneLine::labeled("memory       ", "▓▓▓░░░ 50 B of 100 B"));
        assert_eq!(line(89).tone, Tone::Normal);
        assert_eq!(line(90).tone, Tone::Warning);
        assert_eq!(line(u64::MAX).tone, Tone::Warning);
    }

    #[test]
    fn only_known_peaks_are_listed() {
        assert_eq!(peak_lines("Peaks", &PeakUsage::default()), []);
        let sent = vec![SentToRemote { remote: "192.0.2.1".to_owned(), bytes: 2 << 20 }];
        let peaks = PeakUsage {
            processes: Some(1_200),
            cpu_ms: Some(61_000),
            sent,
            ..PeakUsage::default()
        };
        let lines = peak_lines("Peaks", &peaks);
        let rows: Vec<String> = wrap_lines(&lines, 80).into_iter().map(|(_, row)| row).collect();
        let [heading, rest @ ..] = &rows[..] else { panic!("no line") };
        assert_eq!(heading, "Peaks");
        assert_eq!(
            rest,
            ["processes    1,200", "CPU time     1m 1s", "sent         2MiB to 192.0.2.1"]
        );
    }
}
