//! The directories in which an agent's tools may access files, and the resolution of paths below
//! them.
//!
//! At the time of each access, the kernel decides whether a path is inside ([`resolve_beneath`]),
//! so no symbolic link, no `..` and no concurrent change of a path leads outside. Where the kernel
//! rejects a path, this module computes another candidate, which the kernel checks again.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use siding_core::sys::dir_entry::{self, FileKind};
use siding_core::sys::{file, resolve_beneath};

use super::file_entry::{FileEntry, FileError, FileKey};

/// Maximum number of symbolic links followed for one path, as in the kernel (path_resolution(7)).
const MAX_SYMLINKS: usize = 40;

/// The directories in which an agent's tools may access files: the working directory and those that
/// the user has allowed.
#[derive(Debug)]
pub struct AllowedRoots {
    /// The roots; the first is the working directory.
    roots: Vec<AllowedRoot>,
}

#[derive(Debug)]
struct AllowedRoot {
    /// The path as the user gave it, made absolute.
    given_path: PathBuf,
    /// The path without symbolic links.
    real_path: PathBuf,
    fd: OwnedFd,
}

/// The error for a root directory that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot work in the directory `{path}`")]
pub struct AllowedRootError {
    /// The absolute path of the directory.
    pub path: PathBuf,
    /// Why the directory cannot be opened.
    pub source: io::Error,
}

/// How to handle a missing directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingDirectory {
    /// Return an error, because the file must exist already.
    Fail,
    /// Create the directory and its missing parents.
    Create,
}

impl AllowedRoots {
    /// Opens the working directory, which must be absolute, and the additional directories, which
    /// may be relative to it.
    ///
    /// # Errors
    ///
    /// [`AllowedRootError`] for the first directory that cannot be opened.
    pub fn new(directory: &Path, allowed: &[PathBuf]) -> Result<Self, AllowedRootError> {
        let named = std::iter::once(directory.to_owned());
        let named = named.chain(allowed.iter().map(|path| directory.join(path)));
        let roots = named.map(|path| {
            AllowedRoot::open(&path)
                .map_err(|source| AllowedRootError { path: path.clone(), source })
        });
        Ok(Self { roots: roots.collect::<Result<_, _>>()? })
    }

    /// Returns the entry of an existing file for a path that a model gave.
    pub(super) fn find_existing(&self, path: &str) -> Result<FileEntry, FileError> {
        let spot = self.find(path, MissingDirectory::Fail)?;
        match spot.metadata {
            Some(_) => Ok(spot),
            None => Err(self.path_error(path, io::ErrorKind::NotFound.into())),
        }
    }

    /// Returns the entry for a path that a model gave, with symbolic links followed. The file
    /// itself is not opened and may be missing.
    pub(super) fn find(
        &self,
        path: &str,
        missing: MissingDirectory,
    ) -> Result<FileEntry, FileError> {
        let shown = || path.to_owned();
        if path.is_empty() || path.contains('\0') {
            return Err(FileError::NoPath { path: shown() });
        }
        if path == "~" || path.starts_with("~/") {
            return Err(FileError::Tilde { path: shown() });
        }
        let failed = |error: io::Error| self.path_error(path, error);
        let mut candidate = self.roots[0].given_path.join(path);
        for _ in 0..MAX_SYMLINKS {
            let is_root = self
                .roots
                .iter()
                .any(|root| root.given_path == candidate || root.real_path == candidate);
            let (Some(above), Some(name)) = (candidate.parent(), candidate.file_name()) else {
                return Err(FileError::Directory { path: shown() });
            };
            if is_root || path.ends_with('/') || path.ends_with("/.") {
                return Err(FileError::Directory { path: shown() });
            }
            // The path was given as text or was read from a link as text, so this conversion is
            // lossless.
            let name = name.to_string_lossy().into_owned();
            let dir = self.open_directory(above, missing).map_err(failed)?;
            let entry = match dir_entry::entry_at(&dir, &name) {
                Ok(entry) => Some(entry),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(failed(error)),
            };
            if entry.is_some_and(|entry| entry.kind == FileKind::Link) {
                let target = file::read_link(&dir, &name).map_err(failed)?;
                candidate = above.join(target);
                continue;
            }
            let identity = file::metadata(&dir).map_err(failed)?.identity;
            let key = FileKey::new(identity, &name);
            return Ok(FileEntry { path: shown(), dir, name, metadata: entry, key });
        }
        Err(failed(io::Error::from_raw_os_error(file::SYMLINK_ERRNO)))
    }

    /// Opens a directory inside the roots, following symbolic links. If it is missing, `missing`
    /// decides whether it is created.
    fn open_directory(&self, path: &Path, missing: MissingDirectory) -> io::Result<OwnedFd> {
        let outside = || io::Error::from_raw_os_error(resolve_beneath::OUTSIDE_ERRNO);
        let named =
            self.roots.iter().flat_map(|root| [(root, &root.given_path), (root, &root.real_path)]);
        for (root, base) in named {
            if let Ok(rest) = path.strip_prefix(base) {
                match open_below(&root.fd, rest, missing) {
                    Err(error) if error.raw_os_error() == Some(resolve_beneath::OUTSIDE_ERRNO) => {}
                    result => return result,
                }
            }
        }
        // The path may still lead inside: through an absolute link, a link between two roots, or a
        // `..` that leaves a root and returns.
        let real = resolve_links(path)?.ok_or_else(outside)?;
        for root in &self.roots {
            if let Ok(rest) = real.strip_prefix(&root.real_path) {
                return open_below(&root.fd, rest, missing);
            }
        }
        Err(outside())
    }

    fn path_error(&self, path: &str, source: io::Error) -> FileError {
        let path = path.to_owned();
        if source.raw_os_error() == Some(resolve_beneath::OUTSIDE_ERRNO) {
            let allowed: Vec<String> =
                self.roots.iter().map(|root| format!("`{}`", root.given_path.display())).collect();
            return FileError::Outside { path, allowed: allowed.join(", ") };
        }
        if source.kind() == io::ErrorKind::NotFound {
            return FileError::NotFound { path, directory: self.roots[0].given_path.clone() };
        }
        FileError::Io { doing: "reach", path, source }
    }
}

impl AllowedRoot {
    fn open(path: &Path) -> io::Result<Self> {
        let real = path.canonicalize()?;
        let fd = file::open_directory(&real)?;
        Ok(Self { given_path: path.to_owned(), real_path: real, fd })
    }
}

/// Opens a directory below another, and creates missing directories if allowed.
fn open_below(root: &OwnedFd, path: &Path, missing: MissingDirectory) -> io::Result<OwnedFd> {
    let opened = resolve_beneath::open_directory(root, path);
    let is_missing = opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let (true, MissingDirectory::Create, Some(above), Some(name)) =
        (is_missing, missing, path.parent(), path.file_name())
    else {
        return opened;
    };
    let above = open_below(root, above, missing)?;
    match dir_entry::create_directory(&above, Path::new(name)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result?,
    }
    resolve_beneath::open_directory(root, path)
}

/// Returns the path without symbolic links. The last components of the path may be missing. Returns
/// `None` if no part of the path exists.
fn resolve_links(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut existing = path;
    let mut rest: Vec<OsString> = Vec::new();
    loop {
        match existing.canonicalize() {
            Ok(mut real) => {
                real.extend(rest.iter().rev());
                return Ok(Some(real));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (Some(above), Some(name)) = (existing.parent(), existing.file_name()) else {
                    return Ok(None);
                };
                rest.push(name.to_owned());
                existing = above;
            }
            Err(error) => return Err(error),
        }
    }
}
