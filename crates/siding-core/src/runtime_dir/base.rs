//! Which file systems are of the network, and where else FIFOs, sockets and locks can be.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::sys::{file, process, system_info};

/// File systems that several machines may have mounted, or that a program of a user serves. The
/// numbers are those of statfs(2) and linux/magic.h; those of Lustre, GPFS, GFS2, BeeGFS, Panasas,
/// StorNext, and the shared folders of virtual machines are in the GNU coreutils (stat.c), which
/// takes the same ones for remote.
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

/// Returns the name of a network file system by its magic number, `None` for any other.
#[must_use]
pub fn network_file_system_name(magic: u64) -> Option<&'static str> {
    NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// Why a task can have no place outside the state directory.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeDirError {
    /// No directory will do.
    #[error(
        "the state directory is on {file_system}, where FIFOs, sockets and locks do not hold, and there is no other place for them ({}); set XDG_RUNTIME_DIR to a directory of your own with mode 0700 on a local file system, or SIDING_STATE_DIR to one",
        tried.join("; ")
    )]
    NoneUsable {
        /// The network file system.
        file_system: &'static str,
        /// What was tried, each with the reason.
        tried: Vec<String>,
    },
    /// The operating system refused.
    #[error("could not make the place `{path}` of a task's FIFOs and socket: {source}")]
    Io {
        /// The place.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The runtime directory of a state directory that is on a network file system.
#[derive(Debug, Clone, Default)]
pub struct RuntimeBase {
    file_system: &'static str,
    candidates: Vec<PathBuf>,
}

impl RuntimeBase {
    /// Decides whether a state directory needs one: `None` when it is on a file system of this
    /// machine. `magic` is what statfs(2) says of it.
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

    /// Returns the first directory that will do, made where it is missing.
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

/// Returns where the places of tasks may be, the best first. A user who logs out loses what is in
/// the first two; the last is for those who have none of them.
pub(crate) fn base_candidates() -> Vec<PathBuf> {
    let uid = process::effective_uid();
    let configured = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // The specification tells to ignore a relative one.
    let configured = configured.filter(|dir| dir.is_absolute()).map(|dir| dir.join("siding"));
    let usual = PathBuf::from(format!("/run/user/{uid}/siding"));
    let last = PathBuf::from(format!("/tmp/siding-{uid}"));
    configured.into_iter().chain([usual, last]).collect()
}

/// Opens a directory for the places of tasks; `make` makes it where only it is missing.
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
    // A symbolic link is refused here.
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

/// Refuses a directory that another user made or can reach, and one that is on a network file
/// system itself.
pub(super) fn check_base(owner: u32, mode: u32, user: u32, magic: u64) -> Result<(), String> {
    if owner != user {
        return Err(format!("belongs to user {owner}"));
    }
    if mode & 0o077 != 0 {
        return Err(format!("others can reach it (mode {mode:o})"));
    }
    match network_file_system_name(magic) {
        Some(name) => Err(format!("is on {name} too")),
        None => Ok(()),
    }
}
