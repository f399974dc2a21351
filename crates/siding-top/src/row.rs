//! One task as the list shows it, and the text of its cells.

use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::id::{SessionId, TaskId};
use siding_model::outcome::OutcomeGroup;
use siding_model::process::MonotonicMs;
use siding_model::size::format_size;
use siding_model::text::one_line;

use crate::theme::Tone;

/// Cells of the bar that shows the elapsed time against the usual time.
pub(crate) const BAR_CELLS: usize = 6;
/// Maximum number of columns of a text that comes from a task, before it is fitted to its column.
const MAX_TEXT_COLUMNS: usize = 400;

/// The state of a task, which determines the symbol and the tone of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowState {
    /// The task needs a person, for one of the reasons in
    /// [`PersonNeed`](siding_model::person_need::PersonNeed).
    NeedsPerson,
    /// The command is running or starting.
    Running,
    /// The command is running or starting on a remote machine that is not reachable now.
    Unreachable,
    /// The task is being stopped.
    Stopping,
    /// The command has ended and its descendants are alive.
    Lingering,
    /// The task has ended.
    Ended(OutcomeGroup),
}

impl RowState {
    /// Returns the symbol in front of the row.
    pub(crate) const fn symbol(self) -> char {
        match self {
            Self::NeedsPerson => '!',
            Self::Running | Self::Unreachable => '●',
            Self::Stopping => '■',
            Self::Lingering => '◌',
            Self::Ended(group) => group.symbol(),
        }
    }

    /// Returns the tone of the state.
    pub(crate) const fn tone(self) -> Tone {
        match self {
            Self::NeedsPerson | Self::Unreachable => Tone::Warning,
            Self::Running => Tone::Busy,
            Self::Stopping | Self::Lingering => Tone::Normal,
            Self::Ended(OutcomeGroup::Succeeded) => Tone::Good,
            Self::Ended(OutcomeGroup::Stopped) => Tone::Faint,
            Self::Ended(OutcomeGroup::Failed) => Tone::Bad,
        }
    }
}

/// The values of a task's row in the list. Texts may contain anything that a task or a caller
/// wrote; they are escaped when they become cells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TaskRow {
    pub(crate) id: TaskId,
    /// The command with the name in front of it, or only the name of a task that runs siding itself.
    pub(crate) title: String,
    pub(crate) command: String,
    pub(crate) session: SessionId,
    /// The program to which the session belongs; empty if it is unknown.
    pub(crate) host: &'static str,
    pub(crate) state: RowState,
    /// The state in one or two words: `running`, `exited 1`, `needs you`.
    pub(crate) state_text: String,
    pub(crate) started: MonotonicMs,
    /// The duration of an ended task in milliseconds; `None` while the task is alive.
    pub(crate) final_elapsed_ms: Option<u64>,
    /// The usual duration in milliseconds.
    pub(crate) expected_ms: Option<u64>,
    /// The time of the last output on the monotonic clock; `None` if it is unknown.
    pub(crate) silent_since: Option<MonotonicMs>,
    /// The reason why the task is silent or needs a person, or another note about the task; may be
    /// empty.
    pub(crate) reason: String,
    /// Processor time, in percent of one core.
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) processes: Option<usize>,
    pub(crate) ports: Vec<u16>,
    /// Output rate in bytes per second.
    pub(crate) output_rate: Option<f64>,
    pub(crate) unread_notices: usize,
    pub(crate) is_adopted: bool,
    /// Whether the task has a terminal.
    pub(crate) has_terminal: bool,
    /// The file with the output.
    pub(crate) output_path: String,
    /// Whether the shim was killed; `reason` then says so, and how to repair the task.
    pub(crate) is_unsupervised: bool,
    /// The deadline on the monotonic clock; `None` without a deadline.
    pub(crate) deadline: Option<MonotonicMs>,
}

impl TaskRow {
    /// Returns whether the task has not ended.
    pub(crate) const fn is_live(&self) -> bool {
        self.final_elapsed_ms.is_none()
    }

    /// Returns the duration until now, or until the end, in milliseconds.
    pub(crate) fn elapsed_ms(&self, now: MonotonicMs) -> u64 {
        self.final_elapsed_ms.unwrap_or_else(|| now.ms_since(self.started))
    }

    /// Returns the time without output, in milliseconds; `None` if the task has ended or the time
    /// is unknown.
    pub(crate) fn silent_ms(&self, now: MonotonicMs) -> Option<u64> {
        self.silent_since.filter(|_| self.is_live()).map(|since| now.ms_since(since))
    }

    /// Returns the usual duration in milliseconds; `None` if it is unknown or the task has ended.
    pub(crate) fn usual_ms(&self) -> Option<u64> {
        self.expected_ms.filter(|_| self.is_live())
    }

    /// Returns the title, escaped as one line.
    pub(crate) fn title_line(&self) -> String {
        one_line(&self.title, MAX_TEXT_COLUMNS)
    }

    /// Returns the elapsed time. Adds a bar and the usual time with `has_bar`, if the task runs and
    /// its usual time is known.
    pub(crate) fn time_text(&self, now: MonotonicMs, has_bar: bool) -> String {
        let elapsed = self.elapsed_ms(now);
        let text = format_ms(elapsed);
        match self.usual_ms().filter(|_| has_bar) {
            Some(usual) => {
                format!("{text:>7} {} {}", time_bar(elapsed, usual), format_ms(usual))
            }
            None => format!("{text:>7}"),
        }
    }

    /// Returns the duration of the task's silence, and the reason.
    pub(crate) fn silence_text(&self, now: MonotonicMs) -> String {
        /// A shorter silence is not shown.
        const MIN_SILENCE_MS: u64 = 5_000;
        let silence = self.silent_ms(now).filter(|ms| *ms >= MIN_SILENCE_MS);
        let reason = one_line(&self.reason, MAX_TEXT_COLUMNS);
        match (silence, reason.as_str()) {
            (Some(ms), "") => format!("silent {}", format_ms(ms)),
            (Some(ms), reason) => format!("{}: {reason}", format_ms(ms)),
            (None, reason) => reason.to_owned(),
        }
    }

    pub(crate) fn cpu_text(&self) -> String {
        self.cpu_percent.map_or_else(String::new, |percent| format!("{percent:.0}%"))
    }

    pub(crate) fn memory_text(&self) -> String {
        self.memory_bytes.map_or_else(String::new, format_size)
    }

    pub(crate) fn processes_text(&self) -> String {
        self.processes.map_or_else(String::new, |count| count.to_string())
    }

    pub(crate) fn ports_text(&self) -> String {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        ports.join(",")
    }

    pub(crate) fn rate_text(&self) -> String {
        match self.output_rate {
            Some(rate) if rate >= 1.0 => format!("{}/s", format_size(rate as u64)),
            Some(_) | None => String::new(),
        }
    }

    pub(crate) fn unread_text(&self) -> String {
        if self.unread_notices == 0 { String::new() } else { self.unread_notices.to_string() }
    }
}

/// Formats milliseconds for a table: whole seconds, because the screen is updated once a second.
pub(crate) fn format_ms(ms: u64) -> String {
    format_duration(Duration::from_secs(ms / 1000))
}

/// Draws the used part of the usual time or of a limit. Beyond it, the bar ends with a `+`.
pub(crate) fn time_bar(elapsed_ms: u64, usual_ms: u64) -> String {
    if elapsed_ms > usual_ms {
        return "▓".repeat(BAR_CELLS - 1) + "+";
    }
    let full = u128::from(elapsed_ms) * BAR_CELLS as u128 / u128::from(usual_ms.max(1));
    let full = usize::try_from(full).unwrap_or(BAR_CELLS).min(BAR_CELLS);
    "▓".repeat(full) + &"░".repeat(BAR_CELLS - full)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const NOW: MonotonicMs = MonotonicMs(1_000_000);

    /// Returns the row of a task that has been running for 130 s.
    pub(crate) fn sample_row(id: &str, command: &str) -> TaskRow {
        TaskRow {
            id: id.parse().expect("an id"),
            title: command.to_owned(),
            command: command.to_owned(),
            session: "claude-1".parse().expect("a session id"),
            host: "claude",
            state: RowState::Running,
            state_text: "running".to_owned(),
            started: MonotonicMs(870_000),
            final_elapsed_ms: None,
            expected_ms: Some(240_000),
            silent_since: Some(MonotonicMs(999_000)),
            reason: String::new(),
            cpu_percent: Some(87.6),
            memory_bytes: Some(56 << 20),
            processes: Some(3),
            ports: vec![3000],
            output_rate: Some(1_434.2),
            unread_notices: 2,
            is_unsupervised: false,
            is_adopted: false,
            has_terminal: false,
            output_path: "/state/tasks/x/output".to_owned(),
            deadline: Some(MonotonicMs(2_000_000)),
        }
    }

    #[test]
    fn elapsed_time_is_compared_with_the_usual_time() {
        let mut row = sample_row("b-4k7q0n2m8x5t", "npm test");
        assert_eq!(row.time_text(NOW, true), " 2m 10s ▓▓▓░░░ 4m");
        assert_eq!(row.time_text(NOW, false), " 2m 10s");
        row.expected_ms = Some(100_000);
        assert_eq!(row.time_text(NOW, true), " 2m 10s ▓▓▓▓▓+ 1m 40s");
        row.final_elapsed_ms = Some(61_000);
        assert_eq!(row.time_text(NOW, true), "  1m 1s");
        assert_eq!(time_bar(u64::MAX, u64::MAX), "▓▓▓▓▓▓");
        assert_eq!(time_bar(0, 0), "░░░░░░");
    }

    #[test]
    fn silence_is_shown_with_its_reason() {
        let mut row = sample_row("b-4k7q0n2m8x5t", "npm test");
        assert_eq!(row.silence_text(NOW), "");
        row.silent_since = Some(MonotonicMs(940_000));
        assert_eq!(row.silence_text(NOW), "silent 1m");
        row.reason = "waits for input: \"Continue? \u{1b}[2J\"".to_owned();
        assert_eq!(row.silence_text(NOW), "1m: waits for input: \"Continue? \\e[2J\"");
        row.final_elapsed_ms = Some(5);
        assert!(!row.silence_text(NOW).contains("1m"));
    }

    #[test]
    fn only_a_success_has_a_green_check_mark() {
        let mark = |group| {
            let state = RowState::Ended(group);
            (state.symbol(), state.tone())
        };
        assert_eq!(mark(OutcomeGroup::Succeeded), ('✓', Tone::Good));
        assert_eq!(mark(OutcomeGroup::Stopped), ('■', Tone::Faint));
        assert_eq!(mark(OutcomeGroup::Failed), ('✗', Tone::Bad));
    }

    #[test]
    fn numbers_are_short() {
        let row = sample_row("b-4k7q0n2m8x5t", "npm test");
        assert_eq!(
            [row.cpu_text(), row.memory_text(), row.rate_text(), row.ports_text()],
            ["88%", "56MiB", "1.4KiB/s", "3000"]
        );
    }
}
