//! Plans changes to files, shows them as diffs, and makes them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use similar::TextDiff;

use super::error::InstallError;
use super::file::OriginalFile;
use super::json::Dialect;
use super::program::ProgramNames;
use super::record::InstallRecord;
use super::record_store::InstallRecords;
use super::target::{FileContent, TargetFile};
use crate::failure::Failure;

/// Number of context lines around each change, as in git.
const DIFF_CONTEXT_LINES: usize = 3;

/// Whether to install or uninstall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// Add siding.
    Install,
    /// Remove siding.
    Uninstall,
}

/// The change of a file by an install or uninstall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangeKind {
    /// The file already has the intended content.
    Unchanged,
    /// The file did not exist.
    Created,
    /// The file's content changes.
    Changed,
    /// The file is removed, because it contains only what siding added.
    Removed,
}

/// A planned change to one file.
#[derive(Debug)]
struct PlannedChange {
    original: OriginalFile,
    /// The new text; `None` if an uninstall removes the file, or finds that it does not exist.
    after: Option<String>,
    /// For an install, the record to save; for an uninstall, the record that the install saved,
    /// if it still exists.
    record: Option<InstallRecord>,
    kind: ChangeKind,
    /// Whether the file still contains entries of siding for another scope.
    is_shared: bool,
}

/// A change to one file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct FileChange {
    /// The file, with symbolic links resolved.
    pub(crate) path: PathBuf,
    /// The change; with `--dry-run`, the change that a run without the flag makes.
    pub(crate) change: ChangeKind,
    /// The change as a unified diff; empty if there is none.
    pub(crate) diff: String,
    /// Path of the backup; null if none was made.
    pub(crate) backup: Option<PathBuf>,
    /// Earlier backups, which were removed because their text equals the new text.
    pub(crate) backups_removed: Vec<PathBuf>,
}

impl FileChange {
    /// Returns whether the file was or would be changed.
    pub(crate) fn is_change(&self) -> bool {
        self.change != ChangeKind::Unchanged
    }
}

/// Installs siding into files, or removes siding from them. Every change is planned before any file
/// is written; with `dry_run` no file is written.
///
/// # Errors
///
/// A file cannot be read, parsed or written. The files before it in the list may have been changed;
/// a message names them.
pub(crate) fn apply_plan(
    targets: &[TargetFile],
    action: Action,
    dry_run: bool,
    names: &ProgramNames,
    records: &InstallRecords,
) -> Result<Vec<FileChange>, InstallError> {
    let changes = targets.iter().map(|target| match action {
        Action::Install => PlannedChange::plan_install(target, names, records),
        Action::Uninstall => PlannedChange::plan_uninstall(target, names, records),
    });
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    let made = changes.iter().filter_map(|change| change.record.as_ref());
    let mut directories: Vec<PathBuf> = made.flat_map(|made| made.directories.clone()).collect();
    let mut all: Vec<FileChange> = Vec::new();
    for change in changes {
        let done = match (dry_run, action) {
            (true, _) => change.preview(),
            (false, Action::Install) => change.apply_install(records),
            (false, Action::Uninstall) => change.apply_uninstall(records),
        };
        all.push(done.inspect_err(|_| {
            for done in all.iter().filter(|done| done.is_change()) {
                errln!("siding: `{}` was already changed", done.path.display());
            }
        })?);
    }
    if !dry_run && action == Action::Uninstall {
        // Directories are removed after all files, because several files may share one. The deepest
        // comes first, because only an empty directory can be removed.
        directories.sort();
        for dir in directories.iter().rev() {
            // Fails if another program has put a file into the directory; the directory then stays.
            let _best_effort = std::fs::remove_dir(dir);
        }
    }
    Ok(all)
}

impl PlannedChange {
    /// Plans an install into a file.
    ///
    /// # Errors
    ///
    /// The file or the installation record cannot be read, or the file's text is not valid for its
    /// host.
    fn plan_install(
        target: &TargetFile,
        names: &ProgramNames,
        records: &InstallRecords,
    ) -> Result<Self, InstallError> {
        let original = OriginalFile::read(&target.path)?;
        let mut record = records.load(original.path())?.unwrap_or_default();
        let old = original.text()?;
        let after = target.text_with_siding(old, names, &mut record).map_err(|fault| {
            let strict = target.is_strict();
            InstallError::InvalidText { path: original.path().to_owned(), fault, strict }
        })?;
        let kind = match old {
            None => ChangeKind::Created,
            Some(old) if old == after => ChangeKind::Unchanged,
            Some(_) => ChangeKind::Changed,
        };
        Ok(Self { original, after: Some(after), record: Some(record), kind, is_shared: false })
    }

    /// Plans an uninstall from a file.
    ///
    /// # Errors
    ///
    /// The file or the installation record cannot be read, or the file's text cannot be parsed.
    fn plan_uninstall(
        target: &TargetFile,
        names: &ProgramNames,
        records: &InstallRecords,
    ) -> Result<Self, InstallError> {
        let original = OriginalFile::read(&target.path)?;
        let record = records.load(original.path())?;
        let Some(old) = original.text()? else {
            let change = ChangeKind::Unchanged;
            return Ok(Self { original, after: None, record, kind: change, is_shared: false });
        };
        let after = target.text_without_siding(old, names, record.as_ref()).map_err(|fault| {
            InstallError::InvalidText { path: original.path().to_owned(), fault, strict: false }
        })?;
        let kind = match &after {
            None => ChangeKind::Removed,
            Some(after) if after == old => ChangeKind::Unchanged,
            Some(_) => ChangeKind::Changed,
        };
        let is_shared = after.as_ref().is_some_and(|after| target.is_shared(after, names));
        Ok(Self { original, after, record, kind, is_shared })
    }

    /// Returns the change without making it.
    ///
    /// # Errors
    ///
    /// The file is not UTF-8.
    fn preview(&self) -> Result<FileChange, InstallError> {
        let path = self.original.path().to_owned();
        let old = self.original.text()?.unwrap_or_default();
        let new = self.after.as_deref().unwrap_or_default();
        let diff = if self.kind == ChangeKind::Unchanged {
            String::new()
        } else {
            let name = path.display().to_string();
            let none = "/dev/null".to_owned();
            let before = if self.kind == ChangeKind::Created { &none } else { &name };
            let after = if self.kind == ChangeKind::Removed { &none } else { &name };
            TextDiff::from_lines(old, new)
                .unified_diff()
                .context_radius(DIFF_CONTEXT_LINES)
                .header(before, after)
                .to_string()
        };
        Ok(FileChange { path, change: self.kind, diff, backup: None, backups_removed: Vec::new() })
    }

    /// Backs up the file, saves its installation record, and then writes the planned text.
    ///
    /// # Errors
    ///
    /// The file was changed in the meantime, or it, its backup or its record cannot be written. The
    /// file is then unchanged, unless only the fsync(2) of its directory failed.
    fn apply_install(mut self, records: &InstallRecords) -> Result<FileChange, InstallError> {
        let mut done = self.preview()?;
        if self.kind == ChangeKind::Unchanged {
            return Ok(done);
        }
        let directories = self.original.create_directories()?;
        done.backup = self.original.back_up()?;
        let mut record = self.record.take().unwrap_or_default();
        if !directories.is_empty() {
            record.directories = directories;
        }
        // The record is saved before the file is written, because a record of a change that was
        // never made does no harm.
        records.save(self.original.path(), &record)?;
        self.original.replace(self.after.as_deref().unwrap_or_default())?;
        Ok(done)
    }

    /// Writes the planned text or removes the file, and removes the installation record unless
    /// another scope needs it.
    ///
    /// # Errors
    ///
    /// The file was changed in the meantime, or it, its backup, an earlier backup or its record
    /// cannot be written or removed. In the last two cases, the file has already been changed.
    fn apply_uninstall(self, records: &InstallRecords) -> Result<FileChange, InstallError> {
        let mut done = self.preview()?;
        if self.kind != ChangeKind::Unchanged {
            match &self.after {
                None => self.original.remove()?,
                Some(text) => {
                    done.backups_removed = self.original.backups_equal_to(text);
                    if done.backups_removed.is_empty() {
                        done.backup = self.original.back_up()?;
                    }
                    self.original.replace(text)?;
                }
            }
        }
        for backup in &done.backups_removed {
            std::fs::remove_file(backup).map_err(InstallError::io("remove", backup))?;
        }
        // A remaining scope needs the record for its own uninstall, because both scopes share one
        // record.
        if !self.is_shared {
            records.remove(self.original.path())?;
        }
        Ok(done)
    }
}

impl TargetFile {
    fn is_strict(&self) -> bool {
        matches!(self.content, FileContent::Json { dialect: Dialect::Strict, .. })
    }
}

impl From<InstallError> for Failure {
    fn from(error: InstallError) -> Self {
        let failure = Self::new(&error);
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
