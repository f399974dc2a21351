//! A temporary working directory, in which a test calls an agent's tools.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use siding_agent::cancel_flag::CancelFlag;
use siding_agent::tool::todo::{TodoList, TodoOwner};
use siding_agent::tool::{AgentToolContext, AllowedRoots, ToolOutcome, Toolbox};
use tempfile::TempDir;

/// A temporary directory that contains the agent's working directory `work` and other files of a
/// test.
pub(super) struct Workspace {
    pub(super) dir: TempDir,
    context: AgentToolContext,
    tools: Toolbox,
}

impl Workspace {
    pub(super) fn new() -> Self {
        Self::with_allowed(&[])
    }

    /// Creates a workspace whose tools may also access these directories.
    pub(super) fn with_allowed(allowed: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("create a temporary directory");
        let allowed: Vec<PathBuf> = allowed.iter().map(|name| dir.path().join(name)).collect();
        for directory in &allowed {
            std::fs::create_dir(directory).expect("create the directory");
        }
        let work = dir.path().join("work");
        std::fs::create_dir(&work).expect("create the directory");
        let scene = tool_context(&work, &allowed);
        Self { dir, context: scene, tools: Toolbox::new().with_file_tools() }
    }

    /// Returns a path below the temporary directory.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file below the temporary directory. Missing parent directories are created.
    pub(super) fn put_file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("the path has a parent"))
            .expect("create the directory");
        std::fs::write(path, content).expect("write the file");
    }

    pub(super) fn read_bytes(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.path(path)).expect("read the file")
    }

    pub(super) fn read_text(&self, path: &str) -> String {
        String::from_utf8(self.read_bytes(path)).expect("valid UTF-8")
    }

    pub(super) fn call(&self, tool: &str, input: Value) -> ToolOutcome {
        self.tools.run(&self.context, tool, input, &CancelFlag::default())
    }

    pub(super) fn read(&self, path: &str) -> ToolOutcome {
        self.call("read_file", json!({ "path": path }))
    }

    pub(super) fn write(&self, path: &str, content: &str) -> ToolOutcome {
        self.call("write_file", json!({ "path": path, "content": content }))
    }

    pub(super) fn edit(&self, path: &str, old: &str, new: &str) -> ToolOutcome {
        self.call("edit_file", json!({ "path": path, "old": old, "new": new }))
    }

    /// Returns the sorted names of the entries in a directory.
    pub(super) fn file_names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).expect("read the directory");
        let name =
            |entry: std::io::Result<std::fs::DirEntry>| entry.expect("read the entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().expect("valid UTF-8")).collect();
        names.sort();
        names
    }
}

/// Returns the tool context of a new agent with this working directory.
pub(super) fn tool_context(work: &Path, allowed: &[PathBuf]) -> AgentToolContext {
    let ground = AllowedRoots::new(work, allowed).expect("open the directory");
    AgentToolContext::new(
        ground,
        TodoList::new(work),
        TodoOwner::current("agent").expect("/proc is mounted"),
    )
}

#[track_caller]
pub(super) fn assert_refused(outcome: ToolOutcome, parts: &[&str]) {
    let why = outcome.expect_err("the call is refused");
    for part in parts {
        assert!(why.contains(part), "no {part:?} in {why}");
    }
}

#[track_caller]
pub(super) fn assert_accepted(outcome: ToolOutcome, parts: &[&str]) -> String {
    let text = outcome.unwrap_or_else(|why| panic!("refused: {why}"));
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    text
}
