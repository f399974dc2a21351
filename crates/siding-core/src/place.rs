//! Where the FIFOs, the socket and the lock of a task are.
//!
//! In the task's own directory, as long as that is on a file system of this machine. A network
//! file system often has no FIFOs and no sockets, and no locks that hold: there they are in a
//! directory of the user's runtime directory, and the file [`NAME`] in the task's directory says
//! which. It is written before that directory is made and removed after it, so whoever goes on
//! after a crash finds what is left (`docs/format.md`).

mod runtime;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::process::BootId;

use crate::sys::{file, machine, procfs};
use crate::{link, output};

pub(crate) use runtime::candidates;
pub use runtime::{NoPlace, Runtime, network_name};

/// Name of the file in a task's directory that says where its FIFOs and its socket are.
pub const NAME: &str = "place";
/// What exists only while a shim keeps the task.
const TRANSIENT: [&str; 4] = [link::NAME, output::FIFO, output::INPUT_FIFO, output::TAKING];

/// Newest format of the record this build reads, and the one it writes.
const FORMAT: u32 = 1;
/// Longest record: a path, twice as long as Linux takes one.
const RECORD_MAX: usize = 8 << 10;

/// What the file [`NAME`] says: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    format: u32,
    /// The directory, absolute. Its last part is the task's id.
    directory: String,
    /// The machine on which it is, and the boot.
    machine: String,
    boot: BootId,
}

/// The place of one task outside the state directory.
#[derive(Debug)]
pub(crate) struct Away {
    runtime: Runtime,
    record: Option<Record>,
    /// The directory, when it is there.
    held: Option<OwnedFd>,
    /// The machine that keeps the task, when it is not this one.
    elsewhere: Option<String>,
}

impl Away {
    /// Decides where a new task has its place, says so in its directory, and makes it.
    pub(crate) fn create(runtime: &Runtime, dir: impl AsFd, id: TaskId) -> Result<Self, NoPlace> {
        let (base, fd) = runtime.choose()?;
        let path = base.join(id.to_string());
        let io = |source| NoPlace::Io { path: path.clone(), source };
        let record = write_record(dir, &path).map_err(io)?;
        file::make_directory(&fd, id.to_string()).map_err(io)?;
        let held = file::open_at(&fd, id.to_string(), file::Open::Directory).map_err(io)?;
        Ok(Self {
            runtime: runtime.clone(),
            record: Some(record),
            held: Some(held),
            elsewhere: None,
        })
    }

    /// Finds the place of a task that is there.
    pub(crate) fn find(runtime: &Runtime, dir: impl AsFd, id: TaskId) -> io::Result<Self> {
        let record = read_record(dir)?;
        let elsewhere = match &record {
            Some(record) => record.elsewhere()?,
            None => None,
        };
        let held = record.as_ref().filter(|_| elsewhere.is_none()).and_then(|record| {
            let base = runtime::enter(record.base()?, false).ok()?;
            file::open_at(base, id.to_string(), file::Open::Directory).ok()
        });
        Ok(Self { runtime: runtime.clone(), record, held, elsewhere })
    }

    /// Takes over a place that another process opened.
    pub(crate) fn inherited(held: OwnedFd) -> Self {
        let runtime = Runtime::default();
        Self { runtime, record: None, held: Some(held), elsewhere: None }
    }

    /// Returns the directory, if it is there.
    pub(crate) fn held(&self) -> Option<BorrowedFd<'_>> {
        self.held.as_ref().map(AsFd::as_fd)
    }

    /// Returns where the FIFOs and the socket are, if they can be reached. A task that was started
    /// without a place has them in `dir`, its directory.
    pub(crate) fn meeting<'d>(&'d self, dir: BorrowedFd<'d>) -> Option<BorrowedFd<'d>> {
        self.held().or_else(|| self.record.is_none().then_some(dir))
    }

    /// Returns the machine that keeps the task, when it is not this one.
    pub(crate) fn elsewhere(&self) -> Option<&str> {
        self.elsewhere.as_deref()
    }

    /// Takes the lock of the place, if nobody has it, making the place where it is missing: the
    /// user may have logged out, or the task has ended and only its files are to be removed.
    pub(crate) fn try_lock(&mut self, dir: impl AsFd, id: TaskId) -> io::Result<bool> {
        if self.elsewhere.is_some() {
            return Ok(false);
        }
        if let Some(held) = &self.held
            && self.is_there(held)
        {
            if !file::try_lock(held)? {
                return Ok(false);
            }
            // Somebody may have removed it between that look and the lock.
            if self.is_there(held) {
                return Ok(true);
            }
        }
        self.lock_anew(dir, id)
    }

    fn is_there(&self, held: &OwnedFd) -> bool {
        self.record.as_ref().is_none_or(|record| is_at(held, &record.directory))
    }

    fn lock_anew(&mut self, dir: impl AsFd, id: TaskId) -> io::Result<bool> {
        let recorded = self.record.as_ref().and_then(Record::base).map(Path::to_owned);
        let known = recorded.and_then(|base| Some((runtime::enter(&base, true).ok()?, base)));
        let (base, fd) = match known {
            Some((fd, base)) => (base, fd),
            None => self.runtime.choose().map_err(io::Error::other)?,
        };
        let path = base.join(id.to_string());
        loop {
            match file::make_directory(&fd, id.to_string()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result?,
            }
            let held = match file::open_at(&fd, id.to_string(), file::Open::Directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                result => result?,
            };
            if !file::try_lock(&held)? {
                return Ok(false);
            }
            if is_at(&held, &path) {
                self.held = Some(held);
                break;
            }
        }
        if self.record.as_ref().is_none_or(|record| Path::new(&record.directory) != path) {
            remove_record(&dir);
            self.record = Some(write_record(dir, &path)?);
        }
        Ok(true)
    }

    /// Removes the place with what is in it, and what says where it was.
    fn clear(&self, dir: impl AsFd) {
        let record = read_record(&dir).ok().flatten();
        if let Some(directory) = record.map(|record| record.directory) {
            // Only an empty one goes: a task may have put something of its own into it.
            let _already_gone = std::fs::remove_dir(directory);
        }
        remove_record(dir);
    }
}

/// Removes what exists only while a shim keeps the task: its FIFOs and its socket, from its own
/// directory or from its place, and the place.
pub(crate) fn clear(dir: BorrowedFd<'_>, away: Option<&Away>) {
    let there = away.map_or(Some(dir), |away| away.meeting(dir));
    if let Some(there) = there {
        for name in TRANSIENT {
            let _already_gone = file::remove(there, name);
        }
    }
    if let Some(away) = away.filter(|away| away.elsewhere.is_none()) {
        away.clear(dir);
    }
}

impl Record {
    /// Returns the directory that has the places of all tasks.
    fn base(&self) -> Option<&Path> {
        Path::new(&self.directory).parent()
    }

    /// Returns the machine, when it is not this one. The same boot is the same machine, whatever
    /// its name.
    fn elsewhere(&self) -> io::Result<Option<String>> {
        let same = self.boot == procfs::boot_id()? || self.machine == machine::name();
        Ok((!same).then(|| self.machine.clone()))
    }
}

fn write_record(dir: impl AsFd, path: &Path) -> io::Result<Record> {
    let directory = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
    let machine = machine::name();
    let record = Record { format: FORMAT, directory, machine, boot: procfs::boot_id()? };
    let mut line = serde_json::to_vec(&record).map_err(io::Error::other)?;
    line.push(b'\n');
    let fd = file::open_at(dir, NAME, file::Open::CreateNew)?;
    file::write_all_at(fd, &line, 0)?;
    Ok(record)
}

/// Reads the record, `None` when there is none. A torn one is none: its place was never made.
fn read_record(dir: impl AsFd) -> io::Result<Option<Record>> {
    let fd = match file::open_at(dir, NAME, file::Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    let bytes = file::read_whole(fd.as_fd(), RECORD_MAX)?;
    let record: Option<Record> = serde_json::from_slice(&bytes).ok();
    Ok(record.filter(|record| record.format <= FORMAT))
}

fn remove_record(dir: impl AsFd) {
    let _already_gone = file::remove(dir, NAME);
}

/// Whether an open directory is the one that has this path now.
fn is_at(held: &OwnedFd, path: impl AsRef<Path>) -> bool {
    match (file::facts(held), file::open_directory(path.as_ref()).and_then(file::facts)) {
        (Ok(held), Ok(named)) => held.identity == named.identity,
        _ => false,
    }
}
