//! The settings files that siding changes on request, and their new text.

use std::path::{Path, PathBuf};

use siding_model::settings::Origin;

use super::environment::Environment;
use super::error::SettingsError;
use super::project;

/// A layer whose settings file siding can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritableLayer {
    /// The administrator's file.
    System,
    /// The user's own file.
    User,
    /// The file of the project that contains the working directory.
    Project,
}

/// A settings file with the text that a change would write to it.
#[derive(Debug, Clone, Copy)]
pub struct PlannedFile<'t> {
    /// The layer of the file.
    pub layer: WritableLayer,
    /// The path of the file, which need not exist.
    pub path: &'t Path,
    /// The planned text.
    pub text: &'t str,
}

impl WritableLayer {
    /// Returns the origin of the values in a file of this layer.
    pub(super) fn origin(self, path: PathBuf) -> Origin {
        match self {
            Self::System => Origin::System { path },
            Self::User => Origin::User { path },
            Self::Project => Origin::Project { path },
        }
    }
}

/// Returns the path of a layer's settings file, which need not exist; `None` if the path is
/// unknown, for example because `HOME` is not set.
///
/// The file of a project is the nearest existing one. If there is none, the path is in the root of
/// the repository or, outside a repository, in the working directory.
///
/// # Errors
///
/// The nearest file of the project cannot be read.
pub fn writable_file(
    environment: &Environment,
    layer: WritableLayer,
) -> Result<Option<PathBuf>, SettingsError> {
    match layer {
        WritableLayer::System => Ok(environment.system_file.clone()),
        WritableLayer::User => Ok(environment.user_file.clone()),
        WritableLayer::Project => {
            let directories = project::project_directories(environment);
            let search =
                project::find_project_file(&directories, environment.user, project::SETTINGS_FILE);
            if let Some(mistake) = search.mistake {
                return Err(mistake);
            }
            let root =
                directories.last().filter(|directory| project::is_repository_root(directory));
            let new = root.or(directories.first()).map(|dir| dir.join(project::SETTINGS_FILE));
            Ok(search.found.map(|(path, _)| path).or(new))
        }
    }
}
