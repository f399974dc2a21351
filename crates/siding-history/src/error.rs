//! Why the history cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use siding_core::store::StoreError;

use crate::schema::FORMAT;

/// Why the history cannot be used. Nothing else of siding depends on it.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A newer siding wrote it; only an upgrade helps.
    #[error(
        "`{path}` has format {found}, this build reads up to {FORMAT}; it was left alone: upgrade siding, or move the file away to begin anew"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
    },
    /// It is not what siding wrote.
    #[error("`{path}` is damaged: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Others have written to it for too long; worth trying again.
    #[error("`{path}` is being written by others; try again")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be opened or written where it is.
    #[error("could not use `{path}`: {why}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// It cannot be made or moved.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The state directory cannot be listed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HistoryError {
    /// Returns what an error of the database means for the file.
    pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, why) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            // `Unknown` is a statement that does not fit the tables: all statements are constant,
            // so the tables are not ours.
            Some(
                ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::Unknown
                | ErrorCode::ConstraintViolation
                | ErrorCode::TypeMismatch,
            ) => Self::Damaged { path, why },
            Some(_) => Self::Unusable { path, why },
            // A value or a statement that rusqlite itself does not take.
            None => Self::Damaged { path, why },
        }
    }
}
