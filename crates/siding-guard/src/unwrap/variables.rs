//! What variables hold, as far as the text says.

use std::collections::HashMap;

use super::expand::{ANY, SURE};

/// Values of one variable that are followed at most; with more it may be anything.
const VALUES_MAX: usize = 16;

/// Values of variables.
#[derive(Debug, Default, Clone)]
pub(crate) struct Variables {
    values: HashMap<String, Vec<String>>,
    /// Arguments of the function or script that is read.
    positional: Option<Vec<String>>,
}

impl Variables {
    /// Sets a variable; where it only may be set the earlier values stay possible.
    pub(crate) fn set(&mut self, name: &str, value: String, is_certain: bool) {
        let values = self.values.entry(name.to_owned()).or_default();
        if is_certain {
            values.clear();
        } else if values.is_empty() {
            values.push(ANY.to_string());
        }
        if !values.contains(&value) {
            values.push(value);
        }
        if values.len() > VALUES_MAX {
            *values = vec![ANY.to_string()];
        }
    }

    /// Sets a variable to one of several values.
    pub(crate) fn set_one_of(&mut self, name: &str, all: Vec<String>) {
        let all =
            if all.is_empty() || all.len() > VALUES_MAX { vec![ANY.to_string()] } else { all };
        self.values.insert(name.to_owned(), all);
    }

    /// Makes it anything.
    pub(crate) fn forget(&mut self, name: &str) {
        self.values.insert(name.to_owned(), vec![ANY.to_string()]);
    }

    /// Replaces the arguments, and returns what they were.
    pub(crate) fn with_arguments(&mut self, new: Option<Vec<String>>) -> Option<Vec<String>> {
        std::mem::replace(&mut self.positional, new)
    }

    /// Returns how many values a variable may have.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.values.get(name).map_or(1, Vec::len)
    }

    /// Returns one of its values.
    pub(crate) fn get(&self, name: &str, choice: usize) -> Option<String> {
        if let Some(values) = self.values.get(name) {
            return values.get(choice % values.len().max(1)).cloned();
        }
        if let Some(arguments) = &self.positional {
            let found = match name {
                "@" | "*" => Some(arguments.join(" ")),
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
            "PWD" | "OLDPWD" => Some(".".to_owned()),
            // Set by every shell, and never empty.
            "$" | "!" | "?" | "#" | "UID" | "EUID" | "PPID" | "RANDOM" | "SECONDS" | "BASHPID"
            | "LINENO" | "0" | "SHELL" | "BASH" => Some(SURE.to_string()),
            "IFS" => Some(" ".to_owned()),
            _ => None,
        }
    }
}
