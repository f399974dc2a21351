//! Formats the state of a task in a few words.

use std::time::Duration;

use siding_model::advice::format_task_line;
use siding_model::duration::format_duration;
use siding_model::outcome::{Outcome, OutcomeGroup};
use siding_model::task_view::{PhaseName, TaskView};

use super::color::TextStyle;
use crate::stdout;

/// Formats the time for which a task has run or, while it is queued, has waited in the queue.
pub(super) fn format_elapsed(view: &TaskView) -> String {
    format_duration(Duration::from_millis(view.state_time_ms()))
}

/// Formats the outcome, or the state of a task that has not ended, in one or two words.
pub(super) fn short_state(view: &TaskView) -> String {
    view.outcome.as_ref().map_or_else(|| view.live_state().to_owned(), Outcome::short_text)
}

/// Returns the style in which a task's state is printed.
pub(super) fn state_style(view: &TaskView) -> TextStyle {
    match view.outcome.as_ref().map(Outcome::group) {
        Some(OutcomeGroup::Succeeded) => TextStyle::Good,
        Some(OutcomeGroup::Stopped) => TextStyle::Faint,
        Some(OutcomeGroup::Failed) => TextStyle::Bad,
        None if view.unreachable.is_some() => TextStyle::Warning,
        None => match view.phase {
            PhaseName::Starting
            | PhaseName::Running
            | PhaseName::Stopping
            | PhaseName::Lingering
            | PhaseName::Ended => TextStyle::Busy,
        },
    }
}

/// Formats one line about a task: its outcome or, if it has not ended, its state.
pub(crate) fn ended_line(view: &TaskView) -> String {
    format_task_line(view, stdout::text_columns())
}

#[cfg(test)]
mod tests {
    use siding_model::text::one_line;

    use super::super::LINE_COLUMNS;
    use super::super::sample::{HOSTILE_TEXT, ended_task, running_task};
    use super::*;

    #[test]
    fn ended_line_shows_the_outcome() {
        assert_eq!(
            ended_line(&ended_task(Outcome::Exited { code: 7 })),
            "b-4k7q0n2m8x5t  exited 7 after 15s  npm test"
        );
        assert_eq!(ended_line(&running_task()), "b-4k7q0n2m8x5t  running after 15s  npm test");
        let view = TaskView { command: HOSTILE_TEXT.to_owned(), ..running_task() };
        assert_eq!(ended_line(&view), one_line(&ended_line(&view), LINE_COLUMNS));
        let view = ended_task(Outcome::Lost { why: HOSTILE_TEXT.to_owned() });
        assert_eq!(ended_line(&view), one_line(&ended_line(&view), LINE_COLUMNS));
        assert!(ended_line(&view).ends_with("… after 15s"));
    }
}
