//! Finds the files with guard rules, next to the settings files.
//!
//! This module only finds and reads the files; siding-guard decides what they mean, and which of
//! them may relax a rule.

use std::path::{Path, PathBuf};

use siding_model::settings::{Origin, SettingsWarning};

use super::environment::Environment;
use super::error::SettingsError;
use super::file::{self, FileContent, UnsearchablePolicy};
use super::project;

/// File name of guard rules next to a settings file.
const RULES_FILE_NAME: &str = "guard.toml";

/// One file with guard rules.
#[derive(Debug)]
pub struct RuleFile {
    /// The origin of the file: the administrator, the user or the project.
    pub origin: Origin,
    /// The path of the file, for messages about its rules.
    pub path: PathBuf,
    /// The content of the file, which siding-guard parses.
    pub text: String,
}

/// All rule files, from the lowest layer to the highest.
#[derive(Debug, Default)]
pub struct RuleFiles {
    /// The files that could be read and are UTF-8.
    pub files: Vec<RuleFile>,
    /// The errors of the other files, each with the origin of the file.
    pub mistakes: Vec<(Origin, SettingsError)>,
    /// Warnings about the project files of other users, which are not used.
    pub warnings: Vec<SettingsWarning>,
}

/// Reads `guard.toml` next to the administrator's and the user's settings, and the nearest
/// `.siding/guard.toml`, which is found like the project's settings.
#[must_use]
pub fn read_rule_files(environment: &Environment) -> RuleFiles {
    let mut found = RuleFiles::default();
    if let Some(path) = &environment.system_file {
        let path = path.with_file_name(RULES_FILE_NAME);
        let content = file::read(&path, UnsearchablePolicy::Error);
        found.add(Origin::System { path: path.clone() }, path, content);
    }
    if let Some(path) = &environment.user_file {
        let path = path.with_file_name(RULES_FILE_NAME);
        let content = file::read(&path, UnsearchablePolicy::Absent);
        found.add(Origin::User { path: path.clone() }, path, content);
    }
    let directories = project::project_directories(environment);
    let search = project::find_project_file(&directories, environment.user, project::RULES_FILE);
    found.warnings.extend(search.warnings);
    if let Some(mistake) = search.mistake {
        let path = mistake.unreadable_file().map(Path::to_owned).unwrap_or_default();
        found.mistakes.push((Origin::Project { path }, mistake));
    }
    if let Some((path, content)) = search.found {
        found.add(Origin::Project { path: path.clone() }, path, Ok(Some(content)));
    }
    found
}

impl RuleFiles {
    fn add(
        &mut self,
        origin: Origin,
        path: PathBuf,
        content: Result<Option<FileContent>, SettingsError>,
    ) {
        let text = content.and_then(|content| {
            let text = content.map(|content| String::from_utf8(content.bytes)).transpose();
            text.map_err(|error| {
                let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
                SettingsError::NotText { path: path.clone(), line }
            })
        });
        match text {
            Ok(Some(text)) => self.files.push(RuleFile { origin, path, text }),
            Ok(None) => {}
            Err(mistake) => self.mistakes.push((origin, mistake)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn rule_files_are_ordered_from_the_lowest_layer_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        for name in ["etc", "user", "project/.siding", "project/sub"] {
            fs::create_dir_all(at(name)).expect("made");
        }
        for name in ["etc/guard.toml", "user/guard.toml", "project/.siding/guard.toml"] {
            fs::write(at(name), name).expect("written");
        }
        let environment = Environment {
            system_file: Some(at("etc/config.toml")),
            user_file: Some(at("user/config.toml")),
            working_directory: Some(at("project/sub")),
            user: crate::sys::process::effective_uid(),
            ..Environment::default()
        };
        let found = read_rule_files(&environment);
        let texts: Vec<_> = found.files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(texts, ["etc/guard.toml", "user/guard.toml", "project/.siding/guard.toml"]);
        let layers: Vec<_> = found.files.iter().map(|file| file.origin.layer()).collect();
        assert_eq!(layers, ["system", "user", "project"]);

        fs::write(at("user/guard.toml"), b"a\n\xff").expect("written");
        let found = read_rule_files(&environment);
        assert_eq!((found.files.len(), found.mistakes.len()), (2, 1));
        assert!(found.mistakes[0].1.to_string().ends_with("line 2: not UTF-8"));

        let project = at("project/.siding/guard.toml");
        fs::remove_file(&project).expect("removed");
        fs::create_dir(&project).expect("made");
        let found = read_rule_files(&environment);
        assert_eq!(found.mistakes.len(), 2, "{found:?}");
        assert_eq!(found.mistakes[1].0, Origin::Project { path: project });
    }
}
