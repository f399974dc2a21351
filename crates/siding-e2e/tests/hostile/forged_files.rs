//! State directories in which files were replaced by links, directories, FIFOs or other text. Any
//! process of the same user can replace these files. No command hangs or crashes because of that,
//! and no command follows a link out of the state directory or changes its target.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};
use siding_e2e::{ProgramOutput, Sandbox};

use crate::{Task, assert_no_crash_or_hang, assert_task_exits, shell};

/// The object with which the test replaces a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgery {
    LinkToFile,
    LinkToDirectory,
    LinkToNothing,
    LinkLoop,
    Directory,
    NonEmptyDirectory,
    Fifo,
    Text,
}

const ALL_FORGERIES: [Forgery; 8] = [
    Forgery::LinkToFile,
    Forgery::LinkToDirectory,
    Forgery::LinkToNothing,
    Forgery::LinkLoop,
    Forgery::Directory,
    Forgery::NonEmptyDirectory,
    Forgery::Fifo,
    Forgery::Text,
];

/// A sandbox with an ended task, and with private data outside the state directory. No command may
/// show this data.
#[derive(Debug)]
struct ForgeryScenario {
    sandbox: Sandbox,
    id: String,
}

const SECRET_OUTSIDE: &str = "the treasure outside";
const INSIDE_COMMAND: &str = "echo inside";

impl ForgeryScenario {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let task = Task::of(&shell(&sandbox, INSIDE_COMMAND).run().expect_code(0));
        assert_task_exits(task.id());
        let id = task.id().to_owned();
        let scene = Self { sandbox, id };
        // The target of the links is a complete task of another state directory, so that a followed
        // link would not fail.
        let outside = scene.outside_dir();
        let command = format!("{INSIDE_COMMAND} # {SECRET_OUTSIDE}");
        let call = ["run", "--json", "--", &command];
        let call = scene.sandbox.siding(&call).env("SIDING_STATE_DIR", &outside);
        let other = Task::of(&call.run().expect_code(0));
        assert_task_exits(other.id());
        let outside_task = outside.join("tasks").join(other.id());
        std::fs::write(outside_task.join("output"), SECRET_OUTSIDE).expect("test file");
        std::fs::rename(outside_task, outside.join("task")).expect("test directory");
        scene
    }

    fn outside_dir(&self) -> PathBuf {
        self.sandbox.root().join("outside")
    }

    fn state_path(&self, name: &str) -> PathBuf {
        self.sandbox.state_dir().join(name.replace("ID", &self.id))
    }

    /// Replaces `path` with a forgery. [`Forgery::LinkToFile`] links to `file` in the directory of
    /// the outside task.
    fn forge(&self, forgery: Forgery, path: &Path, file: &str) {
        let removed = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
        assert!(removed.is_ok() || !path.exists(), "{removed:?}");
        let done = match forgery {
            Forgery::LinkToFile => symlink(self.outside_dir().join("task").join(file), path),
            Forgery::LinkToDirectory => symlink(self.outside_dir().join("task"), path),
            Forgery::LinkToNothing => symlink("../nowhere/at all", path),
            Forgery::LinkLoop => symlink(path, path),
            Forgery::Directory => std::fs::create_dir(path),
            Forgery::NonEmptyDirectory => std::fs::create_dir_all(path.join("more"))
                .and_then(|()| std::fs::write(path.join("more/file"), "x")),
            Forgery::Fifo => {
                let mode = Mode::RUSR | Mode::WUSR;
                rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0)
                    .map_err(std::io::Error::from)
            }
            Forgery::Text => std::fs::write(path, "b-zzzzzzzzzzzz\n\0\u{1b}[31mnonsense"),
        };
        done.unwrap_or_else(|error| panic!("{forgery:?} at {}: {error}", path.display()));
    }

    /// Runs commands that read or change the state directory. Asserts that no command crashes,
    /// hangs or prints data from outside, and that the files outside are unchanged.
    fn run_all_readers(&self, what: &str) {
        let before = self.snapshot_outside();
        let id = self.id.as_str();
        for args in [
            &["ps", "--all"][..],
            &["ps", "--json"],
            &["show", id],
            &["show", "--json", id],
            &["output", "--all", id],
            &["output", "--raw", id],
            &["output", "--tail", "3", id],
        ] {
            check_call(what, args, &self.sandbox.siding(args).run());
        }
        // Each of these calls waits for up to ten seconds if the forgery makes the task look as if
        // its creation had not finished.
        let calls = [
            &["wait", "--timeout", "1s", id][..],
            &["stop", id],
            &["extend", id, "1h"],
            &["input", id, "text"],
        ];
        let calls = calls.map(|args| (args, self.sandbox.siding(args).spawn()));
        for (args, call) in calls {
            check_call(what, args, &call.wait());
        }
        for args in [
            &["stop", "--all"][..],
            &["reap", "--dry-run"],
            &["reap"],
            &["run", "--json", "--", INSIDE_COMMAND],
            &["run", "--json", "--", "echo another"],
        ] {
            check_call(what, args, &self.sandbox.siding(args).run());
        }
        assert_eq!(self.snapshot_outside(), before, "{what}: changed something outside");
    }

    /// Returns every path below the outside directory with its content, which is empty for a
    /// directory.
    fn snapshot_outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut paths = vec![];
        crate::collect_entries(&self.outside_dir(), &mut paths);
        paths.sort();
        paths
            .into_iter()
            .map(|path| (path.clone(), std::fs::read(path).unwrap_or_default()))
            .collect()
    }
}

/// Asserts that a call has neither crashed nor hung nor printed data from outside. A `siding run`
/// must also exit with 0.
#[track_caller]
fn check_call(what: &str, args: &[&str], done: &ProgramOutput) {
    assert_no_crash_or_hang(done);
    let printed = format!("{}{}", done.stdout_text(), done.stderr_text());
    assert!(!printed.contains(SECRET_OUTSIDE), "{what}: output from outside: {done}");
    assert!(args.contains(&"--raw") || !printed.contains('\u{1b}'), "{what}: {done}");
    if args[0] == "run" {
        assert_eq!(done.code, Some(0), "{what}: {done}");
    }
}

/// Tries every forgery at one path, each in a new sandbox. The forgeries are tried concurrently,
/// because some commands wait.
fn forge_everywhere(name: &str, file: &str) {
    std::thread::scope(|scope| {
        for forgery in ALL_FORGERIES {
            scope.spawn(move || {
                let scene = ForgeryScenario::new();
                scene.forge(forgery, &scene.state_path(name), file);
                scene.run_all_readers(&format!("{forgery:?} at {name}"));
            });
        }
    });
}

#[test]
fn forged_journal_does_not_escape_the_state_directory() {
    forge_everywhere("tasks/ID/journal", "journal");
}

#[test]
fn forged_output_does_not_escape_the_state_directory() {
    forge_everywhere("tasks/ID/output", "output");
}

#[test]
fn forged_task_directory_does_not_escape_the_state_directory() {
    forge_everywhere("tasks/ID", ".");
}

#[test]
fn forged_live_entry_does_not_escape_the_state_directory() {
    forge_everywhere("live/ID", "journal");
}

#[test]
fn forged_extra_entries_do_not_escape_the_state_directory() {
    for name in ["live/b-zzzzzzzzzzzz", "tasks/b-zzzzzzzzzzzz", "live/\u{1b}[31m", "tasks/..x"] {
        for forgery in [Forgery::LinkToDirectory, Forgery::Directory, Forgery::Fifo] {
            let scene = ForgeryScenario::new();
            scene.forge(forgery, &scene.state_path(name), "journal");
            scene.run_all_readers(&format!("{forgery:?} at {name}"));
        }
    }
}

#[test]
fn forged_read_cursor_does_not_escape_the_state_directory() {
    forge_everywhere("tasks/ID/seen.cli", "output");
}

/// A forged entry in `dedup/` does not block a command. The name of the entry is a hash of the
/// command, so the test reads the name from the directory while the command runs.
#[test]
fn forged_duplicate_claim_does_not_block_a_command() {
    let scene = ForgeryScenario::new();
    let args = ["run", "--background", "--json", "--", "read -r x < /dev/zero"];
    let task = Task::of(&scene.sandbox.siding(&args).run().expect_code(0));
    let mut claims = vec![];
    crate::collect_entries(&scene.state_path("dedup"), &mut claims);
    let [claim] = &claims[..] else { panic!("expected exactly one claim: {claims:?}") };
    let _stopped = scene.sandbox.siding(&["stop", "--grace", "0s", task.id()]).run();
    assert_task_exits(task.id());
    for forgery in ALL_FORGERIES {
        scene.forge(forgery, claim, "journal");
        let args = ["run", "--background", "--json", "--", "read -r x < /dev/zero"];
        let done = scene.sandbox.siding(&args).run();
        assert_no_crash_or_hang(&done);
        let task = Task::of(&done.expect_code(0));
        assert_eq!(task.text("/phase"), "running", "{forgery:?}");
        let _stopped = scene.sandbox.siding(&["stop", "--grace", "0s", task.id()]).run();
        assert_task_exits(task.id());
    }
}
