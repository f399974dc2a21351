//! The settings file of a layer, which `siding config set`, `unset` and `edit` change.

use std::fs::File;
use std::path::Path;

use clap::ValueEnum;
use siding_core::settings::{self, Environment, LoadedSettings, PlannedFile, WritableLayer};
use siding_core::sys::file;
use siding_model::settings::SettingsWarning;

use crate::failure::Failure;
use crate::install::error::InstallError;
use crate::install::file::OriginalFile;
use crate::install::json::TextError;

/// Layer whose file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LayerArg {
    /// The administrator's file, for all users of this machine
    System,
    /// Your own file
    User,
    /// The file of this project, for all its users
    Project,
}

impl LayerArg {
    const fn layer(self) -> WritableLayer {
        match self {
            Self::System => WritableLayer::System,
            Self::User => WritableLayer::User,
            Self::Project => WritableLayer::Project,
        }
    }

    /// Returns the flag of the layer, with a leading space; empty for the default layer.
    pub(super) const fn flag(self) -> &'static str {
        match self {
            Self::System => " --layer system",
            Self::User => "",
            Self::Project => " --layer project",
        }
    }
}

/// A settings file as it was read, and the lock under which it is changed.
#[derive(Debug)]
pub(super) struct LayerFile {
    layer: WritableLayer,
    original: OriginalFile,
    /// The locked directory of the file, for which other calls wait; `None` if it does not exist
    /// yet or cannot be locked. A change by a program without the lock is detected by
    /// [`OriginalFile::replace`].
    lock: Option<File>,
}

impl LayerFile {
    /// Locks and reads the file of a layer, which may be missing.
    pub(super) fn open(environment: &Environment, layer: LayerArg) -> Result<Self, Failure> {
        let layer = layer.layer();
        let path = settings::writable_file(environment, layer)?.ok_or_else(|| {
            Failure::new("the path of the settings file is unknown")
                .with_hint("set HOME or XDG_CONFIG_HOME, or change to a directory that exists")
        })?;
        let lock = lock_directory(&path);
        let mut original = OriginalFile::read(&path)?;
        if layer != WritableLayer::User {
            original.share_if_new();
        }
        Ok(Self { layer, original, lock })
    }

    /// Returns the path, with symbolic links resolved.
    pub(super) fn path(&self) -> &Path {
        self.original.path()
    }

    /// Returns the text; empty if the file is missing.
    pub(super) fn text(&self) -> Result<&str, Failure> {
        Ok(self.original.text()?.unwrap_or_default())
    }

    /// Returns all settings as they would be if the file had this text.
    pub(super) fn plan(&self, environment: &Environment, text: &str) -> LoadedSettings {
        let planned = PlannedFile { layer: self.layer, path: self.path(), text };
        settings::read_planned(environment, planned)
    }

    /// Returns the mistakes in a text for this file, regardless of all other files. The
    /// messages name `path` as the text's file.
    pub(super) fn find_mistakes(&self, path: &Path, text: &str) -> Vec<String> {
        let planned = PlannedFile { layer: self.layer, path, text };
        let reading = settings::read_planned(&Environment::default(), planned);
        reading.mistakes.iter().map(ToString::to_string).collect()
    }

    /// Returns the warnings about values of this file that have no effect.
    pub(super) fn ignored_values<'l>(
        &'l self,
        loaded: &'l LoadedSettings,
    ) -> impl Iterator<Item = &'l SettingsWarning> {
        loaded.settings.warnings().iter().filter(move |warning| {
            let source = warning.ignored_value().map(|(_, source)| source);
            source.is_some_and(|source| source.origin.path() == Some(self.path()))
        })
    }

    /// Returns the failure for a text that cannot be parsed or changed.
    pub(super) fn text_failure(&self, fault: TextError) -> Failure {
        InstallError::InvalidText { path: self.path().to_owned(), fault, strict: false }.into()
    }

    /// Creates the missing directories on the path to the file.
    pub(super) fn create_directories(&self) -> Result<(), Failure> {
        self.original.create_directories()?;
        Ok(())
    }

    /// Releases the lock, so that an open editor blocks no other call.
    pub(super) fn unlock(&mut self) {
        self.lock = None;
    }

    /// Replaces the text atomically, under the lock. Fails if the file has changed since it was
    /// read.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.create_directories()?;
        if self.lock.is_none() {
            self.lock = lock_directory(self.original.path());
        }
        self.original.replace(text)?;
        Ok(())
    }
}

/// Locks the directory of a file, and waits while another process holds the lock.
fn lock_directory(path: &Path) -> Option<File> {
    let directory = File::open(path.parent()?).ok()?;
    file::lock_exclusive(&directory).ok()?;
    Some(directory)
}
