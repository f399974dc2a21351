//! Stores installation records between install and uninstall. The directory `installed/` in the
//! state directory has one record for each changed file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siding_core::store::StateDir;
use siding_model::fnv::Fnv1a;

use super::error::InstallError;
use super::file::OriginalFile;
use super::record::InstallRecord;
use crate::context;
use crate::failure::Failure;

/// Format version that this siding writes, and the newest that it reads.
const RECORD_FORMAT: u64 = 1;

/// The directory of installation records.
#[derive(Debug)]
pub(crate) struct InstallRecords {
    dir: PathBuf,
}

/// The JSON content of a record's file. `path` distinguishes files whose paths have the same hash.
#[derive(Debug, Serialize, Deserialize)]
struct RecordFile {
    format: u64,
    path: PathBuf,
    made: InstallRecord,
}

impl InstallRecords {
    /// Returns the directory, which need not exist: saving the first record creates it.
    ///
    /// # Errors
    ///
    /// The location of siding's state is unknown.
    pub(crate) fn locate() -> Result<Self, Failure> {
        let state = StateDir::default_path().ok_or_else(context::no_state_path_failure)?;
        Ok(Self { dir: state.join("installed") })
    }

    /// Returns the record of a file; `None` if there is none, or if it is damaged.
    ///
    /// # Errors
    ///
    /// The record cannot be read, or a newer siding wrote it.
    pub(crate) fn load(&self, file: &Path) -> Result<Option<InstallRecord>, InstallError> {
        let page = OriginalFile::read(&self.record_path(file))?;
        let Some(text) = page.text()? else { return Ok(None) };
        let format = serde_json::from_str::<serde_json::Value>(text).ok();
        let format = format.and_then(|value| value["format"].as_u64()).unwrap_or(0);
        if format > RECORD_FORMAT {
            let path = page.path().to_owned();
            return Err(InstallError::TooNew { path, found: format, known: RECORD_FORMAT });
        }
        let page: Option<RecordFile> = serde_json::from_str(text).ok();
        Ok(page.filter(|page| page.path == file).map(|page| page.made))
    }

    /// Saves the record of a file.
    ///
    /// # Errors
    ///
    /// The record cannot be written.
    pub(crate) fn save(&self, file: &Path, record: &InstallRecord) -> Result<(), InstallError> {
        let page =
            RecordFile { format: RECORD_FORMAT, path: file.to_owned(), made: record.clone() };
        let text = serde_json::to_string(&page).expect("all keys are strings") + "\n";
        let original = OriginalFile::read(&self.record_path(file))?;
        original.create_directories()?;
        original.replace(&text)
    }

    /// Removes the record of a file.
    ///
    /// # Errors
    ///
    /// The record cannot be removed.
    pub(crate) fn remove(&self, file: &Path) -> Result<(), InstallError> {
        let page = self.record_path(file);
        if page.exists() { OriginalFile::read(&page)?.remove() } else { Ok(()) }
    }

    fn record_path(&self, file: &Path) -> PathBuf {
        // A hash keeps the name short for any path.
        let hash = Fnv1a::default().with_bytes(file.as_os_str().as_encoded_bytes());
        self.dir.join(format!("{}.json", hash.to_hex()))
    }
}
