//! Claims on commands: which task was the first to run a command in a directory.

use std::io;

use siding_model::id::TaskId;

use super::{DEDUP_DIR, OLD_DEDUP_DIR, QUARANTINE_DIR, StateDir, StoreError};
use crate::sys::file;

impl StateDir {
    /// Claims a command for a task. Returns the earlier task that has claimed the command, if that
    /// task is marked live and `still_runs` returns true for it; otherwise `None`. Replaces the
    /// claim of a task that no longer runs, because a claim briefly outlives the end of its task,
    /// and a crash leaves it behind.
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
        let claimant = |directory| {
            let link = file::read_link(&self.fd, &format!("{directory}/{same_key}"));
            let first = link.ok().and_then(|text| text.parse().ok());
            first.filter(|first| self.is_marked_live(*first) && still_runs(*first))
        };
        // A task that an earlier version started has its claim in the old directory.
        if let Some(first) = claimant(OLD_DEDUP_DIR) {
            return Ok(Some(first));
        }
        let name = format!("{DEDUP_DIR}/{same_key}");
        loop {
            match file::create_symlink(&id.to_string(), &self.fd, &name) {
                Ok(()) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.io_error("create", &name, error)),
            }
            match claimant(DEDUP_DIR) {
                Some(first) => return Ok(Some(first)),
                None => self.clear_claim(&name)?,
            }
        }
    }

    /// Removes an abandoned claim. A directory of that name, which siding did not create, is moved
    /// to the quarantine directory, so that no command fails or loops because of it.
    fn clear_claim(&self, name: &str) -> Result<(), StoreError> {
        match file::remove(&self.fd, name) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                let wall = crate::sys::clock::unix_now().0;
                let to = format!("{QUARANTINE_DIR}/{}.{wall}", name.replace('/', "-"));
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

#[cfg(test)]
mod tests {
    use siding_model::id::TaskKind;

    use super::*;
    use crate::store::OLD_DEDUP_DIR;

    #[test]
    fn a_claim_of_an_earlier_version_counts_while_its_task_runs() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("opens");
        let [first, second] = [(); 2].map(|()| root.new_id(TaskKind::LocalBash).expect("an id"));
        let old_dir = root.path().join(OLD_DEDUP_DIR);
        std::fs::create_dir(&old_dir).expect("own directory");
        std::os::unix::fs::symlink(first.to_string(), old_dir.join("key")).expect("own directory");
        let claim = || root.claim_command("key", second, |_| true).expect("works");
        root.mark_live(first).expect("marked");
        assert_eq!(claim(), Some(first));
        root.unmark_live(first, "key");
        assert_eq!(std::fs::read_dir(&old_dir).expect("is there").count(), 0);
        assert_eq!(claim(), None);
    }
}
