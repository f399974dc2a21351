//! Opens and creates the database file, and moves a damaged file away.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use siding_core::store::{QUARANTINE_DIR, StateDir};
use siding_core::sys::{clock, file};

use crate::error::HistoryError;
use crate::schema::{self, FORMAT, FileFormat};

/// Name of the database file in the state directory.
pub const DATABASE_FILE_NAME: &str = "history.db";

/// Time to wait for a lock that another writer holds. A write takes milliseconds; the slowest write
/// of eight concurrent writers took 90 ms.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Suffixes of the files that SQLite creates next to a database.
const SIDECAR_SUFFIXES: [&str; 2] = ["-wal", "-shm"];

/// An open history, which is stored in the file or in memory.
#[derive(Debug)]
pub struct History {
    pub(crate) database: Connection,
    pub(crate) path: PathBuf,
}

/// The result of an operation on the history, and the damaged file if one was replaced.
#[derive(Debug)]
pub struct HistoryOutcome<T> {
    /// The value that the operation returned. It was computed with the new file if a damaged file
    /// was replaced.
    pub value: T,
    /// The new path of the damaged file in `quarantine/`, and the damage; `None` if no file was
    /// replaced.
    pub quarantined: Option<(PathBuf, HistoryError)>,
}

/// Opens the history and runs `work` on it. A missing file is created.
///
/// After a sign of damage, `work` runs again. If the file is still damaged, it is moved to
/// `quarantine/`, and `work` runs on a new file. Therefore `work` must have no side effects except
/// those on the history.
///
/// # Errors
///
/// When the database file cannot be used, or a damaged one cannot be moved.
/// [`HistoryError::Damaged`] is returned only if the new file is damaged too.
pub fn with_history<T>(
    root: &StateDir,
    work: impl Fn(&mut History) -> Result<T, HistoryError>,
) -> Result<HistoryOutcome<T>, HistoryError> {
    let attempt = || History::open(root).and_then(|mut history| work(&mut history));
    match attempt() {
        Err(HistoryError::Damaged { .. }) => {}
        result => return Ok(HistoryOutcome { value: result?, quarantined: None }),
    }
    // Another process may just have moved the damaged file away. In this case a second attempt
    // succeeds, and the new file must not be moved. The lock keeps other processes from moving the
    // file between the second attempt and the move.
    let lock = lock_quarantine(root);
    match attempt() {
        Err(why @ HistoryError::Damaged { .. }) => {
            let path = quarantine_file(root)?;
            drop(lock);
            Ok(HistoryOutcome { value: attempt()?, quarantined: Some((path, why)) })
        }
        result => Ok(HistoryOutcome { value: result?, quarantined: None }),
    }
}

/// Maximum number of ended tasks that a best-effort query ingests. `siding ps` makes such a query,
/// and must remain fast when many tasks have ended since the last query. Later queries ingest the
/// remaining tasks.
const MAX_BEST_EFFORT_INGEST_TASKS: usize = 2_000;

/// Ingests a bounded number of ended tasks and then queries the history. Returns `None` on any
/// error, for callers that can do without the history.
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
    /// Opens the database file, and creates the file if it is missing.
    pub(crate) fn open(root: &StateDir) -> Result<Self, HistoryError> {
        let path = root.path().join(DATABASE_FILE_NAME);
        // The file is created here because SQLite would use a mode that, with a common umask, lets
        // other users read the file.
        match file::open_at(root, DATABASE_FILE_NAME, file::OpenMode::CreateNew) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(HistoryError::Io { doing: "create", path, source: error });
            }
            Ok(_) | Err(_) => {}
        }
        // `NO_MUTEX`: one thread uses the connection, so SQLite's mutex is not needed.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(&path, flags)
            .map_err(|error| HistoryError::from_sqlite(&path, &error))?;
        Self::from_connection(database, path)
    }

    /// Returns an empty history in memory, for callers that cannot use the file.
    ///
    /// # Errors
    ///
    /// When memory cannot be allocated.
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
                why: format!("its tables are not those of format {FORMAT}"),
            }),
        }
    }

    /// Returns a function that converts an SQLite error to a [`HistoryError`] with this path.
    pub(crate) fn error_mapper(path: &Path) -> impl Fn(rusqlite::Error) -> HistoryError {
        |error| HistoryError::from_sqlite(path, &error)
    }
}

fn configure(database: &Connection) -> rusqlite::Result<()> {
    database.busy_timeout(BUSY_TIMEOUT)?;
    // A power failure may lose the last writes. The next query then ingests these tasks again.
    database.pragma_update(None, "synchronous", "NORMAL")?;
    database.pragma_update(None, "foreign_keys", true)?;
    // The file may have been manipulated, so SQL in its schema must not call functions with side
    // effects.
    database.pragma_update(None, "trusted_schema", false)
}

/// Waits for the lock under which a damaged file is moved. `None` if the file system does not lock
/// directories: the file is then moved without the lock.
fn lock_quarantine(root: &StateDir) -> Option<OwnedFd> {
    let directory = file::open_at(root, QUARANTINE_DIR, file::OpenMode::Directory).ok()?;
    file::lock_exclusive(&directory).ok()?;
    Some(directory)
}

/// Moves the database file to `quarantine/` and returns the new path of the file.
fn quarantine_file(root: &StateDir) -> Result<PathBuf, HistoryError> {
    let to = format!("{QUARANTINE_DIR}/{DATABASE_FILE_NAME}.{}", clock::unix_now().0);
    file::rename_noreplace(root, DATABASE_FILE_NAME, root, &to).map_err(|source| {
        HistoryError::Io { doing: "set aside", path: root.path().join(DATABASE_FILE_NAME), source }
    })?;
    for suffix in SIDECAR_SUFFIXES {
        // Usually this file does not exist, because SQLite removes such files when the last
        // connection is closed.
        let _best_effort = file::rename_noreplace(
            root,
            &format!("{DATABASE_FILE_NAME}{suffix}"),
            root,
            &format!("{to}{suffix}"),
        );
    }
    Ok(root.path().join(to))
}
