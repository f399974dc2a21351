//! `reaped.log`: what was ended that siding had not started.

use std::io;
use std::os::fd::OwnedFd;

use serde::Serialize;

use crate::store::Root;
use crate::sys::file::{self, Open};

/// Name of the log below the root, and of what was there before it grew too long
/// (`docs/format.md`).
const NAME: &str = "reaped.log";
const BEFORE: &str = "reaped.log.1";
/// Both, the newer one first.
pub(crate) const LOGS: [&str; 2] = [NAME, BEFORE];

/// Length in bytes from which on a new log is begun: about 4,000 lines.
const MAX: u64 = 1 << 20;

/// One line: a signal that is about to be sent.
#[derive(Debug, Serialize)]
pub(super) struct Line<'l> {
    /// When, RFC 3339.
    pub(super) at: String,
    /// The rule.
    pub(super) rule: &'l str,
    /// The process.
    pub(super) pid: i32,
    /// Its start, in clock ticks since boot.
    pub(super) start_ticks: u64,
    /// The topmost process of its tree.
    pub(super) top_pid: i32,
    /// How long it had lived.
    pub(super) age_ms: u64,
    /// The signal.
    pub(super) signal: String,
    /// Its command line, shortened.
    pub(super) command: &'l str,
}

/// The log, held: only one reaper at a time acts on foreign processes.
#[derive(Debug)]
pub(super) struct Log(OwnedFd);

impl Log {
    /// Opens the log and waits for whoever has it. One that is too long is moved aside, in place
    /// of the one before.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub(super) fn open(root: &Root) -> io::Result<Self> {
        loop {
            let log = file::open_at(root, NAME, Open::Append)?;
            file::lock(&log)?;
            let facts = file::facts(&log)?;
            // Who had it may have moved it.
            if file::facts_at(root, NAME).is_ok_and(|now| now.identity == facts.identity) {
                if facts.len < MAX {
                    return Ok(Self(log));
                }
                let _none_before = file::remove(root, BEFORE);
                file::move_new(root, NAME, root, BEFORE)?;
            }
        }
    }

    /// Adds a line.
    ///
    /// # Errors
    ///
    /// The operating system's: then the signal must not be sent.
    pub(super) fn add(&self, line: &Line<'_>) -> io::Result<()> {
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

    fn line(command: &str) -> Line<'_> {
        let (at, signal) = ("2026-11-22T03:00:00.000Z".to_owned(), "SIGTERM".to_owned());
        Line { at, rule: "r", pid: 7, start_ticks: 8, top_pid: 7, age_ms: 9, signal, command }
    }

    #[test]
    fn a_long_log_is_moved_aside_and_only_one_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::open(&dir.path().join("state")).expect("opens");
        let (path, before) = (root.path().join(NAME), root.path().join(BEFORE));
        Log::open(&root).expect("opens").add(&line("one")).expect("written");
        Log::open(&root).expect("opens").add(&line("two")).expect("written");
        let text = std::fs::read_to_string(&path).expect("is there");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.ends_with("\"command\":\"two\"}\n"), "{text}");
        let mode = std::fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for round in ["first", "second"] {
            std::fs::write(&path, round.repeat(1 << 20)).expect("own directory");
            Log::open(&root).expect("opens").add(&line(round)).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("is there").lines().count(), 1);
            let kept = std::fs::read_to_string(&before).expect("is there");
            assert!(kept.starts_with(round));
        }
        assert!(!root.path().join("reaped.log.2").exists());
    }

    #[test]
    fn one_at_a_time_has_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::open(&dir.path().join("state")).expect("opens");
        let log = Log::open(&root).expect("opens");
        let other = file::open_at(&root, NAME, Open::Append).expect("opens");
        assert!(!file::try_lock(&other).expect("asks"));
        drop(log);
        assert!(file::try_lock(&other).expect("asks"));
    }
}
