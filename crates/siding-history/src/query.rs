//! Queries the history for runs, summaries and expectations.

use rusqlite::{Connection, Row, params};
use siding_model::history::{Expectation, Run, RunSummary, normalize_command, normalize_directory};
use siding_model::outcome::Outcome;
use siding_model::process::UnixMs;

use crate::database::History;
use crate::error::HistoryError;

/// A condition on the command and the directory of a run. A query returns the runs that meet the
/// condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    command: Option<String>,
    cwd: Option<String>,
}

impl Filter {
    /// Returns a filter for a command and a directory. `None` matches every command or directory.
    /// The filter also matches longer commands that begin with the words of `command`.
    #[must_use]
    pub fn new(command: Option<&str>, cwd: Option<&str>) -> Self {
        Self { command: command.map(normalize_command), cwd: cwd.map(normalize_directory) }
    }
}

/// Selects the columns of a run in the order in which [`run_from_row`] reads them.
const SELECT_RUNS: &str =
    "SELECT r.task, c.command, c.cwd, r.ended, r.ran_ms, r.outcome, r.peak_memory
    FROM runs r JOIN commands c ON c.id = r.command";

/// The SQL condition for a [`Filter`]: the command is equal to the filter's command, or begins with
/// it and continues with a space or newline.
const FILTER_CLAUSE: &str = "(?1 IS NULL OR c.command = ?1
        OR substr(c.command, 1, length(?1) + 1) IN (?1 || ' ', ?1 || char(10)))
    AND (?2 IS NULL OR c.cwd = ?2)";

impl History {
    /// Returns the expected duration and result of a command in a directory, or `None` when the
    /// history has too few runs. `command` need not be normalized.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the database cannot be read.
    pub fn expectation(
        &self,
        command: &str,
        cwd: &str,
    ) -> Result<Option<Expectation>, HistoryError> {
        let sql = format!("{SELECT_RUNS} WHERE c.command = ?1 AND c.cwd = ?2");
        let runs =
            self.query_runs(&sql, params![normalize_command(command), normalize_directory(cwd)])?;
        Ok(Expectation::from_runs(&runs))
    }

    /// Returns at most `limit` runs that match the filter, the newest first.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the database cannot be read.
    pub fn runs(&self, filter: &Filter, limit: usize) -> Result<Vec<Run>, HistoryError> {
        let sql =
            format!("{SELECT_RUNS} WHERE {FILTER_CLAUSE} ORDER BY r.ended DESC, r.task LIMIT ?3");
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query_runs(&sql, params![filter.command, filter.cwd, limit])
    }

    /// Returns a summary for each matching command in each directory, the most recently run command
    /// first.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the database cannot be read.
    pub fn summaries(&self, filter: &Filter) -> Result<Vec<RunSummary>, HistoryError> {
        let sql = format!(
            "{SELECT_RUNS} WHERE {FILTER_CLAUSE} ORDER BY c.last_ended DESC, c.id, r.ended DESC, r.task"
        );
        let runs = self.query_runs(&sql, params![filter.command, filter.cwd])?;
        let same = |a: &Run, b: &Run| a.command == b.command && a.cwd == b.cwd;
        Ok(runs.chunk_by(same).filter_map(RunSummary::from_runs).collect())
    }

    fn query_runs(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<Vec<Run>, HistoryError> {
        query_runs(&self.database, sql, parameters).map_err(Self::error_mapper(&self.path))
    }
}

/// Returns all runs that match the filter, in no particular order.
pub(crate) fn select_runs(database: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Run>> {
    let sql = format!("{SELECT_RUNS} WHERE {FILTER_CLAUSE}");
    query_runs(database, &sql, params![filter.command, filter.cwd])
}

fn query_runs(
    database: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Run>> {
    let mut statement = database.prepare(sql)?;
    let runs = statement.query_map(parameters, run_from_row)?;
    // A row that cannot be parsed is skipped, because a newer version of siding or another program
    // wrote it.
    runs.filter_map(Result::transpose).collect()
}

fn run_from_row(row: &Row<'_>) -> rusqlite::Result<Option<Run>> {
    let number = |column: usize| -> rusqlite::Result<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(column)?.and_then(|number| u64::try_from(number).ok()))
    };
    let Ok(task_id) = row.get_ref(0)?.as_str()?.parse() else { return Ok(None) };
    let Ok(outcome) = serde_json::from_str::<Outcome>(row.get_ref(5)?.as_str()?) else {
        return Ok(None);
    };
    Ok(Some(Run {
        task_id,
        command: row.get(1)?,
        cwd: row.get(2)?,
        ended: UnixMs(row.get(3)?),
        ran_ms: number(4)?,
        outcome,
        peak_memory: number(6)?,
    }))
}
