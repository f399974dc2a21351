//! Reads settings files as a whole, and replaces them atomically.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use siding_core::sys::{clock, file};

use super::error::InstallError;

/// Maximum size of a settings file, in bytes.
const MAX_FILE_BYTES: usize = 64 << 20;
/// Permissions of a created file, which may contain secrets.
const NEW_FILE_MODE: u32 = 0o600;
/// Permissions of a created directory: only its owner may enter it.
const NEW_DIRECTORY_MODE: u32 = 0o700;
/// Permissions of a created file, and of its created directories, that all users must be able to
/// read.
const SHARED_FILE_MODE: u32 = 0o644;
const SHARED_DIRECTORY_MODE: u32 = 0o755;
/// Separates a file's name from the time in the name of a backup.
const BACKUP_INFIX: &str = ".siding-backup-";

/// A file's content and attributes when it was read. A later write first checks that no other
/// program has changed the content since.
#[derive(Debug, Clone)]
pub(crate) struct OriginalFile {
    /// Path with symbolic links resolved.
    path: PathBuf,
    /// Content; `None` if the file did not exist.
    bytes: Option<Vec<u8>>,
    mode: u32,
    /// Permissions of the directories that a write creates.
    new_directory_mode: u32,
    owner: Option<(u32, u32)>,
}

impl OriginalFile {
    /// Reads a file, which may be missing.
    ///
    /// # Errors
    ///
    /// The path is a dangling symbolic link or not a regular file, or the file is too large or
    /// cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, InstallError> {
        let new_directory_mode = NEW_DIRECTORY_MODE;
        let missing = |path: PathBuf| Self {
            path,
            bytes: None,
            mode: NEW_FILE_MODE,
            new_directory_mode,
            owner: None,
        };
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return if path.is_symlink() {
                    Err(InstallError::DanglingLink { path: path.to_owned() })
                } else {
                    Ok(missing(path.to_owned()))
                };
            }
            Err(error) => return Err(InstallError::io("find", path)(error)),
        };
        let facts = path.metadata().map_err(InstallError::io("read", &path))?;
        if !facts.is_file() {
            return Err(InstallError::NotAFile { path });
        }
        let bytes = read_bytes(&path)?;
        let owner = Some((facts.uid(), facts.gid()));
        let mode = facts.mode() & 0o7777;
        Ok(Self { path, bytes: Some(bytes), mode, new_directory_mode, owner })
    }

    /// Makes the file, if it does not exist yet, and its new directories readable by all users.
    pub(crate) fn share_if_new(&mut self) {
        if self.bytes.is_none() {
            (self.mode, self.new_directory_mode) = (SHARED_FILE_MODE, SHARED_DIRECTORY_MODE);
        }
    }

    /// Returns the path, with symbolic links resolved if the file existed when it was read.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text; `None` if the file did not exist.
    ///
    /// # Errors
    ///
    /// The file is not UTF-8 ([`InstallError::NotUtf8`]).
    pub(crate) fn text(&self) -> Result<Option<&str>, InstallError> {
        let Some(bytes) = &self.bytes else { return Ok(None) };
        let text = std::str::from_utf8(bytes).map_err(|error| InstallError::NotUtf8 {
            path: self.path.clone(),
            offset: error.valid_up_to(),
        })?;
        Ok(Some(text))
    }

    /// Replaces the file's text atomically, by rename(2). The permissions and the owner are kept.
    ///
    /// # Errors
    ///
    /// [`InstallError::ConcurrentChange`], or the I/O error of a system call. The file is then
    /// unchanged, unless only the fsync(2) of its directory failed.
    pub(crate) fn replace(&self, text: &str) -> Result<(), InstallError> {
        let name = append_to_name(&self.path, &format!(".siding-{}", std::process::id()));
        let written = self.write_new(&name, text.as_bytes()).and_then(|()| {
            self.ensure_unchanged()?;
            std::fs::rename(&name, &self.path).map_err(InstallError::io("replace", &self.path))
        });
        if written.is_err() {
            let _already_removed = std::fs::remove_file(&name);
        }
        written?;
        self.sync_directory()
    }

    /// Removes the file, if it has not changed since it was read.
    ///
    /// # Errors
    ///
    /// The same errors as [`Self::replace`].
    pub(crate) fn remove(&self) -> Result<(), InstallError> {
        self.ensure_unchanged()?;
        std::fs::remove_file(&self.path).map_err(InstallError::io("remove", &self.path))?;
        self.sync_directory()
    }

    /// Writes a copy of the content that was read into the same directory, and returns the copy's
    /// path; `None` if the file did not exist.
    ///
    /// # Errors
    ///
    /// The I/O error of a system call.
    pub(crate) fn back_up(&self) -> Result<Option<PathBuf>, InstallError> {
        let Some(bytes) = &self.bytes else { return Ok(None) };
        let now: String =
            clock::unix_now().rfc3339().chars().filter(char::is_ascii_digit).collect();
        let stamp = now.get(..14).unwrap_or(&now);
        let mut path = append_to_name(&self.path, &format!("{BACKUP_INFIX}{stamp}"));
        let mut again = 2;
        while path.exists() {
            path = append_to_name(&self.path, &format!("{BACKUP_INFIX}{stamp}-{again}"));
            again += 1;
        }
        self.write_new(&path, bytes)?;
        Ok(Some(path))
    }

    /// Returns those of the file's backups whose content equals `text`.
    pub(crate) fn backups_equal_to(&self, text: &str) -> Vec<PathBuf> {
        let (Some(dir), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Vec::new();
        };
        let start = format!("{}{BACKUP_INFIX}", name.display());
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start));
        let mut same: Vec<PathBuf> = ours
            .map(|entry| entry.path())
            .filter(|path| std::fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes()))
            .collect();
        same.sort();
        same
    }

    /// Creates the missing directories on the path to the file. Returns the created directories,
    /// the uppermost first.
    ///
    /// # Errors
    ///
    /// The I/O error of a system call.
    pub(crate) fn create_directories(&self) -> Result<Vec<PathBuf>, InstallError> {
        let above = self.path.ancestors().skip(1);
        let mut made: Vec<PathBuf> =
            above.take_while(|dir| !dir.exists()).map(Path::to_owned).collect();
        made.reverse();
        for dir in &made {
            let result = DirBuilder::new().mode(self.new_directory_mode).create(dir);
            result.map_err(InstallError::io("create", dir))?;
        }
        Ok(made)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<(), InstallError> {
        let io = |source| InstallError::io("write", path)(source);
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(NEW_FILE_MODE).open(path).map_err(io)?;
        file.write_all(bytes).map_err(io)?;
        if let Some((uid, gid)) = self.owner {
            let facts = file.metadata().map_err(io)?;
            if (facts.uid(), facts.gid()) != (uid, gid) {
                std::os::unix::fs::fchown(&file, Some(uid), Some(gid)).map_err(io)?;
            }
        }
        file.set_permissions(Permissions::from_mode(self.mode)).map_err(io)?;
        file.sync_all().map_err(io)
    }

    /// Fails if the file has changed since it was read.
    fn ensure_unchanged(&self) -> Result<(), InstallError> {
        let now = match read_bytes(&self.path) {
            Ok(bytes) => Some(bytes),
            Err(InstallError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if now == self.bytes {
            Ok(())
        } else {
            Err(InstallError::ConcurrentChange { path: self.path.clone() })
        }
    }

    fn sync_directory(&self) -> Result<(), InstallError> {
        let Some(dir) = self.path.parent() else { return Ok(()) };
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(InstallError::io("sync", dir))
    }
}

/// Reads a whole file.
///
/// # Errors
///
/// [`InstallError::TooLarge`] beyond [`MAX_FILE_BYTES`]; otherwise the I/O error.
fn read_bytes(path: &Path) -> Result<Vec<u8>, InstallError> {
    let io = |source| InstallError::io("read", path)(source);
    let opened = File::open(path).map_err(io)?;
    match file::read_to_end(opened.as_fd(), MAX_FILE_BYTES) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(InstallError::TooLarge {
            path: path.to_owned(),
            len: opened.metadata().map_err(io)?.len(),
            max: MAX_FILE_BYTES as u64,
        }),
        result => result.map_err(io),
    }
}

/// Appends a suffix to the last component of a path.
fn append_to_name(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concurrent_change_is_detected_and_kept() {
        let dir = std::env::temp_dir().join(format!("siding-file-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let path = dir.join("settings.json");
        std::fs::write(&path, "1").expect("written");
        let original = OriginalFile::read(&path).expect("read");
        let new = OriginalFile::read(&dir.join("new.json")).expect("not there");
        std::fs::write(&path, "2").expect("written");
        std::fs::write(dir.join("new.json"), "3").expect("written");
        for refused in [original.replace("x"), original.remove(), new.replace("x")] {
            assert!(matches!(refused, Err(InstallError::ConcurrentChange { .. })), "{refused:?}");
        }
        let text = |name: &str| std::fs::read_to_string(dir.join(name)).expect("there");
        assert_eq!((text("settings.json"), text("new.json")), ("2".to_owned(), "3".to_owned()));
        let count = std::fs::read_dir(&dir).expect("a directory").count();
        assert_eq!(count, 2, "a temporary file was left behind");
        std::fs::remove_dir_all(&dir).expect("removed");
    }

    /// A file that exceeds the limit is refused when it is read, and when it has grown since.
    #[test]
    fn a_file_beyond_the_size_limit_is_refused() {
        let dir = std::env::temp_dir().join(format!("siding-large-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let path = dir.join("settings.json");
        let file = File::create(&path).expect("made");
        file.set_len(MAX_FILE_BYTES as u64).expect("grown");
        let original = OriginalFile::read(&path).expect("read");
        file.set_len(MAX_FILE_BYTES as u64 + 1).expect("grown");
        let results = [OriginalFile::read(&path).map(drop), original.replace("x").map(drop)];
        std::fs::remove_dir_all(&dir).expect("removed");
        for refused in results {
            assert!(
                matches!(refused, Err(InstallError::TooLarge { len, .. }) if len > MAX_FILE_BYTES as u64),
                "{refused:?}"
            );
        }
    }
}
