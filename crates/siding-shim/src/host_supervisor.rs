//! The supervisor of a host: the small process that watches one host, adopts the commands that the
//! host runs in a sandbox, and terminates the processes that the host leaves behind.
//!
//! The supervisor sleeps until the host ends, a byte arrives in the bell (a FIFO), or a scan is
//! due. If the supervisor is killed, the host's next hook starts another supervisor. If the host
//! ends while it has no supervisor, the reaper terminates the host's processes.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use siding_core::host::{self, HostFiles, SUPERVISOR_LOCK_FD, SUPERVISOR_NAME};
use siding_core::processes::cgroup;
use siding_core::processes::siding_process::{SELF_EXE, STARTER_FD};
use siding_core::store::StateDir;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::procfs::TICKS_PER_SECOND;
use siding_core::sys::{clock, descriptor, file, memory, poll, process};
use siding_core::upkeep::reap;
use siding_model::host::{BellByte, HostRecord, ScanSchedule};
use siding_model::id::HostMark;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimMessage;

use crate::clients::Client;
use crate::failpoints;
use crate::start::{StartError, failed_to};

/// Exit code of a supervisor that was not started by siding.
const USAGE_EXIT_CODE: u8 = 2;
/// Size of one read of the bell, in bytes.
const BELL_READ_BYTES: usize = 4096;
/// Maximum number of consecutive reads of the bell before the supervisor does other work.
const MAX_BELL_READS: usize = 16;

/// Runs this process as the supervisor of a host until the host has ended. Returns the exit code of
/// the process: 0, 1 if the supervision could not start, or 2 if siding did not start this process.
#[must_use]
pub fn main() -> u8 {
    let mut arguments = std::env::args_os().skip(2);
    let mark = arguments.next().and_then(|mark| mark.to_str()?.parse::<HostMark>().ok());
    let path = arguments.next().map(PathBuf::from);
    let starter = descriptor::take_inherited(STARTER_FD);
    let lock = descriptor::take_inherited(SUPERVISOR_LOCK_FD);
    let (Some(mark), Some(path), Ok(starter), Ok(lock)) = (mark, path, starter, lock) else {
        eprintln!("siding: `__host` is started by siding itself; run `siding --help`");
        return USAGE_EXIT_CODE;
    };
    let mut starter = Client::starter(starter);
    match HostSupervisor::start(mark, &path, lock) {
        Ok(supervisor) => {
            starter.send_message(&ShimMessage::Done);
            drop(starter);
            supervisor.run();
            0
        }
        Err(error) => {
            starter.send_message(&error.to_message());
            1
        }
    }
}

#[derive(Debug)]
struct HostSupervisor {
    root: StateDir,
    files: HostFiles,
    record: HostRecord,
    host: PidFd,
    bell: OwnedFd,
    scan_schedule: ScanSchedule,
    /// Time of the first read of the bell, in clock ticks since boot; `None` before this read.
    first_command_ticks: Option<u64>,
    /// The time until which the bell is not polled.
    bell_ignored_until: MonotonicMs,
    /// The lock that marks the host as supervised while this process holds it.
    _lock: OwnedFd,
}

impl HostSupervisor {
    fn start(mark: HostMark, path: &Path, lock: OwnedFd) -> Result<Self, StartError> {
        let other = |error: &dyn std::fmt::Display| std::io::Error::other(error.to_string());
        process::set_name(SUPERVISOR_NAME);
        // The supervisor must not prevent the unmounting of the file system in which it was
        // started.
        let _best_effort = std::env::set_current_dir("/");
        // The supervisor must not be terminated with the host, or with a task in which the
        // supervisor was started.
        host::drop_host_mark();
        let _best_effort = cgroup::OwnCgroup::find().map(|own| own.leave_task_group());
        failpoints::arm_from_state_directory(path);
        let root = StateDir::open(path)
            .map_err(|error| failed_to("open the state directory")(other(&error)))?;
        let files = HostFiles::open(&root, mark)
            .map_err(|error| failed_to("open the host's record")(other(&error)))?;
        let record = files.record().map_err(failed_to("read the host's record"))?;
        let bell = files.open_bell().map_err(failed_to("open the host's wake-up FIFO `bell`"))?;
        let not_found =
            || failed_to("open a pidfd of the host")(std::io::ErrorKind::NotFound.into());
        let host = PidFd::open_if_alive(record.host)
            .map_err(failed_to("open a pidfd of the host"))?
            .ok_or_else(not_found)?;
        failpoints::pause_at(failpoints::HOST_RECORDED);
        host::mark_host(record.host, mark).map_err(failed_to("mark the host (prlimit)"))?;
        failpoints::pause_at(failpoints::HOST_MARKED);
        let mut supervisor = Self {
            root,
            files,
            record,
            host,
            bell,
            scan_schedule: ScanSchedule::default(),
            first_command_ticks: None,
            bell_ignored_until: MonotonicMs(0),
            _lock: lock,
        };
        // The first scan is due immediately: an earlier supervisor may have been killed before it
        // adopted a command.
        supervisor.scan_schedule.record_bell(&[BellByte::Scan.to_byte()], clock::monotonic_now());
        Ok(supervisor)
    }

    /// Supervises the host until it ends, then terminates the processes that the host left behind.
    fn run(mut self) {
        memory::release_unused();
        while !self.host.is_dead() {
            self.wait_and_dispatch();
        }
        let Self { root, files, record, .. } = &self;
        let steps =
            reap::end_host(root, files, record, &|| failpoints::pause_at(failpoints::HOST_ENDING));
        // If a step failed, for example because a process could not be terminated, the record
        // stays, so that the reaper reports the process to the next session.
        if !steps.iter().any(reap::ReapStep::is_failure) {
            let _best_effort = root.remove_host(files.mark);
        }
    }

    /// Waits until the bell is rung, a scan is due or the host has ended. Then reads the bell if it
    /// was rung, and scans if a scan is due. While the bell is ignored, waits for the end of that
    /// time instead of the bell. An idle supervisor blocks only here.
    fn wait_and_dispatch(&mut self) {
        let now = clock::monotonic_now();
        let is_bell_ignored = now < self.bell_ignored_until;
        let mut fds = vec![self.host.as_fd()];
        if !is_bell_ignored {
            fds.push(self.bell.as_fd());
        }
        let wake_at = self
            .scan_schedule
            .wake_at()
            .into_iter()
            .chain(is_bell_ignored.then_some(self.bell_ignored_until));
        let timeout = wake_at.min().map(|at| at.ms_since(now));
        let ready = poll::wait_readable_or_pause(&fds, timeout).unwrap_or_default();
        if !is_bell_ignored && ready.last() == Some(&true) {
            self.read_bell();
        }
        if self.scan_schedule.is_due(clock::monotonic_now()) && !self.host.is_dead() {
            self.claim_commands();
        }
    }

    /// Reads the bell, and then ignores it for a short time, so that a host that rings without a
    /// pause does not occupy a core.
    fn read_bell(&mut self) {
        let mut bytes = [0; BELL_READ_BYTES];
        let now = clock::monotonic_now();
        for _ in 0..MAX_BELL_READS {
            let count = file::read(&self.bell, &mut bytes).unwrap_or(0);
            self.scan_schedule.record_bell(&bytes[..count], now);
            if count < bytes.len() {
                break;
            }
        }
        self.bell_ignored_until = now.plus_ms(ScanSchedule::MIN_SCAN_INTERVAL_MS);
        let ticks = clock::since_boot_ms() / (1_000 / TICKS_PER_SECOND);
        self.first_command_ticks.get_or_insert(ticks);
    }

    fn claim_commands(&mut self) {
        let Self { root, files, record, first_command_ticks, .. } = self;
        host::retry_claims(root, files, record, SELF_EXE);
        let on_marked = || failpoints::pause_at(failpoints::COMMAND_MARKED);
        host::adopt_sandboxed_commands(
            root,
            files,
            record,
            *first_command_ticks,
            (SELF_EXE, &on_marked),
        );
        self.scan_schedule.record_scan(clock::monotonic_now());
        memory::release_unused();
    }
}
