//! Tests concurrent swaps of path components: no swap of a file, directory or link lets a tool
//! leave the allowed directories, or blocks it.

use std::fs::rename;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::workspace::Workspace;

/// Minimum number of rounds that each thread completes.
const MIN_ROUNDS: u64 = 50;
/// Minimum duration of a race, so that many interleavings occur.
const MIN_DURATION: Duration = Duration::from_secs(2);
/// Duration after which a race without enough rounds fails; long, for busy machines.
const MAX_DURATION: Duration = Duration::from_secs(300);

/// Stops the swapping thread when it is dropped, even by a panic.
struct StopOnDrop<'o>(&'o AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `swap` and `use_it` concurrently, each for at least the minimum number of rounds and the
/// minimum duration.
fn run_concurrently(swap: impl Fn() + Sync, mut use_it: impl FnMut()) {
    let swaps = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let _keeps_alive = StopOnDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                swap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut uses = 0;
        while begun.elapsed() < MIN_DURATION
            || uses < MIN_ROUNDS
            || swaps.load(Ordering::Relaxed) < MIN_ROUNDS
        {
            use_it();
            uses += 1;
            assert!(begun.elapsed() < MAX_DURATION, "{uses} uses, {swaps:?} swaps");
        }
    });
}

#[test]
fn a_link_swapped_to_the_outside_is_not_followed() {
    let place = Workspace::new();
    place.put_file("secret/a", "secret\n");
    place.put_file("work/real/a", "inside\n");
    let (sub, next) = (place.path("work/sub"), place.path("work/next"));
    symlink("real", &sub).unwrap();
    let swap = || {
        for target in ["../secret", "real"] {
            symlink(target, &next).unwrap();
            rename(&next, &sub).unwrap();
        }
    };
    let (mut round, mut written) = (0, 0);
    run_concurrently(swap, || {
        round += 1;
        if let Ok(text) = place.read("sub/a") {
            assert!(!text.contains("secret"), "{text}");
        }
        written += usize::from(place.write("sub/a", &format!("inside {round}\n")).is_ok());
        let _best_effort = place.write("sub/deep/er/b", "inside\n");
        let _best_effort = place.edit("sub/a", "inside", "still inside");
    });
    assert!(written > 0);
    assert_eq!(place.read_text("secret/a"), "secret\n");
    assert_eq!(place.file_names("secret"), ["a"]);
    assert!(place.read_text("work/real/a").contains("inside"));
}

#[test]
fn a_directory_swapped_for_a_link_is_not_followed() {
    let place = Workspace::new();
    place.put_file("secret/a", "secret\n");
    place.put_file("work/sub/a", "inside\n");
    symlink("../secret", place.path("work/link")).unwrap();
    let (sub, kept, link) =
        (place.path("work/sub"), place.path("work/kept"), place.path("work/link"));
    let swap = || {
        rename(&sub, &kept).unwrap();
        rename(&link, &sub).unwrap();
        std::thread::yield_now();
        rename(&sub, &link).unwrap();
        rename(&kept, &sub).unwrap();
    };
    run_concurrently(swap, || {
        if let Ok(text) = place.read("sub/a") {
            assert!(!text.contains("secret"), "{text}");
        }
        let _best_effort = place.edit("sub/a", "secret", "mine");
    });
    assert_eq!(place.read_text("secret/a"), "secret\n");
}

#[test]
fn a_file_swapped_for_a_link_is_not_followed() {
    let place = Workspace::new();
    place.put_file("secret/a", "secret\n");
    place.put_file("work/file", "inside\n");
    let file = place.path("work/file");
    let (link, plain) = (place.path("work/link"), place.path("work/plain"));
    let swap = || {
        symlink("../secret/a", &link).unwrap();
        rename(&link, &file).unwrap();
        std::fs::write(&plain, "inside\n").unwrap();
        rename(&plain, &file).unwrap();
    };
    run_concurrently(swap, || {
        if let Ok(text) = place.read("file") {
            assert!(!text.contains("secret"), "{text}");
        }
        let _best_effort = place.write("file", "inside\n");
        let _best_effort = place.edit("file", "secret", "mine");
    });
    assert_eq!(place.read_text("secret/a"), "secret\n");
    assert_eq!(place.file_names("work"), ["file"]);
}

#[test]
fn a_file_swapped_for_a_fifo_does_not_block() {
    let place = Workspace::new();
    place.put_file("work/file", "inside\n");
    let work = siding_core::sys::file::open_directory(&place.path("work")).unwrap();
    let (file, fifo, plain) =
        (place.path("work/file"), place.path("work/fifo"), place.path("work/plain"));
    let swap = || {
        siding_core::sys::file::create_fifo(&work, "fifo").unwrap();
        rename(&fifo, &file).unwrap();
        std::fs::write(&plain, "inside\n").unwrap();
        rename(&plain, &file).unwrap();
    };
    run_concurrently(swap, || {
        let _best_effort = place.read("file");
    });
}

#[test]
fn concurrent_writes_leave_one_complete_version() {
    let place = Workspace::new();
    place.put_file("work/a", "one\n".repeat(10_000));
    let (one, two) = ("one\n".repeat(10_000), "two\n".repeat(10_000));
    std::thread::scope(|scope| {
        let (place, one, two) = (&place, &one, &two);
        for content in [one, two] {
            scope.spawn(move || {
                for _ in 0..50 {
                    let _best_effort = place.write("a", content);
                    let text = place.read_text("work/a");
                    assert!(text == *one || text == *two);
                }
            });
        }
    });
    assert_eq!(place.file_names("work"), ["a"]);
}
