//! A script that takes the place of ssh, for tests without an sshd.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use siding_e2e::{Invocation, Sandbox};

use crate::ssh_remote::write_executor;

/// A sandbox in which a script takes the place of ssh for the executor `build`.
#[derive(Debug)]
pub(crate) struct FakeSsh<'s> {
    sandbox: &'s Sandbox,
    dir: PathBuf,
}

impl<'s> FakeSsh<'s> {
    /// Writes the settings, and a program `ssh` that runs this text of sh(1).
    #[track_caller]
    pub(crate) fn new(sandbox: &'s Sandbox, script: &str) -> Self {
        let fake = Self { sandbox, dir: sandbox.path("fake-ssh") };
        write_executor(sandbox, "");
        std::fs::create_dir(&fake.dir).expect("test directory");
        fake.replace(script);
        fake
    }

    /// Replaces the script.
    #[track_caller]
    pub(crate) fn replace(&self, script: &str) {
        let new = self.dir.join("new");
        write_program(&new, script);
        // A program that is being executed cannot be written (`ETXTBSY`).
        std::fs::rename(&new, self.dir.join("ssh")).expect("test directory");
    }

    /// Sets the path of siding on the machine that the script reaches.
    #[track_caller]
    pub(crate) fn set_program(&self, program: &Path) {
        let text =
            format!("[executor.build]\nhost = \"remote\"\nprogram = \"{}\"\n", program.display());
        let path = self.sandbox.home().join(".config/siding/config.toml");
        std::fs::write(path, text).expect("test directory");
    }

    /// Prepares a call of siding that uses the script.
    pub(crate) fn siding<A: AsRef<str>>(&self, args: &[A]) -> Invocation {
        let variables = self.sandbox.environment();
        let path = variables.into_iter().find(|(name, _)| name == "PATH").expect("it is set").1;
        self.sandbox.siding(args).env("PATH", format!("{}:{path}", self.dir.display()))
    }
}

/// Writes a program for sh(1).
#[track_caller]
pub(crate) fn write_program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("test directory");
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("test path");
}
