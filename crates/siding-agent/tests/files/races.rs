//! Somebody changes what a path leads through while it is used.

use std::fs::rename;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::place::Place;

/// Rounds that both sides make at least.
const ROUNDS: u64 = 50;
/// How long they go on at least.
const SPAN: Duration = Duration::from_secs(2);
/// How long they may need on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Ends the other side, also when this one panics.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has `swap` and `use_it` go on side by side until both have had their rounds.
fn side_by_side(swap: impl Fn() + Sync, mut use_it: impl FnMut()) {
    let swaps = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                swap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut uses = 0;
        while begun.elapsed() < SPAN || uses < ROUNDS || swaps.load(Ordering::Relaxed) < ROUNDS {
            use_it();
            uses += 1;
            assert!(begun.elapsed() < PATIENCE, "{uses} uses, {swaps:?} swaps");
        }
    });
}

#[test]
fn a_link_that_turns_outside_leads_nowhere() {
    let place = Place::new();
    place.put("secret/a", "secret\n");
    place.put("work/real/a", "inside\n");
    let (sub, next) = (place.at("work/sub"), place.at("work/next"));
    symlink("real", &sub).unwrap();
    let swap = || {
        for target in ["../secret", "real"] {
            symlink(target, &next).unwrap();
            rename(&next, &sub).unwrap();
        }
    };
    let (mut round, mut written) = (0, 0);
    side_by_side(swap, || {
        round += 1;
        if let Ok(text) = place.read("sub/a") {
            assert!(!text.contains("secret"), "{text}");
        }
        written += usize::from(place.write("sub/a", &format!("inside {round}\n")).is_ok());
        let _now_and_then_refused = place.write("sub/deep/er/b", "inside\n");
        let _now_and_then_refused = place.edit("sub/a", "inside", "still inside");
    });
    assert!(written > 0);
    assert_eq!(place.text("secret/a"), "secret\n");
    assert_eq!(place.names("secret"), ["a"]);
    assert!(place.text("work/real/a").contains("inside"));
}

#[test]
fn a_directory_that_becomes_a_link_leads_nowhere() {
    let place = Place::new();
    place.put("secret/a", "secret\n");
    place.put("work/sub/a", "inside\n");
    symlink("../secret", place.at("work/link")).unwrap();
    let (sub, kept, link) = (place.at("work/sub"), place.at("work/kept"), place.at("work/link"));
    let swap = || {
        rename(&sub, &kept).unwrap();
        rename(&link, &sub).unwrap();
        std::thread::yield_now();
        rename(&sub, &link).unwrap();
        rename(&kept, &sub).unwrap();
    };
    side_by_side(swap, || {
        if let Ok(text) = place.read("sub/a") {
            assert!(!text.contains("secret"), "{text}");
        }
        let _now_and_then_refused = place.edit("sub/a", "secret", "mine");
    });
    assert_eq!(place.text("secret/a"), "secret\n");
}

#[test]
fn a_file_that_becomes_a_link_leads_nowhere() {
    let place = Place::new();
    place.put("secret/a", "secret\n");
    place.put("work/file", "inside\n");
    let file = place.at("work/file");
    let (link, plain) = (place.at("work/link"), place.at("work/plain"));
    let swap = || {
        symlink("../secret/a", &link).unwrap();
        rename(&link, &file).unwrap();
        std::fs::write(&plain, "inside\n").unwrap();
        rename(&plain, &file).unwrap();
    };
    side_by_side(swap, || {
        if let Ok(text) = place.read("file") {
            assert!(!text.contains("secret"), "{text}");
        }
        let _now_and_then_refused = place.write("file", "inside\n");
        let _now_and_then_refused = place.edit("file", "secret", "mine");
    });
    assert_eq!(place.text("secret/a"), "secret\n");
    assert_eq!(place.names("work"), ["file"]);
}

#[test]
fn a_file_that_becomes_a_fifo_is_not_waited_for() {
    let place = Place::new();
    place.put("work/file", "inside\n");
    let work = siding_core::sys::file::open_directory(&place.at("work")).unwrap();
    let (file, fifo, plain) =
        (place.at("work/file"), place.at("work/fifo"), place.at("work/plain"));
    let swap = || {
        siding_core::sys::file::create_fifo(&work, "fifo").unwrap();
        rename(&fifo, &file).unwrap();
        std::fs::write(&plain, "inside\n").unwrap();
        rename(&plain, &file).unwrap();
    };
    side_by_side(swap, || {
        let _now_and_then_refused = place.read("file");
    });
}

#[test]
fn what_two_agents_write_at_once_is_one_of_both() {
    let place = Place::new();
    place.put("work/a", "one\n".repeat(10_000));
    let (one, two) = ("one\n".repeat(10_000), "two\n".repeat(10_000));
    std::thread::scope(|scope| {
        let (place, one, two) = (&place, &one, &two);
        for content in [one, two] {
            scope.spawn(move || {
                for _ in 0..50 {
                    let _now_and_then_refused = place.write("a", content);
                    let text = place.text("work/a");
                    assert!(text == *one || text == *two);
                }
            });
        }
    });
    assert_eq!(place.names("work"), ["a"]);
}
