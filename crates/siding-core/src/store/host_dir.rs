//! Creates, opens, lists and removes the directories of supervised hosts.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use siding_model::id::HostMark;

use super::{StateDir, StoreError, remove_contents};
use crate::sys::file::{self, OpenMode};

/// Directory below the root, created with the first host record.
const HOSTS_DIR: &str = "hosts";

impl StateDir {
    /// Opens the directory of all hosts, creating it if `make` is set. Returns `None` if the
    /// directory does not exist.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn hosts_dir(&self, make: bool) -> Result<Option<OwnedFd>, StoreError> {
        if make {
            match file::create_directory(&self.fd, HOSTS_DIR) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result.map_err(|source| self.io_error("create", HOSTS_DIR, source))?,
            }
        }
        match file::open_at(&self.fd, HOSTS_DIR, OpenMode::Directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            result => result.map(Some).map_err(|source| self.io_error("open", HOSTS_DIR, source)),
        }
    }

    /// Creates the directory of a host. The directory of all hosts must already exist.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]; contains `EEXIST` if the mark is in use.
    pub fn create_host(&self, mark: HostMark) -> Result<OwnedFd, StoreError> {
        let name = format!("{HOSTS_DIR}/{mark}");
        file::create_directory(&self.fd, &name)
            .and_then(|()| file::open_at(&self.fd, &name, OpenMode::Directory))
            .map_err(|source| self.io_error("create", &name, source))
    }

    /// Opens the directory of a host.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]; contains `ENOENT` if there is no such host.
    pub fn host_dir(&self, mark: HostMark) -> Result<OwnedFd, StoreError> {
        let name = format!("{HOSTS_DIR}/{mark}");
        file::open_at(&self.fd, &name, OpenMode::Directory)
            .map_err(|source| self.io_error("open", &name, source))
    }

    /// Returns the marks of all recorded hosts, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn host_marks(&self) -> Result<Vec<HostMark>, StoreError> {
        let Some(dir) = self.hosts_dir(false)? else { return Ok(Vec::new()) };
        let names =
            file::list_names(&dir).map_err(|source| self.io_error("list", HOSTS_DIR, source))?;
        let mut marks: Vec<HostMark> = names.iter().filter_map(|name| name.parse().ok()).collect();
        marks.sort_unstable();
        Ok(marks)
    }

    /// Removes the directory of a host with all files in it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]; contains `ENOENT` if there is no such host.
    pub fn remove_host(&self, mark: HostMark) -> Result<(), StoreError> {
        let name = format!("{HOSTS_DIR}/{mark}");
        let dir = self.host_dir(mark)?;
        remove_contents(dir.as_fd())
            .and_then(|()| file::remove_directory(&self.fd, &name))
            .map_err(|source| self.io_error("remove", &name, source))
    }
}
