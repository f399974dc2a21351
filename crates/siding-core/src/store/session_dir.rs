//! Opens, locks, lists and removes the directories of sessions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{SESSIONS_DIR, StateDir, StoreError, remove_contents};
use crate::sys::file;

/// The directory of a session, and its lock, which is held until the value is dropped.
#[derive(Debug)]
pub(crate) struct LockedSession {
    dir: OwnedFd,
    #[expect(dead_code, reason = "held for its lock only")]
    lock: Option<OwnedFd>,
}

impl AsFd for LockedSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl StateDir {
    /// Opens the directory of a session, creating it if it is missing, and waits for its lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::RuntimeDir`]; [`StoreError::Io`].
    pub(crate) fn open_locked_session(&self, name: &str) -> Result<LockedSession, StoreError> {
        loop {
            let dir = self.session_dir(name, true)?;
            let lock = self.lock_session(&dir)?;
            // The reaper may have removed the directory while this process waited for the lock.
            if file::is_linked(&dir)
                .map_err(|error| self.io_error("check a session in", SESSIONS_DIR, error))?
            {
                return Ok(LockedSession { dir, lock });
            }
        }
    }

    /// Waits for the lock under which a session is written. Locks `dir` and returns `None`. On a
    /// network file system, where flock(2) is unreliable, locks the runtime base instead, and
    /// returns its descriptor. The lock is held until the locked descriptor is closed.
    ///
    /// # Errors
    ///
    /// [`StoreError::RuntimeDir`]; [`StoreError::Io`].
    pub fn lock_session(&self, dir: impl AsFd) -> Result<Option<OwnedFd>, StoreError> {
        let locked = |fd: BorrowedFd<'_>| {
            file::lock_exclusive(fd)
                .map_err(|error| self.io_error("lock a session in", SESSIONS_DIR, error))
        };
        match &self.runtime_base {
            None => locked(dir.as_fd()).map(|()| None),
            Some(runtime) => {
                let (_, base) = runtime.open_first_usable()?;
                locked(base.as_fd()).map(|()| Some(base))
            }
        }
    }

    /// Opens the directory of a session, creating it if `make` is set.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn session_dir(&self, name: &str, make: bool) -> Result<OwnedFd, StoreError> {
        let name = format!("{SESSIONS_DIR}/{name}");
        let open = || file::open_at(&self.fd, &name, file::OpenMode::Directory);
        let opened = match open() {
            Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                match file::create_directory(&self.fd, &name) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    result => result.map_err(|source| self.io_error("create", &name, source))?,
                }
                open()
            }
            result => result,
        };
        opened.map_err(|error| self.io_error("open", &name, error))
    }

    /// Removes the directory of a session if `still` returns true while the session is locked.
    /// Returns whether the directory was removed.
    ///
    /// # Errors
    ///
    /// [`StoreError::RuntimeDir`]; [`StoreError::Io`].
    pub fn remove_session(
        &self,
        name: &str,
        still: impl FnOnce() -> bool,
    ) -> Result<bool, StoreError> {
        let dir = self.session_dir(name, false)?;
        let _lock = self.lock_session(&dir)?;
        if !still() {
            return Ok(false);
        }
        let name = format!("{SESSIONS_DIR}/{name}");
        remove_contents(dir.as_fd())
            .and_then(|()| file::remove_directory(&self.fd, &name))
            .map_err(|error| self.io_error("remove", &name, error))?;
        Ok(true)
    }

    /// Returns the names of all sessions that have a directory, in alphabetical order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn session_names(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.names_in(SESSIONS_DIR)?;
        names.sort_unstable();
        Ok(names)
    }
}
