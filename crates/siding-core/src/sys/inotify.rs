//! Notifications of changes in directories and files.
//!
//! By default, a user has 128 instances in total (inotify(7)), and may run more tasks than that.
//! Shims therefore create no instance; only clients do, such as viewers and commands that follow
//! notices or wait for a file.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// The size of the event buffer, in bytes: room for a few hundred events.
const EVENT_BUFFER_BYTES: usize = 16 << 10;

/// An inotify instance. Its descriptor is readable while events are pending.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The identifier of a watch, unique within its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId(i32);

/// A change in a watched directory or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InotifyEvent {
    /// A name has appeared in a directory or, if [`Inotify::watch_entries`] or
    /// [`Inotify::watch_files`] watches the directory, was deleted.
    Entry {
        /// The watch that reported the change.
        watch_id: WatchId,
        /// The name that has appeared or was deleted, without the directory.
        name: String,
    },
    /// A file was written to.
    Modified(WatchId),
    /// The kernel's queue was full, and events were lost.
    Overflow,
}

impl Inotify {
    /// Creates an instance.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `EMFILE` if the user has no instance left, or this process
    /// no descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Watches the names that appear in a directory, and those that are deleted from it. A name
    /// that is moved out of the directory is not reported.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `ENOSPC` if the user has no watch left.
    pub fn watch_entries(&self, directory: &Path) -> io::Result<WatchId> {
        let what =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        Ok(WatchId(inotify::add_watch(&self.0, directory, what)?))
    }

    /// Watches the writes to a file.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `ENOSPC` if the user has no watch left.
    pub fn watch_writes(&self, path: &Path) -> io::Result<WatchId> {
        Ok(WatchId(inotify::add_watch(&self.0, path, WatchFlags::MODIFY)?))
    }

    /// Watches the names that appear in a directory. The removal or move of the directory itself
    /// makes the descriptor readable, although [`Self::read_events`] returns no event for it. If
    /// the directory is already watched, the watch keeps its identifier.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `ENOSPC` if the user has no watch left.
    pub fn watch_names(&self, directory: &Path) -> io::Result<WatchId> {
        let what = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        Ok(WatchId(inotify::add_watch(&self.0, directory, what)?))
    }

    /// Watches the names that appear in a directory, those that are deleted from it, and the writes
    /// to the files in it. A write is reported as [`InotifyEvent::Modified`] for the directory's
    /// watch, without the name of the file.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `ENOSPC` if the user has no watch left.
    pub fn watch_files(&self, directory: &Path) -> io::Result<WatchId> {
        let what = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::ONLYDIR;
        Ok(WatchId(inotify::add_watch(&self.0, directory, what)?))
    }

    /// Removes a watch. The kernel may have removed the watch already, together with its file.
    pub fn remove_watch(&self, watched: WatchId) {
        let _already_removed = inotify::remove_watch(&self.0, watched.0);
    }

    /// Returns the pending events, without blocking.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn read_events(&self) -> io::Result<Vec<InotifyEvent>> {
        let mut buffer = [MaybeUninit::uninit(); EVENT_BUFFER_BYTES];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => changes.extend(convert_event(&event)),
                Err(rustix::io::Errno::AGAIN) => return Ok(changes),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn convert_event(event: &inotify::Event<'_>) -> Option<InotifyEvent> {
    let watched = WatchId(event.wd());
    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(InotifyEvent::Overflow);
    }
    if event.events().contains(ReadFlags::MODIFY) {
        return Some(InotifyEvent::Modified(watched));
    }
    // Every name that siding creates is UTF-8. Events about the watched directory itself, such as
    // the end of the watch, have no name, and are not reported.
    let name = event.file_name()?.to_str().ok()?.to_owned();
    Some(InotifyEvent::Entry { watch_id: watched, name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll;

    #[test]
    fn a_created_name_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let inotify = Inotify::new().unwrap();
        let first = inotify.watch_names(dir.path()).unwrap();
        assert_eq!(inotify.watch_names(dir.path()).unwrap(), first);
        assert!(!poll::is_readable(inotify.as_fd()));
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert!(poll::is_readable(inotify.as_fd()));
        let _best_effort = inotify.read_events().unwrap();
        assert!(!poll::is_readable(inotify.as_fd()));
        assert!(inotify.watch_names(&dir.path().join("a")).is_err(), "no directory");
    }

    #[test]
    fn creation_removal_and_growth_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let inotify = Inotify::new().unwrap();
        let entries = inotify.watch_entries(directory.path()).unwrap();
        assert_eq!(inotify.read_events().unwrap(), []);
        let path = directory.path().join("a");
        std::fs::write(&path, "").unwrap();
        let name = || "a".to_owned();
        assert_eq!(
            inotify.read_events().unwrap(),
            [InotifyEvent::Entry { watch_id: entries, name: name() }]
        );
        let writes = inotify.watch_writes(&path).unwrap();
        std::fs::write(&path, "more").unwrap();
        assert!(inotify.read_events().unwrap().contains(&InotifyEvent::Modified(writes)));
        inotify.remove_watch(writes);
        std::fs::write(&path, "even more").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            inotify.read_events().unwrap(),
            [InotifyEvent::Entry { watch_id: entries, name: name() }]
        );
    }
}
