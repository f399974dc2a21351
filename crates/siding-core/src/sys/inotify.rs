//! Being told of changes in directories and files.
//!
//! An ordinary user has 128 instances in all, so this is for who reads everything and for who waits
//! for a file, never for one task (inotify(7)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Bytes for events: a few hundred at once.
const BUFFER: usize = 16 << 10;

/// One instance.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Watched(i32);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Something in a directory came or went.
    Entry {
        /// The directory.
        watched: Watched,
        /// What.
        name: String,
    },
    /// A file was written to.
    Written(Watched),
    /// More happened than was kept.
    Overflow,
}

impl Inotify {
    /// Makes an instance.
    ///
    /// # Errors
    ///
    /// `EMFILE` when the user has no instance left; else the operating system's.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Watches what comes to a directory and goes.
    ///
    /// # Errors
    ///
    /// The operating system's; `ENOSPC` when the user's watches are used up.
    pub fn watch_entries(&self, directory: &Path) -> io::Result<Watched> {
        let what =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        Ok(Watched(inotify::add_watch(&self.0, directory, what)?))
    }

    /// Watches what is written to a file.
    ///
    /// # Errors
    ///
    /// The operating system's; `ENOSPC` when the user's watches are used up.
    pub fn watch_writes(&self, path: &Path) -> io::Result<Watched> {
        Ok(Watched(inotify::add_watch(&self.0, path, WatchFlags::MODIFY)?))
    }

    /// Watches for names that appear in a directory, and for its own end. A directory that is
    /// watched already keeps the name it has.
    ///
    /// # Errors
    ///
    /// The operating system's; `ENOSPC` when the user's watches are used up.
    pub fn watch_names(&self, directory: &Path) -> io::Result<Watched> {
        let what = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        Ok(Watched(inotify::add_watch(&self.0, directory, what)?))
    }

    /// Watches something no longer.
    pub fn forget(&self, watched: Watched) {
        let _gone_with_its_file = inotify::remove_watch(&self.0, watched.0);
    }

    /// Takes what has happened so far.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn take(&self) -> io::Result<Vec<Change>> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => changes.extend(change(&event)),
                Err(rustix::io::Errno::AGAIN) => return Ok(changes),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn change(event: &inotify::Event<'_>) -> Option<Change> {
    let watched = Watched(event.wd());
    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(Change::Overflow);
    }
    if event.events().contains(ReadFlags::MODIFY) {
        return Some(Change::Written(watched));
    }
    // What is not UTF-8 was not made by siding; a watch that ended with its file says nothing.
    let name = event.file_name()?.to_str().ok()?.to_owned();
    Some(Change::Entry { watched, name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll;

    #[test]
    fn a_name_that_appears_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let inotify = Inotify::new().unwrap();
        let first = inotify.watch_names(dir.path()).unwrap();
        assert_eq!(inotify.watch_names(dir.path()).unwrap(), first);
        assert!(!poll::ready(inotify.as_fd()));
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert!(poll::ready(inotify.as_fd()));
        let _one = inotify.take().unwrap();
        assert!(!poll::ready(inotify.as_fd()));
        assert!(inotify.watch_names(&dir.path().join("a")).is_err(), "no directory");
    }

    #[test]
    fn what_comes_goes_and_grows_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let inotify = Inotify::new().unwrap();
        let entries = inotify.watch_entries(directory.path()).unwrap();
        assert_eq!(inotify.take().unwrap(), []);
        let path = directory.path().join("a");
        std::fs::write(&path, "").unwrap();
        let name = || "a".to_owned();
        assert_eq!(inotify.take().unwrap(), [Change::Entry { watched: entries, name: name() }]);
        let writes = inotify.watch_writes(&path).unwrap();
        std::fs::write(&path, "more").unwrap();
        assert!(inotify.take().unwrap().contains(&Change::Written(writes)));
        inotify.forget(writes);
        std::fs::write(&path, "even more").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(inotify.take().unwrap(), [Change::Entry { watched: entries, name: name() }]);
    }
}
