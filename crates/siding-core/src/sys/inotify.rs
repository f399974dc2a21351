//! Being told when something appears in a directory.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Directories that are watched. An ordinary user has 128 of these in all, on many systems.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Inotify {
    /// Makes one that watches nothing.
    ///
    /// # Errors
    ///
    /// The operating system's, `EMFILE` when the user has too many.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Watches for names that appear in a directory, and for its own end. Returns its number; a
    /// directory that is watched already keeps the one it has.
    ///
    /// # Errors
    ///
    /// The operating system's, `ENOSPC` when the user watches too much.
    pub fn watch(&self, directory: &Path) -> io::Result<i32> {
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        Ok(inotify::add_watch(&self.0, directory, flags)?)
    }

    /// Takes what has happened, so that a poll waits for more. What it was is not told: whoever
    /// watches looks for himself.
    pub fn drain(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        while reader.next().is_ok_and(|event| !event.events().contains(ReadFlags::UNMOUNT)) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll;

    #[test]
    fn a_name_that_appears_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let inotify = Inotify::new().unwrap();
        let first = inotify.watch(dir.path()).unwrap();
        assert_eq!(inotify.watch(dir.path()).unwrap(), first);
        assert!(!poll::ready(inotify.as_fd()));
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert!(poll::ready(inotify.as_fd()));
        inotify.drain();
        assert!(!poll::ready(inotify.as_fd()));
        assert!(inotify.watch(&dir.path().join("a")).is_err(), "no directory");
    }
}
