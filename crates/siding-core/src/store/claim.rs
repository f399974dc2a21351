//! Who runs a command: the first of those that were asked to run the same in the same directory.

use std::io;

use siding_model::id::TaskId;

use super::{ASIDE_DIR, SAME_DIR, StateDir, StoreError};
use crate::sys::file;

impl StateDir {
    /// Claims a command for a task. Returns the task that has claimed it before and, as
    /// `still_runs` finds, has not let go: a claim outlives its task's end by a moment, and by a
    /// crash for good.
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

    /// Takes a claim away that nobody holds any more. What stands there and is no claim goes aside:
    /// it is not siding's, and no command must fail or hang for it.
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
            // Another was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|error| self.io_error("remove", name, error)),
        }
    }
}
