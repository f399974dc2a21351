//! Tests that reading a task's output takes a bounded amount of memory, however long a line is.
//! This file contains a single test, because `VmHWM` is the peak memory of the whole process.

use std::io::Write;

use siding_core::output::{self, LineFilter, OutputQuery, StreamState, TextLimit};
use siding_core::store::StateDir;
use siding_core::store::task_files::OUTPUT_FILE;
use siding_model::id::TaskKind;

/// Length of the output, which is a single line, in MiB: a multiple of [`MAX_GROWTH_KIB`].
const LINE_MIB: usize = 32;
/// Maximum memory that the reads may add to the peak, in KiB: buffers of 256 KiB and 64 KiB, and
/// allocator slack.
const MAX_GROWTH_KIB: u64 = 8 << 10;

/// Returns the peak resident memory of this process (`VmHWM`, proc_pid_status(5)), in KiB.
fn high_water_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_line_of_32_mb_is_read_in_flat_memory() {
    let temporary = tempfile::tempdir().unwrap();
    let root = StateDir::open(&temporary.path().join("state")).unwrap();
    let dir = root.create_task(root.new_id(TaskKind::LocalBash).unwrap()).unwrap();
    let mut file = std::fs::File::create(dir.path().join(OUTPUT_FILE)).unwrap();
    let block = vec![b'x'; 1 << 20];
    for _ in 0..LINE_MIB {
        file.write_all(&block).unwrap();
    }
    drop((file, block));

    let before = high_water_kib();
    let query =
        |choose, size| OutputQuery { from: 0, filter: choose, last_lines: None, limit: size };
    let nothing = LineFilter::Matching(regex::Regex::new("y$").unwrap());
    for query in [
        query(LineFilter::Everything, TextLimit::Unlimited),
        query(LineFilter::Everything, TextLimit::HeadTail(32 << 10)),
        query(LineFilter::Everything, TextLimit::Page(32 << 10)),
        query(nothing, TextLimit::HeadTail(32 << 10)),
        OutputQuery {
            last_lines: Some(5),
            ..query(LineFilter::Everything, TextLimit::HeadTail(32 << 10))
        },
    ] {
        let mut bytes = 0;
        let count = |part: &str| {
            bytes += part.len();
            Ok(())
        };
        let reading = output::read(&dir, 8 << 20, StreamState::Growing, &query, count).unwrap();
        match query.limit {
            TextLimit::Unlimited => assert_eq!(bytes, LINE_MIB << 20),
            TextLimit::HeadTail(max) => assert!(bytes <= max && (reading.truncated || bytes == 0)),
            TextLimit::Page(max) => assert!(reading.next == max as u64 && bytes == max),
        }
    }
    let grown = high_water_kib() - before;
    assert!(grown <= MAX_GROWTH_KIB, "reading took {grown} KiB");
}
