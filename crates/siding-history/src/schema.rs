//! The tables.

use rusqlite::{Connection, TransactionBehavior};

/// Format of the file, kept in its `user_version`. Raised when a table changes its meaning; a
/// column that may be null is added without.
pub const FORMAT: i64 = 1;

/// `commands`: a normalised text in a directory. `runs`: what is remembered of each run; `outcome`
/// as in `--json`, `ran_ms` and `peak_memory` may be null. `ingested`: tasks whose journal was
/// read and is still there, so that it is not read again.
const CREATE_TABLES_SQL: &str = "
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
pub(crate) enum FileFormat {
    /// Of this format, or of none and now of this one.
    Current,
    /// Of a newer format.
    Newer(i64),
    /// Somebody else's database.
    Unrecognized,
}

/// Makes the tables in an empty database, and says what a database is that is not empty.
pub(crate) fn create_or_check(database: &mut Connection) -> rusqlite::Result<FileFormat> {
    match format_version(database)? {
        FORMAT => return Ok(FileFormat::Current),
        0 => {}
        found @ 1.. => return Ok(FileFormat::Newer(found)),
        ..0 => return Ok(FileFormat::Unrecognized),
    }
    if count_tables(database)? > 0 {
        // Somebody else may just have made them.
        let is_ours = format_version(database)? == FORMAT;
        return Ok(if is_ours { FileFormat::Current } else { FileFormat::Unrecognized });
    }
    // Readers never wait for a writer, nor a writer for them. Stays set in the file.
    database.query_row("PRAGMA journal_mode = WAL", (), |_| Ok(()))?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if count_tables(&transaction)? > 0 {
        return Ok(FileFormat::Current);
    }
    transaction.execute_batch(CREATE_TABLES_SQL)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()?;
    Ok(FileFormat::Current)
}

fn count_tables(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
}

fn format_version(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("PRAGMA user_version", (), |row| row.get(0))
}
