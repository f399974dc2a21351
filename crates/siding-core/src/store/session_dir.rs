//! The directories of sessions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Root, SESSIONS, StoreError, empty};
use crate::sys::file;

impl Root {
    /// Takes the lock under which a session is written, waiting for it. The lock is let go with
    /// what is returned and `dir`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPlace`]; [`StoreError::Io`].
    pub fn lock_session(&self, dir: impl AsFd) -> Result<Option<OwnedFd>, StoreError> {
        let locked = |fd: BorrowedFd<'_>| {
            file::lock(fd).map_err(|error| self.io("lock a session in", SESSIONS, error))
        };
        match &self.runtime {
            None => locked(dir.as_fd()).map(|()| None),
            Some(runtime) => {
                let (_, base) = runtime.choose()?;
                locked(base.as_fd()).map(|()| Some(base))
            }
        }
    }

    /// Opens the directory of a session, making it when asked.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn session_dir(&self, name: &str, make: bool) -> Result<OwnedFd, StoreError> {
        let name = format!("{SESSIONS}/{name}");
        let open = || file::open_at(&self.fd, &name, file::Open::Directory);
        let opened = match open() {
            Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                match file::make_directory(&self.fd, &name) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    result => result.map_err(|source| self.io("create", &name, source))?,
                }
                open()
            }
            result => result,
        };
        opened.map_err(|error| self.io("open", &name, error))
    }

    /// Removes what is kept about a session of which `still` is true under its lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPlace`]; [`StoreError::Io`].
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
        let name = format!("{SESSIONS}/{name}");
        empty(dir.as_fd())
            .and_then(|()| file::remove_directory(&self.fd, &name))
            .map_err(|error| self.io("remove", &name, error))?;
        Ok(true)
    }

    /// Returns the names of all sessions that were ever opened, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn sessions(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.names_in(SESSIONS)?;
        names.sort_unstable();
        Ok(names)
    }
}
