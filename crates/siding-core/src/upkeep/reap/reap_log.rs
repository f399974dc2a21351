//! The log `reaped.log` of the signals that the reaper sends.

use std::io;
use std::os::fd::OwnedFd;

use serde::Serialize;
use siding_model::process::ProcRef;

use crate::store::StateDir;
use crate::sys::clock;
use crate::sys::file::{self, OpenMode};
use crate::sys::procfs::TICKS_PER_SECOND;

/// The name of the log below the root (`docs/format.md`).
const LOG_FILE: &str = "reaped.log";
/// The name to which a log that has become too long is renamed.
const ROTATED_LOG_FILE: &str = "reaped.log.1";
/// The log and its predecessor, the newer one first.
pub(crate) const LOG_FILES: [&str; 2] = [LOG_FILE, ROTATED_LOG_FILE];

/// The length in bytes from which a new log is started: about 4,000 lines.
const MAX_LOG_BYTES: u64 = 1 << 20;
/// Maximum time to wait for the lock, in milliseconds. A reaper that is not stopped holds the lock
/// for less time: the sum of [`TERM_GRACE_MS`](super::orphan_processes::TERM_GRACE_MS) and
/// [`KILL_TIMEOUT_MS`](super::orphan_processes::KILL_TIMEOUT_MS).
const LOCK_TIMEOUT_MS: u64 = 10_000;

/// One line of the log: a signal that is about to be sent.
#[derive(Debug, Serialize)]
pub(super) struct ReapLogLine<'l> {
    /// The time of the signal, in RFC 3339.
    pub(super) at: String,
    /// The rule that selected the process.
    pub(super) rule: &'l str,
    pub(super) pid: i32,
    /// The start time of the process, in clock ticks since boot.
    pub(super) start_ticks: u64,
    /// The process ID of the topmost process of its tree; for a process that a host has left, the
    /// process ID of the host, and for a process of an ended task, its own.
    pub(super) top_pid: i32,
    /// The age of the process, in milliseconds.
    pub(super) age_ms: u64,
    pub(super) signal: String,
    /// The command line of the process, shortened.
    pub(super) command: &'l str,
}

/// Returns the age of a process, in milliseconds.
pub(super) fn age_ms(process: ProcRef) -> u64 {
    let born = process.start_ticks.saturating_mul(1_000 / TICKS_PER_SECOND);
    clock::since_boot_ms().saturating_sub(born)
}

/// The locked log. Unowned processes are terminated only while this lock is held, so that only one
/// reaper at a time does so. The processes of an ended host or task are terminated even if the log
/// cannot be opened.
#[derive(Debug)]
pub(super) struct ReapLog(OwnedFd);

impl ReapLog {
    /// Opens the log and waits for its lock. A log that is too long is renamed, and replaces its
    /// predecessor.
    ///
    /// # Errors
    ///
    /// `TimedOut` if another reaper, such as one that a signal has stopped, holds the lock for 10 s;
    /// otherwise the I/O error of the system call.
    pub(super) fn open(root: &StateDir) -> io::Result<Self> {
        Self::open_within(root, LOCK_TIMEOUT_MS)
    }

    fn open_within(root: &StateDir, timeout_ms: u64) -> io::Result<Self> {
        loop {
            let log = file::open_at(root, LOG_FILE, OpenMode::Append)?;
            if !file::lock_exclusive_within(&log, timeout_ms)? {
                let why = format!("another reaper has held its lock for {timeout_ms} ms");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            let facts = file::metadata(&log)?;
            // The previous holder may have renamed the log, and then the lock is on the wrong file.
            if file::metadata_at(root, LOG_FILE).is_ok_and(|now| now.identity == facts.identity) {
                if facts.len < MAX_LOG_BYTES {
                    return Ok(Self(log));
                }
                let _already_removed = file::remove(root, ROTATED_LOG_FILE);
                file::rename_noreplace(root, LOG_FILE, root, ROTATED_LOG_FILE)?;
            }
        }
    }

    /// Appends the line of a signal, which the caller sends afterwards.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, or `WriteZero` if only a part of the line was written. An
    /// unowned process must not be signaled then; a process of an ended host or task is still
    /// signaled.
    pub(super) fn append(&self, line: &ReapLogLine<'_>) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let written = file::write(&self.0, &text)?;
        if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn line(command: &str) -> ReapLogLine<'_> {
        let (at, signal) = ("2026-11-22T03:00:00.000Z".to_owned(), "SIGTERM".to_owned());
        ReapLogLine {
            at,
            rule: "r",
            pid: 7,
            start_ticks: 8,
            top_pid: 7,
            age_ms: 9,
            signal,
            command,
        }
    }

    #[test]
    fn a_long_log_is_rotated_and_one_old_log_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&dir.path().join("state")).expect("opens");
        let (path, before) = (root.path().join(LOG_FILE), root.path().join(ROTATED_LOG_FILE));
        ReapLog::open(&root).expect("opens").append(&line("one")).expect("written");
        ReapLog::open(&root).expect("opens").append(&line("two")).expect("written");
        let text = std::fs::read_to_string(&path).expect("is there");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.ends_with("\"command\":\"two\"}\n"), "{text}");
        let mode = std::fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for round in ["first", "second"] {
            std::fs::write(&path, round.repeat(1 << 20)).expect("own directory");
            ReapLog::open(&root).expect("opens").append(&line(round)).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("is there").lines().count(), 1);
            let kept = std::fs::read_to_string(&before).expect("is there");
            assert!(kept.starts_with(round));
        }
        assert!(!root.path().join("reaped.log.2").exists());
    }

    #[test]
    fn the_log_has_one_holder_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&dir.path().join("state")).expect("opens");
        let log = ReapLog::open(&root).expect("opens");
        let other = file::open_at(&root, LOG_FILE, OpenMode::Append).expect("opens");
        assert!(!file::try_lock_exclusive(&other).expect("asks"));
        // The holder may be stopped, so the wait for it ends.
        let error = ReapLog::open_within(&root, 20).expect_err("the lock is held");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(log);
        assert!(file::try_lock_exclusive(&other).expect("asks"));
    }
}
