//! The file: opened, made, set aside.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use siding_core::store::{ASIDE_DIR, StateDir};
use siding_core::sys::{clock, file};

use crate::error::HistoryError;
use crate::schema::{self, FORMAT, FileFormat};

/// Its name in the state directory.
pub const DATABASE_FILE_NAME: &str = "history.db";

/// How long to wait while others write. A writer takes milliseconds; with eight at once the
/// slowest took 90 ms.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// What SQLite keeps beside a database.
const SIDECAR_SUFFIXES: [&str; 2] = ["-wal", "-shm"];

/// The remembered runs.
#[derive(Debug)]
pub struct History {
    pub(crate) database: Connection,
    pub(crate) path: PathBuf,
}

/// What was done with the history.
#[derive(Debug)]
pub struct HistoryOutcome<T> {
    /// What came of it.
    pub value: T,
    /// Where a damaged file was moved, and what was wrong with it.
    pub quarantined: Option<(PathBuf, HistoryError)>,
}

/// Opens the history, making it where it is missing, and does `work` with it.
///
/// A damaged file is moved to `aside/` and `work` is done again with a new one; so it must not
/// change anything else.
///
/// # Errors
///
/// [`HistoryError`], never [`HistoryError::Damaged`] unless a new file is damaged too.
pub fn with_history<T>(
    root: &StateDir,
    work: impl Fn(&mut History) -> Result<T, HistoryError>,
) -> Result<HistoryOutcome<T>, HistoryError> {
    let attempt = || History::open(root).and_then(|mut history| work(&mut history));
    let is_damaged =
        |result: &Result<T, HistoryError>| matches!(result, Err(HistoryError::Damaged { .. }));
    let mut result = attempt();
    if is_damaged(&result) {
        // Somebody else may just have set it aside; the new one must stay.
        result = attempt();
    }
    match result {
        Err(why @ HistoryError::Damaged { .. }) => {
            let path = quarantine_file(root)?;
            Ok(HistoryOutcome { value: attempt()?, quarantined: Some((path, why)) })
        }
        result => Ok(HistoryOutcome { value: result?, quarantined: None }),
    }
}

/// Ended tasks that are taken in on the way, so that a look at what runs stays quick when many
/// have ended since the last one. The rest is taken in by and by.
const MAX_BEST_EFFORT_INGEST_TASKS: usize = 2_000;

/// Asks in passing, for somebody who is not to be told what is wrong with the history: `None` then.
/// Takes in a bounded number of tasks that have ended first.
pub fn query_best_effort<T>(
    root: &StateDir,
    question: impl Fn(&History) -> Result<T, HistoryError>,
) -> Option<HistoryOutcome<T>> {
    let answer = |history: &mut History| {
        history.ingest(root, MAX_BEST_EFFORT_INGEST_TASKS)?;
        question(history)
    };
    with_history(root, answer).ok()
}

impl History {
    /// Opens the file, making it where it is missing.
    pub(crate) fn open(root: &StateDir) -> Result<Self, HistoryError> {
        let path = root.path().join(DATABASE_FILE_NAME);
        // SQLite would make it readable to others, as far as the umask allows.
        match file::open_at(root, DATABASE_FILE_NAME, file::OpenMode::CreateNew) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(HistoryError::Io { doing: "create", path, source: error });
            }
            Ok(_) | Err(_) => {}
        }
        // No more threads than this one use it.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(&path, flags)
            .map_err(|error| HistoryError::from_sqlite(&path, &error))?;
        Self::from_connection(database, path)
    }

    /// Returns an empty history that is never stored: for where the file cannot be used.
    ///
    /// # Errors
    ///
    /// [`HistoryError`], for want of memory.
    pub fn in_memory() -> Result<Self, HistoryError> {
        let path = PathBuf::from(":memory:");
        let database = Connection::open_in_memory()
            .map_err(|error| HistoryError::from_sqlite(&path, &error))?;
        Self::from_connection(database, path)
    }

    fn from_connection(mut database: Connection, path: PathBuf) -> Result<Self, HistoryError> {
        let found = configure(&database).and_then(|()| schema::create_or_check(&mut database));
        match found.map_err(|error| HistoryError::from_sqlite(&path, &error))? {
            FileFormat::Current => Ok(Self { database, path }),
            FileFormat::Newer(found) => Err(HistoryError::TooNew { path, found }),
            FileFormat::Unrecognized => Err(HistoryError::Damaged {
                path,
                why: format!("it holds other tables than those of format {FORMAT}"),
            }),
        }
    }

    /// Returns what an error of the database means.
    pub(crate) fn error_mapper(path: &Path) -> impl Fn(rusqlite::Error) -> HistoryError {
        |error| HistoryError::from_sqlite(path, &error)
    }
}

fn configure(database: &Connection) -> rusqlite::Result<()> {
    database.busy_timeout(BUSY_TIMEOUT)?;
    // The last writes may be lost with the power, and are then read from the journals again.
    database.pragma_update(None, "synchronous", "NORMAL")?;
    database.pragma_update(None, "foreign_keys", true)?;
    // What is in the file is data, whoever wrote it.
    database.pragma_update(None, "trusted_schema", false)
}

/// Moves the file out of the way and says where to.
fn quarantine_file(root: &StateDir) -> Result<PathBuf, HistoryError> {
    let to = format!("{ASIDE_DIR}/{DATABASE_FILE_NAME}.{}", clock::unix_now().0);
    file::rename_noreplace(root, DATABASE_FILE_NAME, root, &to).map_err(|source| {
        HistoryError::Io { doing: "set aside", path: root.path().join(DATABASE_FILE_NAME), source }
    })?;
    for suffix in SIDECAR_SUFFIXES {
        // Most often there is none.
        let _best_effort = file::rename_noreplace(
            root,
            &format!("{DATABASE_FILE_NAME}{suffix}"),
            root,
            &format!("{to}{suffix}"),
        );
    }
    Ok(root.path().join(to))
}
