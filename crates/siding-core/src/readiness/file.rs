//! Waiting for a file.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use siding_model::wait::WaitDetail;

use crate::sys::inotify::Inotify;

/// The longest time between two looks, in milliseconds. Links that lead elsewhere and file systems
/// of the network change without an event.
pub(crate) const CHECK_INTERVAL_MS: u64 = 1000;
/// The same where the user has no watches left.
pub(crate) const UNWATCHED_CHECK_INTERVAL_MS: u64 = 100;

/// Directories of files that are waited for.
#[derive(Debug)]
pub(crate) struct FileWatcher(Option<Inotify>);

impl FileWatcher {
    /// Begins. Where the kernel grants no watches, files are looked for from time to time.
    pub(crate) fn new() -> Self {
        Self(Inotify::new().ok())
    }

    /// Returns what to poll.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Returns how long to wait at most before the next look.
    pub(crate) const fn check_interval_ms(&self) -> u64 {
        if self.0.is_some() { CHECK_INTERVAL_MS } else { UNWATCHED_CHECK_INTERVAL_MS }
    }

    /// Takes in that something happened.
    pub(crate) fn drain(&self) {
        if let Some(inotify) = &self.0 {
            // Whoever waits looks for himself.
            let _best_effort = inotify.read_events();
        }
    }

    /// Looks for a file and, while it is not there, watches the directory in which it, or the next
    /// directory on the way to it, will appear.
    pub(crate) fn check(&mut self, path: &Path) -> Option<WaitDetail> {
        loop {
            if let Some(found) = check_exists(path) {
                return Some(found);
            }
            let nearest = nearest_existing_dir(path)?;
            match self.0.as_ref().map(|inotify| inotify.watch_names(&nearest)) {
                None => return None,
                // What appeared before the watch stood is seen by another look.
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

/// Returns the nearest directory above a path that is there.
fn nearest_existing_dir(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|above| above.is_dir()).map(Path::to_owned)
}

/// Returns that a file is there, if it is.
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

    /// Every step on the way to the file wakes whoever waits.
    #[test]
    fn a_file_in_directories_created_later_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        let mut files = FileWatcher::new();
        assert_eq!(files.check(&path), None);
        for step in ["a", "a/b"] {
            assert!(!poll::is_readable(files.source().expect("watches are to be had")));
            std::fs::create_dir(dir.path().join(step)).unwrap();
            assert!(poll::is_readable(files.source().expect("watches are to be had")), "{step}");
            files.drain();
            assert_eq!(files.check(&path), None);
        }
        std::fs::write(&path, "").unwrap();
        assert!(poll::is_readable(files.source().expect("watches are to be had")));
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
        assert!(poll::is_readable(files.source().expect("watches are to be had")));
        files.drain();
        assert_eq!(files.check(&path), None);
        std::fs::create_dir(dir.path().join("a")).unwrap();
        assert!(poll::is_readable(files.source().expect("watches are to be had")));
        files.drain();
        assert_eq!(files.check(&path), None);
        std::fs::write(&path, "").unwrap();
        assert!(poll::is_readable(files.source().expect("watches are to be had")));
    }
}
