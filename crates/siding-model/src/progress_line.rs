//! The line that shows a person the progress of a task during a wait: its text, and the times at
//! which it is painted.

use std::time::Duration;

use crate::duration::format_duration;
use crate::evidence::{AttentionView, WhyVerdict};
use crate::process::MonotonicMs;
use crate::terminal::AwaitedInput;
use crate::text::{CharacterSet, display_width, one_line};

/// Time between two repaints of the line, in milliseconds.
const REPAINT_MS: u64 = 1_000;
/// Number of cells of the bar.
const BAR_CELLS: usize = 5;
/// Minimum columns for the state of a remote machine, and for the last line of the output. In a
/// narrower space they are left out.
const MIN_TEXT_COLUMNS: usize = 10;
/// Space between two parts of the line.
const SEPARATOR: &str = "  ";

/// The facts about a task that the line shows.
#[derive(Debug, Clone, Copy)]
pub struct ProgressFacts<'a> {
    /// The number of tasks that have ended and of all tasks, if the caller waits for several.
    pub counts: Option<(usize, usize)>,
    /// Time since the start of the task, in milliseconds.
    pub elapsed_ms: u64,
    /// Usual duration of the command in milliseconds; `None` if it is unknown.
    pub usual_ms: Option<u64>,
    /// The state of the connection to the task's machine, or of its job in a queue; `None` if there
    /// is nothing to say. It is untrusted, and is escaped.
    pub remote: Option<&'a str>,
    /// The current stall of the task.
    pub stall: Option<&'a AttentionView>,
    /// A hint of siding itself, such as the key that moves the command to the background.
    pub hint: Option<&'a str>,
    /// The last line of the task's output. It is untrusted, and is escaped.
    pub last_line: &'a str,
}

/// Draws the share of `done` in `all`: `▓▓▓░░` or `[###--]`. If `done` exceeds `all`, a `+`
/// follows.
fn draw_bar(characters: CharacterSet, done: u64, all: u64) -> String {
    let (done_cells, all_wide) = (u128::from(done) * BAR_CELLS as u128, u128::from(all.max(1)));
    // The share is rounded to the nearest cell.
    let share = (2 * done_cells + all_wide) / (2 * all_wide);
    let full = usize::try_from(share).unwrap_or(BAR_CELLS).min(BAR_CELLS);
    let empty = BAR_CELLS - full;
    let more = if done > all { "+" } else { "" };
    match characters {
        CharacterSet::Unicode => format!("{}{}{more}", "▓".repeat(full), "░".repeat(empty)),
        CharacterSet::Ascii => format!("[{}{}]{more}", "#".repeat(full), "-".repeat(empty)),
    }
}

/// Formats the line: `2m 10s ▓▓▓░░ of 4m  silent for 50s: waits for input  Continue? [y/N]`.
///
/// The result is safe to print and takes at most `columns` columns. Parts that do not fit are left
/// out. The last line of the output is cut, and so is the elapsed time in a very narrow space.
#[must_use]
pub fn format_progress_line(
    facts: ProgressFacts<'_>,
    columns: usize,
    characters: CharacterSet,
) -> String {
    let mut line = format_time(facts, characters);
    if let Some((ended, all)) = facts.counts {
        line = format!("{ended} of {all} ended{SEPARATOR}{line}");
    }
    let silence = facts.stall.map(format_silence);
    let parts = [silence.as_deref(), facts.hint];
    for part in parts.into_iter().flatten() {
        let part = one_line(part, columns);
        if display_width(&line) + SEPARATOR.len() + display_width(&part) <= columns {
            line.push_str(SEPARATOR);
            line.push_str(&part);
        }
    }
    for part in [facts.remote.unwrap_or_default(), facts.last_line] {
        let left = columns.saturating_sub(display_width(&line) + SEPARATOR.len());
        if left >= MIN_TEXT_COLUMNS && !part.is_empty() {
            line.push_str(SEPARATOR);
            line.push_str(&one_line(part, left));
        }
    }
    characters.replace_symbols(&one_line(&line, columns)).into_owned()
}

/// Formats the elapsed time and, if it is known, the usual one.
fn format_time(facts: ProgressFacts<'_>, characters: CharacterSet) -> String {
    let elapsed = format_seconds(facts.elapsed_ms);
    match facts.usual_ms {
        Some(usual) => {
            let bar = draw_bar(characters, facts.elapsed_ms, usual);
            format!("{elapsed} {bar} of {}", format_seconds(usual))
        }
        None => elapsed,
    }
}

/// Formats a duration. From one second it has no fractions, because the line changes once a second.
fn format_seconds(ms: u64) -> String {
    format_duration(if ms < 1_000 {
        Duration::from_millis(ms)
    } else {
        Duration::from_secs(ms / 1_000)
    })
}

/// Formats how long the task has been silent, and why.
fn format_silence(stall: &AttentionView) -> String {
    let silent = format!("silent for {}", format_seconds(stall.silent_ms));
    let reason = match stall.verdict {
        WhyVerdict::InputWait | WhyVerdict::InputLikely
            if stall.awaited_input == Some(AwaitedInput::Secret) =>
        {
            "waits for a password"
        }
        WhyVerdict::InputWait => "waits for input",
        WhyVerdict::InputLikely => "probably waits for input",
        WhyVerdict::PasswordLikely => "probably waits for a password",
        WhyVerdict::TtyStopped => "stopped by the terminal",
        WhyVerdict::Stopped => "stopped by a signal",
        WhyVerdict::Busy => "computes",
        WhyVerdict::Serving => "serves requests",
        WhyVerdict::Waiting => match stall.waiting_on {
            Some(object) => return format!("{silent}: waits ({})", object.as_str()),
            None => "waits",
        },
        WhyVerdict::Quiet | WhyVerdict::Unknown => return silent,
    };
    format!("{silent}: {reason}")
}

/// Decides when the line is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressSchedule {
    /// Silence of the output after which the line appears, in milliseconds.
    delay_ms: u64,
    state: LineState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// The line appears at this time, unless there is output before.
    Hidden { appears_at: MonotonicMs },
    /// The line is on the screen, and is repainted at this time.
    Visible { repaint_at: MonotonicMs },
    /// The line is not painted, because the caller is in the background of the terminal.
    Paused,
}

impl ProgressSchedule {
    /// Returns a schedule whose line appears after `delay_ms` milliseconds.
    #[must_use]
    pub const fn new(delay_ms: u64, now: MonotonicMs) -> Self {
        Self { delay_ms, state: LineState::Hidden { appears_at: now.plus_ms(delay_ms) } }
    }

    /// Returns when the line must be painted; `None` while the caller is in the background of the
    /// terminal.
    #[must_use]
    pub const fn paint_at(&self) -> Option<MonotonicMs> {
        match self.state {
            LineState::Hidden { appears_at: at } | LineState::Visible { repaint_at: at } => {
                Some(at)
            }
            LineState::Paused => None,
        }
    }

    /// Returns whether the line is on the screen.
    #[must_use]
    pub const fn is_visible(&self) -> bool {
        matches!(self.state, LineState::Visible { .. })
    }

    /// Records that the line was painted.
    pub const fn on_painted(&mut self, now: MonotonicMs) {
        self.state = LineState::Visible { repaint_at: now.plus_ms(REPAINT_MS) };
    }

    /// Records output of the command or of the caller, which replaces the line on the screen.
    pub const fn on_output(&mut self, now: MonotonicMs) {
        if self.paint_at().is_some() {
            self.state = LineState::Hidden { appears_at: now.plus_ms(self.delay_ms) };
        }
    }

    /// Records that the caller is in the background of the terminal.
    pub const fn pause(&mut self) {
        self.state = LineState::Paused;
    }

    /// Records that the caller may be in the foreground of the terminal again.
    pub const fn resume(&mut self, now: MonotonicMs) {
        if matches!(self.state, LineState::Paused) {
            self.state = LineState::Hidden { appears_at: now.plus_ms(self.delay_ms) };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::evidence::{Certainty, WaitingOn};

    const FACTS: ProgressFacts<'_> = ProgressFacts {
        counts: None,
        elapsed_ms: 130_400,
        usual_ms: Some(240_000),
        remote: None,
        stall: None,
        hint: None,
        last_line: "",
    };

    fn stall(verdict: WhyVerdict, waiting_on: Option<WaitingOn>) -> AttentionView {
        let (certainty, advice) = (Certainty::Hard, String::new());
        AttentionView {
            verdict,
            waiting_on,
            awaited_input: None,
            certainty,
            silent_ms: 50_900,
            advice,
        }
    }

    #[test]
    fn the_line_has_the_time_the_silence_and_the_last_line() {
        let line = |facts, columns| format_progress_line(facts, columns, CharacterSet::Unicode);
        assert_eq!(line(FACTS, 80), "2m 10s ▓▓▓░░ of 4m");
        assert_eq!(line(ProgressFacts { usual_ms: None, ..FACTS }, 80), "2m 10s");
        let last = ProgressFacts { last_line: "Compiling serde v1.0.228", ..FACTS };
        assert_eq!(line(last, 80), "2m 10s ▓▓▓░░ of 4m  Compiling serde v1.0.228");
        assert_eq!(line(last, 35), "2m 10s ▓▓▓░░ of 4m  Compiling serd…");
        assert_eq!(line(last, 29), "2m 10s ▓▓▓░░ of 4m");
        let asks = stall(WhyVerdict::InputWait, None);
        let asking = ProgressFacts { stall: Some(&asks), ..last };
        assert_eq!(
            line(asking, 80),
            "2m 10s ▓▓▓░░ of 4m  silent for 50s: waits for input  Compiling serde v1.0.228"
        );
        assert_eq!(line(asking, 50), "2m 10s ▓▓▓░░ of 4m  Compiling serde v1.0.228");
        let counts = ProgressFacts { counts: Some((1, 3)), hint: Some("Ctrl-B"), ..FACTS };
        assert_eq!(line(counts, 80), "1 of 3 ended  2m 10s ▓▓▓░░ of 4m  Ctrl-B");
        let queued = ProgressFacts { remote: Some("queued: job 7\u{1b}[2J"), ..counts };
        let expected = "1 of 3 ended  2m 10s ▓▓▓░░ of 4m  Ctrl-B  queued: job 7\\e[2J";
        assert_eq!(line(queued, 80), expected);
        let secret = AttentionView {
            awaited_input: Some(AwaitedInput::Secret),
            ..stall(WhyVerdict::InputWait, None)
        };
        assert_eq!(format_silence(&secret), "silent for 50s: waits for a password");
        let network = stall(WhyVerdict::Waiting, Some(WaitingOn::Network));
        assert_eq!(format_silence(&network), "silent for 50s: waits (network)");
        assert_eq!(format_silence(&stall(WhyVerdict::Unknown, None)), "silent for 50s");
    }

    #[test]
    fn the_bar_is_full_at_the_usual_time_and_marks_a_longer_run() {
        let bars = [0, 49, 50, 100, 101].map(|done| draw_bar(CharacterSet::Ascii, done, 100));
        assert_eq!(bars, ["[-----]", "[##---]", "[###--]", "[#####]", "[#####]+"]);
        assert_eq!(draw_bar(CharacterSet::Unicode, u64::MAX, 0), "▓▓▓▓▓+");
    }

    #[test]
    fn the_line_appears_after_silence_and_changes_once_a_second() {
        let at = MonotonicMs;
        let mut schedule = ProgressSchedule::new(3_000, at(0));
        assert_eq!(schedule.paint_at(), Some(at(3_000)));
        schedule.on_output(at(2_000));
        assert_eq!((schedule.paint_at(), schedule.is_visible()), (Some(at(5_000)), false));
        schedule.on_painted(at(5_001));
        assert_eq!((schedule.paint_at(), schedule.is_visible()), (Some(at(6_001)), true));
        schedule.pause();
        assert_eq!((schedule.paint_at(), schedule.is_visible()), (None, false));
        schedule.on_output(at(7_000));
        assert_eq!(schedule.paint_at(), None);
        schedule.resume(at(8_000));
        assert_eq!(schedule.paint_at(), Some(at(11_000)));
    }

    proptest! {
        #[test]
        fn the_line_is_safe_and_fits(
            last_line in any::<String>(), hint in any::<Option<String>>(),
            elapsed_ms in any::<u64>(), usual_ms in any::<Option<u64>>(), columns in 0..120_usize,
            counts in any::<Option<(usize, usize)>>(), is_stalled in any::<bool>(),
        ) {
            let stall = stall(WhyVerdict::PasswordLikely, None);
            let facts = ProgressFacts {
                counts,
                elapsed_ms,
                usual_ms,
                remote: hint.as_deref(),
                stall: is_stalled.then_some(&stall),
                hint: hint.as_deref(),
                last_line: &last_line,
            };
            for characters in [CharacterSet::Unicode, CharacterSet::Ascii] {
                let line = format_progress_line(facts, columns, characters);
                prop_assert!(display_width(&line) <= columns);
                prop_assert_eq!(&one_line(&line, columns), &line);
            }
        }
    }
}
