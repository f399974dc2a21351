//! Checks for expected files, and watches the directories in which they will be created.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use siding_model::wait::WaitDetail;

use crate::sys::inotify::Inotify;

/// Longest time between two checks with inotify, in milliseconds. Periodic checks are needed even
/// then, because targets of symbolic links and network file systems change without an event.
pub(crate) const CHECK_INTERVAL_MS: u64 = 1000;
/// Longest time between two checks without inotify, in milliseconds.
pub(crate) const UNWATCHED_CHECK_INTERVAL_MS: u64 = 100;

/// Watches the directories of expected files; `None` if inotify is not available, or has failed.
#[derive(Debug)]
pub(crate) struct FileWatcher(Option<Inotify>);

impl FileWatcher {
    /// Starts a watcher. Without inotify, files are checked periodically.
    pub(crate) fn new() -> Self {
        Self(Inotify::new().ok())
    }

    /// Returns the descriptor that is readable after a change; `None` without inotify.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Returns the longest time until the next check, in milliseconds.
    pub(crate) const fn check_interval_ms(&self) -> u64 {
        if self.0.is_some() { CHECK_INTERVAL_MS } else { UNWATCHED_CHECK_INTERVAL_MS }
    }

    /// Discards the pending events, after which the caller must check its files.
    pub(crate) fn drain(&self) {
        if let Some(inotify) = &self.0 {
            // The content of the events is not needed, because the caller checks all its files.
            let _best_effort = inotify.read_events();
        }
    }

    /// Returns the detail of the met condition if the file exists. If it is missing, returns
    /// `None` and, with inotify, watches the nearest existing directory above it.
    pub(crate) fn check(&mut self, path: &Path) -> Option<WaitDetail> {
        loop {
            if let Some(found) = check_exists(path) {
                return Some(found);
            }
            let nearest = nearest_existing_dir(path)?;
            match self.0.as_ref().map(|inotify| inotify.watch_names(&nearest)) {
                None => return None,
                // The file or its directory may have appeared before the watch was added, so both
                // are checked again.
                Some(Ok(_))
                    if !path.exists() && self::nearest_existing_dir(path) == Some(nearest) =>
                {
                    return None;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
                Some(Err(_)) => {
                    self.0 = None;
                    return None;
                }
            }
        }
    }
}

/// Returns the nearest existing directory above a path.
fn nearest_existing_dir(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|above| above.is_dir()).map(Path::to_owned)
}

/// Returns the detail of the met condition if the file exists.
pub(crate) fn check_exists(path: &Path) -> Option<WaitDetail> {
    path.exists().then(|| file_detail(path))
}

fn file_detail(path: &Path) -> WaitDetail {
    WaitDetail::File { path: path.to_string_lossy().into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll;

    /// The creation of each directory on the path wakes the waiter.
    #[test]
    fn a_file_in_directories_created_later_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        let mut files = FileWatcher::new();
        assert_eq!(files.check(&path), None);
        for step in ["a", "a/b"] {
            assert!(!poll::is_readable(files.source().expect("inotify is available")));
            std::fs::create_dir(dir.path().join(step)).unwrap();
            assert!(poll::is_readable(files.source().expect("inotify is available")), "{step}");
            files.drain();
            assert_eq!(files.check(&path), None);
        }
        std::fs::write(&path, "").unwrap();
        assert!(poll::is_readable(files.source().expect("inotify is available")));
        assert_eq!(files.check(&path), Some(file_detail(&path)));
    }

    #[test]
    fn a_directory_removed_and_recreated_is_still_watched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/f");
        std::fs::create_dir(dir.path().join("a")).unwrap();
        let mut files = FileWatcher::new();
        assert_eq!(files.check(&path), None);
        std::fs::remove_dir(dir.path().join("a")).unwrap();
        assert!(poll::is_readable(files.source().expect("inotify is available")));
        files.drain();
        assert_eq!(files.check(&path), None);
        std::fs::create_dir(dir.path().join("a")).unwrap();
        assert!(poll::is_readable(files.source().expect("inotify is available")));
        files.drain();
        assert_eq!(files.check(&path), None);
        std::fs::write(&path, "").unwrap();
        assert!(poll::is_readable(files.source().expect("inotify is available")));
    }
}
