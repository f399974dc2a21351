//! Finds the workspace that contains xtask, and runs programs in it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::metadata::Metadata;

/// The checkout that contains this program, with the facts that the checks need.
pub(crate) struct Workspace {
    /// Absolute path of the root of the checkout.
    pub(crate) root: PathBuf,
    /// The packages and dependencies that `cargo metadata` lists.
    pub(crate) metadata: Metadata,
    /// Whether the environment variable `CI` has a value other than `0`, `false` and the empty
    /// string; no step may then be skipped.
    pub(crate) is_ci: bool,
    /// Path of the cargo that started this program, so that all steps use the same toolchain.
    cargo: OsString,
}

/// The target for which dependencies are checked. Packages that only other systems need are not
/// part of siding.
const TARGET_TRIPLE: &str = "x86_64-unknown-linux-gnu";

impl Workspace {
    /// Finds the workspace that contains this program, and runs `cargo metadata`.
    pub(crate) fn open() -> Result<Self> {
        // `cargo run` sets the variable. Without the variable, the compiled-in path is used, which
        // is wrong if the checkout was moved.
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here.parent().context("xtask lies in the workspace")?.to_path_buf();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let answer = Command::new(&cargo)
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(["--filter-platform", TARGET_TRIPLE])
            .current_dir(&root)
            .stderr(Stdio::inherit())
            .output()
            .context("could not start cargo")?;
        if !answer.status.success() {
            bail!("`cargo metadata --locked` failed");
        }
        Ok(Self {
            metadata: Metadata::parse(&answer.stdout)?,
            is_ci: std::env::var("CI")
                .is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false")),
            root,
            cargo,
        })
    }

    /// Returns a cargo command that runs in the root directory.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> PreparedCommand {
        self.command(&self.cargo, arguments).with_display_name("cargo")
    }

    /// Returns a call of any program in the root directory.
    pub(crate) fn command(
        &self,
        program: impl AsRef<OsStr>,
        arguments: &[&str],
    ) -> PreparedCommand {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&self.root);
        PreparedCommand {
            display_name: program.as_ref().to_string_lossy().into_owned(),
            arguments: arguments.join(" "),
            command,
        }
    }

    /// Returns whether cargo has a subcommand, which may be a component or a program on `PATH`.
    pub(crate) fn has_subcommand(&self, name: &str) -> bool {
        self.cargo(&[name, "--version"]).succeeds_silently()
    }

    /// Lists the Rust files below a directory, sorted.
    pub(crate) fn rust_files(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        self.list_files(directory, "rs")
    }

    /// Lists the files below a directory that have an extension, sorted. Skips the target directory
    /// and hidden directories.
    pub(crate) fn list_files(&self, directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut open = vec![directory.to_path_buf()];
        while let Some(directory) = open.pop() {
            let entries = std::fs::read_dir(&directory)
                .with_context(|| format!("could not list `{}`", directory.display()))?;
            for entry in entries {
                let entry = entry?;
                let path = entry.path();
                let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
                let is_skipped = is_hidden || path == self.metadata.target_directory;
                if entry.file_type()?.is_dir() {
                    open.extend((!is_skipped).then_some(path));
                } else if path.extension().is_some_and(|found| found == extension) {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns a path relative to the root, for messages.
    pub(crate) fn relative<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// A call of a program that has not been started yet.
pub(crate) struct PreparedCommand {
    /// The program's name in the printed command line.
    display_name: String,
    arguments: String,
    command: Command,
}

impl PreparedCommand {
    fn with_display_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.display_name);
        self
    }

    /// Sets an environment variable for this call only.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Prints the command line and runs the command, whose output appears on the terminal. Fails
    /// unless the exit code is 0.
    pub(crate) fn run(mut self) -> Result<()> {
        println!("  $ {} {}", self.display_name, self.arguments);
        let status = self
            .command
            .stdin(Stdio::null())
            .status()
            .with_context(|| format!("could not start `{}`", self.display_name))?;
        if !status.success() {
            bail!("`{} {}` ended with {status}", self.display_name, self.arguments);
        }
        Ok(())
    }

    /// Runs the command and returns its standard output, or `None` if it could not start or failed.
    pub(crate) fn read_stdout(mut self) -> Option<String> {
        let output = self.command.stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs the command without showing its output. Returns whether it started and succeeded.
    pub(crate) fn succeeds_silently(self) -> bool {
        self.read_stdout().is_some()
    }
}
