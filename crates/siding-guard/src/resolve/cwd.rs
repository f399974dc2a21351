//! Tracks the working directory in which a command runs.

use std::rc::Rc;

use super::assignments::ERREXIT_KEY;
use super::expand::{Field, NONEMPTY_MARKER, UNKNOWN_MARKER};
use super::variables::{DIRECTORY_KEY, Variables};
use super::walk::Walker;

impl Walker {
    /// Records the directory that `cd`, `pushd` or `popd` selects. This directory becomes the
    /// working directory when the command has been walked for all values of its variables.
    pub(super) fn follow_cd(&mut self, program: &str, args: &[Field]) {
        let to = args.iter().find(|field| !field.text.starts_with('-') || field.text == "-");
        let directory = self.current_directory();
        let before = || self.variables.get("OLDPWD", 0).unwrap_or_else(|| ".".to_owned());
        let to = match (program, to.map(|field| field.text.as_str())) {
            ("popd", _) | ("pushd", None) | (_, Some("-")) => before(),
            (_, None) => "~".to_owned(),
            (_, Some(to)) => join_directory(&directory, to),
        };
        if !self.cd_targets.contains(&to) {
            self.cd_targets.push(to);
        }
    }

    /// Adds the old directory to the possible directories after a `cd` that may fail. In `cd x; rm
    /// -rf *`, `rm` runs in the old directory if the `cd` fails.
    pub(super) fn allow_failed_cd(&mut self, before: &Rc<Variables>) {
        let is_strict = self.variables.get(ERREXIT_KEY, 0).is_some();
        let is_there = |directory: &String| {
            directory.starts_with(NONEMPTY_MARKER)
                || directory.starts_with(UNKNOWN_MARKER)
                || directory.ends_with("..")
                || matches!(directory.as_str(), "." | "/" | "~" | "/tmp")
        };
        if !is_strict && !self.possible_directories().iter().all(is_there) {
            let mut stayed = Variables::default();
            let directory = before.get(DIRECTORY_KEY, 0).unwrap_or_else(|| ".".to_owned());
            stayed.set(DIRECTORY_KEY, directory, true);
            Rc::make_mut(&mut self.variables).merge_variable(DIRECTORY_KEY, &stayed);
        }
    }

    /// Returns the working directory of the current command, for the current choice among the
    /// possible directories.
    pub(super) fn current_directory(&self) -> String {
        self.variables.get(DIRECTORY_KEY, self.directory_choice).unwrap_or_else(|| ".".to_owned())
    }

    /// Returns all directories in which the next command may run.
    pub(super) fn possible_directories(&self) -> Vec<String> {
        let choices = 0..self.variables.count_values(DIRECTORY_KEY);
        choices.filter_map(|choice| self.variables.get(DIRECTORY_KEY, choice)).collect()
    }
}

/// Returns the directory `to` as seen from `directory`.
pub(super) fn join_directory(directory: &str, to: &str) -> String {
    let is_anchored = to.starts_with(['/', '~', UNKNOWN_MARKER, NONEMPTY_MARKER]);
    if is_anchored || directory == "." { to.to_owned() } else { format!("{directory}/{to}") }
}
