//! Scripts in place of commands of Slurm. Most of them run the real command, and change its result.

use std::path::PathBuf;

use siding_e2e::{Invocation, Sandbox};

use crate::fake_ssh::write_program;

/// A directory of scripts that comes first in the `PATH` of siding.
#[derive(Debug)]
pub(crate) struct FakeSlurm {
    dir: PathBuf,
    path: String,
}

impl FakeSlurm {
    #[track_caller]
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        let dir = sandbox.path("fake-slurm");
        std::fs::create_dir(&dir).expect("test directory");
        let variables = sandbox.environment();
        let path = variables.into_iter().find(|(name, _)| name == "PATH").expect("it is set").1;
        let path = format!("{}:{path}", dir.display());
        Self { dir, path }
    }

    /// Writes the program that siding executes in place of `command`. In `script`, a text of sh(1),
    /// `command` is the real one.
    #[track_caller]
    pub(crate) fn write(&self, command: &str, script: &str) {
        write_program(&self.dir.join(command), &format!("PATH=${{PATH#*:}}\n{script}"));
    }

    /// Sets the `PATH` of a call that starts tasks, whose specifications keep it.
    pub(crate) fn in_path(&self, call: Invocation) -> Invocation {
        call.env("PATH", &self.path)
    }
}
