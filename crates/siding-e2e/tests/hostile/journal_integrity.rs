//! Journals are append-only. Damaged journals are quarantined, journals of released formats are
//! read, and journals of newer formats are left unchanged (promises P132 to P134).

use std::path::{Path, PathBuf};

use serde_json::json;
use siding_e2e::{ProgramOutput, Sandbox, eventually, words};

use crate::{Task, assert_no_crash_or_hang, assert_refused, assert_task_exits, shell};

/// Returns the arguments of several commands that read the task's journal.
fn read_commands(id: &str) -> [Vec<&str>; 6] {
    [
        vec!["show", id],
        vec!["ps", "--all"],
        vec!["output", "--all", id],
        vec!["wait", "--timeout", "1s", id],
        vec!["stop", id],
        vec!["reap", "--dry-run"],
    ]
}

/// A sandbox with an ended task whose journal the test damages, and with another task that must
/// stay intact.
#[derive(Debug)]
struct JournalScenario {
    sandbox: Sandbox,
    id: String,
    other: String,
}

impl JournalScenario {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let [id, other] = ["echo one; exit 4", "echo other; exit 5"].map(|text| {
            let task = Task::of(&shell(&sandbox, text).run());
            assert_task_exits(task.id());
            task.id().to_owned()
        });
        Self { sandbox, id, other }
    }

    fn journal(&self) -> PathBuf {
        self.sandbox.state_dir().join("tasks").join(&self.id).join("journal")
    }

    /// Creates the live marker of the task, as if its shim had been killed.
    fn mark_live(&self) {
        std::fs::write(self.sandbox.state_dir().join("live").join(&self.id), "")
            .expect("test file");
    }

    #[track_caller]
    fn assert_other_task_intact(&self) {
        let call = ["show", "--json", &self.other];
        let other = Task::of(&self.sandbox.siding(&call).run().expect_code(0));
        assert_eq!(other.number("/outcome/code"), 5);
        let listed = self.sandbox.siding(&["ps", "--all"]).run();
        assert!(listed.stdout_text().contains(&self.other), "{listed}");
    }

    /// Returns the journals in `quarantine/`.
    fn quarantined_journals(&self) -> Vec<PathBuf> {
        let mut found = vec![];
        crate::collect_entries(&self.sandbox.state_dir().join("quarantine"), &mut found);
        found.retain(|path| path.ends_with("journal"));
        found
    }
}

/// Returns damaged copies of the journal, each with a description. No crash can cause any of these
/// kinds of damage.
fn damaged_journals(journal: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut flipped = journal.to_vec();
    flipped[journal.len() / 2] ^= 0x20;
    let lines: Vec<&[u8]> = journal.split_inclusive(|byte| *byte == b'\n').collect();
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    vec![
        ("a bit flipped", flipped),
        ("lines exchanged", swapped.concat()),
        ("a line lost", [&lines[..1], &lines[2..]].concat().concat()),
        ("zeros in front", [&[0; 4096][..], journal].concat()),
        ("another file", b"#!/bin/sh\necho hello\n".to_vec()),
        ("garbage", (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
        ("an end twice", [journal, lines[lines.len() - 1]].concat()),
    ]
}

#[test]
fn damaged_journal_is_quarantined_and_reported_once() {
    let undamaged = std::fs::read(JournalScenario::new().journal()).expect("test file");
    let count = damaged_journals(&undamaged).len();
    for number in 0..count {
        // The commands take turns in being the first to read a damaged journal. The journal belongs
        // first to an ended task, and then to a task with a live marker.
        for (at, live) in [(number, false), (number + 1, true)] {
            let scene = JournalScenario::new();
            let undamaged = std::fs::read(scene.journal()).expect("test file");
            let (damage, bytes) = damaged_journals(&undamaged).swap_remove(number);
            std::fs::write(scene.journal(), &bytes).expect("test file");
            if live {
                scene.mark_live();
            }
            // A dry run changes nothing, so it is never the command that reports the damage.
            let mut commands = read_commands(&scene.id).to_vec();
            commands.retain(|args| !args.contains(&"--dry-run"));
            let reading = &commands[at % commands.len()];
            let first = scene.sandbox.siding(reading).run();
            assert_no_crash_or_hang(&first);
            assert!(first.stderr_text().contains("quarantine/"), "{damage}, live {live}: {first}");
            assert!(first.stderr_text().contains(&scene.id), "{damage}, live {live}: {first}");
            let [quarantined] = &scene.quarantined_journals()[..] else {
                panic!("{damage}: {:?}", scene.quarantined_journals())
            };
            assert_eq!(
                std::fs::read(quarantined).expect("test file"),
                bytes,
                "{damage}: every byte"
            );
            assert!(!scene.journal().exists());
            scene.assert_other_task_intact();
            // The damage is reported once; afterwards the task no longer exists for siding.
            let second = scene.sandbox.siding(&["show", &scene.id]).run();
            assert_refused(&second, "no task");
        }
    }
}

#[test]
fn newer_journal_format_is_reported_and_left_unchanged() {
    for live in [false, true] {
        let scene = JournalScenario::new();
        let mut newer = vec![];
        let newest = siding_model::record::NEWEST_FORMAT;
        let first = json!({"record": "accepted", "format": newest + 1, "unheard": {"of": [1, 2]}});
        siding_model::record::write_line(&mut newer, 0, &first);
        siding_model::record::write_line(&mut newer, 1, &json!({"record": "dreamt", "at": 7}));
        std::fs::write(scene.journal(), &newer).expect("test file");
        if live {
            scene.mark_live();
        }
        let dir = scene.journal().parent().map(Path::to_owned).expect("a parent directory");
        let before = snapshot_files(&dir);
        for args in read_commands(&scene.id) {
            let done = scene.sandbox.siding(&args).run();
            assert_no_crash_or_hang(&done);
            if args[0] != "reap" {
                assert!(done.stderr_text().contains(&format!("format {}", newest + 1)), "{done}");
            }
        }
        let _reaped = scene.sandbox.siding(&["reap"]).run();
        assert_eq!(snapshot_files(&dir), before, "the files were changed");
        assert_eq!(scene.quarantined_journals(), Vec::<PathBuf>::new());
        scene.assert_other_task_intact();
    }
}

/// Returns every file below a directory with its contents.
fn snapshot_files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = vec![];
    crate::collect_entries(dir, &mut paths);
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("test file"))).collect()
}

/// A file that may only grow: its inode must stay the same, and bytes that have been read must not
/// change.
#[derive(Debug)]
struct AppendOnlyFile {
    path: PathBuf,
    inode: u64,
    bytes: Vec<u8>,
}

impl AppendOnlyFile {
    fn new(path: PathBuf) -> Self {
        Self { inode: inode(&path), bytes: std::fs::read(&path).expect("test file"), path }
    }

    #[track_caller]
    fn assert_appended(&mut self, after: &str) {
        let now = std::fs::read(&self.path).expect("test file");
        assert!(now.starts_with(&self.bytes), "{after} rewrote {}", self.path.display());
        assert_eq!(inode(&self.path), self.inode, "{after} replaced {}", self.path.display());
        self.bytes = now;
    }
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("test file"))
}

#[test]
fn state_files_are_append_only() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let argv = sandbox.puppet_argv(&words("say hello mark here hang"));
    let args = ["run", "--background", "--json", "--"].map(str::to_owned);
    let task = Task::of(&sandbox.siding(&[&args[..], &argv].concat()).run().expect_code(0));
    let (id, shim) = (task.id(), crate::live_shim(&task));
    let _here = sandbox.wait_for_mark("here");
    let dir = sandbox.state_dir().join("tasks").join(id);
    let mut journal = AppendOnlyFile::new(dir.join("journal"));
    eventually("its output is stored", || {
        std::fs::read(dir.join("output")).is_ok_and(|text| text.starts_with(b"hello\n"))
    });
    let mut output = AppendOnlyFile::new(dir.join("output"));
    let call = |args: &[&str]| -> ProgramOutput { sandbox.siding(args).run() };
    let _seen = call(&["output", id]).expect_code(0);
    let mut seen = AppendOnlyFile::new(dir.join("seen.cli"));
    let mut assert_all_appended = |after: &str| {
        for file in [&mut journal, &mut output, &mut seen] {
            file.assert_appended(after);
        }
    };
    for args in [&["extend", id, "2h"][..], &["show", id], &["output", id], &["ps"], &["reap"]] {
        let _done = call(args);
        assert_all_appended(args[0]);
    }
    shim.kill();
    let _rescued = call(&["ps"]).expect_code(0);
    assert_all_appended("a rescue");
    let _stopped = call(&["stop", "--grace", "0s", id]).expect_code(0);
    assert_all_appended("a stop");
    assert_task_exits(id);
    for args in [&["show", id][..], &["output", id], &["output", "--all", id], &["reap"]] {
        let _done = call(args).expect_code(0);
        assert_all_appended(args[0]);
    }
}

/// Returns the paths of the journals of every released format, which are fixtures of
/// `siding-model`.
fn released_journals() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../siding-model/tests/fixtures");
    let mut found = vec![];
    crate::collect_entries(&fixtures, &mut found);
    found.retain(|path| path.ends_with("journal"));
    assert!(!found.is_empty(), "{} is empty", fixtures.display());
    found
}

#[test]
fn journals_of_every_released_format_can_be_read() {
    let sandbox = Sandbox::new();
    let _made = sandbox.siding(&["run", "--", "true"]).run().expect_code(0);
    let mut ids = vec![];
    for fixture in released_journals() {
        let bytes = std::fs::read(&fixture).expect("the fixture can be read");
        let first = bytes.split(|byte| *byte == b'\n').next().expect("a line");
        let (_, body) = siding_model::record::parse_frame(first).expect("a whole line");
        let accepted: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        let recorded_id = accepted["spec"]["task_id"].as_str().expect("an id");
        // Several fixtures may have the same task id, so each fixture is stored under a different
        // id.
        let id = format!("{}{:02}", &recorded_id[..recorded_id.len() - 2], 10 + ids.len());
        let dir = sandbox.state_dir().join("tasks").join(&id);
        std::fs::create_dir(&dir).expect("test directory");
        std::fs::write(dir.join("journal"), &bytes).expect("test file");
        for args in [&["show", &id][..], &["show", "--json", &id], &["output", "--all", &id]] {
            let done = sandbox.siding(args).run().expect_code(0);
            assert!(args.contains(&"--all") || done.stdout_text().contains(recorded_id), "{done}");
        }
        let shown = Task::of(&sandbox.siding(&["show", "--json", &id]).run().expect_code(0));
        assert_eq!(shown.text("/phase"), "ended", "{}", fixture.display());
        ids.push((dir.join("journal"), bytes));
    }
    let listed = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(ids.len() + 1), "{listed:#}");
    for (journal, bytes) in ids {
        assert_eq!(
            std::fs::read(journal).expect("test file"),
            bytes,
            "the journal must be unchanged"
        );
    }
}
