//! Reads the few keys of the host's settings files that affect siding.
//!
//! Claude Code merges four sources: the user's, the project's, the local and the managed settings.
//! Each valid file becomes two layers, from the lowest precedence to the highest: the older
//! spellings of keys, and above them the current ones. The files are Claude Code's, so a mistake in
//! one of them causes only a warning, and keys that siding does not know are ignored.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use siding_model::duration;
use siding_model::settings::{
    HostKey, InvalidSetting, Layer, Origin, RawValue, SettingsWarning, UnknownHostKey,
};

use super::environment::Environment;
use super::error::SettingsError;
use super::file::{self, FileContent, UnsearchablePolicy};
use super::project;

/// The project's settings, relative to the project directory; usually checked in.
const PROJECT_FILE: &str = ".claude/settings.json";
/// One person's settings for the project; usually not checked in.
const LOCAL_FILE: &str = ".claude/settings.local.json";
/// The administrator's settings, in the directory of managed settings.
const MANAGED_FILE: &str = "managed-settings.json";
/// The directory of additional managed settings, applied in the order of their file names.
const MANAGED_DIRECTORY: &str = "managed-settings.d";

/// The values of all host settings files.
#[derive(Debug, Default)]
pub(super) struct HostSettings {
    /// Two layers for each valid file, one for each spelling of the keys, in ascending order of
    /// precedence.
    pub(super) layers: Vec<Layer>,
    /// The existing files in ascending order of precedence, with invalid files, but without empty
    /// files and project files of other users.
    pub(super) files: Vec<PathBuf>,
    /// Warnings about ignored values and files.
    pub(super) warnings: Vec<SettingsWarning>,
    /// Keys that resemble siding's keys and have no effect.
    pub(super) unknown_keys: Vec<UnknownHostKey>,
}

/// Reads the user's, the project's, the local and the managed settings of the host. `directories`
/// are those of [`project::project_directories`].
pub(super) fn read_settings(environment: &Environment, directories: &[&Path]) -> HostSettings {
    let mut settings = HostSettings::default();
    if let Some(path) = &environment.host_file {
        settings.add_file(path);
    }
    for name in [PROJECT_FILE, LOCAL_FILE] {
        settings.add_project_file(directories, environment.user, name);
    }
    if let Some(directory) = &environment.host_managed_directory {
        settings.add_file(&directory.join(MANAGED_FILE));
        for path in drop_in_files(&directory.join(MANAGED_DIRECTORY)) {
            settings.add_file(&path);
        }
    }
    settings
}

/// Returns the JSON files of a directory, sorted by name; none if the directory is missing or
/// unreadable.
fn drop_in_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // Claude Code skips hidden files, which editors leave behind.
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".json") && !name.starts_with('.')
    });
    paths.sort();
    paths
}

impl HostSettings {
    fn add_file(&mut self, path: &Path) {
        match file::read(path, UnsearchablePolicy::Absent) {
            Ok(None) => {}
            Ok(Some(content)) => self.add_content(path.to_owned(), &content),
            Err(error) => self.add_unusable(path.to_owned(), &error),
        }
    }

    /// Adds the nearest file of this name in the project's directories. A file of another user is
    /// skipped, because its author could set how long commands may run.
    fn add_project_file(&mut self, directories: &[&Path], user: u32, name: &str) {
        let search = project::find_project_file(directories, user, name);
        self.warnings.extend(search.warnings);
        if let Some(error) = &search.mistake {
            self.add_unusable(name.into(), error);
        }
        if let Some((path, content)) = search.found
            && !self.files.contains(&path)
        {
            self.add_content(path, &content);
        }
    }

    fn add_unusable(&mut self, name: PathBuf, error: &SettingsError) {
        let (path, why) = match error {
            // In the home directory the project's file can be the user's file, which was already
            // read.
            SettingsError::Io { path, .. }
            | SettingsError::TooLarge { path }
            | SettingsError::NotAFile { path }
                if self.files.contains(path) =>
            {
                return;
            }
            SettingsError::Io { path, source } => (path, format!("could not be read: {source}")),
            SettingsError::TooLarge { path } => (path, format!("larger than {}", file::FILE_MAX)),
            SettingsError::NotAFile { path } => (path, "not a regular file".to_owned()),
            SettingsError::Invalid(_)
            | SettingsError::Syntax { .. }
            | SettingsError::NotText { .. }
            | SettingsError::NotTextVariable { .. } => (&name, error.to_string()),
        };
        self.warnings.push(SettingsWarning::HostFileUnusable { path: path.clone(), why });
        self.files.push(path.clone());
    }

    /// Adds the content of a file. An empty file is not an error, because the sandbox of Claude
    /// Code (2.1.330) leaves empty files where its commands must not create files.
    fn add_content(&mut self, path: PathBuf, content: &FileContent) {
        if content.bytes.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice::<Map<String, Value>>(&content.bytes) {
            Ok(root) => self.add_values(&path, &root),
            Err(error) => {
                let why = format!("not a JSON object: {error}");
                self.warnings.push(SettingsWarning::HostFileUnusable { path: path.clone(), why });
            }
        }
        self.files.push(path);
    }

    /// Adds the values of one file: for each key the value in the `bash` object, otherwise the
    /// value of the dotted key. An invalid value causes a warning.
    fn add_values(&mut self, path: &Path, root: &Map<String, Value>) {
        let nested = root.get("bash").and_then(Value::as_object);
        // The older spelling of a key goes into a lower layer. If both spellings set a cap, the
        // lower cap applies, because a higher layer cannot raise it.
        let mut layers = [Layer::default(), Layer::default()];
        for key in HostKey::KNOWN_KEYS {
            let value = nested
                .and_then(|bash| bash.get(key.short_name()))
                .or_else(|| root.get(key.name()))
                .filter(|value| !value.is_null());
            let Some(value) = value else { continue };
            let origin = Origin::Host { path: path.to_owned() };
            let layer = &mut layers[usize::from(key.current_spelling() == *key)];
            let set = layer.set(key.key(), &raw_value(*key, value), origin.into());
            if let Err(InvalidSetting::Value { why, .. }) = set {
                let (path, name) = (path.to_owned(), key.name());
                self.warnings.push(SettingsWarning::BadHostValue { path, name, why });
            }
        }
        self.layers.extend(layers);
        let nested_names = nested.into_iter().flat_map(Map::keys).map(String::as_str);
        let dotted_names = root.keys().filter_map(|name| name.strip_prefix(HostKey::KEY_PREFIX));
        let unknown = nested_names
            .chain(dotted_names)
            .filter_map(|name| UnknownHostKey::from_short_name(path, name));
        self.unknown_keys.extend(unknown);
    }
}

/// Converts a value to siding's form, in which a duration needs a unit. The host uses plain
/// seconds.
fn raw_value(key: HostKey, value: &Value) -> RawValue {
    let is_signal = key == HostKey::KillSignal;
    match value {
        Value::String(text) => RawValue::Text(text.clone()),
        Value::Bool(truth) => RawValue::Boolean(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) if is_signal => RawValue::Integer(whole),
            (Some(whole), _) => RawValue::Text(format!("{whole}s")),
            (None, Some(seconds)) if !is_signal => Duration::try_from_secs_f64(seconds)
                .map_or(RawValue::Other("a number out of range"), |duration| {
                    RawValue::Text(duration::format_duration_exact(duration))
                }),
            (None, _) => RawValue::Other("a number with a fraction"),
        },
        Value::Null => RawValue::Other("null"),
        Value::Array(_) => RawValue::Other("an array"),
        Value::Object(_) => RawValue::Other("an object"),
    }
}
