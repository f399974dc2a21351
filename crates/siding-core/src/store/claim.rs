//! Claims on commands: which task was the first to run a command in a directory.

use std::io;

use siding_model::id::TaskId;

use super::{ASIDE_DIR, SAME_DIR, StateDir, StoreError};
use crate::sys::file;

impl StateDir {
    /// Claims a command for a task. Returns the earlier task that has claimed the command, if
    /// `still_runs` returns true for it. Replaces the claim of a task that no longer runs: a claim
    /// briefly outlives the end of its task, and a crash leaves it behind.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn claim_command(
        &self,
        same_key: &str,
        id: TaskId,
        still_runs: impl Fn(TaskId) -> bool,
    ) -> Result<Option<TaskId>, StoreError> {
        let name = format!("{SAME_DIR}/{same_key}");
        loop {
            match file::create_symlink(&id.to_string(), &self.fd, &name) {
                Ok(()) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.io_error("create", &name, error)),
            }
            let first = file::read_link(&self.fd, &name).ok().and_then(|text| text.parse().ok());
            match first {
                Some(first) if self.is_marked_live(first) && still_runs(first) => {
                    return Ok(Some(first));
                }
                Some(_) | None => self.clear_claim(&name)?,
            }
        }
    }

    /// Removes an abandoned claim. A directory of that name, which siding did not create, is set
    /// aside, so that no command fails or loops because of it.
    fn clear_claim(&self, name: &str) -> Result<(), StoreError> {
        match file::remove(&self.fd, name) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                let wall = crate::sys::clock::unix_now().0;
                let to = format!("{ASIDE_DIR}/{}.{wall}", name.replace('/', "-"));
                match file::rename_noreplace(&self.fd, name, &self.fd, &to) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    result => result.map_err(|error| self.io_error("set aside", name, error)),
                }
            }
            // Another process has removed the claim.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|error| self.io_error("remove", name, error)),
        }
    }
}
