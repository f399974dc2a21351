//! Compiles the rule files that are part of the program.

use super::layers::{Layer, RuleSource, Rules};

/// The files with the built-in rules, one for each subject.
const BUILTIN_RULE_FILES: [&str; 10] = [
    include_str!("../../rules/sets.toml"),
    include_str!("../../rules/shapes.toml"),
    include_str!("../../rules/files.toml"),
    include_str!("../../rules/disks.toml"),
    include_str!("../../rules/git.toml"),
    include_str!("../../rules/privilege.toml"),
    include_str!("../../rules/services.toml"),
    include_str!("../../rules/sending.toml"),
    include_str!("../../rules/background.toml"),
    include_str!("../../rules/servers.toml"),
];

impl Rules {
    /// Returns the built-in rules, without those of any rule file on the machine.
    ///
    /// # Panics
    ///
    /// When a built-in file is invalid, which a test excludes.
    #[must_use]
    pub fn builtin() -> Self {
        let mut rules = Self::empty();
        let source = RuleSource { layer: Layer::BuiltIn, path: None };
        for file in BUILTIN_RULE_FILES {
            rules.add_file(file, &source).expect("the built-in rules are tested");
        }
        rules.build_index();
        rules
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only the guard itself must not open files")]
    fn every_rule_file_is_built_in() {
        let directory = format!("{}/rules", env!("CARGO_MANIFEST_DIR"));
        let paths = std::fs::read_dir(&directory).expect("the directory exists");
        let paths = paths.map(|entry| entry.expect("readable").path());
        let files = paths.filter(|path| path.extension().is_some_and(|ext| ext == "toml"));
        let read = |path| std::fs::read_to_string(path).expect("readable");
        let found: BTreeSet<String> = files.map(read).collect();
        assert_eq!(found, BUILTIN_RULE_FILES.map(str::to_owned).into(), "a file of {directory}");
    }
}
