//! Recognizes network file systems and chooses a local directory for FIFOs, sockets and locks.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::sys::{file, process, system_info};

/// File systems that several machines may have mounted, or that a user's program serves. The
/// numbers come from statfs(2) and linux/magic.h; those of Lustre, GPFS, GFS2, BeeGFS, Panasas,
/// StorNext and the shared folders of virtual machines come from stat.c of GNU coreutils, which
/// also treats these as remote.
const NETWORK_FILE_SYSTEMS: [(u64, &str); 22] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "kafs"),
    (0x00c3_6400, "ceph"),
    (0x7375_7245, "coda"),
    (0x564c, "ncp"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0xaad7_aaea, "panfs"),
    (0xbeef_dead, "snfs"),
    (0x0131_11a8, "ibrix"),
    (0xbacb_acbc, "vmhgfs"),
    (0x786f_4256, "vboxsf"),
    (0x7c7c_6673, "prl_fs"),
];

/// Returns the name of a network file system by its magic number; `None` for any other.
#[must_use]
pub fn network_file_system_name(magic: u64) -> Option<&'static str> {
    NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// The reason why no base directory is usable, or why a task's runtime directory could not be
/// created.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeDirError {
    /// No candidate directory is usable.
    #[error(
        "the state directory is on {file_system}, where FIFOs, sockets and locks are unreliable, and no local directory is usable for them ({}); set XDG_RUNTIME_DIR to a directory of your own with mode 0700 on a local file system, or SIDING_STATE_DIR to a local directory",
        tried.join("; ")
    )]
    NoneUsable {
        /// The name of the network file system that contains the state directory.
        file_system: &'static str,
        /// The rejected directories, each with the reason.
        tried: Vec<String>,
    },
    /// A system call on the task's runtime directory or on its record failed.
    #[error("could not create the runtime directory `{path}` of a task: {source}")]
    Io {
        /// The path that was chosen for the runtime directory.
        path: PathBuf,
        /// The kernel's error, which the message contains.
        source: io::Error,
    },
}

/// The candidates for the directory that contains the runtime directories of tasks, for a state
/// directory that is on a network file system.
#[derive(Debug, Clone, Default)]
pub struct RuntimeBase {
    file_system: &'static str,
    candidates: Vec<PathBuf>,
}

impl RuntimeBase {
    /// Returns a base if the state directory needs one; `None` for a local file system.
    /// `magic` is the `f_type` of statfs(2).
    pub(crate) fn for_file_system(
        magic: u64,
        candidates: impl FnOnce() -> Vec<PathBuf>,
    ) -> Option<Self> {
        network_file_system_name(magic)
            .map(|file_system| Self { file_system, candidates: candidates() })
    }

    /// Returns the name of the network file system.
    #[must_use]
    pub const fn file_system(&self) -> &'static str {
        self.file_system
    }

    /// Opens the first usable candidate, creating it if it is missing.
    ///
    /// # Errors
    ///
    /// [`RuntimeDirError::NoneUsable`].
    pub fn open_first_usable(&self) -> Result<(PathBuf, OwnedFd), RuntimeDirError> {
        let mut tried = Vec::new();
        for path in &self.candidates {
            match open_base(path, true) {
                Ok(fd) => return Ok((path.clone(), fd)),
                Err(why) => tried.push(format!("`{}`: {why}", path.display())),
            }
        }
        Err(RuntimeDirError::NoneUsable { file_system: self.file_system, tried })
    }
}

/// Returns the candidates for the base directory, the best first. The first two are removed when
/// the user logs out; the last is for users who have neither.
pub(crate) fn base_candidates() -> Vec<PathBuf> {
    let uid = process::effective_uid();
    let configured = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // The XDG base directory specification requires relative paths to be ignored.
    let configured = configured.filter(|dir| dir.is_absolute()).map(|dir| dir.join("siding"));
    let usual = PathBuf::from(format!("/run/user/{uid}/siding"));
    let last = PathBuf::from(format!("/tmp/siding-{uid}"));
    configured.into_iter().chain([usual, last]).collect()
}

/// Opens a base directory and checks it; with `make`, first creates it if only its last component
/// is missing.
pub(super) fn open_base(path: &Path, make: bool) -> io::Result<OwnedFd> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    let above = file::open_directory(above)?;
    if make {
        match file::create_directory(&above, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result?,
        }
    }
    // Opening fails on a symbolic link, which another user could have created in `/tmp`.
    let fd = file::open_at(&above, name, file::OpenMode::Directory)?;
    let facts = file::metadata(&fd)?;
    check_base(
        facts.uid,
        facts.mode,
        process::effective_uid(),
        system_info::file_system_magic(&fd)?,
    )
    .map_err(io::Error::other)?;
    Ok(fd)
}

/// Rejects a directory that another user owns or can access, and one on a network file system.
pub(super) fn check_base(owner: u32, mode: u32, user: u32, magic: u64) -> Result<(), String> {
    if owner != user {
        return Err(format!("belongs to user {owner}"));
    }
    if mode & 0o077 != 0 {
        return Err(format!("other users can access it (mode {mode:o}, required 0700)"));
    }
    match network_file_system_name(magic) {
        Some(name) => Err(format!("is on {name} too")),
        None => Ok(()),
    }
}
