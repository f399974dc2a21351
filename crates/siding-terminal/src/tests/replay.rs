//! Tests the replay on real files.

use std::os::fd::AsFd;
use std::path::PathBuf;

use siding_core::store::task_files::{OUTPUT_FILE, SCREEN_CACHE_FILE};
use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::file;
use siding_model::id::TaskKind;
use siding_model::terminal::TerminalSize;

use crate::{Screen, TerminalHistory, TerminalReplay};

struct ReplayFixture {
    dir: TaskDir,
    history: TerminalHistory,
    _root: StateDir,
    _temporary: tempfile::TempDir,
}

impl ReplayFixture {
    fn new(output: &[u8]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let dir = root.create_task(root.new_id(TaskKind::LocalBash).unwrap()).unwrap();
        std::fs::write(dir.path().join(OUTPUT_FILE), output).unwrap();
        let initial = TerminalSize { columns: 20, rows: 3 };
        let history = TerminalHistory { initial, resizes: Vec::new() };
        Self { dir, history, _root: root, _temporary: temporary }
    }

    fn append(&self, bytes: &[u8]) {
        use std::io::Write;
        let path = self.dir.path().join(OUTPUT_FILE);
        std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join(SCREEN_CACHE_FILE)
    }

    fn open(&self, to: Option<u64>) -> TerminalReplay {
        TerminalReplay::open(&self.dir, &self.history, to, false).unwrap()
    }

    fn screen(&self, to: Option<u64>) -> Screen {
        self.open(to).screen()
    }
}

/// Returns output with this number of lines, all different.
fn lines(count: usize) -> Vec<u8> {
    (0..count).flat_map(|line| format!("line {line} é\r\n").into_bytes()).collect()
}

#[test]
fn the_screen_is_that_at_an_offset_and_a_replay_follows_the_output() {
    let mut fixture = ReplayFixture::new(b"one\r\ntwo");
    assert_eq!(fixture.screen(Some(3)).rows().collect::<Vec<_>>(), ["one", "", ""]);
    let mut replay = fixture.open(None);
    assert_eq!(replay.screen().row(1), "two");
    fixture.append(b"\x1b[2J\x1b[Hthree");
    fixture.history.resizes.push((8, TerminalSize { columns: 10, rows: 2 }));
    let offset = replay.advance(&fixture.dir, &fixture.history, None, false).unwrap();
    assert_eq!((offset, replay.offset()), (20, 20));
    assert_eq!(replay.screen().rows().collect::<Vec<_>>(), ["three", ""]);
    assert_eq!(replay.screen(), fixture.screen(None));
    assert_eq!(fixture.screen(Some(7)).size().columns, 20);
    assert_eq!(fixture.screen(Some(8)).size().columns, 10, "a change at the offset applies");
    assert!(!replay.is_incomplete());
}

#[test]
fn a_task_without_output_has_a_blank_screen() {
    let fixture = ReplayFixture::new(b"");
    std::fs::remove_file(fixture.dir.path().join(OUTPUT_FILE)).unwrap();
    assert_eq!(fixture.screen(None).rows().collect::<Vec<_>>(), ["", "", ""]);
}

#[test]
fn a_checkpoint_changes_nothing_but_the_time() {
    let fixture = ReplayFixture::new(&lines(150_000));
    let first = fixture.open(None);
    let stored = std::fs::read(fixture.cache()).unwrap();
    assert!(!stored.is_empty());
    assert_eq!(fixture.screen(None), first.screen());
    assert_eq!(fixture.open(None).emulator().scrollback(5), first.emulator().scrollback(5));

    fixture.append(b"\x1b[5A\x1b[Kmore\r\n");
    let continued = fixture.screen(None);
    std::fs::remove_file(fixture.cache()).unwrap();
    assert_eq!(fixture.screen(None), continued);

    let mut damaged = stored;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(fixture.cache(), damaged).unwrap();
    assert_eq!(fixture.screen(None), continued);
    assert_eq!(fixture.screen(Some(6)).row(0), "line 0", "an earlier screen starts again");
}

#[test]
fn a_checkpoint_is_not_used_after_an_earlier_change_of_the_size() {
    let mut fixture = ReplayFixture::new(&lines(150_000));
    fixture.screen(None);
    assert!(fixture.cache().exists());
    fixture.history.resizes.push((100, TerminalSize { columns: 4, rows: 2 }));
    assert_eq!(fixture.screen(None).rows().collect::<Vec<_>>(), ["é", ""]);
}

#[test]
fn released_output_makes_the_screen_incomplete() {
    let mut output = b"\x1b[31mstart\r\n".to_vec();
    output.resize(12 << 10, b'.');
    output.extend_from_slice(b"\x1b[Hend");
    let fixture = ReplayFixture::new(&output);
    assert!(!fixture.open(None).is_incomplete());
    let fd = file::open_at(&fixture.dir, OUTPUT_FILE, file::OpenMode::ReadWrite).unwrap();
    file::punch_hole(fd.as_fd(), 4 << 10, 4 << 10).unwrap();
    let replay = fixture.open(None);
    assert!(replay.is_incomplete());
    assert_eq!(replay.offset(), output.len() as u64);
    assert!(replay.screen().row(0).starts_with("end."));
    assert_eq!(fixture.open(Some(20)).screen().rows().next(), Some("start"));
    assert!(!fixture.open(Some(20)).is_incomplete());
}

#[test]
fn a_bounded_replay_interprets_only_the_end_of_the_output() {
    const MAX_BYTES: u64 = 64 << 10;
    let output = lines(150_000);
    let to = output.len() as u64;
    let mut fixture = ReplayFixture::new(&output);
    let open = |fixture: &ReplayFixture, to: u64| {
        TerminalReplay::open_within(&fixture.dir, &fixture.history, to, MAX_BYTES).unwrap()
    };
    let bounded = open(&fixture, to);
    assert!(bounded.is_incomplete());
    assert_eq!(bounded.offset(), to);
    assert!(!fixture.cache().exists(), "the screen of a part is no checkpoint");
    assert!(!open(&fixture, MAX_BYTES).is_incomplete(), "a short output is interpreted whole");

    let whole = fixture.open(None);
    let shown = |replay: &TerminalReplay| {
        let screen = replay.screen();
        (screen.rows().map(str::to_owned).collect::<Vec<_>>(), screen.cursor())
    };
    assert_eq!(shown(&bounded), shown(&whole));
    assert!(fixture.cache().exists());
    let continued = open(&fixture, to);
    assert!(!continued.is_incomplete(), "the checkpoint is near the end");
    assert_eq!(continued.screen(), whole.screen());

    fixture.history.resizes.push((100, TerminalSize { columns: 4, rows: 2 }));
    let resized = open(&fixture, to);
    assert!(resized.is_incomplete(), "the checkpoint has another size");
    assert_eq!(resized.screen().rows().collect::<Vec<_>>(), ["é", ""]);
}

#[test]
fn siding_s_own_line_is_not_part_of_the_screen() {
    let fixture = ReplayFixture::new(b"$ \n[siding] stopped at the deadline\n");
    let ended = TerminalReplay::open(&fixture.dir, &fixture.history, None, true).unwrap();
    assert_eq!(ended.screen().rows().collect::<Vec<_>>(), ["$", "", ""]);
    assert_eq!(ended.offset(), 2);
    assert_eq!(fixture.screen(None).row(0).get(..8), Some("  [sidin"));
}
