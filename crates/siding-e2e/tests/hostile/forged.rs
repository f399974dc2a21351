//! Entries of the state directory that are not what siding put there: links, directories, pipes.
//!
//! The same user can do that. Nothing hangs or crashes, no link is followed out, and what the
//! links point at stays as it is.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};
use siding_e2e::Sandbox;

use crate::{Task, assert_gone, assert_sane, shell};

/// What a forger puts in the place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgery {
    LinkToFile,
    LinkToDirectory,
    LinkToNothing,
    LinkToItself,
    Directory,
    FullDirectory,
    Pipe,
    Text,
}

const ALL: [Forgery; 8] = [
    Forgery::LinkToFile,
    Forgery::LinkToDirectory,
    Forgery::LinkToNothing,
    Forgery::LinkToItself,
    Forgery::Directory,
    Forgery::FullDirectory,
    Forgery::Pipe,
    Forgery::Text,
];

/// A task that has ended, and something outside that nobody may look into.
#[derive(Debug)]
struct Scene {
    sandbox: Sandbox,
    id: String,
}

const TREASURE: &str = "the treasure outside";
const COMMAND: &str = "echo inside";

impl Scene {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let task = Task::of(&shell(&sandbox, COMMAND).run().expect_code(0));
        assert_gone(task.id());
        let id = task.id().to_owned();
        let scene = Self { sandbox, id };
        // A whole task of another state directory, so that a link to it would be of use.
        let outside = scene.outside();
        let told = format!("{COMMAND} # {TREASURE}");
        let call = ["run", "--json", "--", &told];
        let call = scene.sandbox.siding(&call).env("SIDING_STATE_DIR", &outside);
        let other = Task::of(&call.run().expect_code(0));
        assert_gone(other.id());
        let theirs = outside.join("tasks").join(other.id());
        std::fs::write(theirs.join("output"), TREASURE).expect("own file");
        std::fs::rename(theirs, outside.join("task")).expect("own directory");
        scene
    }

    fn outside(&self) -> PathBuf {
        self.sandbox.root().join("outside")
    }

    fn place(&self, name: &str) -> PathBuf {
        self.sandbox.state_dir().join(name.replace("ID", &self.id))
    }

    /// Puts a forgery at `path`; a link to a file leads to `file` of the task outside.
    fn forge(&self, forgery: Forgery, path: &Path, file: &str) {
        let gone = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
        assert!(gone.is_ok() || !path.exists(), "{gone:?}");
        let done = match forgery {
            Forgery::LinkToFile => symlink(self.outside().join("task").join(file), path),
            Forgery::LinkToDirectory => symlink(self.outside().join("task"), path),
            Forgery::LinkToNothing => symlink("../nowhere/at all", path),
            Forgery::LinkToItself => symlink(path, path),
            Forgery::Directory => std::fs::create_dir(path),
            Forgery::FullDirectory => std::fs::create_dir_all(path.join("more"))
                .and_then(|()| std::fs::write(path.join("more/file"), "x")),
            Forgery::Pipe => {
                let mode = Mode::RUSR | Mode::WUSR;
                rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0)
                    .map_err(std::io::Error::from)
            }
            Forgery::Text => std::fs::write(path, "b-zzzzzzzzzzzz\n\0\u{1b}[31mnonsense"),
        };
        done.unwrap_or_else(|error| panic!("{forgery:?} at {}: {error}", path.display()));
    }

    /// Calls everything that reads the state directory, and that all is as it was outside.
    fn look(&self, what: &str) {
        let before = self.picture();
        let id = self.id.as_str();
        for args in [
            &["ps", "--all"][..],
            &["ps", "--json"],
            &["show", id],
            &["show", "--json", id],
            &["output", "--all", id],
            &["output", "--raw", id],
            &["output", "--tail", "3", id],
            &["wait", "--timeout", "1s", id],
            &["stop", id],
            &["stop", "--all"],
            &["extend", id, "1h"],
            &["input", id, "text"],
            &["reap", "--dry-run"],
            &["reap"],
            &["run", "--json", "--", COMMAND],
            &["run", "--json", "--", "echo another"],
        ] {
            let done = self.sandbox.siding(args).run();
            assert_sane(&done);
            let told = format!("{}{}", done.stdout_text(), done.stderr_text());
            assert!(!told.contains(TREASURE), "{what}: looked outside: {done}");
            assert!(args.contains(&"--raw") || !told.contains('\u{1b}'), "{what}: {done}");
            if args[0] == "run" {
                assert_eq!(done.code, Some(0), "{what}: {done}");
            }
        }
        assert_eq!(self.picture(), before, "{what}: changed something outside");
    }

    /// Everything outside, with its contents.
    fn picture(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut paths = vec![];
        crate::entries(&self.outside(), &mut paths);
        paths.sort();
        paths
            .into_iter()
            .map(|path| (path.clone(), std::fs::read(path).unwrap_or_default()))
            .collect()
    }
}

/// Puts every forgery in one place, each in a scene of its own.
fn forge_everywhere(name: &str, file: &str) {
    std::thread::scope(|scope| {
        for half in ALL.chunks(ALL.len() / 2) {
            scope.spawn(move || {
                for forgery in half {
                    let scene = Scene::new();
                    scene.forge(*forgery, &scene.place(name), file);
                    scene.look(&format!("{forgery:?} at {name}"));
                }
            });
        }
    });
}

#[test]
fn a_forged_journal_leads_nowhere() {
    forge_everywhere("tasks/ID/journal", "journal");
}

#[test]
fn a_forged_output_leads_nowhere() {
    forge_everywhere("tasks/ID/output", "output");
}

#[test]
fn a_forged_task_leads_nowhere() {
    forge_everywhere("tasks/ID", ".");
}

#[test]
fn a_forged_mark_of_life_leads_nowhere() {
    forge_everywhere("live/ID", "journal");
}

#[test]
fn forged_names_beside_the_real_ones_lead_nowhere() {
    for name in ["live/b-zzzzzzzzzzzz", "tasks/b-zzzzzzzzzzzz", "live/\u{1b}[31m", "tasks/..x"] {
        for forgery in [Forgery::LinkToDirectory, Forgery::Directory, Forgery::Pipe] {
            let scene = Scene::new();
            scene.forge(forgery, &scene.place(name), "journal");
            scene.look(&format!("{forgery:?} at {name}"));
        }
    }
}

#[test]
fn a_forged_memory_of_what_was_seen_leads_nowhere() {
    forge_everywhere("tasks/ID/seen.cli", "output");
}

/// The claim of a command stands where the hash of it says, so it is seen while it runs.
#[test]
fn a_forged_claim_stops_no_command() {
    let scene = Scene::new();
    let args = ["run", "--background", "--json", "--", "read -r x < /dev/zero"];
    let task = Task::of(&scene.sandbox.siding(&args).run().expect_code(0));
    let mut claims = vec![];
    crate::entries(&scene.place("same"), &mut claims);
    let [claim] = &claims[..] else { panic!("one command runs: {claims:?}") };
    let _stopped = scene.sandbox.siding(&["stop", "--grace", "0s", task.id()]).run();
    assert_gone(task.id());
    for forgery in ALL {
        scene.forge(forgery, claim, "journal");
        let args = ["run", "--background", "--json", "--", "read -r x < /dev/zero"];
        let done = scene.sandbox.siding(&args).run();
        assert_sane(&done);
        let task = Task::of(&done.expect_code(0));
        assert_eq!(task.text("/phase"), "running", "{forgery:?}");
        let _stopped = scene.sandbox.siding(&["stop", "--grace", "0s", task.id()]).run();
        assert_gone(task.id());
    }
}
