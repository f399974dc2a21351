//! Reads the metrics of a state directory.

use siding_core::store::StateDir;
use siding_core::upkeep::{activity, metrics};
use siding_model::metrics::{MetricsSnapshot, format_metrics};
use siding_model::size::Bytes;

use crate::database::{DATABASE_FILE_NAME, HistoryOutcome, with_history};
use crate::error::HistoryError;

pub use siding_model::metrics::CONTENT_TYPE;

/// Returns the metrics in the Prometheus text format, for `siding metrics` and for an HTTP server
/// that answers with [`CONTENT_TYPE`]. `retention_bytes` is the setting of this name.
///
/// Ended tasks are added to the history first. No task is repaired, and no process waits for the
/// result except the caller.
///
/// # Errors
///
/// [`HistoryError`] when the history or the state directory cannot be read. There is no fallback
/// without the history: Prometheus would interpret a counter that falls because of an error as a
/// restart, and its recovery as an increase.
pub fn read_metrics(
    root: &StateDir,
    retention_bytes: Bytes,
) -> Result<HistoryOutcome<String>, HistoryError> {
    let HistoryOutcome { value: (history, counted), quarantined } =
        with_history(root, |history| {
            history.ingest(root, usize::MAX)?;
            history.totals()
        })?;
    let snapshot = MetricsSnapshot {
        history,
        kept: metrics::read_kept(root, &counted)?,
        reaped: activity::reaped_processes(root),
        disk: metrics::state_directory_bytes(root, DATABASE_FILE_NAME, retention_bytes)?,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(HistoryOutcome { value: format_metrics(&snapshot), quarantined })
}
