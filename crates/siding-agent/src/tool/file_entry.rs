//! The directory entry of a file: reading and atomically replacing its content.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use siding_core::sys::dir_entry::{self, DirEntry, FileKind};
use siding_core::sys::{self, file};

/// Maximum bytes of a file that is read completely, to be edited or to detect changes.
pub(super) const MAX_WHOLE_FILE_BYTES: usize = 8 << 20;

/// Prefix of the names of temporary files, which a crash may leave behind.
const TEMP_FILE_PREFIX: &str = ".siding-";

/// A directory entry, which may not exist yet.
#[derive(Debug)]
pub(super) struct FileEntry {
    /// The path as the model gave it.
    pub(super) path: String,
    /// The open directory that holds the entry.
    pub(super) dir: OwnedFd,
    /// The file's name in that directory.
    pub(super) name: String,
    /// The metadata at the time of the lookup; `None` if there was no such file. The metadata never
    /// describes a symbolic link, because links are followed.
    pub(super) metadata: Option<DirEntry>,
    pub(super) key: FileKey,
}

/// Identifies a directory entry, whatever path was used to find it and whatever it contains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    directory: (u64, u64),
    name: String,
}

impl FileKey {
    pub(super) fn new(directory: (u64, u64), name: &str) -> Self {
        Self { directory, name: name.to_owned() }
    }
}

/// Why a file cannot be accessed. The messages are for the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// The path is empty or contains a NUL byte.
    #[error("{path:?} is not a path: name a file, relative to the working directory or absolute")]
    NoPath { path: String },
    /// The path starts with a `~`, which only a shell expands.
    #[error("`{path}`: `~` is not expanded here; write the full path")]
    Tilde { path: String },
    /// The path leads out of the allowed directories.
    #[error(
        "`{path}` leads out of {allowed}, and files elsewhere are not accessible; a person can \
         allow another directory with `--allow-path`"
    )]
    Outside { path: String, allowed: String },
    /// The file does not exist.
    #[error("there is no `{path}`; paths are relative to `{}`", .directory.display())]
    NotFound { path: String, directory: PathBuf },
    /// The path names a directory.
    #[error("`{path}` is a directory, not a file; `ls` in bash shows what is in it")]
    Directory { path: String },
    /// The path names a FIFO, a socket or a device.
    #[error("`{path}` is {what}, not a file with content; it is not opened")]
    Special { path: String, what: &'static str },
    /// The file is not writable.
    #[error(
        "`{path}` is write-protected by its permissions or its file system, and was not changed"
    )]
    Protected { path: String },
    /// The file changed between the lookup and the access.
    #[error("`{path}` was just changed by another process, and nothing was written; read it again")]
    Raced { path: String },
    /// The file is too large to be read completely.
    #[error(
        "`{path}` is larger than {} MiB: change it in bash (`sed`, a script)", MAX_WHOLE_FILE_BYTES >> 20
    )]
    TooLarge { path: String },
    /// A system call failed.
    #[error("could not {doing} `{path}`: {source}")]
    Io { doing: &'static str, path: String, source: io::Error },
}

impl From<FileError> for String {
    fn from(error: FileError) -> Self {
        error.to_string()
    }
}

impl FileEntry {
    /// Opens the file for reading. Only regular files are opened: opening a FIFO would block, and
    /// opening a device can have side effects.
    pub(super) fn open(&self) -> Result<File, FileError> {
        let raced = || FileError::Raced { path: self.path.clone() };
        self.check_regular_file(self.metadata.as_ref().ok_or_else(raced)?)?;
        let fd =
            file::open_at(&self.dir, &self.name, file::OpenMode::Read).map_err(
                |error| match error.raw_os_error() {
                    Some(file::SYMLINK_ERRNO) => raced(),
                    _ => self.io_error("read")(error),
                },
            )?;
        // Checked again, because another file may have replaced this one since the lookup.
        self.check_regular_file(&dir_entry::entry_of_fd(&fd).map_err(self.io_error("read"))?)?;
        Ok(File::from(fd))
    }

    /// Reads the complete file. A file larger than [`MAX_WHOLE_FILE_BYTES`] is an error.
    pub(super) fn read_all(&self) -> Result<Vec<u8>, FileError> {
        let opened = self.open()?;
        file::read_to_end(opened.as_fd(), MAX_WHOLE_FILE_BYTES).map_err(|error| {
            if error.kind() == io::ErrorKind::FileTooLarge {
                FileError::TooLarge { path: self.path.clone() }
            } else {
                self.io_error("read")(error)
            }
        })
    }

    /// Replaces the content atomically, even across a crash: a reader sees either the old or the
    /// new content. An existing file is replaced only if it is unchanged since the lookup; the
    /// check immediately precedes the rename. Its permissions are kept, and its owner where the
    /// system allows it. A missing file is created.
    pub(super) fn replace_content(&self, content: &[u8]) -> Result<(), FileError> {
        if let Some(entry) = &self.metadata {
            self.check_regular_file(entry)?;
            if !dir_entry::is_writable_at(&self.dir, &self.name) {
                return Err(FileError::Protected { path: self.path.clone() });
            }
        }
        let random = sys::random_u64().map_err(self.io_error("write"))?;
        let temp_name = format!("{TEMP_FILE_PREFIX}{random:016x}");
        let done = self
            .write_temp_file(&temp_name, content)
            .and_then(|()| self.rename_into_place(&temp_name));
        if done.is_err() {
            let _already_removed = file::remove(&self.dir, &temp_name);
        }
        dir_entry::sync_directory(&self.dir);
        done
    }

    /// Writes the content to a temporary file in the same directory.
    fn write_temp_file(&self, name: &str, content: &[u8]) -> Result<(), FileError> {
        let fill = || {
            let fd = match &self.metadata {
                // The file is private until it gets the permissions of the file that it replaces.
                Some(_) => file::open_at(&self.dir, name, file::OpenMode::CreateNew)?,
                None => dir_entry::create_new(&self.dir, name)?,
            };
            let mut made = File::from(fd);
            made.write_all(content)?;
            if let Some(entry) = &self.metadata {
                dir_entry::copy_owner_and_mode(&made, entry)?;
            }
            made.sync_all()
        };
        fill().map_err(self.io_error("write"))
    }

    /// Renames the temporary file to the final name, unless the file with this name has changed or
    /// appeared since the lookup.
    fn rename_into_place(&self, filled: &str) -> Result<(), FileError> {
        let raced = || FileError::Raced { path: self.path.clone() };
        let Some(entry) = &self.metadata else {
            return file::rename_noreplace(&self.dir, filled, &self.dir, &self.name).map_err(
                |error| {
                    if error.kind() == io::ErrorKind::AlreadyExists {
                        raced()
                    } else {
                        self.io_error("write")(error)
                    }
                },
            );
        };
        let now = dir_entry::entry_at(&self.dir, &self.name).map_err(self.io_error("write"))?;
        if now.stamp != entry.stamp {
            return Err(raced());
        }
        file::rename_over(&self.dir, filled, &self.name).map_err(self.io_error("write"))
    }

    fn check_regular_file(&self, entry: &DirEntry) -> Result<(), FileError> {
        let path = self.path.clone();
        let what = match entry.kind {
            FileKind::File => return Ok(()),
            FileKind::Directory => return Err(FileError::Directory { path }),
            FileKind::Link => return Err(FileError::Raced { path }),
            FileKind::Fifo => "a FIFO",
            FileKind::Socket => "a socket",
            FileKind::Device => "a device",
        };
        Err(FileError::Special { path, what })
    }

    fn io_error(&self, doing: &'static str) -> impl Fn(io::Error) -> FileError {
        move |source| FileError::Io { doing, path: self.path.clone(), source }
    }
}
