//! In which directory commands run.

use std::rc::Rc;

use super::expand::{ANY, Field, SURE};
use super::values::ERREXIT;
use super::variables::Variables;
use super::walk::Walker;

impl Walker {
    /// Follows `cd`, `pushd` and `popd`.
    pub(super) fn enter(&mut self, program: &str, args: &[Field]) {
        let to = args.iter().find(|field| !field.text.starts_with('-') || field.text == "-");
        let directory = self.directory();
        let before = || self.variables.get("OLDPWD", 0).unwrap_or_else(|| ".".to_owned());
        let to = match (program, to.map(|field| field.text.as_str())) {
            ("popd", _) | ("pushd", None) | (_, Some("-")) => before(),
            (_, None) => "~".to_owned(),
            (_, Some(to)) if to.starts_with(['/', '~', ANY, SURE]) || directory == "." => {
                to.to_owned()
            }
            (_, Some(to)) => format!("{directory}/{to}"),
        };
        if !self.entered.contains(&to) {
            self.entered.push(to);
        }
    }

    /// A `cd` that fails leaves the next command where the one before was: `cd x; rm -rf *`.
    pub(super) fn may_have_stayed(&mut self, before: &Rc<Variables>) {
        let is_strict = self.variables.get(ERREXIT, 0).is_some();
        let is_there = |directory: &String| {
            directory.starts_with(SURE)
                || directory.starts_with(ANY)
                || directory.ends_with("..")
                || matches!(directory.as_str(), "." | "/" | "~" | "/tmp")
        };
        if !is_strict && !self.directories().iter().all(is_there) {
            let mut stayed = Variables::default();
            stayed.set("PWD", before.get("PWD", 0).unwrap_or_else(|| ".".to_owned()), true);
            Rc::make_mut(&mut self.variables).join_one("PWD", &stayed);
        }
    }

    /// Returns the directory in which the command runs that is looked at.
    pub(super) fn directory(&self) -> String {
        self.variables.get("PWD", self.place_choice).unwrap_or_else(|| ".".to_owned())
    }

    /// Returns every directory in which the next command may run.
    pub(super) fn directories(&self) -> Vec<String> {
        let all = (0..self.variables.count("PWD")).map(|choice| self.variables.get("PWD", choice));
        all.flatten().collect()
    }
}
