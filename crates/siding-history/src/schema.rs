//! The tables of the database, and the check that a file has them.

use rusqlite::{Connection, TransactionBehavior};

/// The format of the file, stored in SQLite's `user_version`. A change to the meaning of a table
/// needs a new format; a new nullable column does not.
pub const FORMAT: i64 = 1;

/// Creates the tables. `commands` has a row for each normalized command in a directory. `runs` has
/// a row for each run; `outcome` has the form of `--json`, and `ran_ms` and `peak_memory` may be
/// null. `ingested` has the ids of tasks whose journals were read, so that no journal is read
/// twice.
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

/// Creates the table with the totals of the counters of `siding metrics`. The table was added
/// without a new format, because older builds ignore it. `label` is empty for a counter without
/// labels.
const CREATE_TOTALS_SQL: &str = "
CREATE TABLE totals (
    counter TEXT NOT NULL,
    label TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (counter, label)
) STRICT, WITHOUT ROWID;
";

/// Returns whether the database has the table `totals`, which older builds do not create.
pub(crate) fn has_totals(database: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'totals'";
    let tables: i64 = database.query_row(sql, (), |row| row.get(0))?;
    Ok(tables > 0)
}

/// Creates the table `totals`, which must not exist.
pub(crate) fn create_totals(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch(CREATE_TOTALS_SQL)
}

/// Whether a database file has a format that this build can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// The current format, possibly because an empty file was just initialized.
    Current,
    /// The format of a newer siding, with its number.
    Newer(i64),
    /// A database of another program, or without siding's format number.
    Unrecognized,
}

/// Creates the tables if the database is empty, and returns its format.
pub(crate) fn create_or_check(database: &mut Connection) -> rusqlite::Result<FileFormat> {
    match format_version(database)? {
        FORMAT => return Ok(FileFormat::Current),
        0 => {}
        found @ 1.. => return Ok(FileFormat::Newer(found)),
        ..0 => return Ok(FileFormat::Unrecognized),
    }
    if count_tables(database)? > 0 {
        // Another process may have created the tables since the format was read.
        let is_ours = format_version(database)? == FORMAT;
        return Ok(if is_ours { FileFormat::Current } else { FileFormat::Unrecognized });
    }
    // In WAL mode, readers and a writer do not wait for each other. The file stores the mode, so
    // setting it once is enough.
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
