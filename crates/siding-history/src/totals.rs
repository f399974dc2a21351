//! The stored totals of the counters.

use std::collections::HashSet;

use rusqlite::{Connection, TransactionBehavior, params};
use siding_model::id::TaskId;
use siding_model::metrics::{CounterName, Tally};

use crate::database::History;
use crate::error::HistoryError;
use crate::query::Filter;
use crate::schema;

impl History {
    /// Returns the totals of all ingested tasks, and the ids of these tasks. The ids of some tasks
    /// that were removed from the state directory are missing. The totals and the ids come from one
    /// snapshot of the database.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the database cannot be used.
    pub(crate) fn totals(&mut self) -> Result<(Tally, HashSet<TaskId>), HistoryError> {
        let failed = Self::error_mapper(&self.path);
        // Only a history of an older build lacks the table, so usually nothing is written.
        if !schema::has_totals(&self.database).map_err(&failed)? {
            let transaction = self
                .database
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(&failed)?;
            prepare(&transaction).and_then(|()| transaction.commit()).map_err(&failed)?;
        }
        // A read transaction, so that another process cannot ingest a task between the two queries:
        // the task would be counted twice or not at all.
        let reader = self.database.unchecked_transaction().map_err(&failed)?;
        let tally = read(&reader).map_err(&failed)?;
        Ok((tally, self.ingested_tasks()?))
    }
}

/// Creates the table of totals if it is missing. The runs that the history holds at this time are
/// counted, because their journals are not read again.
pub(crate) fn prepare(database: &Connection) -> rusqlite::Result<()> {
    if schema::has_totals(database)? {
        return Ok(());
    }
    schema::create_totals(database)?;
    let mut counts = Tally::default();
    for run in crate::query::select_runs(database, &Filter::default())? {
        counts.add_all(&Tally::from_run(&run));
    }
    add_counts(database, &counts)
}

/// Adds counts to the totals.
pub(crate) fn add_counts(database: &Connection, counts: &Tally) -> rusqlite::Result<()> {
    let mut add = database.prepare(
        "INSERT INTO totals (counter, label, count) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET count = min(count, 9223372036854775807 - excluded.count)
             + excluded.count",
    )?;
    for (counter, label, count) in counts.iter() {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        add.execute(params![counter.as_str(), label, count])?;
    }
    Ok(())
}

/// Reads the totals. A counter of a newer version of siding is skipped.
fn read(database: &Connection) -> rusqlite::Result<Tally> {
    let mut statement = database.prepare("SELECT counter, label, count FROM totals")?;
    let mut rows = statement.query(())?;
    let mut totals = Tally::default();
    while let Some(row) = rows.next()? {
        let counter: String = row.get(0)?;
        let (label, count): (String, i64) = (row.get(1)?, row.get(2)?);
        if let Some(counter) = CounterName::from_stored(&counter) {
            totals.add_count(counter, &label, u64::try_from(count).unwrap_or(0));
        }
    }
    Ok(totals)
}
