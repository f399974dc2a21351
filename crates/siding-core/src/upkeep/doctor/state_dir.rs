//! Checks of the file system that holds the state directory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use siding_model::size::Bytes;

use super::{Check, CheckState, CheckWeight};
use crate::store::StateDir;
use crate::store::runtime_dir::network_file_system_name;
use crate::sys::{file, system_info, unix_socket};

/// Free space below which the check reports a restriction, in bytes. One task may retain this much
/// output.
const MIN_FREE_BYTES: u64 = 64 << 20;
/// Timeout for the connection of the check of sockets, in milliseconds.
const SOCKET_TIMEOUT_MS: u64 = 1_000;

/// Runs all checks of the state directory, or reports why they cannot run.
pub(super) fn checks(path: Option<&Path>) -> Vec<Check> {
    let found = |state, found| Check {
        name: "state directory",
        state,
        weight: CheckWeight::Needed,
        found,
        missing_guarantee: "nothing can be recorded; set SIDING_STATE_DIR to a directory of your own",
    };
    let Some(path) = path else {
        let why = "neither SIDING_STATE_DIR, XDG_STATE_HOME nor HOME is set";
        return vec![found(CheckState::Missing, why.to_owned())];
    };
    let root = match StateDir::open(path) {
        Ok(root) => root,
        Err(error) => return vec![found(CheckState::Missing, error.to_string())],
    };
    let mode = file::metadata(&root).map_or(0, |facts| facts.mode);
    let open = mode & 0o077 != 0;
    let note = if open { ": other users may list its entries, but not read them" } else { "" };
    let shown = format!("`{}`, mode {mode:o}{note}", path.display());
    let mut checks = vec![found(CheckState::Ok, shown), file_system(&root)];
    checks.extend(runtime_dir(&root));
    checks.push(free_space(&root));
    match StateDirProbe::new(&root) {
        Ok(probe) => checks.extend(probe.checks()),
        Err(error) => {
            let error = format!("could not write to `{}`: {error}", path.display());
            checks[0] = found(CheckState::Missing, error);
        }
    }
    checks
}

/// The magic numbers (statfs(2)) and names of local file systems.
const LOCAL_FILE_SYSTEMS: [(u64, &str); 8] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlay"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
];

fn file_system(root: &StateDir) -> Check {
    let magic = system_info::file_system_magic(root);
    let (state, found) = magic.map_or_else(
        |error| (CheckState::Limited, format!("unknown: {error}")),
        classify_file_system,
    );
    Check {
        name: "file system",
        state,
        weight: CheckWeight::Guarantee,
        found,
        missing_guarantee: "a task can be stopped and waited for on its own machine only",
    }
}

/// Returns the state and the description for a file system's magic number.
pub(super) fn classify_file_system(magic: u64) -> (CheckState, String) {
    let local = LOCAL_FILE_SYSTEMS.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name);
    match (network_file_system_name(magic), local) {
        (Some(name), _) => (CheckState::Limited, format!("{name}, which other machines may share")),
        (None, Some(name)) => (CheckState::Ok, format!("{name}, local")),
        (None, None) => (CheckState::Ok, format!("{magic:#x}, not a known network file system")),
    }
}

/// Reports the directory of FIFOs, sockets and locks, if it is not the state directory.
fn runtime_dir(root: &StateDir) -> Option<Check> {
    let (state, found) = match root.runtime_base()?.open_first_usable() {
        Ok((path, _)) => {
            (CheckState::Ok, format!("`{}` holds the FIFOs and sockets", path.display()))
        }
        Err(error) => (CheckState::Missing, error.to_string()),
    };
    let missing_guarantee = "no task can be started; set XDG_RUNTIME_DIR or SIDING_STATE_DIR";
    Some(Check {
        name: "runtime directory",
        state,
        weight: CheckWeight::Needed,
        found,
        missing_guarantee,
    })
}

fn free_space(root: &StateDir) -> Check {
    let free = system_info::free_bytes(root);
    let enough = free.as_ref().is_ok_and(|free| *free >= MIN_FREE_BYTES);
    Check {
        name: "free space",
        state: if enough { CheckState::Ok } else { CheckState::Limited },
        weight: CheckWeight::Guarantee,
        found: free.map_or_else(
            |error| format!("unknown: {error}"),
            |free| format!("{} MiB", free / Bytes::mib(1).0),
        ),
        missing_guarantee: "output may be lost; `siding reap` removes tasks past their retention",
    }
}

/// Temporary directories for the checks: one in the state directory and, if the FIFOs and sockets
/// of tasks are elsewhere, one in the runtime directory. Dropping the value removes them.
struct StateDirProbe<'r> {
    root: &'r StateDir,
    name: String,
    dir: OwnedFd,
    /// The runtime directory and the temporary directory in it, if tasks have a runtime directory
    /// and it is usable.
    runtime_dir: Option<(OwnedFd, OwnedFd)>,
}

impl Drop for StateDirProbe<'_> {
    fn drop(&mut self) {
        let away = self.runtime_dir.iter().map(|(base, dir)| (base.as_fd(), dir.as_fd()));
        for (above, dir) in away.chain([(self.root.as_fd(), self.dir.as_fd())]) {
            for name in file::list_names(dir).unwrap_or_default() {
                let _already_gone = file::remove(dir, name);
            }
            let _already_gone = file::remove_directory(above, &self.name);
        }
    }
}

impl<'r> StateDirProbe<'r> {
    fn new(root: &'r StateDir) -> io::Result<Self> {
        let name = format!("doctor.{}.{:x}", std::process::id(), crate::sys::random_u64()?);
        let make = |above: BorrowedFd<'_>| {
            file::create_directory(above, &name)?;
            file::open_at(above, &name, file::OpenMode::Directory)
        };
        let dir = make(root.as_fd())?;
        // A missing runtime directory is reported by its own check.
        let base = root.runtime_base().and_then(|runtime| runtime.open_first_usable().ok());
        let away = base.and_then(|(_, base)| Some((make(base.as_fd()).ok()?, base)));
        let away = away.map(|(dir, base)| (base, dir));
        Ok(Self { root, name, dir, runtime_dir: away })
    }

    /// Returns the directory in which tasks have their FIFOs and sockets, and the temporary
    /// directory in it.
    fn endpoint_dirs(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        match &self.runtime_dir {
            Some((base, dir)) => (base.as_fd(), dir.as_fd()),
            None => (self.root.as_fd(), self.dir.as_fd()),
        }
    }

    fn checks(&self) -> Vec<Check> {
        let without_holes = "the disk space of a task's output is not bounded";
        let without_reserve = "on a full disk the end of a task may not be recorded";
        let without_lock = "two shims could supervise one task";
        let without_fifo = "no output could be captured";
        let without_socket = "no client could wait for a task or stop it";
        vec![
            io_check(
                "hole punching",
                CheckWeight::Guarantee,
                self.can_punch_holes(),
                without_holes,
            ),
            io_check(
                "reservation",
                CheckWeight::Guarantee,
                self.can_reserve_space(),
                without_reserve,
            ),
            io_check("flock", CheckWeight::Needed, self.can_lock(), without_lock),
            io_check("FIFO", CheckWeight::Needed, self.can_use_fifo(), without_fifo),
            io_check("unix socket", CheckWeight::Needed, self.can_use_socket(), without_socket),
        ]
    }

    fn create_file(&self, name: &str) -> io::Result<OwnedFd> {
        file::open_at(&self.dir, name, file::OpenMode::CreateNew)
    }

    fn can_punch_holes(&self) -> io::Result<bool> {
        const HOLE_PART_BYTES: u64 = 256 << 10;
        let file = self.create_file("holes")?;
        file::write_all_at(&file, &vec![b'x'; 3 * HOLE_PART_BYTES as usize], 0)?;
        file::punch_hole(&file, HOLE_PART_BYTES, HOLE_PART_BYTES)?;
        // siding queries the file system for the released bytes, so the file system must report the
        // end of a hole (`SEEK_DATA`, lseek(2)).
        Ok(file::metadata(&file)?.len == 3 * HOLE_PART_BYTES
            && file::next_data(&file, HOLE_PART_BYTES)? == Some(2 * HOLE_PART_BYTES))
    }

    fn can_reserve_space(&self) -> io::Result<bool> {
        const RESERVED_BYTES: u64 = 16 << 10;
        let file = self.create_file("reservation")?;
        file::reserve(&file, RESERVED_BYTES)?;
        let facts = file::metadata(&file)?;
        Ok(facts.len == 0 && facts.allocated_bytes >= RESERVED_BYTES)
    }

    fn can_lock(&self) -> io::Result<bool> {
        let open = || file::open_at(self.endpoint_dirs().0, &self.name, file::OpenMode::Directory);
        let (first, second) = (open()?, open()?);
        Ok(file::try_lock_exclusive(&first)? && !file::try_lock_exclusive(&second)?)
    }

    fn can_use_fifo(&self) -> io::Result<bool> {
        let (_, place) = self.endpoint_dirs();
        file::create_fifo(place, "fifo")?;
        let both = file::open_at(place, "fifo", file::OpenMode::FifoReadWrite)?;
        let write = file::open_at(place, "fifo", file::OpenMode::FifoWrite)?;
        file::write(&write, b"x")?;
        let mut bytes = [0; 8];
        Ok(file::read(&both, &mut bytes)? == 1)
    }

    fn can_use_socket(&self) -> io::Result<bool> {
        let (_, place) = self.endpoint_dirs();
        let listener = unix_socket::listen(place, "socket")?;
        let caller = unix_socket::connect(place, "socket", SOCKET_TIMEOUT_MS)?;
        let callee = unix_socket::accept(listener.as_fd())?;
        unix_socket::send(&caller, b"x", false)?;
        Ok(unix_socket::receive(&callee, 8, true)?.as_deref() == Some(b"x"))
    }
}

fn io_check(
    name: &'static str,
    weight: CheckWeight,
    works: io::Result<bool>,
    missing_guarantee: &'static str,
) -> Check {
    let (state, found) = match works {
        Ok(true) => (CheckState::Ok, "works".to_owned()),
        Ok(false) => (CheckState::Limited, "accepted, but without effect".to_owned()),
        Err(error) => (CheckState::Missing, format!("refused: {error}")),
    };
    Check { name, state, weight, found, missing_guarantee }
}
