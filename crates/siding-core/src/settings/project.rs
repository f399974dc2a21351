//! Finding the project's files.

use std::path::{Path, PathBuf};

use siding_model::settings::SettingsWarning;

use super::environment::Environment;
use super::error::SettingsError;
use super::file::{self, FileContent, UnsearchablePolicy};

/// The name of its settings below the project's directories.
pub(super) const SETTINGS_FILE: &str = ".siding/config.toml";
/// The name of its rules for the guard.
pub(super) const RULES_FILE: &str = ".siding/guard.toml";

/// What a search came to.
#[derive(Debug, Default)]
pub(super) struct ProjectSearch {
    /// The nearest file that is used.
    pub(super) found: Option<(PathBuf, FileContent)>,
    /// A file that cannot be read.
    pub(super) mistake: Option<SettingsError>,
    /// Files that were passed by.
    pub(super) warnings: Vec<SettingsWarning>,
}

/// Looks for the file of this name in the working directory and above it, up to and with the first directory
/// that is a repository's root or the user's home.
///
/// A file of another user than root is passed by with a warning: it could name a shell, and in a
/// place like `/tmp` anybody can put one above us.
pub(super) fn find_project_file(environment: &Environment, name: &str) -> ProjectSearch {
    let mut search = ProjectSearch::default();
    let Some(start) = environment.working_directory.as_deref() else {
        return search;
    };
    for directory in start.ancestors() {
        let path = directory.join(name);
        match file::read(&path, UnsearchablePolicy::Absent) {
            Ok(Some(content)) if [0, environment.user].contains(&content.owner) => {
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
        if environment.home.as_deref() == Some(directory) || is_repository_root(directory) {
            break;
        }
    }
    search
}

/// Tells a repository's root. `.git` is a file in worktrees and submodules.
fn is_repository_root(directory: &Path) -> bool {
    directory.join(".git").symlink_metadata().is_ok()
}
