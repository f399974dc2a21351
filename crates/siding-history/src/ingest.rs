//! Copies ended tasks from their journals into the history.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_core::task::listing;
use siding_core::upkeep::metrics;
use siding_model::history::Run;
use siding_model::id::TaskId;
use siding_model::metrics::Tally;
use siding_model::process::UnixMs;

use crate::database::History;
use crate::error::HistoryError;
use crate::totals;

/// Maximum number of runs that are stored for one command in one directory. More runs would hardly
/// change the median.
pub const MAX_RUNS_PER_COMMAND: u32 = 50;
/// Maximum number of commands that are stored. If there are more, the commands that have not run
/// for the longest time are deleted.
pub const MAX_COMMANDS: u32 = 2_000;
/// Time for which a command is stored after its last run.
pub const MAX_COMMAND_AGE: Duration = Duration::from_secs(180 * 24 * 60 * 60);

/// Minimum number of removed tasks whose ids are deleted together from the table `ingested`. Fewer
/// ids remain there, so that a query without new tasks rarely writes to the database.
const FORGET_BATCH_TASKS: usize = 256;

impl History {
    /// Ingests at most `limit` ended tasks that are not in the history yet, starting with the
    /// newest. Returns the number of these tasks, including those that another process has ingested
    /// at the same time.
    ///
    /// Each task is ingested once, even if several processes call this function concurrently. A
    /// task with an unreadable journal is skipped, and the next call tries to ingest this task
    /// again.
    ///
    /// # Errors
    ///
    /// When the tasks cannot be listed or the database cannot be used. In this case no task is
    /// ingested.
    pub fn ingest(&mut self, root: &StateDir, limit: usize) -> Result<usize, HistoryError> {
        let tasks: HashSet<TaskId> = root.all_tasks()?.into_iter().collect();
        let ingested = self.ingested_tasks()?;
        let new: Vec<TaskId> = tasks.difference(&ingested).copied().collect();
        let new = listing::most_recent(root, new, limit);
        let mut removed: Vec<TaskId> = ingested.difference(&tasks).copied().collect();
        if removed.len() < FORGET_BATCH_TASKS {
            removed.clear();
        }
        if new.is_empty() && removed.is_empty() {
            return Ok(0);
        }
        let read = |id: &TaskId| {
            let (state, tally) = metrics::read_tally(&root.task_dir(*id).ok()?).ok()?;
            let run = Run::from_state(&state).filter(|_| listing::is_complete(root, &state))?;
            Some((run, tally))
        };
        let runs: Vec<(Run, Tally)> =
            new.iter().filter_map(|id| read(id).filter(|(run, _)| run.task_id == *id)).collect();
        self.record_runs(&runs, &removed)?;
        Ok(runs.len())
    }

    pub(crate) fn ingested_tasks(&self) -> Result<HashSet<TaskId>, HistoryError> {
        let failed = Self::error_mapper(&self.path);
        let mut statement = self.database.prepare("SELECT task FROM ingested").map_err(&failed)?;
        let mut rows = statement.query(()).map_err(&failed)?;
        let mut ids = HashSet::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            let id = row.get_ref(0).map_err(&failed)?;
            ids.extend(id.as_str().ok().and_then(|id| id.parse::<TaskId>().ok()));
        }
        Ok(ids)
    }

    /// Inserts runs, adds their counts to the totals, deletes the ids of removed tasks, and enforces
    /// the limits, in one transaction.
    pub(crate) fn record_runs(
        &mut self,
        runs: &[(Run, Tally)],
        removed: &[TaskId],
    ) -> Result<(), HistoryError> {
        let failed = Self::error_mapper(&self.path);
        let transaction = self
            .database
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&failed)?;
        totals::prepare(&transaction)
            .and_then(|()| insert_runs(&transaction, runs))
            .and_then(|commands| enforce_limits(&transaction, &commands, clock::unix_now()))
            .and_then(|()| forget_tasks(&transaction, removed))
            .and_then(|()| transaction.commit())
            .map_err(&failed)
    }
}

/// Inserts runs with their counts, and returns the row ids of the runs' commands. A run that another
/// process has inserted is not counted again.
fn insert_runs(database: &Connection, runs: &[(Run, Tally)]) -> rusqlite::Result<BTreeSet<i64>> {
    let mut command = database.prepare(
        "INSERT INTO commands (command, cwd, last_ended) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET last_ended = max(last_ended, excluded.last_ended)
         RETURNING id",
    )?;
    let mut insert = database.prepare(
        "INSERT OR IGNORE INTO runs (task, command, ended, ran_ms, outcome, peak_memory)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut ingested = database.prepare("INSERT OR IGNORE INTO ingested (task) VALUES (?1)")?;
    let mut commands = BTreeSet::new();
    let mut new_counts = Tally::default();
    for (run, tally) in runs {
        let task = run.task_id.to_string();
        if ingested.execute([&task])? > 0 {
            new_counts.add_all(tally);
        }
        let id: i64 =
            command.query_row(params![run.command, run.cwd, run.ended.0], |row| row.get(0))?;
        let outcome = serde_json::to_string(&run.outcome)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let [ran_ms, peak_memory] = [run.ran_ms, run.peak_memory]
            .map(|number| number.map(|number| i64::try_from(number).unwrap_or(i64::MAX)));
        insert.execute(params![task, id, run.ended.0, ran_ms, outcome, peak_memory])?;
        commands.insert(id);
    }
    totals::add_counts(database, &new_counts)?;
    Ok(commands)
}

/// Deletes the oldest runs of `commands` beyond [`MAX_RUNS_PER_COMMAND`], and the commands beyond
/// [`MAX_COMMANDS`] or older than [`MAX_COMMAND_AGE`].
fn enforce_limits(
    database: &Connection,
    commands: &BTreeSet<i64>,
    now: UnixMs,
) -> rusqlite::Result<()> {
    let mut runs = database.prepare(
        "DELETE FROM runs WHERE task IN
         (SELECT task FROM runs WHERE command = ?1 ORDER BY ended DESC, task LIMIT -1 OFFSET ?2)",
    )?;
    for id in commands {
        runs.execute(params![id, MAX_RUNS_PER_COMMAND])?;
    }
    let age = i64::try_from(MAX_COMMAND_AGE.as_millis()).unwrap_or(i64::MAX);
    database.execute("DELETE FROM commands WHERE last_ended < ?1", [now.0.saturating_sub(age)])?;
    let oldest: Option<i64> = database
        .query_row(
            "SELECT last_ended FROM commands ORDER BY last_ended DESC LIMIT 1 OFFSET ?1",
            [MAX_COMMANDS],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(oldest) = oldest {
        database.execute("DELETE FROM commands WHERE last_ended <= ?1", [oldest])?;
    }
    Ok(())
}

fn forget_tasks(database: &Connection, removed: &[TaskId]) -> rusqlite::Result<()> {
    let mut delete = database.prepare("DELETE FROM ingested WHERE task = ?1")?;
    for id in removed {
        delete.execute([id.to_string()])?;
    }
    Ok(())
}
