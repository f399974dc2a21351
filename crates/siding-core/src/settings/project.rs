//! Finds the settings and the guard rules of the project that contains the working directory.

use std::path::{Path, PathBuf};

use siding_model::settings::SettingsWarning;

use super::environment::Environment;
use super::error::SettingsError;
use super::file::{self, FileContent, UnsearchablePolicy};

/// The project's settings file, relative to the project directory.
pub(super) const SETTINGS_FILE: &str = ".siding/config.toml";
/// The project's guard rules, relative to the project directory.
pub(super) const RULES_FILE: &str = ".siding/guard.toml";

/// The file that a search found, and the files that the search skipped or could not read.
#[derive(Debug, Default)]
pub(super) struct ProjectSearch {
    /// The nearest accepted file.
    pub(super) found: Option<(PathBuf, FileContent)>,
    /// The error of an unreadable file, at which the search ended.
    pub(super) mistake: Option<SettingsError>,
    /// Warnings about the files of other users, which the search skipped.
    pub(super) warnings: Vec<SettingsWarning>,
}

/// Returns the directories that may contain the project's files: the working directory and its
/// parents, up to and including the first that is a repository root or the user's home.
pub(super) fn project_directories(environment: &Environment) -> Vec<&Path> {
    let mut directories = Vec::new();
    let start = environment.working_directory.as_deref();
    for directory in start.into_iter().flat_map(Path::ancestors) {
        directories.push(directory);
        if environment.home.as_deref() == Some(directory) || is_repository_root(directory) {
            break;
        }
    }
    directories
}

/// Finds the nearest file of this name that `user` or root owns, in the project's directories.
///
/// A file of any other user is skipped with a warning, because any user can create a file in a
/// directory like `/tmp`, and this file could set the shell that runs commands.
pub(super) fn find_project_file(directories: &[&Path], user: u32, name: &str) -> ProjectSearch {
    let mut search = ProjectSearch::default();
    for directory in directories {
        let path = directory.join(name);
        match file::read(&path, UnsearchablePolicy::Absent) {
            Ok(Some(content)) if [0, user].contains(&content.owner) => {
                search.found = Some((path, content));
                break;
            }
            Ok(Some(content)) => search
                .warnings
                .push(SettingsWarning::ProjectOfOtherUser { path, owner: content.owner }),
            Ok(None) => {}
            Err(mistake) => {
                search.mistake = Some(mistake);
                break;
            }
        }
    }
    search
}

/// Returns whether the directory is a repository root. `.git` is a file in worktrees and
/// submodules.
pub(super) fn is_repository_root(directory: &Path) -> bool {
    directory.join(".git").symlink_metadata().is_ok()
}
