//! What is remembered of each file between install and uninstall: `installed/` in the state
//! directory, a file for each file that was changed.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siding_core::store::StateDir;
use siding_model::fnv::Fnv1a;

use super::error::InstallError;
use super::file::Original;
use super::made::Made;
use crate::failure::Failure;

/// The newest format that is known.
const FORMAT: u64 = 1;

/// The directory.
#[derive(Debug)]
pub(crate) struct Memory {
    dir: PathBuf,
}

/// What is in a file of it.
#[derive(Debug, Serialize, Deserialize)]
struct Page {
    format: u64,
    path: PathBuf,
    made: Made,
}

impl Memory {
    /// Finds the directory. It is made when there is something to remember.
    ///
    /// # Errors
    ///
    /// When there is no place for siding's state.
    pub(crate) fn find() -> Result<Self, Failure> {
        let state = StateDir::default_path().ok_or_else(|| {
            Failure::new("there is no place for siding's state: HOME is not set")
                .with_hint("set SIDING_STATE_DIR to a directory of your own")
        })?;
        Ok(Self { dir: state.join("installed") })
    }

    /// Returns what is remembered of a file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or a newer siding wrote it. What is damaged counts as forgotten.
    pub(crate) fn recall(&self, file: &Path) -> Result<Option<Made>, InstallError> {
        let page = Original::read(&self.page(file))?;
        let Some(text) = page.text()? else { return Ok(None) };
        let format = serde_json::from_str::<serde_json::Value>(text).ok();
        let format = format.and_then(|value| value["format"].as_u64()).unwrap_or(0);
        if format > FORMAT {
            let path = page.path().to_owned();
            return Err(InstallError::TooNew { path, found: format, known: FORMAT });
        }
        let page: Option<Page> = serde_json::from_str(text).ok();
        Ok(page.filter(|page| page.path == file).map(|page| page.made))
    }

    /// Remembers a file.
    ///
    /// # Errors
    ///
    /// When that cannot be written.
    pub(crate) fn keep(&self, file: &Path, made: &Made) -> Result<(), InstallError> {
        let page = Page { format: FORMAT, path: file.to_owned(), made: made.clone() };
        let text = serde_json::to_string(&page).expect("all keys are texts") + "\n";
        let original = Original::read(&self.page(file))?;
        original.make_directory()?;
        original.replace(&text)
    }

    /// Forgets a file.
    ///
    /// # Errors
    ///
    /// When that cannot be removed.
    pub(crate) fn forget(&self, file: &Path) -> Result<(), InstallError> {
        let page = self.page(file);
        if page.exists() { Original::read(&page)?.remove() } else { Ok(()) }
    }

    fn page(&self, file: &Path) -> PathBuf {
        // A name that is short whatever the path is.
        let hash = Fnv1a::default().with_bytes(file.as_os_str().as_encoded_bytes());
        self.dir.join(format!("{}.json", hash.to_hex()))
    }
}
