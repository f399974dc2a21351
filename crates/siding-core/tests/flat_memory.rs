//! Memory does not grow with the output. A test program of its own: the high-water mark is that of
//! the whole process.

use std::io::Write;

use siding_core::output::{self, Choose, FILE, Query, Size, Stream};
use siding_core::store::Root;
use siding_model::id::TaskKind;

/// Length of the one line, in MiB.
const LINE_MIB: usize = 100;
/// What reading it may take at most: buffers of 256 KiB and 64 KiB, and allocator slack.
const MOST_KIB: u64 = 8 << 10;

/// Returns the most memory this process has had in use (`VmHWM`, proc_pid_status(5)).
fn high_water_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_line_of_100_mb_is_read_in_flat_memory() {
    let temporary = tempfile::tempdir().unwrap();
    let root = Root::open(&temporary.path().join("state")).unwrap();
    let dir = root.create_task(root.new_id(TaskKind::LocalBash).unwrap()).unwrap();
    let mut file = std::fs::File::create(dir.path().join(FILE)).unwrap();
    let block = vec![b'x'; 1 << 20];
    for _ in 0..LINE_MIB {
        file.write_all(&block).unwrap();
    }
    drop((file, block));

    let before = high_water_kib();
    let query = |choose, size| Query { from: 0, choose, last: None, size };
    let nothing = Choose::Matching(regex::Regex::new("y$").unwrap());
    for query in [
        query(Choose::Everything, Size::Whole),
        query(Choose::Everything, Size::Ends(32 << 10)),
        query(Choose::Everything, Size::Page(32 << 10)),
        query(nothing, Size::Ends(32 << 10)),
        Query { last: Some(5), ..query(Choose::Everything, Size::Ends(32 << 10)) },
    ] {
        let mut bytes = 0;
        let count = |part: &str| {
            bytes += part.len();
            Ok(())
        };
        let reading = output::read(&dir, 8 << 20, Stream::Growing, &query, count).unwrap();
        match query.size {
            Size::Whole => assert_eq!(bytes, LINE_MIB << 20),
            Size::Ends(max) => assert!(bytes <= max && (reading.truncated || bytes == 0)),
            Size::Page(max) => assert!(reading.next == max as u64 && bytes == max),
        }
    }
    let grown = high_water_kib() - before;
    assert!(grown <= MOST_KIB, "reading took {grown} KiB");
}
