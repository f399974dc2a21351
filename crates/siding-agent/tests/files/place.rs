//! A working directory with an agent in it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use siding_agent::provider::Cancel;
use siding_agent::tool::todo::{Holder, TodoList};
use siding_agent::tool::{Ground, Outcome, Scene, Toolbox};
use tempfile::TempDir;

/// A directory, `work` in it where the agent is, and what else a test puts there.
pub(super) struct Place {
    pub(super) dir: TempDir,
    scene: Scene,
    tools: Toolbox,
}

impl Place {
    pub(super) fn new() -> Self {
        Self::allowing(&[])
    }

    /// Allows more directories beside `work`, which are made.
    pub(super) fn allowing(allowed: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let allowed: Vec<PathBuf> = allowed.iter().map(|name| dir.path().join(name)).collect();
        for directory in &allowed {
            std::fs::create_dir(directory).expect("is made");
        }
        let work = dir.path().join("work");
        std::fs::create_dir(&work).expect("is made");
        let scene = scene(&work, &allowed);
        Self { dir, scene, tools: Toolbox::new().with_files() }
    }

    /// Returns a path below the whole directory.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file below the whole directory, with what is missing above it.
    pub(super) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("is made");
        std::fs::write(path, content).expect("is written");
    }

    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.at(path)).expect("is there")
    }

    pub(super) fn text(&self, path: &str) -> String {
        String::from_utf8(self.get(path)).expect("is text")
    }

    pub(super) fn call(&self, tool: &str, input: Value) -> Outcome {
        self.tools.run(&self.scene, tool, input, &Cancel::default())
    }

    pub(super) fn read(&self, path: &str) -> Outcome {
        self.call("read_file", json!({ "path": path }))
    }

    pub(super) fn write(&self, path: &str, content: &str) -> Outcome {
        self.call("write_file", json!({ "path": path, "content": content }))
    }

    pub(super) fn edit(&self, path: &str, old: &str, new: &str) -> Outcome {
        self.call("edit_file", json!({ "path": path, "old": old, "new": new }))
    }

    /// Returns the names in a directory, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(path)).expect("is a directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("is read").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().expect("is text")).collect();
        names.sort();
        names
    }
}

/// Returns the scene of another agent in the same directory.
pub(super) fn scene(work: &Path, allowed: &[PathBuf]) -> Scene {
    let ground = Ground::new(work, allowed).expect("is a directory");
    Scene::new(ground, TodoList::new(work), Holder::here("agent").expect("has /proc"))
}

#[track_caller]
pub(super) fn refused(outcome: Outcome, parts: &[&str]) {
    let why = outcome.expect_err("is refused");
    for part in parts {
        assert!(why.contains(part), "no {part:?} in {why}");
    }
}

#[track_caller]
pub(super) fn said(outcome: Outcome, parts: &[&str]) -> String {
    let said = outcome.unwrap_or_else(|why| panic!("refused: {why}"));
    for part in parts {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    said
}
