//! Adds the screen to notices about a task with a terminal, whose output may not be readable as
//! lines.

use siding_core::store::StateDir;
use siding_model::id::TaskId;
use siding_model::notice::{MAX_SUMMARY_BYTES, NoticeKind, NoticeStatus, NoticeView};
use siding_model::text::make_visible;

use crate::history::TerminalHistory;
use crate::replay::TerminalReplay;
use crate::screen::Screen;

/// Maximum number of rows in a notice.
const NOTICE_ROWS: usize = 12;

/// In each notice about a released terminal, and about the state of a task while a full-screen
/// program draws, replaces the excerpt of the output with the last rows of the screen. If the
/// screen cannot be computed, the notice does not change.
pub fn show_screens_in_notices(root: &StateDir, notices: &mut [NoticeView]) {
    for notice in notices {
        let is_returned = notice.status == NoticeStatus::TerminalReturned;
        if (is_returned || has_excerpt_of_running_task(notice.kind))
            && let Some(screen) = present_screen(root, notice.task_id)
            && (is_returned || screen.is_alternate())
        {
            notice.summary = summarize(&notice.summary, &screen);
        }
    }
}

/// Returns whether the summary of a notice consists of siding's own sentence and an excerpt of the
/// output of a task that still runs.
const fn has_excerpt_of_running_task(kind: NoticeKind) -> bool {
    match kind {
        NoticeKind::Stalled
        | NoticeKind::Lingering
        | NoticeKind::Limit
        | NoticeKind::Ready
        | NoticeKind::Expiring => true,
        NoticeKind::Ended | NoticeKind::Matched | NoticeKind::Terminal => false,
    }
}

fn present_screen(root: &StateDir, id: TaskId) -> Option<Screen> {
    let dir = root.task_dir(id).ok()?;
    let state = dir.read().ok()?.state;
    let history = TerminalHistory::from(state.terminal.as_ref()?);
    let replay = TerminalReplay::open(&dir, &history, None, !state.is_live()).ok()?;
    Some(replay.screen())
}

/// Returns the first line of a summary and the last rows of a screen, up to the last row with text.
fn summarize(summary: &str, screen: &Screen) -> String {
    let headline = summary.lines().next().unwrap_or_default();
    let rows: Vec<&str> = screen.rows().collect();
    let end = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    let shown = &rows[end.saturating_sub(NOTICE_ROWS)..end];
    let mut text = headline.to_owned();
    for row in shown {
        let row = make_visible(row);
        if text.len() + 1 + row.len() > MAX_SUMMARY_BYTES {
            break;
        }
        text.push('\n');
        text.push_str(&row);
    }
    text
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::TerminalSize;

    use super::*;
    use crate::Emulator;

    #[test]
    fn the_last_rows_follow_the_headline() {
        let mut emulator = Emulator::new(TerminalSize { columns: 500, rows: 30 });
        let lines: String = (1..=20).map(|number| format!("line {number}\r\n")).collect();
        emulator.feed(lines.as_bytes());
        let text = summarize("given back\nline 1 of the output", &emulator.screen());
        assert!(text.starts_with("given back\nline 9\n"), "{text}");
        assert!(text.ends_with("\nline 20"), "{text}");
        emulator.feed("\x1b[H".as_bytes());
        emulator.feed("\u{1f600}".repeat(4_000).as_bytes());
        let text = summarize("given back", &emulator.screen());
        assert!(text.len() <= MAX_SUMMARY_BYTES, "{} bytes", text.len());
        let blank = Emulator::new(TerminalSize::DEFAULT).screen();
        assert_eq!(summarize("given back", &blank), "given back");
    }
}
