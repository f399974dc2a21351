//! The files that a call copies to the machine of its command, and back from it.

use std::path::PathBuf;

use siding_model::advice::Dialect;

use crate::task::run::ExecutorChoice;

/// The copies that a call requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileCopies {
    /// Whether the project is copied to the machine before the command starts.
    pub sync: bool,
    /// Files and directories that are copied in addition; they imply `sync`.
    pub sync_paths: Vec<PathBuf>,
    /// The paths that are copied back when the command has ended, in the form that
    /// [`parse_fetch_path`](siding_model::file_sync::parse_fetch_path) returns.
    pub fetch: Vec<String>,
}

/// The reason why no files can be copied for a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// The command runs on this machine.
    #[error("{option}: this command runs on this machine, so no file is copied")]
    ThisMachine {
        /// The option that requests the copy, in the caller's dialect.
        option: String,
    },
    /// The command runs in a cluster whose commands are on this machine.
    #[error(
        "{option}: the nodes of `{executor}` share the files of this machine, so no file is copied"
    )]
    SharedFiles {
        /// The option that requests the copy, in the caller's dialect.
        option: String,
        /// Name of the executor.
        executor: String,
    },
}

impl FileCopies {
    /// Returns whether files are copied to the machine.
    #[must_use]
    pub const fn copies_project(&self) -> bool {
        self.sync || !self.sync_paths.is_empty()
    }

    /// Checks that the command runs on a machine with files of its own. `executor` is `None` for
    /// this machine; `dialect` words the name of the option.
    ///
    /// # Errors
    ///
    /// [`CopyError`] if files are requested for another command.
    pub fn check(
        &self,
        executor: Option<&ExecutorChoice>,
        dialect: Dialect,
    ) -> Result<(), CopyError> {
        let option = match (self.copies_project(), self.fetch.is_empty()) {
            (true, _) => dialect.format_option("sync"),
            (false, false) => dialect.format_option("fetch"),
            (false, true) => return Ok(()),
        };
        match executor {
            Some(executor) if executor.shares_files() => {
                Err(CopyError::SharedFiles { option, executor: executor.name().to_owned() })
            }
            Some(_) => Ok(()),
            None => Err(CopyError::ThisMachine { option }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_option_of_the_caller() {
        let project = FileCopies { sync_paths: vec!["data".into()], ..FileCopies::default() };
        let back = FileCopies { fetch: vec!["out".to_owned()], ..FileCopies::default() };
        for (copies, dialect, option) in [
            (&project, Dialect::Commands, "--sync"),
            (&project, Dialect::Tools, "`sync`"),
            (&back, Dialect::Terminal, "--fetch"),
            (&back, Dialect::Agent, "`fetch`"),
        ] {
            let error = copies.check(None, dialect).expect_err("no machine is named");
            assert_eq!(error, CopyError::ThisMachine { option: option.to_owned() });
        }
        assert_eq!(FileCopies::default().check(None, Dialect::Tools), Ok(()));
    }
}
