//! A file's place in a directory: reading what is there, and putting something else there.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use siding_core::sys::dir_entry::{self, DirEntry, FileKind};
use siding_core::sys::{self, file};

/// Longest file that is read as a whole: to be edited, or told from what it was.
pub(super) const MAX_WHOLE_FILE_BYTES: usize = 8 << 20;

/// Beginning of the name of a file that is not finished.
const TEMP_FILE_PREFIX: &str = ".siding-";

/// A place for a file.
#[derive(Debug)]
pub(super) struct FileEntry {
    /// As the model named it.
    pub(super) path: String,
    /// The directory.
    pub(super) dir: OwnedFd,
    /// The name in it.
    pub(super) name: String,
    /// What was there when it was looked up; never a link.
    pub(super) metadata: Option<DirEntry>,
    /// Names the place.
    pub(super) key: FileKey,
}

/// Names a place, whatever path leads there and whatever is there.
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

/// Why a file cannot be had, for a model.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// Nothing was named.
    #[error("{path:?} is no path: name a file, relative to the working directory or absolute")]
    NoPath { path: String },
    /// A shell's word for a home.
    #[error("`{path}`: `~` is not known here; write the directory itself")]
    Tilde { path: String },
    /// It leads out.
    #[error(
        "`{path}` leads out of {allowed}, and files elsewhere are not touched; a person can allow \
         another directory with `--allow-path`"
    )]
    Outside { path: String, allowed: String },
    /// It is not there.
    #[error("there is no `{path}`; a path is taken from `{}`", .directory.display())]
    NotFound { path: String, directory: PathBuf },
    /// It is a directory.
    #[error("`{path}` is a directory, not a file; `ls` in bash shows what is in it")]
    Directory { path: String },
    /// It is nothing that holds bytes.
    #[error("`{path}` is {what}, not a file with content; it is not opened")]
    Special { path: String, what: &'static str },
    /// It may not be written to.
    #[error(
        "`{path}` is write-protected, by its permissions or its file system, and was not changed"
    )]
    Protected { path: String },
    /// Somebody else was there between two looks.
    #[error(
        "`{path}` was changed by somebody else just now, and nothing was written; read it again"
    )]
    Raced { path: String },
    /// It is too long to be read as a whole.
    #[error(
        "`{path}` is larger than {} MiB: change it in bash (`sed`, a script)", MAX_WHOLE_FILE_BYTES >> 20
    )]
    TooLarge { path: String },
    /// The operating system refused.
    #[error("could not {doing} `{path}`: {source}")]
    Io { doing: &'static str, path: String, source: io::Error },
}

impl From<FileError> for String {
    fn from(error: FileError) -> Self {
        error.to_string()
    }
}

impl FileEntry {
    /// Opens the file to read. What is no file is not opened: a FIFO would wait, a device may act.
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
        // Something else may have come into its place since.
        self.check_regular_file(&dir_entry::entry_of_fd(&fd).map_err(self.io_error("read"))?)?;
        Ok(File::from(fd))
    }

    /// Reads the whole file, of at most [`MAX_WHOLE_FILE_BYTES`] bytes.
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

    /// Puts a file with this content here, in one step: whoever reads meanwhile finds the old or the
    /// new, also after a crash. One that is there is replaced if it is still the one that was looked
    /// up, and its permissions stay; else a new one is made.
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

    /// Writes a file beside this one.
    fn write_temp_file(&self, name: &str, content: &[u8]) -> Result<(), FileError> {
        let fill = || {
            let fd = match &self.metadata {
                // Of nobody else before it has the permissions of the one that it replaces.
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

    /// Gives a file that was filled the name of this one.
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
