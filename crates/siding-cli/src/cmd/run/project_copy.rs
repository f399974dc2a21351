//! The flags of `siding run` that copy files to the machine of an executor and back.

use std::path::PathBuf;

use siding_core::remote::{CopyError, FileCopies, SyncPlan};
use siding_core::store::StateDir;
use siding_core::task::run::ExecutorChoice;
use siding_core::task::run::request::WorkingDirectory;
use siding_model::advice::Dialect;
use siding_model::file_sync::parse_fetch_path;
use siding_model::text::one_line;

use crate::failure::Failure;
use crate::stderr;

/// Files that are copied to the machine of an executor before the command, and back after it.
#[derive(Debug, Default, clap::Args)]
pub(super) struct CopyArgs {
    /// Copy the project to the machine before the command starts there: the files of the git work
    /// tree that git does not ignore, and `sync` of the executor. Files that were copied earlier
    /// and no longer exist here are removed there
    #[arg(long)]
    sync: bool,
    /// Copy this file or directory too, ignored by git or not; implies --sync; may be repeated
    #[arg(long, value_name = "PATH")]
    sync_path: Vec<PathBuf>,
    /// Copy this file or directory back when the command has ended; relative to the working
    /// directory; may be repeated
    #[arg(long, value_name = "PATH", value_parser = parse_fetch_path)]
    fetch: Vec<String>,
}

impl CopyArgs {
    /// Returns the paths that are copied back.
    pub(super) fn fetch_paths(&self) -> Vec<String> {
        self.fetch.clone()
    }

    fn copies(&self) -> FileCopies {
        let (sync_paths, fetch) = (self.sync_path.clone(), self.fetch.clone());
        FileCopies { sync: self.sync, sync_paths, fetch }
    }

    /// Checks that no files are copied for a command that runs on this machine, or in a cluster that
    /// shares the files of this machine.
    pub(super) fn check(&self, executor: Option<&ExecutorChoice>) -> Result<(), Failure> {
        self.copies().check(executor, Dialect::Commands).map_err(|error| {
            let failure = Failure::new(error.to_string());
            match error {
                CopyError::ThisMachine { .. } => failure.with_hint(
                    "name another machine with `--on EXECUTOR`; `siding executors` lists them",
                ),
                CopyError::SharedFiles { .. } => failure,
            }
        })
    }

    /// Copies the project to the machine of the executor, if the call requests it. Returns the
    /// executor with the directory of the copy. Shows a line to a person who waits at a terminal.
    pub(super) fn copy_project(
        &self,
        root: &StateDir,
        executor: ExecutorChoice,
        (cwd, is_person): (&WorkingDirectory, bool),
    ) -> Result<ExecutorChoice, Failure> {
        if !self.copies().copies_project() {
            return Ok(executor);
        }
        let plan = SyncPlan::for_executor(&executor, cwd, &self.sync_path)?;
        let columns = stderr::terminal_columns().filter(|_| is_person);
        if let Some(columns) = columns {
            let files = if plan.file_count() == 1 { "file" } else { "files" };
            let line = format!("copying {} {files} to {}", plan.file_count(), executor.name());
            stderr::show_progress(&one_line(&line, columns.saturating_sub(1)));
        }
        let result = plan.run(root);
        if columns.is_some() {
            stderr::clear_progress();
        }
        Ok(executor.in_directory(result?))
    }
}
