//! The table of variables with their possible values, as far as the text determines them.

use std::collections::HashMap;

use super::expand::{FIELD_SEPARATOR, NONEMPTY_MARKER, UNKNOWN_MARKER};

/// Maximum number of possible values that are tracked for one variable. If there are more, the
/// value of the variable becomes unknown.
const MAX_VALUES_PER_VARIABLE: usize = 16;

/// The key in the table of variables that records the working directory. It contains a blank, so no
/// shell variable has this name: an assignment to `PWD` does not change the directory.
pub(crate) const DIRECTORY_KEY: &str = "working directory";

/// The possible values of the variables at one point of the walk.
#[derive(Debug, Default, Clone)]
pub(crate) struct Variables {
    values: HashMap<String, Vec<String>>,
    /// The positional parameters of the current function or script, if they are known.
    positional: Option<Vec<String>>,
}

impl Variables {
    /// Sets a variable. If `is_certain` is false, the assignment may or may not run, and the
    /// earlier values remain possible.
    pub(crate) fn set(&mut self, name: &str, value: String, is_certain: bool) {
        let values = self.values.entry(name.to_owned()).or_default();
        if is_certain {
            values.clear();
        } else if values.is_empty() {
            values.push(UNKNOWN_MARKER.to_string());
        }
        if !values.contains(&value) {
            values.push(value);
        }
        if values.len() > MAX_VALUES_PER_VARIABLE {
            *values = vec![UNKNOWN_MARKER.to_string()];
        }
    }

    /// Sets a variable to several possible values, or to an unknown value if there are no values or
    /// too many.
    pub(crate) fn set_alternatives(&mut self, name: &str, all: Vec<String>) {
        let all = if all.is_empty() || all.len() > MAX_VALUES_PER_VARIABLE {
            vec![UNKNOWN_MARKER.to_string()]
        } else {
            all
        };
        self.values.insert(name.to_owned(), all);
    }

    /// Adds the values of all variables in `other`, the table after a branch or a part of a chain
    /// that may have run.
    pub(crate) fn merge(&mut self, other: &Self) {
        for name in other.values.keys() {
            self.merge_variable(name, other);
        }
    }

    /// Adds the values that a variable has in `other`.
    pub(crate) fn merge_variable(&mut self, name: &str, other: &Self) {
        if self.values.get(name) == other.values.get(name) {
            return;
        }
        let values_of = |variables: &Self| -> Vec<String> {
            let one =
                |choice| variables.get(name, choice).unwrap_or_else(|| UNKNOWN_MARKER.to_string());
            (0..variables.count_values(name)).map(one).collect()
        };
        let mut all = values_of(self);
        for value in values_of(other) {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        self.set_alternatives(name, all);
    }

    /// Returns whether the text sets a variable.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Removes a variable, for which [`Self::get`] then returns the value that a shell gives it.
    pub(crate) fn unset(&mut self, name: &str) {
        self.values.remove(name);
    }

    /// Removes all variables. Facts that are not variables, such as the working directory, stay.
    pub(crate) fn clear_environment(&mut self) {
        self.values.retain(|name, _| !is_variable_name(name));
    }

    /// Replaces all values of a variable by an unknown value.
    pub(crate) fn set_unknown(&mut self, name: &str) {
        self.values.insert(name.to_owned(), vec![UNKNOWN_MARKER.to_string()]);
    }

    /// Replaces the positional parameters, and returns the previous ones.
    pub(crate) fn replace_arguments(&mut self, new: Option<Vec<String>>) -> Option<Vec<String>> {
        std::mem::replace(&mut self.positional, new)
    }

    /// Returns the value of `IFS`, if the text sets it to a single known value.
    pub(crate) fn field_separators(&self) -> Option<String> {
        match self.values.get("IFS").map(Vec::as_slice) {
            Some([one]) if !one.contains([UNKNOWN_MARKER, NONEMPTY_MARKER]) => Some(one.clone()),
            _ => None,
        }
    }

    /// Returns the number of possible values of a variable; 1 for a variable that the text does not
    /// set.
    pub(crate) fn count_values(&self, name: &str) -> usize {
        let directory = || self.values.get(DIRECTORY_KEY).filter(|_| name == "PWD");
        self.values.get(name).or_else(directory).map_or(1, Vec::len)
    }

    /// Returns the possible value with the index `choice`, modulo the number of values. For a
    /// variable that the text does not set, returns the known positional parameter, or the known or
    /// nonempty value that every shell sets; otherwise `None`.
    pub(crate) fn get(&self, name: &str, choice: usize) -> Option<String> {
        if let Some(values) = self.values.get(name) {
            return values.get(choice % values.len().max(1)).cloned();
        }
        if let Some(arguments) = &self.positional {
            let found = match name {
                "@" => Some(arguments.join(&FIELD_SEPARATOR.to_string())),
                "*" => Some(arguments.join(" ")),
                number => number
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| arguments.get(number.checked_sub(1)?).cloned()),
            };
            if found.is_some() {
                return found;
            }
        }
        match name {
            "HOME" => Some("~".to_owned()),
            "PWD" => self.get(DIRECTORY_KEY, choice),
            DIRECTORY_KEY | "OLDPWD" => Some(".".to_owned()),
            // The process ids of the shell itself and of its parent, the agent.
            "$" | "BASHPID" | "PPID" => Some(format!("{NONEMPTY_MARKER}self")),
            "SHELL" | "BASH" => Some("/bin/bash".to_owned()),
            // Parameters and variables that are treated as nonempty, because a shell sets them
            // itself.
            "!" | "?" | "#" | "UID" | "EUID" | "RANDOM" | "SECONDS" | "LINENO" | "0" => {
                Some(NONEMPTY_MARKER.to_string())
            }
            "IFS" => Some(" ".to_owned()),
            _ => None,
        }
    }
}

pub(super) fn is_variable_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the program that a variable conventionally holds if the text does not set it: `$CC`,
/// `"$PYTHON"`. Build tools and virtual environments set these variables.
pub(crate) fn conventional_program(variable: &str) -> Option<&'static str> {
    CONVENTIONAL_PROGRAMS
        .lines()
        .filter_map(|line| line.split_once('='))
        .find_map(|(name, program)| (name == variable).then_some(program))
}

/// The conventional variables, one `NAME=program` per line.
const CONVENTIONAL_PROGRAMS: &str = include_str!("../../rules/variables.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_adds_the_possible_values_of_a_branch() {
        let mut before = Variables::default();
        before.set("D", "x".to_owned(), true);
        let mut after = before.clone();
        after.set("D", "/".to_owned(), true);
        after.set("E", "y".to_owned(), true);
        after.set("PWD", "sub".to_owned(), true);
        before.merge(&after);
        let all = |name| {
            (0..before.count_values(name)).map(|at| before.get(name, at)).collect::<Vec<_>>()
        };
        assert_eq!(all("D"), [Some("x".to_owned()), Some("/".to_owned())]);
        assert_eq!(all("E"), [Some(UNKNOWN_MARKER.to_string()), Some("y".to_owned())]);
        assert_eq!(all("PWD"), [Some(".".to_owned()), Some("sub".to_owned())]);
    }

    #[test]
    fn conventional_programs_are_sorted() {
        let lines: Vec<&str> = CONVENTIONAL_PROGRAMS.lines().collect();
        assert!(lines.is_sorted_by(|a, b| a < b));
        assert_eq!(conventional_program("CC"), Some("cc"));
        assert_eq!(conventional_program("CMD"), None);
    }
}
