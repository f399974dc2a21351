//! The tables.

use rusqlite::{Connection, TransactionBehavior};

/// Format of the file, kept in its `user_version`. Raised when a table changes its meaning; a
/// column that may be null is added without.
pub const FORMAT: i64 = 1;

/// `commands`: a normalised text in a directory. `runs`: what is remembered of each run; `outcome`
/// as in `--json`, `ran_ms` and `peak_memory` may be null. `ingested`: tasks whose journal was
/// read and is still there, so that it is not read again.
const TABLES: &str = "
CREATE TABLE commands (
    id INTEGER PRIMARY KEY,
    command TEXT NOT NULL,
    cwd TEXT NOT NULL,
    last_ended INTEGER NOT NULL,
    UNIQUE (command, cwd)
) STRICT;
CREATE TABLE runs (
    task TEXT PRIMARY KEY,
    command INTEGER NOT NULL REFERENCES commands (id) ON DELETE CASCADE,
    ended INTEGER NOT NULL,
    ran_ms INTEGER,
    outcome TEXT NOT NULL,
    peak_memory INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_of_command ON runs (command, ended);
CREATE INDEX commands_by_age ON commands (last_ended);
CREATE TABLE ingested (task TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
";

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Of this format, or of none and now of this one.
    Ours,
    /// Of a newer format.
    Newer(i64),
    /// Somebody else's database.
    Foreign,
}

/// Makes the tables in an empty database, and says what a database is that is not empty.
pub(crate) fn prepare(database: &mut Connection) -> rusqlite::Result<Found> {
    match version(database)? {
        FORMAT => return Ok(Found::Ours),
        0 => {}
        found @ 1.. => return Ok(Found::Newer(found)),
        ..0 => return Ok(Found::Foreign),
    }
    if tables(database)? > 0 {
        // Somebody else may just have made them.
        let is_ours = version(database)? == FORMAT;
        return Ok(if is_ours { Found::Ours } else { Found::Foreign });
    }
    // Readers never wait for a writer, nor a writer for them. Stays set in the file.
    database.query_row("PRAGMA journal_mode = WAL", (), |_| Ok(()))?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if tables(&transaction)? > 0 {
        return Ok(Found::Ours);
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()?;
    Ok(Found::Ours)
}

fn tables(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
}

fn version(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("PRAGMA user_version", (), |row| row.get(0))
}
