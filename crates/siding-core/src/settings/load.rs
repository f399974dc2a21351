//! Merges all sources into settings.

use std::path::{Path, PathBuf};

use siding_model::settings::{
    Layer, Origin, RawValue, SettingSource, Settings, SettingsWarning, UnknownHostKey,
};

use super::environment::Environment;
use super::error::SettingsError;
use super::file::{self, FILE_MAX, UnsearchablePolicy};
use super::writable_file::{PlannedFile, WritableLayer};
use super::{host, project, toml_file};

/// The settings from all sources, and every mistake in these sources.
#[derive(Debug)]
pub struct LoadedSettings {
    /// The settings in effect. An illegal value is ignored, so that another layer or the default
    /// determines the setting.
    pub settings: Settings,
    /// The illegal values and the unusable files, from the lowest layer to the highest; the values
    /// of one file are in line order.
    pub mistakes: Vec<SettingsError>,
    /// The existing files, from the lowest layer to the highest, except the host's empty files and
    /// project files of other users.
    pub files: Vec<PathBuf>,
    /// Keys of the host's files that resemble siding's keys and have no effect. Unknown keys are
    /// not mistakes, because the files are the host's.
    pub unknown_host_keys: Vec<UnknownHostKey>,
}

/// Returns the settings in effect.
///
/// Values that a lock or the cap did not admit, problems of the host's files, and ignored project
/// files of other users are in [`Settings::warnings`].
///
/// # Errors
///
/// The first mistake in a file, variable or parameter. [`read`] returns all mistakes.
pub fn load(environment: &Environment) -> Result<Settings, SettingsError> {
    let reading = read(environment);
    match reading.mistakes.into_iter().next() {
        Some(mistake) => Err(mistake),
        None => Ok(reading.settings),
    }
}

/// Reads every source, even after a mistake, and returns the settings with all mistakes.
#[must_use]
pub fn read(environment: &Environment) -> LoadedSettings {
    read_sources(environment, None)
}

/// Reads every source as [`read`] does, but with the planned text in place of one file. The effect
/// of a change is thereby known before the change is written.
#[must_use]
pub fn read_planned(environment: &Environment, planned: PlannedFile<'_>) -> LoadedSettings {
    read_sources(environment, Some(planned))
}

fn read_sources(environment: &Environment, planned: Option<PlannedFile<'_>>) -> LoadedSettings {
    let mut sources = Sources::default();
    let directories = project::project_directories(environment);
    let planned_for = |layer| planned.filter(|file| file.layer == layer);
    if let Some(file) = planned_for(WritableLayer::System) {
        sources.add_planned(file);
    } else if let Some(path) = &environment.system_file {
        let origin = Origin::System { path: path.clone() };
        sources.add_file(path.clone(), origin, UnsearchablePolicy::Error);
    }
    sources.add_host(environment, &directories);
    if let Some(file) = planned_for(WritableLayer::User) {
        sources.add_planned(file);
    } else if let Some(path) = &environment.user_file {
        let origin = Origin::User { path: path.clone() };
        sources.add_file(path.clone(), origin, UnsearchablePolicy::Absent);
    }
    if let Some(file) = planned_for(WritableLayer::Project) {
        sources.add_planned(file);
    } else {
        sources.add_project(&directories, environment.user);
    }
    sources.add_variables(environment);
    sources.add_call(environment);
    sources.merge()
}

#[derive(Default)]
struct Sources {
    layers: Vec<Layer>,
    mistakes: Vec<SettingsError>,
    warnings: Vec<SettingsWarning>,
    files: Vec<PathBuf>,
    unknown_host_keys: Vec<UnknownHostKey>,
}

impl Sources {
    fn add_file(&mut self, path: PathBuf, origin: Origin, hidden: UnsearchablePolicy) {
        match file::read(&path, hidden) {
            Ok(Some(content)) => self.add_content(path, &content.bytes, origin),
            Ok(None) => {}
            Err(mistake) => {
                self.mistakes.push(mistake);
                self.files.push(path);
            }
        }
    }

    fn add_planned(&mut self, file: PlannedFile<'_>) {
        let path = file.path.to_owned();
        if file.text.len() as u64 > FILE_MAX.0 {
            self.mistakes.push(SettingsError::TooLarge { path });
        } else {
            let origin = file.layer.origin(path.clone());
            self.add_content(path, file.text.as_bytes(), origin);
        }
    }

    fn add_content(&mut self, path: PathBuf, bytes: &[u8], origin: Origin) {
        let (layer, mistakes) = toml_file::parse_layer(&path, bytes, origin);
        self.layers.push(layer);
        self.mistakes.extend(mistakes);
        self.files.push(path);
    }

    fn add_host(&mut self, environment: &Environment, directories: &[&Path]) {
        let host = host::read_settings(environment, directories);
        self.layers.extend(host.layers);
        self.files.extend(host.files);
        self.warnings.extend(host.warnings);
        self.unknown_host_keys = host.unknown_keys;
    }

    fn add_project(&mut self, directories: &[&Path], user: u32) {
        let search = project::find_project_file(directories, user, project::SETTINGS_FILE);
        self.warnings.extend(search.warnings);
        if let Some(mistake) = search.mistake {
            self.files.extend(mistake.unreadable_file().map(Path::to_owned));
            self.mistakes.push(mistake);
        }
        if let Some((path, content)) = search.found {
            let origin = Origin::Project { path: path.clone() };
            self.add_content(path, &content.bytes, origin);
        }
    }

    fn add_variables(&mut self, environment: &Environment) {
        let mut layer = Layer::default();
        for (key, value) in &environment.variables {
            let name = key.env_var();
            let Some(text) = value.to_str() else {
                self.mistakes.push(SettingsError::NotTextVariable { name });
                continue;
            };
            let place = SettingSource::from(Origin::Environment { name });
            let set = layer.set(*key, &RawValue::Text(text.to_owned()), place);
            self.mistakes.extend(set.err().map(SettingsError::from));
        }
        self.layers.push(layer);
    }

    fn add_call(&mut self, environment: &Environment) {
        let mut layer = Layer::default();
        for call_value in &environment.call {
            let flag = call_value.flag.clone();
            let set = layer.set(call_value.key, &call_value.value, Origin::Call { flag }.into());
            self.mistakes.extend(set.err().map(SettingsError::from));
        }
        self.layers.push(layer);
    }

    fn merge(self) -> LoadedSettings {
        let mut settings = Settings::merge(self.layers);
        for warning in self.warnings {
            settings.add_warning(warning);
        }
        LoadedSettings {
            settings,
            mistakes: self.mistakes,
            files: self.files,
            unknown_host_keys: self.unknown_host_keys,
        }
    }
}
