//! What is to be changed, shown before it is done.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use similar::TextDiff;

use super::error::InstallError;
use super::file::Original;
use super::json::Dialect;
use super::made::Made;
use super::memory::Memory;
use super::program::Names;
use super::target::{Content, Target};
use crate::failure::Failure;

/// Lines of a file shown around each change, as git does.
const CONTEXT: usize = 3;

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
pub(crate) enum Fate {
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
struct Change {
    original: Original,
    /// The text it is to have; `None` for no file.
    after: Option<String>,
    /// What is remembered from now on.
    made: Option<Made>,
    /// What becomes of it.
    fate: Fate,
    /// Whether something of siding's is in it afterwards, which another scope has there.
    is_shared: bool,
}

/// What was done to one file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Done {
    /// The file, links followed.
    pub(crate) path: PathBuf,
    /// What became of it, or would.
    pub(crate) fate: Fate,
    /// The change as a unified diff; empty without one.
    pub(crate) diff: String,
    /// Where it is as it was before; null when there was no need.
    pub(crate) backup: Option<PathBuf>,
    /// Earlier backups that say the same as the file says now, and were removed.
    pub(crate) backups_removed: Vec<PathBuf>,
}

impl Done {
    /// Returns whether the file is another one than before.
    pub(crate) fn is_change(&self) -> bool {
        self.fate != Fate::Unchanged
    }
}

/// Brings files about, or takes siding out of them. All of it is decided before anything is
/// written; with `dry` it is only shown.
///
/// # Errors
///
/// When a file cannot be read or written. Those before it in the list may have been changed; it is
/// said which.
pub(crate) fn carry_out(
    targets: &[Target],
    action: Action,
    dry: bool,
    names: &Names,
    memory: &Memory,
) -> Result<Vec<Done>, InstallError> {
    let changes = targets.iter().map(|target| match action {
        Action::Install => Change::install(target, names, memory),
        Action::Uninstall => Change::uninstall(target, names, memory),
    });
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    let made = changes.iter().filter_map(|change| change.made.as_ref());
    let mut directories: Vec<PathBuf> = made.flat_map(|made| made.directories.clone()).collect();
    let mut all: Vec<Done> = Vec::new();
    for change in changes {
        let done = match (dry, action) {
            (true, _) => change.show(),
            (false, Action::Install) => change.install_now(memory),
            (false, Action::Uninstall) => change.uninstall_now(memory),
        };
        all.push(done.inspect_err(|_| {
            for done in all.iter().filter(|done| done.is_change()) {
                errln!("siding: before that, `{}` was changed", done.path.display());
            }
        })?);
    }
    if !dry && action == Action::Uninstall {
        // When all files are gone, the lowest first: several may have been in one.
        directories.sort();
        for dir in directories.iter().rev() {
            // Somebody else may have something in it by now.
            let _in_use = std::fs::remove_dir(dir);
        }
    }
    Ok(all)
}

impl Change {
    /// Finds out what an install changes in a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is not as its host reads it.
    fn install(target: &Target, names: &Names, memory: &Memory) -> Result<Self, InstallError> {
        let original = Original::read(&target.path)?;
        let mut made = memory.recall(original.path())?.unwrap_or_default();
        let old = original.text()?;
        let after = target.installed(old, names, &mut made).map_err(|fault| {
            let strict = target.is_strict();
            InstallError::Text { path: original.path().to_owned(), fault, strict }
        })?;
        let fate = match old {
            None => Fate::Created,
            Some(old) if old == after => Fate::Unchanged,
            Some(_) => Fate::Changed,
        };
        Ok(Self { original, after: Some(after), made: Some(made), fate, is_shared: false })
    }

    /// Finds out what an uninstall changes in a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    fn uninstall(target: &Target, names: &Names, memory: &Memory) -> Result<Self, InstallError> {
        let original = Original::read(&target.path)?;
        let made = memory.recall(original.path())?;
        let Some(old) = original.text()? else {
            let fate = Fate::Unchanged;
            return Ok(Self { original, after: None, made, fate, is_shared: false });
        };
        let after = target.removed(old, names, made.as_ref()).map_err(|fault| {
            InstallError::Text { path: original.path().to_owned(), fault, strict: false }
        })?;
        let fate = match &after {
            None => Fate::Removed,
            Some(after) if after == old => Fate::Unchanged,
            Some(_) => Fate::Changed,
        };
        let is_shared = after.as_ref().is_some_and(|after| target.is_shared(after, names));
        Ok(Self { original, after, made, fate, is_shared })
    }

    /// Returns what would be done.
    ///
    /// # Errors
    ///
    /// When the file is not UTF-8.
    fn show(&self) -> Result<Done, InstallError> {
        let path = self.original.path().to_owned();
        let old = self.original.text()?.unwrap_or_default();
        let new = self.after.as_deref().unwrap_or_default();
        let diff = if self.fate == Fate::Unchanged {
            String::new()
        } else {
            let name = path.display().to_string();
            let none = "/dev/null".to_owned();
            let before = if self.fate == Fate::Created { &none } else { &name };
            let after = if self.fate == Fate::Removed { &none } else { &name };
            TextDiff::from_lines(old, new)
                .unified_diff()
                .context_radius(CONTEXT)
                .header(before, after)
                .to_string()
        };
        Ok(Done { path, fate: self.fate, diff, backup: None, backups_removed: Vec::new() })
    }

    /// Carries an install out.
    ///
    /// # Errors
    ///
    /// When the file was changed meanwhile or cannot be written. It is then as it was.
    fn install_now(mut self, memory: &Memory) -> Result<Done, InstallError> {
        let mut done = self.show()?;
        if self.fate == Fate::Unchanged {
            return Ok(done);
        }
        let directories = self.original.make_directory()?;
        done.backup = self.original.back_up()?;
        let mut made = self.made.take().unwrap_or_default();
        if !directories.is_empty() {
            made.directories = directories;
        }
        // Before the file: what is remembered of a change that never came does no harm.
        memory.keep(self.original.path(), &made)?;
        self.original.replace(self.after.as_deref().unwrap_or_default())?;
        Ok(done)
    }

    /// Carries an uninstall out.
    ///
    /// # Errors
    ///
    /// As [`Change::install_now`].
    fn uninstall_now(self, memory: &Memory) -> Result<Done, InstallError> {
        let mut done = self.show()?;
        if self.fate != Fate::Unchanged {
            match &self.after {
                None => self.original.remove()?,
                Some(text) => {
                    done.backups_removed = self.original.backups_of(text);
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
            memory.forget(self.original.path())?;
        }
        Ok(done)
    }
}

impl Target {
    fn is_strict(&self) -> bool {
        matches!(self.content, Content::Json { dialect: Dialect::Strict, .. })
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
