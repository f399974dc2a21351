//! What is to be changed, shown before it is done.

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

/// Lines of a file shown around each change, as git does.
const DIFF_CONTEXT_LINES: usize = 3;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// In.
    Install,
    /// Out.
    Uninstall,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangeKind {
    /// It is as it should be.
    Unchanged,
    /// It was not there.
    Created,
    /// Something in it changes.
    Changed,
    /// Nothing else is in it.
    Removed,
}

/// What is to be changed in one file.
#[derive(Debug)]
struct PlannedChange {
    original: OriginalFile,
    /// The text it is to have; `None` for no file.
    after: Option<String>,
    /// What is remembered from now on.
    record: Option<InstallRecord>,
    /// What becomes of it.
    kind: ChangeKind,
    /// Whether something of siding's is in it afterwards, which another scope has there.
    is_shared: bool,
}

/// What was done to one file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct FileChange {
    /// The file, links followed.
    pub(crate) path: PathBuf,
    /// What became of it, or would.
    pub(crate) fate: ChangeKind,
    /// The change as a unified diff; empty without one.
    pub(crate) diff: String,
    /// Where it is as it was before; null when there was no need.
    pub(crate) backup: Option<PathBuf>,
    /// Earlier backups that say the same as the file says now, and were removed.
    pub(crate) backups_removed: Vec<PathBuf>,
}

impl FileChange {
    /// Returns whether the file is another one than before.
    pub(crate) fn is_change(&self) -> bool {
        self.fate != ChangeKind::Unchanged
    }
}

/// Brings files about, or takes siding out of them. All of it is decided before anything is
/// written; with `dry` it is only shown.
///
/// # Errors
///
/// When a file cannot be read or written. Those before it in the list may have been changed; it is
/// said which.
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
                errln!("siding: before that, `{}` was changed", done.path.display());
            }
        })?);
    }
    if !dry_run && action == Action::Uninstall {
        // When all files are gone, the lowest first: several may have been in one.
        directories.sort();
        for dir in directories.iter().rev() {
            // Somebody else may have something in it by now.
            let _best_effort = std::fs::remove_dir(dir);
        }
    }
    Ok(all)
}

impl PlannedChange {
    /// Finds out what an install changes in a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is not as its host reads it.
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

    /// Finds out what an uninstall changes in a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    fn plan_uninstall(
        target: &TargetFile,
        names: &ProgramNames,
        records: &InstallRecords,
    ) -> Result<Self, InstallError> {
        let original = OriginalFile::read(&target.path)?;
        let record = records.load(original.path())?;
        let Some(old) = original.text()? else {
            let fate = ChangeKind::Unchanged;
            return Ok(Self { original, after: None, record, kind: fate, is_shared: false });
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

    /// Returns what would be done.
    ///
    /// # Errors
    ///
    /// When the file is not UTF-8.
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
        Ok(FileChange { path, fate: self.kind, diff, backup: None, backups_removed: Vec::new() })
    }

    /// Carries an install out.
    ///
    /// # Errors
    ///
    /// When the file was changed meanwhile or cannot be written. It is then as it was.
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
        // Before the file: what is remembered of a change that never came does no harm.
        records.save(self.original.path(), &record)?;
        self.original.replace(self.after.as_deref().unwrap_or_default())?;
        Ok(done)
    }

    /// Carries an uninstall out.
    ///
    /// # Errors
    ///
    /// As [`PlannedChange::apply_install`].
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
        // What is left needs the memory when it goes: both scopes have one page.
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
