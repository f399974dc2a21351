//! Finds the project's files.

use std::path::{Path, PathBuf};

use siding_model::settings::SettingsWarning;

use super::environment::Environment;
use super::error::SettingsError;
use super::file::{self, FileContent, UnsearchablePolicy};

/// The project's settings file, relative to the project directory.
pub(super) const SETTINGS_FILE: &str = ".siding/config.toml";
/// The project's guard rules, relative to the project directory.
pub(super) const RULES_FILE: &str = ".siding/guard.toml";

/// The result of a search.
#[derive(Debug, Default)]
pub(super) struct ProjectSearch {
    /// The nearest accepted file.
    pub(super) found: Option<(PathBuf, FileContent)>,
    /// The error of an unreadable file, at which the search ended.
    pub(super) mistake: Option<SettingsError>,
    /// Warnings about skipped files.
    pub(super) warnings: Vec<SettingsWarning>,
}

/// Returns the directories that may hold the project's files: the working directory and its
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

/// Searches for a file of this name in the project's directories, which are those of `user`.
///
/// A file of another user, except root, is skipped with a warning: any user can create one in a
/// directory like `/tmp`, and it could set the shell that runs commands.
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
fn is_repository_root(directory: &Path) -> bool {
    directory.join(".git").symlink_metadata().is_ok()
}
