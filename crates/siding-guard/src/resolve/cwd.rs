//! Tracks the working directory in which a command runs.

use std::rc::Rc;

use super::assignments::ERREXIT_KEY;
use super::expand::{Field, NONEMPTY_MARKER, UNKNOWN_MARKER};
use super::variables::Variables;
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
            (_, Some(to))
                if to.starts_with(['/', '~', UNKNOWN_MARKER, NONEMPTY_MARKER])
                    || directory == "." =>
            {
                to.to_owned()
            }
            (_, Some(to)) => format!("{directory}/{to}"),
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
            stayed.set("PWD", before.get("PWD", 0).unwrap_or_else(|| ".".to_owned()), true);
            Rc::make_mut(&mut self.variables).merge_variable("PWD", &stayed);
        }
    }

    /// Returns the working directory of the current command, for the current choice among the
    /// possible directories.
    pub(super) fn current_directory(&self) -> String {
        self.variables.get("PWD", self.directory_choice).unwrap_or_else(|| ".".to_owned())
    }

    /// Returns all directories in which the next command may run.
    pub(super) fn possible_directories(&self) -> Vec<String> {
        let all =
            (0..self.variables.count_values("PWD")).map(|choice| self.variables.get("PWD", choice));
        all.flatten().collect()
    }
}
