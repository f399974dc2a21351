//! Formats a report for one screen of 80 columns and 24 lines.

use std::time::Duration;

use siding_model::activity::{ActivityReport, ActivityTask, DiskUse};
use siding_model::duration::format_duration;
use siding_model::outcome::Outcome;
use siding_model::size::format_size as size;
use siding_model::text::{one_line, wrap_message};

use crate::render::color::ColorMode;
use crate::render::table_layout::{Align, format_grid};
use crate::stdout::{text_columns, wrap_indented};

/// Maximum number of rows of a group. The groups `reaped by` and `lingering` have the lower
/// maximum.
const MAX_GROUP_ROWS: usize = 3;
const MAX_MINOR_GROUP_ROWS: usize = 2;
/// Maximum width in columns of a rule's name.
const RULE_COLUMNS: usize = 16;
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The cells of a row before its command: group; result or rule; time, count or size; and task id,
/// `-` without one.
type RowCells = [String; 4];

/// Formats the headline, a table of the most important tasks, and the disk usage.
pub(crate) fn format_screen(report: &ActivityReport, since: Duration, color: ColorMode) -> String {
    let mut text = wrap_indented(&format_headline(report, since), 0, text_columns());
    text.push('\n');
    let rows = report_rows(report);
    if !rows.is_empty() {
        let titles = [
            ("", Align::Left),
            ("HOW", Align::Left),
            ("TIME", Align::Right),
            ("TASK", Align::Left),
        ];
        text.push_str(&format_grid(titles, "COMMAND", &rows, color, text_columns()));
    }
    if report.disk.tasks > 0 {
        text.push_str(&wrap_message(&format_disk_use(&report.disk), text_columns()));
    }
    text
}

/// Formats one line with the number of tasks and their outcomes.
pub(crate) fn format_headline(report: &ActivityReport, since: Duration) -> String {
    let counts = &report.counts;
    let period = format_period(since);
    if counts.ran == 0 {
        return format!("last {period}: nothing ran");
    }
    let parts = [
        (counts.succeeded, "succeeded"),
        (counts.failed, "failed"),
        (counts.stopped, "stopped"),
        (counts.timed_out, "timed out"),
        (counts.limit, "over a limit"),
        (counts.lost, "lost"),
        (counts.released, "released"),
        (counts.running, "running"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
    let tasks = if counts.ran == 1 { "task" } else { "tasks" };
    format!("last {period}: {} {tasks}, {}", counts.ran, parts.join(", "))
}

/// Formats a period: `24 hours`, `7 days`, or, for a period that is not a whole number of days, for
/// example `8h`.
fn format_period(since: Duration) -> String {
    let seconds = since.as_secs();
    match seconds / DAY_SECONDS {
        1 if seconds == DAY_SECONDS => "24 hours".to_owned(),
        days if days > 1 && seconds.is_multiple_of(DAY_SECONDS) => format!("{days} days"),
        _ => format_duration(since),
    }
}

/// Formats one line with the disk usage of all kept tasks and the limit for ended ones.
pub(super) fn format_disk_use(disk: &DiskUse) -> String {
    let tasks = if disk.tasks == 1 { "task" } else { "tasks" };
    format!(
        "disk: {} in {} kept {tasks}; ended ones may take {}\n",
        size(disk.bytes),
        disk.tasks,
        size(disk.max_bytes)
    )
}

/// Formats how long a task has run; `-` if that is unknown.
pub(super) fn format_elapsed(task: &ActivityTask) -> String {
    task.elapsed_ms.map_or_else(|| "-".to_owned(), |ms| format_duration(Duration::from_millis(ms)))
}

/// Formats a task's outcome or phase in one or two words.
pub(super) fn format_state(task: &ActivityTask) -> String {
    task.outcome.as_ref().map_or_else(|| task.phase.as_str().to_owned(), Outcome::short_text)
}

fn report_rows(report: &ActivityReport) -> Vec<(RowCells, String)> {
    let times = |count: usize| format!("{count}x");
    let rule = |rule: &str| one_line(rule, RULE_COLUMNS);
    let row = |task: &ActivityTask, how: String, time: String| {
        (["".to_owned(), how, time, task.task_id.to_string()], task.command.clone())
    };
    let plain = |task: &ActivityTask| row(task, format_state(task), format_elapsed(task));
    let size_of = |task: &ActivityTask| size(task.output_bytes.unwrap_or(0));
    let mut rows = Vec::new();
    let mut group = |label: &str, mut of_group: Vec<(RowCells, String)>| {
        if let Some((cells, _)) = of_group.first_mut() {
            label.clone_into(&mut cells[0]);
        }
        rows.append(&mut of_group);
    };
    group("needs input", report.needs_input.iter().take(MAX_GROUP_ROWS).map(plain).collect());
    group("failed", report.failed.iter().take(MAX_GROUP_ROWS).map(plain).collect());
    let stopped = report.stopped_by.iter().take(MAX_GROUP_ROWS);
    let stopped = stopped.map(|cause| row(&cause.last, rule(&cause.rule), times(cause.tasks)));
    group("stopped by", stopped.collect());
    let reaped = report.reaped.iter().take(MAX_MINOR_GROUP_ROWS).map(|reaped| {
        let cells = ["".to_owned(), rule(&reaped.rule), times(reaped.processes), "-".to_owned()];
        (cells, reaped.command.clone())
    });
    group("reaped by", reaped.collect());
    group("lingering", report.lingering.iter().take(MAX_MINOR_GROUP_ROWS).map(plain).collect());
    group("slowest", report.slowest.iter().take(MAX_GROUP_ROWS).map(plain).collect());
    let noisiest = report.noisiest.iter().take(MAX_GROUP_ROWS);
    group("noisiest", noisiest.map(|task| row(task, format_state(task), size_of(task))).collect());
    rows
}

#[cfg(test)]
pub(super) mod tests {
    use siding_model::activity::{ActivityCounts, Period, ReapRule, StopCause};
    use siding_model::process::UnixMs;
    use siding_model::task_view::PhaseName;

    use super::*;

    const DAY: Duration = Duration::from_secs(DAY_SECONDS);

    pub(in crate::cmd::report) fn full_report(command: &str) -> ActivityReport {
        let task = ActivityTask {
            task_id: "b-4k7q0n2m8x5t".parse().expect("an id"),
            command: command.to_owned(),
            cwd: "/p".to_owned(),
            phase: PhaseName::Ended,
            outcome: Some(Outcome::Exited { code: 7 }),
            ended_at: Some("2026-11-22T03:00:00.000Z".to_owned()),
            elapsed_ms: Some(192_000),
            output_bytes: Some(5 << 20),
            needs_input: false,
            approximate_end: Some("2026-11-22T03:00:00.000Z".to_owned()),
        };
        let list = || vec![task.clone(); 20];
        let cause = StopCause { rule: "deadline".to_owned(), tasks: 3, last: task.clone() };
        let reaped = ReapRule {
            rule: command.to_owned(),
            processes: 2,
            last_at: "2026-11-22T03:00:00.000Z".to_owned(),
            command: command.to_owned(),
        };
        let period = Period { since: UnixMs(0), until: UnixMs(1) };
        let counts = ActivityCounts {
            ran: 42,
            running: 4,
            ended: 38,
            succeeded: 30,
            failed: 5,
            stopped: 2,
            timed_out: 1,
            ..ActivityCounts::default()
        };
        ActivityReport {
            counts,
            failed: list(),
            stopped_by: vec![cause; 9],
            reaped: vec![reaped; 9],
            lingering: list(),
            needs_input: list(),
            slowest: list(),
            noisiest: list(),
            disk: DiskUse { tasks: 38, bytes: 212 << 20, max_bytes: 2 << 30 },
            ..ActivityReport::new(period, Vec::new(), &[], DiskUse::default())
        }
    }

    #[test]
    fn the_largest_report_fits_one_screen() {
        for command in ["npm test", &"\u{1b}[2J\u{65e5}long\n".repeat(60)] {
            let text = format_screen(&full_report(command), DAY, ColorMode::Off);
            assert!(text.lines().count() <= 24, "{text}");
            for line in text.lines() {
                assert_eq!(line, one_line(line, 80), "{text}");
            }
        }
        let text = format_screen(&full_report("npm test"), DAY, ColorMode::Off);
        let expected = "\
last 24 hours: 42 tasks, 30 succeeded, 5 failed, 2 stopped, 1 timed out, 4
running
             HOW ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn an_empty_report_says_so() {
        let period = Period { since: UnixMs(0), until: UnixMs(1) };
        let empty = ActivityReport::new(period, Vec::new(), &[], DiskUse::default());
        assert_eq!(format_screen(&empty, DAY, ColorMode::Off), "last 24 hours: nothing ran\n");
    }

    #[test]
    fn periods_are_formatted_in_words() {
        let words = |hours: u64| format_period(Duration::from_secs(hours * 3600));
        assert_eq!([24, 48, 168, 8].map(words), ["24 hours", "2 days", "7 days", "8h"]);
    }
}
