//! What the file system of the state directory offers.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use siding_model::size::Bytes;

use super::{Check, State, Weight};
use crate::store::Root;
use crate::sys::{file, machine, socket};

/// Space under which a check complains: what one task may keep.
const LEAST_FREE: u64 = 64 << 20;

/// Looks at all of it, or says why that is not possible.
pub(super) fn checks(path: Option<&Path>) -> Vec<Check> {
    let found = |state, found| Check {
        name: "state directory",
        state,
        weight: Weight::Needed,
        found,
        without: "nothing can be recorded; set SIDING_STATE_DIR to a directory of your own",
    };
    let Some(path) = path else {
        let why = "neither SIDING_STATE_DIR, XDG_STATE_HOME nor HOME is set";
        return vec![found(State::Missing, why.to_owned())];
    };
    let root = match Root::open(path) {
        Ok(root) => root,
        Err(error) => return vec![found(State::Missing, error.to_string())],
    };
    let mode = file::facts(&root).map_or(0, |facts| facts.mode);
    let open = mode & 0o077 != 0;
    let note = if open { ": others may list it, not what is in it" } else { "" };
    let shown = format!("`{}`, mode {mode:o}{note}", path.display());
    let mut checks = vec![found(State::Ok, shown), file_system(&root), free_space(&root)];
    match Probe::new(&root) {
        Ok(probe) => checks.extend(probe.checks()),
        Err(error) => {
            let error = format!("could not write to `{}`: {error}", path.display());
            checks[0] = found(State::Missing, error);
        }
    }
    checks
}

/// File systems that several machines may have mounted, or that a program of a user serves
/// (magic.h, statfs(2)).
const SHARED: [(u64, &str); 13] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x5346_414f, "afs"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x564c, "ncp"),
];

/// Local file systems, for their names.
const LOCAL: [(u64, &str); 8] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlay"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
];

fn file_system(root: &Root) -> Check {
    let magic = machine::file_system(root);
    let (state, found) =
        magic.map_or_else(|error| (State::Limited, format!("not known: {error}")), judge);
    Check {
        name: "file system",
        state,
        weight: Weight::Guarantee,
        found,
        without: "locks and sockets may not hold between machines: use one machine only",
    }
}

/// Returns what a file system's magic number means.
pub(super) fn judge(magic: u64) -> (State, String) {
    let name_in = |table: &[(u64, &'static str)]| {
        table.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
    };
    match (name_in(&SHARED), name_in(&LOCAL)) {
        (Some(name), _) => (State::Limited, format!("{name}, which other machines may share")),
        (None, Some(name)) => (State::Ok, format!("{name}, local")),
        (None, None) => (State::Ok, format!("{magic:#x}, not a known network file system")),
    }
}

fn free_space(root: &Root) -> Check {
    let free = machine::free_bytes(root);
    let enough = free.as_ref().is_ok_and(|free| *free >= LEAST_FREE);
    Check {
        name: "free space",
        state: if enough { State::Ok } else { State::Limited },
        weight: Weight::Guarantee,
        found: free.map_or_else(
            |error| format!("not known: {error}"),
            |free| format!("{} MiB", free / Bytes::mib(1).0),
        ),
        without: "output may be lost; `siding reap` removes what has outlived its retention",
    }
}

/// A directory in the state directory that is gone when the looking is over.
struct Probe<'r> {
    root: &'r Root,
    name: String,
    dir: OwnedFd,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        for name in file::names(&self.dir).unwrap_or_default() {
            let _already_gone = file::remove(&self.dir, name);
        }
        let _already_gone = file::remove_directory(self.root, &self.name);
    }
}

impl<'r> Probe<'r> {
    fn new(root: &'r Root) -> io::Result<Self> {
        let name = format!("doctor.{}.{:x}", std::process::id(), crate::sys::random()?);
        file::make_directory(root, &name)?;
        let dir = file::open_at(root, &name, file::Open::Directory)?;
        Ok(Self { root, name, dir })
    }

    fn checks(&self) -> Vec<Check> {
        let without_holes = "the output of a task is not bounded on the disk";
        let without_reserve = "on a full disk the end of a task may not get recorded";
        let without_lock = "two shims could keep one task";
        let without_fifo = "no output could be caught";
        let without_socket = "nobody could wait for a task or stop it";
        vec![
            check("hole punching", Weight::Guarantee, self.holes(), without_holes),
            check("reservation", Weight::Guarantee, self.reservation(), without_reserve),
            check("flock", Weight::Needed, self.lock(), without_lock),
            check("FIFO", Weight::Needed, self.fifo(), without_fifo),
            check("unix socket", Weight::Needed, self.socket(), without_socket),
        ]
    }

    fn file(&self, name: &str) -> io::Result<OwnedFd> {
        file::open_at(&self.dir, name, file::Open::CreateNew)
    }

    fn holes(&self) -> io::Result<bool> {
        const PART: u64 = 256 << 10;
        let file = self.file("holes")?;
        file::write_all_at(&file, &vec![b'x'; 3 * PART as usize], 0)?;
        file::punch_hole(&file, PART, PART)?;
        // How much is gone is read from the file system, so it has to say where the hole ends.
        Ok(file::facts(&file)?.len == 3 * PART && file::next_data(&file, PART)? == Some(2 * PART))
    }

    fn reservation(&self) -> io::Result<bool> {
        const LEN: u64 = 16 << 10;
        let file = self.file("reservation")?;
        file::reserve(&file, LEN)?;
        let facts = file::facts(&file)?;
        Ok(facts.len == 0 && facts.stored >= LEN)
    }

    fn lock(&self) -> io::Result<bool> {
        let open = || file::open_at(self.root, &self.name, file::Open::Directory);
        let (first, second) = (open()?, open()?);
        Ok(file::try_lock(&first)? && !file::try_lock(&second)?)
    }

    fn fifo(&self) -> io::Result<bool> {
        file::make_fifo(&self.dir, "fifo")?;
        let both = file::open_at(&self.dir, "fifo", file::Open::FifoBoth)?;
        let write = file::open_at(&self.dir, "fifo", file::Open::FifoWrite)?;
        file::write(&write, b"x")?;
        let mut bytes = [0; 8];
        Ok(file::read(&both, &mut bytes)? == 1)
    }

    fn socket(&self) -> io::Result<bool> {
        let listener = socket::listen(&self.dir, "socket")?;
        let caller = socket::connect(&self.dir, "socket")?;
        let callee = socket::accept(listener.as_fd())?;
        socket::send(&caller, b"x", false)?;
        Ok(socket::receive(&callee, 8, true)?.as_deref() == Some(b"x"))
    }
}

fn check(
    name: &'static str,
    weight: Weight,
    works: io::Result<bool>,
    without: &'static str,
) -> Check {
    let (state, found) = match works {
        Ok(true) => (State::Ok, "works".to_owned()),
        Ok(false) => (State::Limited, "accepted, without the effect".to_owned()),
        Err(error) => (State::Missing, format!("refused: {error}")),
    };
    Check { name, state, weight, found, without }
}
