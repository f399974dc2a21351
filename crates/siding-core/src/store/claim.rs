//! Claims on commands: which task was the first to run a command in a directory.

use std::io;
use std::os::fd::OwnedFd;

use siding_model::id::TaskId;

use super::{DEDUP_DIR, OLD_DEDUP_DIR, QUARANTINE_DIR, StateDir, StoreError};
use crate::sys::file;

/// Maximum time to wait for the lock of the claims, in milliseconds. A holder needs microseconds, or
/// tens of milliseconds on a busy machine, unless a signal or a debugger has stopped it.
const LOCK_TIMEOUT_MS: u64 = 2_000;

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
        let read = |directory| file::read_link(&self.fd, &format!("{directory}/{same_key}")).ok();
        let claimant = |link: Option<&str>| {
            let first = link.and_then(|text| text.parse::<TaskId>().ok());
            first.filter(|first| self.is_marked_live(*first) && still_runs(*first))
        };
        // A task that an earlier version started has its claim in the old directory.
        if let Some(first) = claimant(read(OLD_DEDUP_DIR).as_deref()) {
            return Ok(Some(first));
        }
        let name = format!("{DEDUP_DIR}/{same_key}");
        loop {
            match file::create_symlink(&id.to_string(), &self.fd, &name) {
                Ok(()) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.io_error("create", &name, error)),
            }
            let seen = read(DEDUP_DIR);
            match claimant(seen.as_deref()) {
                Some(first) => return Ok(Some(first)),
                None => self.clear_claim(&name, seen.as_deref())?,
            }
        }
    }

    /// Removes a claim if it is still a link to `task`. Returns whether it was removed.
    pub(crate) fn remove_claim(&self, name: &str, task: &str) -> bool {
        let is_of_task = || file::read_link(&self.fd, name).is_ok_and(|now| now == task);
        // Most tasks end with one claim and without one in the old directory: a missing claim needs
        // no lock.
        if !is_of_task() {
            return false;
        }
        let _lock = self.lock_claims();
        is_of_task() && file::remove(&self.fd, name).is_ok()
    }

    /// Acquires the lock under which a claim is read again and removed. Without this lock, a
    /// process that has read the claim of an ended task could remove a newer claim of another
    /// process. Returns `None` if the file system does not support the lock, or if another process
    /// holds it for too long: the end of a task must not depend on that process, and at worst a
    /// duplicate is not recognized.
    fn lock_claims(&self) -> Option<OwnedFd> {
        let directory = file::open_at(&self.fd, DEDUP_DIR, file::OpenMode::Directory).ok()?;
        let is_locked = file::lock_exclusive_within(&directory, LOCK_TIMEOUT_MS).ok()?;
        is_locked.then_some(directory)
    }

    /// Removes an abandoned claim, unless its target is no longer `seen`; `None` stands for an
    /// entry that is not a link. A directory of that name, which siding did not create, is moved to
    /// the quarantine directory, so that no command fails or loops because of it.
    fn clear_claim(&self, name: &str, seen: Option<&str>) -> Result<(), StoreError> {
        let _lock = self.lock_claims();
        // A claim is made without the lock, but only where no entry exists. If no entry exists now,
        // any later one is not abandoned.
        let is_unchanged = match file::read_link(&self.fd, name) {
            Ok(now) => Some(now.as_str()) == seen,
            Err(error) => seen.is_none() && error.kind() != io::ErrorKind::NotFound,
        };
        if !is_unchanged {
            return Ok(());
        }
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

    #[test]
    fn one_of_several_tasks_replaces_an_abandoned_claim() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("opens");
        let new_id = || root.new_id(TaskKind::LocalBash).expect("an id");
        let ids = [(); 4].map(|()| new_id());
        for id in ids {
            root.mark_live(id).expect("marked");
        }
        for round in 0..200 {
            let key = format!("key-{round}");
            let link = root.path().join(DEDUP_DIR).join(&key);
            std::os::unix::fs::symlink(new_id().to_string(), link).expect("own directory");
            let claim = |id| root.claim_command(&key, id, |_| true).expect("works");
            let first = std::thread::scope(|scope| {
                let threads = ids.map(|id| scope.spawn(move || claim(id)));
                let results = threads.map(|thread| thread.join().expect("ends"));
                results.into_iter().filter(Option::is_none).count()
            });
            assert_eq!(first, 1, "round {round}");
        }
    }

    #[test]
    fn a_claim_that_was_replaced_meanwhile_stays() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("opens");
        let [ended, running] = [(); 2].map(|()| root.new_id(TaskKind::LocalBash).expect("an id"));
        let name = format!("{DEDUP_DIR}/key");
        let link = root.path().join(&name);
        std::os::unix::fs::symlink(running.to_string(), &link).expect("own directory");
        root.clear_claim(&name, Some(&ended.to_string())).expect("works");
        root.clear_claim(&name, None).expect("works");
        assert!(!root.remove_claim(&name, &ended.to_string()) && link.is_symlink());
        assert!(root.remove_claim(&name, &running.to_string()) && !link.is_symlink());
    }

    /// The holder may never release the lock, for example because a signal has stopped it.
    #[test]
    fn a_lock_that_is_never_released_delays_a_claim_only_briefly() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("opens");
        let [ended, running] = [(); 2].map(|()| root.new_id(TaskKind::LocalBash).expect("an id"));
        let directory = root.path().join(DEDUP_DIR);
        std::os::unix::fs::symlink(ended.to_string(), directory.join("key"))
            .expect("own directory");
        let held = std::fs::File::open(&directory).expect("is there");
        assert!(file::try_lock_exclusive(&held).expect("asks"));
        assert_eq!(root.claim_command("key", running, |_| true).expect("works"), None);
        root.unmark_live(running, "key");
        assert!(!directory.join("key").is_symlink());
    }
}
