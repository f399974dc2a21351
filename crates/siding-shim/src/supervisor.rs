//! The supervisor of a host: the small process that holds it, takes on the commands that it runs in
//! a sandbox, and ends what it has left when it has ended.
//!
//! It sleeps until the host ends or its bell is rung. Where it is killed the host's next hook starts
//! another; where the host is killed too, the reaper does its work.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use siding_core::cgroup;
use siding_core::host::{self, HostFiles, SUPERVISOR_LOCK_FD, SUPERVISOR_NAME};
use siding_core::launch::{SELF_EXE, STARTER_FD};
use siding_core::reap;
use siding_core::store::StateDir;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::procfs::TICKS_PER_SECOND;
use siding_core::sys::{clock, descriptor, file, memory, poll, process};
use siding_model::host::{BellByte, HostRecord, ScanSchedule};
use siding_model::id::HostMark;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimMessage;

use crate::callers::Caller;
use crate::pause;
use crate::start::{CannotStart, when};

/// Exit code of a supervisor that was not started by siding.
const USAGE: u8 = 2;
/// Bytes that are read from the bell at once, and how often before the rest is left for later.
const BELL_READ: usize = 4096;
const BELL_READS_MOST: usize = 16;

/// Runs this process as the supervisor of a host until that has ended. Returns the exit code of the
/// process.
#[must_use]
pub fn main() -> u8 {
    let mut arguments = std::env::args_os().skip(2);
    let mark = arguments.next().and_then(|mark| mark.to_str()?.parse::<HostMark>().ok());
    let path = arguments.next().map(PathBuf::from);
    let starter = descriptor::take_inherited(STARTER_FD);
    let lock = descriptor::take_inherited(SUPERVISOR_LOCK_FD);
    let (Some(mark), Some(path), Ok(starter), Ok(lock)) = (mark, path, starter, lock) else {
        eprintln!("siding: `__host` is started by siding itself; run `siding --help`");
        return USAGE;
    };
    let mut starter = Caller::starter(starter);
    match Supervisor::begin(mark, &path, lock) {
        Ok(supervisor) => {
            starter.tell(&ShimMessage::Done);
            drop(starter);
            supervisor.watch();
            0
        }
        Err(error) => {
            starter.tell(&error.message());
            1
        }
    }
}

/// What a supervisor has.
#[derive(Debug)]
struct Supervisor {
    root: StateDir,
    files: HostFiles,
    record: HostRecord,
    host: PidFd,
    bell: OwnedFd,
    looks: ScanSchedule,
    /// When the first command was heard of, in clock ticks since boot.
    commands_since: Option<u64>,
    /// Before this moment the bell is not listened to.
    deaf_until: MonotonicMs,
    /// Says that this host has a supervisor, as long as it is held.
    _lock: OwnedFd,
}

impl Supervisor {
    fn begin(mark: HostMark, path: &Path, lock: OwnedFd) -> Result<Self, CannotStart> {
        let other = |error: &dyn std::fmt::Display| std::io::Error::other(error.to_string());
        process::set_name(SUPERVISOR_NAME);
        // The directory it was started in may be unmounted or removed.
        let _stays = std::env::set_current_dir("/");
        // It must not end with the host, nor with a task.
        host::drop_host_mark();
        let _spared_there = cgroup::OwnCgroup::find().map(|own| own.leave_task_group());
        pause::plan_supervisor(path);
        let root = StateDir::open(path)
            .map_err(|error| when("open the state directory")(other(&error)))?;
        let files = HostFiles::open(&root, mark)
            .map_err(|error| when("open the host's record")(other(&error)))?;
        let record = files.record().map_err(when("read the host's record"))?;
        let bell = files.open_bell().map_err(when("open the host's bell"))?;
        let gone = || when("hold the host")(std::io::ErrorKind::NotFound.into());
        let host =
            PidFd::open_if_alive(record.host).map_err(when("hold the host"))?.ok_or_else(gone)?;
        pause::at(pause::HOST_RECORDED);
        host::mark_host(record.host, mark).map_err(when("mark the host (prlimit)"))?;
        pause::at(pause::HOST_MARKED);
        let (looks, commands_since, deaf_until) = (ScanSchedule::default(), None, MonotonicMs(0));
        let mut supervisor = Self {
            root,
            files,
            record,
            host,
            bell,
            looks,
            commands_since,
            deaf_until,
            _lock: lock,
        };
        // Another may have been killed in the middle of its work.
        supervisor.looks.record_bell(&[BellByte::Scan.to_byte()], clock::monotonic_now());
        Ok(supervisor)
    }

    /// Watches until the host has ended, and ends what it has left.
    fn watch(mut self) {
        memory::release_unused();
        while !self.host.is_dead() {
            self.attend();
        }
        let Self { root, files, record, .. } = &self;
        let steps = reap::end_host(root, files, record, &|| pause::at(pause::HOST_ENDING));
        // What could not be ended is told to the next session, by the reaper.
        if !steps.iter().any(reap::ReapStep::is_failure) {
            let _removed_by_the_reaper = root.remove_host(files.mark);
        }
    }

    /// Waits until something is due, and does it. The only place that blocks.
    fn attend(&mut self) {
        let now = clock::monotonic_now();
        let is_deaf = now < self.deaf_until;
        let mut fds = vec![self.host.as_fd()];
        if !is_deaf {
            fds.push(self.bell.as_fd());
        }
        let wake_at = self.looks.wake_at().into_iter().chain(is_deaf.then_some(self.deaf_until));
        let timeout = wake_at.min().map(|at| at.ms_since(now));
        let ready = poll::wait_readable(&fds, timeout).unwrap_or_default();
        if !is_deaf && ready.last() == Some(&true) {
            self.hear();
        }
        if self.looks.is_due(clock::monotonic_now()) && !self.host.is_dead() {
            self.look();
        }
    }

    /// Reads what was rung. Whoever rings again at once is heard a moment later.
    fn hear(&mut self) {
        let mut bytes = [0; BELL_READ];
        let now = clock::monotonic_now();
        for _ in 0..BELL_READS_MOST {
            let count = file::read(&self.bell, &mut bytes).unwrap_or(0);
            self.looks.record_bell(&bytes[..count], now);
            if count < bytes.len() {
                break;
            }
        }
        self.deaf_until = now.plus_ms(ScanSchedule::MIN_SCAN_INTERVAL_MS);
        let ticks = clock::since_boot_ms() / (1_000 / TICKS_PER_SECOND);
        self.commands_since.get_or_insert(ticks);
    }

    fn look(&mut self) {
        let Self { root, files, record, commands_since, .. } = self;
        if !files.list_claims().is_empty() {
            host::retry_claims(root, files, record, SELF_EXE);
        }
        let at = || pause::at(pause::COMMAND_MARKED);
        host::adopt_sandboxed_commands(root, files, record, *commands_since, (SELF_EXE, &at));
        self.looks.record_scan(clock::monotonic_now());
        memory::release_unused();
    }
}
