//! What the file system of the state directory offers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use siding_model::size::Bytes;

use super::{Check, State, Weight};
use crate::place::network_name;
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
    let mut checks = vec![found(State::Ok, shown), file_system(&root)];
    checks.extend(runtime(&root));
    checks.push(free_space(&root));
    match Probe::new(&root) {
        Ok(probe) => checks.extend(probe.checks()),
        Err(error) => {
            let error = format!("could not write to `{}`: {error}", path.display());
            checks[0] = found(State::Missing, error);
        }
    }
    checks
}

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
        without: "a task can be stopped and waited for on its own machine only",
    }
}

/// Returns what a file system's magic number means.
pub(super) fn judge(magic: u64) -> (State, String) {
    let local = LOCAL.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name);
    match (network_name(magic), local) {
        (Some(name), _) => (State::Limited, format!("{name}, which other machines may share")),
        (None, Some(name)) => (State::Ok, format!("{name}, local")),
        (None, None) => (State::Ok, format!("{magic:#x}, not a known network file system")),
    }
}

/// Says where FIFOs, sockets and locks are, when not in the state directory.
fn runtime(root: &Root) -> Option<Check> {
    let (state, found) = match root.runtime()?.choose() {
        Ok((path, _)) => (State::Ok, format!("`{}` has the FIFOs and sockets", path.display())),
        Err(error) => (State::Missing, error.to_string()),
    };
    let without = "no task can be started; set XDG_RUNTIME_DIR or SIDING_STATE_DIR";
    Some(Check { name: "runtime directory", state, weight: Weight::Needed, found, without })
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

/// A directory in the state directory, and one where the places of tasks are, that are gone when
/// the looking is over.
struct Probe<'r> {
    root: &'r Root,
    name: String,
    dir: OwnedFd,
    /// The directory with the places, and the one made there, when not the two above.
    away: Option<(OwnedFd, OwnedFd)>,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        let away = self.away.iter().map(|(base, dir)| (base.as_fd(), dir.as_fd()));
        for (above, dir) in away.chain([(self.root.as_fd(), self.dir.as_fd())]) {
            for name in file::names(dir).unwrap_or_default() {
                let _already_gone = file::remove(dir, name);
            }
            let _already_gone = file::remove_directory(above, &self.name);
        }
    }
}

impl<'r> Probe<'r> {
    fn new(root: &'r Root) -> io::Result<Self> {
        let name = format!("doctor.{}.{:x}", std::process::id(), crate::sys::random()?);
        let make = |above: BorrowedFd<'_>| {
            file::make_directory(above, &name)?;
            file::open_at(above, &name, file::Open::Directory)
        };
        let dir = make(root.as_fd())?;
        // Where there is none the check of it has said so.
        let base = root.runtime().and_then(|runtime| runtime.choose().ok());
        let away = base.and_then(|(_, base)| Some((make(base.as_fd()).ok()?, base)));
        let away = away.map(|(dir, base)| (base, dir));
        Ok(Self { root, name, dir, away })
    }

    /// Returns the directory that is like a task's place, and the one above.
    fn place(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        match &self.away {
            Some((base, dir)) => (base.as_fd(), dir.as_fd()),
            None => (self.root.as_fd(), self.dir.as_fd()),
        }
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
        let open = || file::open_at(self.place().0, &self.name, file::Open::Directory);
        let (first, second) = (open()?, open()?);
        Ok(file::try_lock(&first)? && !file::try_lock(&second)?)
    }

    fn fifo(&self) -> io::Result<bool> {
        let (_, place) = self.place();
        file::make_fifo(place, "fifo")?;
        let both = file::open_at(place, "fifo", file::Open::FifoBoth)?;
        let write = file::open_at(place, "fifo", file::Open::FifoWrite)?;
        file::write(&write, b"x")?;
        let mut bytes = [0; 8];
        Ok(file::read(&both, &mut bytes)? == 1)
    }

    fn socket(&self) -> io::Result<bool> {
        let (_, place) = self.place();
        let listener = socket::listen(place, "socket")?;
        let caller = socket::connect(place, "socket")?;
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
