//! Queries the history of earlier runs. An unusable `history.db` does not make a command fail.

use siding_core::store::StateDir;
use siding_history::{Filter, History, HistoryError, HistoryOutcome};
use siding_model::history::{Expectation, Run};
use siding_model::task_view::TaskView;

use crate::failure::Failure;
use crate::render;

/// Adds the usual duration to running tasks. If no task runs, the history is not opened.
pub(crate) fn add_expectations(root: &StateDir, views: &mut [TaskView]) {
    if !views.iter().any(TaskView::is_in_progress) {
        return;
    }
    let usual = expectations(root, views.iter());
    for (view, usual) in views.iter_mut().zip(usual) {
        if let Some(usual) = usual {
            view.set_expectation(&usual);
        }
    }
}

/// Returns the usual duration of each task that is in progress, in the order of `views`; nothing if
/// the history cannot be used.
pub(crate) fn expectations<'v>(
    root: &StateDir,
    views: impl Iterator<Item = &'v TaskView> + Clone,
) -> Vec<Option<Expectation>> {
    let usual = query_best_effort(root, |history| {
        let usual = |view: &TaskView| {
            if !view.is_in_progress() {
                return Ok(None);
            }
            history.expectation(&view.command, &view.history_directory())
        };
        views.clone().map(usual).collect::<Result<Vec<_>, _>>()
    });
    usual.unwrap_or_default()
}

/// Returns the usual duration of a command in a directory, if it is known.
pub(crate) fn expectation(root: &StateDir, command: &str, cwd: &str) -> Option<Expectation> {
    query_best_effort(root, |history| history.expectation(command, cwd)).flatten()
}

/// Adds ended tasks to the history before some of them are removed. Prints a note on failure.
pub(crate) fn ingest_ended_runs(root: &StateDir) {
    if let Err(error) = try_ingest_ended_runs(root) {
        render::print_note(&format!("ended tasks were not added to the history: {error}"));
    }
}

/// Adds ended tasks to the history.
pub(crate) fn try_ingest_ended_runs(root: &StateDir) -> Result<(), HistoryError> {
    siding_history::with_history(root, |history| history.ingest(root, usize::MAX).map(drop))
        .map(report_moved_file)
}

/// Runs a query on the history. If `history.db` cannot be used, prints a note and queries a
/// temporary history of the tasks whose journals are still kept.
pub(crate) fn query<T>(
    root: &StateDir,
    question: impl Fn(&History) -> Result<T, HistoryError>,
) -> Result<T, Failure> {
    let answer = |history: &mut History| {
        history.ingest(root, usize::MAX)?;
        question(history)
    };
    siding_history::with_history(root, answer).map(report_moved_file).or_else(|error| {
        render::print_note(&format!("{error}; only tasks that are still kept are counted"));
        History::in_memory().and_then(|mut history| answer(&mut history)).map_err(Failure::new)
    })
}

/// Returns the newest runs of all commands; empty if the history cannot be used.
pub(crate) fn runs_best_effort(root: &StateDir, most: usize) -> Vec<Run> {
    query_best_effort(root, |history| history.runs(&Filter::default(), most)).unwrap_or_default()
}

/// Queries the history for a fact that the caller can do without. Errors are therefore not
/// reported.
fn query_best_effort<T>(
    root: &StateDir,
    question: impl Fn(&History) -> Result<T, HistoryError>,
) -> Option<T> {
    siding_history::query_best_effort(root, question).map(report_moved_file)
}

/// Prints a note if a damaged `history.db` was moved away. Runs whose journals have been removed
/// are then lost.
pub(crate) fn report_moved_file<T>(done: HistoryOutcome<T>) -> T {
    if let Some((path, why)) = done.quarantined {
        let path = path.display();
        render::print_note(&format!(
            "{why}; moved to `{path}`, and a new history started from the tasks that are kept"
        ));
    }
    done.value
}
