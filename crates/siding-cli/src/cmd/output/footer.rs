//! The footer of `siding output`: a line with the state of the task or with the command to call
//! next.

use std::time::Duration;

use siding_core::output::ReadSummary;
use siding_core::sys::clock;
use siding_core::task::view::queue_text;
use siding_model::duration::format_duration;
use siding_model::size::size_in_words;
use siding_model::task_view::PhaseName;
use siding_model::text::one_line;

use crate::context::Task;

/// Maximum width in columns of the outcome in the footer.
const OUTCOME_COLUMNS: usize = 200;
/// Maximum width in columns of the status of a job in the footer.
pub(super) const STATUS_COLUMNS: usize = 300;

/// Part of the output that the call requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// All output, or all new output.
    Unfiltered,
    /// One page, from `--since` to the size limit.
    Page,
    /// The lines that `--tail`, `--grep` or `--errors` chooses.
    Filtered,
}

/// Whether any text was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Printed {
    Something,
    /// Nothing was printed, so the footer is the only answer.
    Nothing,
}

/// Returns the footer, a line for standard error; `None` if there is nothing to add.
pub(super) fn format_footer(
    task: &Task,
    mode: ReadMode,
    printed: Printed,
    reading: &ReadSummary,
) -> Option<String> {
    let id = task.dir.id();
    let elapsed =
        format_duration(Duration::from_millis(task.state.elapsed_ms(clock::monotonic_now())));
    let ended = task
        .state
        .lifecycle
        .outcome()
        .map(|outcome| one_line(&outcome.to_string(), OUTCOME_COLUMNS));
    let ReadSummary { next, bytes, .. } = *reading;
    if printed == Printed::Something {
        if mode == ReadMode::Page && next < bytes && reading.truncated {
            let more = size_in_words(bytes - next);
            return Some(format!("{more} more: `siding output {id} --since {next}`"));
        }
        let lost = match task.state.closed.as_ref().map_or(0, |closed| closed.output.lost) {
            0 => String::new(),
            lost => format!("; {} of its output could not be stored", size_in_words(lost)),
        };
        let loss = task.state.remote.as_ref().and_then(|remote| remote.input_loss);
        let loss = loss.map_or_else(String::new, |loss| format!("; {}", loss.describe()));
        return ended.map(|ended| format!("{id} {ended} after {elapsed}{lost}{loss}"));
    }
    let nothing = match (mode, bytes) {
        (_, 0) => format!("{id} has written nothing"),
        (ReadMode::Unfiltered | ReadMode::Page, _) => format!("nothing new from {id}"),
        (ReadMode::Filtered, _) => format!("no such line from {id}"),
    };
    Some(match ended {
        Some(ended) if mode == ReadMode::Unfiltered && bytes > 0 => {
            format!("{nothing}, {ended}; --all shows everything again")
        }
        Some(ended) => format!("{nothing}, {ended}"),
        None => {
            let state = match queue_text(&task.state) {
                Some(status) => format!("it {}", one_line(&status, STATUS_COLUMNS)),
                None => {
                    let phase = PhaseName::from(task.state.lifecycle.phase());
                    format!("{} for {elapsed}", phase.as_str())
                }
            };
            format!("{nothing}, {state}; `siding wait {id}` waits for its end")
        }
    })
}
