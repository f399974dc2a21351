//! Inputs of an activity report other than the journals: the reaper's log, disk use, and the time
//! of the last daily report.

use std::io;
use std::os::fd::AsFd as _;

use serde::Deserialize;
use siding_model::activity::{DiskUse, Period, ReapedProcess};
use siding_model::process::UnixMs;
use siding_model::size::Bytes;

use crate::store::{StateDir, StoreError};
use crate::sys::file;
use crate::upkeep::reap;

/// File below the root with the time of the last daily report: milliseconds since 1970 on one line
/// of fixed width, so that one write replaces it.
const DAILY_REPORT_FILE: &str = "daily-report";
/// Number of digits in the line of [`DAILY_REPORT_FILE`], with leading zeros.
const DAILY_REPORT_DIGITS: usize = 20;
/// Maximum size of a reaper log that is read, in bytes: twice the size at which the log is rotated.
/// A larger log is skipped.
const MAX_REAP_LOG_BYTES: usize = 2 << 20;

/// Claims the daily report. Returns the period of the report if one is due; of several concurrent
/// callers, only one receives it. A claim is never revoked: if the caller fails afterwards, the
/// report is lost.
///
/// # Errors
///
/// The I/O error of the system call; the report then stays due.
pub fn claim_daily_report(root: &StateDir, now: UnixMs) -> io::Result<Option<Period>> {
    let fd = file::open_or_create(root, DAILY_REPORT_FILE)?;
    file::lock_exclusive(&fd)?;
    let mut line = [0; DAILY_REPORT_DIGITS];
    let count = file::read_at(fd.as_fd(), &mut line, 0)?;
    let last = std::str::from_utf8(&line[..count]).ok().and_then(|text| text.parse().ok());
    let due = Period::for_daily_report(last.map(UnixMs), now);
    if due.is_some() {
        let line = format!("{:0DAILY_REPORT_DIGITS$}\n", now.0);
        file::write_all_at(&fd, line.as_bytes(), 0)?;
    }
    Ok(due)
}

/// One line of `reaped.log`, reduced to the fields of a report.
#[derive(Deserialize)]
struct ReapLogLine {
    at: String,
    rule: String,
    pid: i32,
    start_ticks: u64,
    command: String,
}

/// Returns the signals that the reaper has sent to processes that no shim supervised, as far back
/// as its log reaches. Unreadable lines and logs are skipped.
#[must_use]
pub fn reaped_processes(root: &StateDir) -> Vec<ReapedProcess> {
    let text = |name| {
        let fd = file::open_at(root, name, file::OpenMode::Read).ok()?;
        let bytes = file::read_to_end(fd.as_fd(), MAX_REAP_LOG_BYTES).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let texts: Vec<String> = reap::LOG_FILES.into_iter().filter_map(text).collect();
    let read = |line: &str| {
        let ReapLogLine { at, rule, pid, start_ticks, command } =
            serde_json::from_str(line).ok()?;
        Some(ReapedProcess { at, rule, process: (pid, start_ticks), command })
    };
    texts.iter().flat_map(|text| text.lines()).filter_map(read).collect()
}

/// Returns the number of stored tasks and their total size on disk. The result also contains `max`,
/// the limit for the size of ended tasks.
///
/// # Errors
///
/// [`StoreError::Io`].
pub fn disk_use(root: &StateDir, max: Bytes) -> Result<DiskUse, StoreError> {
    let ids = root.all_tasks()?;
    let bytes = ids.iter().map(|id| reap::stored_bytes(root, *id)).sum();
    Ok(DiskUse { tasks: ids.len(), bytes, max_bytes: max.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_HOUR_MS: i64 = 60 * 60 * 1000;

    fn test_state_dir() -> (tempfile::TempDir, StateDir) {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
        (temporary, root)
    }

    #[test]
    fn one_of_many_concurrent_callers_gets_the_daily_report() {
        let (_temporary, root) = test_state_dir();
        let start = UnixMs(1_763_764_872_345);
        let claims = |now: UnixMs| -> usize {
            std::thread::scope(|scope| {
                let claim = || claim_daily_report(&root, now).expect("claimed").into_iter().count();
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
            })
        };
        let given = [0, 1, 19, 21, 22, 45].map(|hours| claims(start.plus_ms(hours * ONE_HOUR_MS)));
        assert_eq!(given, [1, 0, 0, 1, 0, 1]);
        std::fs::write(root.path().join(DAILY_REPORT_FILE), "damaged").expect("own file");
        assert_eq!(claims(start.plus_ms(46 * ONE_HOUR_MS)), 1);
    }

    #[test]
    fn both_reap_logs_are_read_and_damaged_lines_are_skipped() {
        let (_temporary, root) = test_state_dir();
        assert_eq!(reaped_processes(&root), []);
        let line = |pid| {
            format!(
                r#"{{"at":"2026-11-22T03:00:00.000Z","rule":"r","pid":{pid},"start_ticks":8,"new":1,
                "command":"socat"}}"#
            )
            .replace('\n', "")
        };
        let [now, before] = reap::LOG_FILES.map(|name| root.path().join(name));
        std::fs::write(before, format!("{}\n", line(1))).expect("own file");
        std::fs::write(now, format!("torn {{\n{}\n{}", line(2), line(3))).expect("own file");
        let mut pids: Vec<i32> =
            reaped_processes(&root).iter().map(|signal| signal.process.0).collect();
        pids.sort_unstable();
        assert_eq!(pids, [1, 2, 3]);
    }
}
