//! The copy of this program on a remote machine.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use siding_model::record;

use crate::store::StateDir;
use crate::sys::file;

/// The path of the running program, which stays valid when its file is replaced.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Directory of the copies.
const COPY_DIR: &str = "bin";

/// File in the state directory that caches the checksum of the program.
const CHECKSUM_FILE: &str = "program-checksum";

/// Maximum size of that file, in bytes.
const MAX_CHECKSUM_FILE_BYTES: usize = 4096;

/// Age from which the modification time of a copy is renewed when the copy is used.
const MIN_TOUCH_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The identity of the program that is copied to remote machines. Copies with different content
/// have different paths there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramCopy {
    size: u64,
    checksum: u32,
}

/// The identity of the file whose checksum is cached. A rebuilt program has a different inode or
/// time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ProgramFile {
    device: u64,
    inode: u64,
    modified_ns: i64,
    modified_s: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct RememberedChecksum {
    file: ProgramFile,
    copy: ProgramCopy,
}

impl ProgramCopy {
    /// Identifies the running program. Its checksum is computed once and cached in the state
    /// directory, because reading a program of 20 MB would delay each start.
    ///
    /// # Errors
    ///
    /// The I/O error of reading the program.
    pub fn of_running_program(root: &StateDir) -> io::Result<Self> {
        let facts = std::fs::metadata(OWN_PROGRAM)?;
        let file = ProgramFile {
            device: facts.dev(),
            inode: facts.ino(),
            modified_ns: facts.mtime_nsec(),
            modified_s: facts.mtime(),
        };
        if let Some(known) = read_remembered(root).filter(|known| known.file == file) {
            return Ok(known.copy);
        }
        let copy = Self::of_bytes(&std::fs::read(OWN_PROGRAM)?);
        // Without the file, the next start computes the checksum again.
        let _best_effort = remember(root, &RememberedChecksum { file, copy: copy.clone() });
        Ok(copy)
    }

    /// Identifies a program with this content.
    #[must_use]
    pub fn of_bytes(content: &[u8]) -> Self {
        Self { size: content.len() as u64, checksum: record::checksum(content) }
    }

    /// Returns the size of the program, in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the path of the copy below a directory, and stores the running program there if that
    /// file is missing. Several processes may do this concurrently.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn store_below(&self, dir: &Path) -> io::Result<PathBuf> {
        let dir = dir.join(COPY_DIR);
        let path = dir.join(self.file_name());
        if path.is_file() {
            return Ok(path);
        }
        std::fs::create_dir_all(&dir)?;
        let temporary = dir.join(format!("{}.{}", self.file_name(), std::process::id()));
        std::fs::copy(OWN_PROGRAM, &temporary)?;
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o700))?;
        std::fs::rename(&temporary, &path)?;
        Ok(path)
    }

    fn file_name(&self) -> String {
        let Self { size, checksum } = self;
        format!("siding-{}-{size}-{checksum:08x}", env!("CARGO_PKG_VERSION"))
    }

    /// Returns the path of the copy for a shell on the remote machine, where it is expanded within
    /// double quotes.
    pub(super) fn remote_path(&self) -> String {
        format!("${{XDG_CACHE_HOME:-$HOME/.cache}}/siding/{COPY_DIR}/{}", self.file_name())
    }

    /// Opens the running program, to send it.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn open() -> io::Result<File> {
        File::open(OWN_PROGRAM)
    }
}

/// If another machine has stored the running program, renews the program's modification time once a
/// day, so that the next installation does not remove it as unused. The access time is not enough,
/// because a file system that is mounted with `noatime` does not update it.
///
/// # Errors
///
/// The I/O error of the system call.
pub(super) fn touch_running_copy() -> io::Result<()> {
    if is_copy_path(&std::fs::read_link(OWN_PROGRAM)?) {
        touch_if_old(&File::open(OWN_PROGRAM)?)?;
    }
    Ok(())
}

/// Returns whether a path is one of [`ProgramCopy::remote_path`].
fn is_copy_path(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    path.parent().is_some_and(|dir| dir.ends_with("siding/bin"))
        && name.to_string_lossy().starts_with("siding-")
}

fn touch_if_old(file: &File) -> io::Result<()> {
    let modified = file.metadata()?.modified()?;
    // A time in the future gives no age.
    if modified.elapsed().is_ok_and(|age| age >= MIN_TOUCH_AGE) {
        file.set_modified(SystemTime::now())?;
    }
    Ok(())
}

fn read_remembered(root: &StateDir) -> Option<RememberedChecksum> {
    let fd = file::open_at(root, CHECKSUM_FILE, file::OpenMode::Read).ok()?;
    let text = file::read_to_end(fd.as_fd(), MAX_CHECKSUM_FILE_BYTES).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Replaces the file in one step, because several processes may write it.
fn remember(root: &StateDir, known: &RememberedChecksum) -> io::Result<()> {
    let temporary = format!("{CHECKSUM_FILE}.{}", std::process::id());
    let _stale = file::remove(root, &temporary);
    let fd = file::open_at(root, &temporary, file::OpenMode::CreateNew)?;
    file::write_all_at(&fd, &serde_json::to_vec(known)?, 0)?;
    file::rename_over(root, &temporary, CHECKSUM_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_remembered_for_this_file_only() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let copy = ProgramCopy::of_running_program(&root).expect("the test program is readable");
        assert_eq!(copy.size(), std::fs::metadata(OWN_PROGRAM).expect("exists").len());
        let known = read_remembered(&root).expect("is remembered");
        assert_eq!(known.copy, copy);
        let other = ProgramFile { inode: known.file.inode + 1, ..known.file };
        let wrong = ProgramCopy::of_bytes(b"other");
        remember(&root, &RememberedChecksum { file: other, copy: wrong }).expect("own directory");
        assert_eq!(ProgramCopy::of_running_program(&root).expect("readable"), copy);
    }

    #[test]
    fn only_an_old_copy_gets_a_new_time() {
        let path = |text: &str| is_copy_path(Path::new(text));
        assert!(path("/home/me/.cache/siding/bin/siding-0.1.0-5-0123abcd"));
        assert!(!path("/usr/bin/siding") && !path("/usr/bin/siding-0.1.0"));
        assert!(!path("/home/me/.cache/siding/bin/other"));
        let temporary = tempfile::tempdir().expect("a directory");
        let file = File::create(temporary.path().join("copy")).expect("own directory");
        let modified = || file.metadata().and_then(|facts| facts.modified()).expect("own file");
        let recent = SystemTime::now() - Duration::from_secs(3_600);
        for (time, is_kept) in [(recent, true), (recent - MIN_TOUCH_AGE, false)] {
            file.set_modified(time).expect("own file");
            let before = modified();
            touch_if_old(&file).expect("own file");
            assert_eq!(modified() == before, is_kept);
        }
    }
}
