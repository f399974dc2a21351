//! The working directory of a new task.

use std::path::Path;

use super::error::RunError;
use crate::sys::file;

/// The absolute path of a directory that this process may enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkingDirectory(String);

impl WorkingDirectory {
    /// Resolves the requested directory, or the working directory of this process for `None`.
    ///
    /// # Errors
    ///
    /// [`RunError::Directory`].
    pub fn resolve(requested: Option<&Path>) -> Result<Self, RunError> {
        let named = requested.unwrap_or(Path::new("."));
        let bad = |why: &dyn std::fmt::Display| RunError::Directory {
            path: named.to_owned(),
            why: why.to_string(),
        };
        let path =
            if requested.is_some() { std::path::absolute(named) } else { std::env::current_dir() }
                .map_err(|error| bad(&error))?;
        file::open_directory(&path).map_err(|error| bad(&error))?;
        path.into_os_string().into_string().map(Self).map_err(|_| bad(&"it is not UTF-8"))
    }

    /// Returns a directory of another machine, which only that machine can check.
    #[must_use]
    pub(super) const fn on_remote_machine(path: String) -> Self {
        Self(path)
    }

    /// Returns the absolute path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<WorkingDirectory> for String {
    fn from(directory: WorkingDirectory) -> Self {
        directory.0
    }
}
