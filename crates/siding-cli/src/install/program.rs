//! Determines the program that hosts call, and recognizes its calls in a host's files.

use std::path::{Path, PathBuf};

use serde_json::Value;
use siding_core::sys::file;

use crate::failure::Failure;

/// The flag of `siding hook` for the budget of the host's own shell calls.
pub(crate) const BUDGET_FLAG: &str = "--budget";
/// File name of the released program.
const PROGRAM_NAME: &str = "siding";

/// This program, as a host calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SidingProgram {
    /// Absolute path, preferably of a link in the search path.
    pub(crate) path: String,
    /// Whether `siding` in the search path is this program.
    pub(crate) on_path: bool,
    /// Names by which calls of this program are recognized.
    pub(crate) names: ProgramNames,
}

impl SidingProgram {
    /// Determines the path of this program.
    ///
    /// # Errors
    ///
    /// The program's file was removed, or its path is not UTF-8.
    pub(crate) fn current() -> Result<Self, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::new(format!("could not find siding's own path: {error}")))?;
        if !file::is_program(&own) {
            let message = format!("`{}` is no longer an executable file", own.display());
            return Err(Failure::new(message).with_hint("call siding again by its new path"));
        }
        // Prefer a link in the search path, because the link stays valid after an upgrade.
        let on_path = find_in_path(PROGRAM_NAME).filter(|found| file::is_same_file(found, &own));
        let path = on_path.as_deref().unwrap_or(&own);
        let Some(text) = path.to_str() else {
            return Err(Failure::new(format!("the path `{}` is not UTF-8", path.display()))
                .with_hint("install siding in a directory with a UTF-8 name"));
        };
        let names = ProgramNames::with_name(own.file_name().and_then(|name| name.to_str()));
        Ok(Self { path: text.to_owned(), on_path: on_path.is_some(), names })
    }

    /// Returns the command for a file that is shared with other people: `siding` if the search path
    /// contains this program under that name, otherwise the path.
    pub(crate) fn shared_path(&self) -> &str {
        if self.on_path { PROGRAM_NAME } else { &self.path }
    }
}

/// Returns the first program with this name in the search path.
pub(crate) fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| file::is_program(path))
}

/// Names under which siding is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramNames(Vec<String>);

impl ProgramNames {
    /// Returns the usual name and, if it differs, `own`.
    pub(crate) fn with_name(own: Option<&str>) -> Self {
        let own = own.filter(|own| *own != PROGRAM_NAME).map(str::to_owned);
        Self([PROGRAM_NAME.to_owned()].into_iter().chain(own).collect())
    }

    /// Returns whether the file name of a command is one of siding's names.
    pub(crate) fn is_siding(&self, command: &str) -> bool {
        let name = Path::new(command).file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| self.0.iter().any(|one| one == name))
    }

    /// Returns the program and the last argument of a handler that calls `siding hook`, either with
    /// `args` or as a shell command line.
    pub(crate) fn parse_hook_handler(&self, handler: &Value) -> Option<(String, String)> {
        let command = handler["command"].as_str()?;
        let (program, args) = match handler["args"].as_array() {
            Some(args) => {
                let args = args.iter().map(|arg| arg.as_str().unwrap_or_default().to_owned());
                (command.to_owned(), args.collect::<Vec<_>>())
            }
            None => {
                let mut words = split_words(command).into_iter();
                (words.next()?, words.collect())
            }
        };
        let first = args.first().is_some_and(|first| first == "hook");
        let word = args.last().cloned().unwrap_or_default();
        (first && self.is_siding(&program)).then_some((program, word))
    }

    /// Returns the budget in a handler that calls `siding hook --budget D WORD`.
    pub(crate) fn hook_budget(&self, handler: &Value) -> Option<String> {
        self.parse_hook_handler(handler)?;
        let mut args = handler["args"].as_array()?.iter().filter_map(Value::as_str);
        args.find(|arg| *arg == BUDGET_FLAG)?;
        args.next().map(str::to_owned)
    }

    /// Returns the program in a server entry that starts `siding mcp`. The entry has either
    /// `command` and `args`, or a list as `command`.
    pub(crate) fn parse_server_entry(&self, entry: &Value) -> Option<String> {
        let (program, first) = match &entry["command"] {
            Value::String(program) => (program.as_str(), entry["args"][0].as_str()),
            Value::Array(words) => (words.first()?.as_str()?, words.get(1)?.as_str()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
        };
        (first == Some("mcp") && self.is_siding(program)).then(|| program.to_owned())
    }
}

/// Splits a command line into the words that [`quote_word`](siding_model::shell_words::quote_word)
/// quoted.
pub(super) fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut inside = false;
    let mut chars = line.trim().chars();
    while let Some(char) = chars.next() {
        match char {
            '\'' => inside = !inside,
            '\\' if !inside => {
                if let (Some(word), Some(next)) = (words.last_mut(), chars.next()) {
                    word.push(next);
                }
            }
            ' ' if !inside => words.push(String::new()),
            other => {
                if let Some(word) = words.last_mut() {
                    word.push(other);
                }
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use siding_model::shell_words::quote_word;

    use super::*;

    #[test]
    fn only_calls_of_siding_are_recognized() {
        let names = ProgramNames::with_name(Some("siding-dev"));
        let line = format!("{} hook --host codex stop", quote_word("/opt/it's here/siding"));
        for (handler, program, word) in [
            (json!({"command": "/a b/siding", "args": ["hook", "stop"]}), "/a b/siding", "stop"),
            (json!({"command": "siding-dev hook stop"}), "siding-dev", "stop"),
            (json!({"command": line}), "/opt/it's here/siding", "stop"),
        ] {
            let found = names.parse_hook_handler(&handler);
            assert_eq!(found, Some((program.to_owned(), word.to_owned())), "{handler}");
        }
        for other in [
            json!({"command": "/usr/bin/siding-other", "args": ["hook", "stop"]}),
            json!({"command": "siding", "args": ["run", "hook"]}),
            json!({"command": "echo siding hook"}),
            json!({"command": "siding"}),
            json!({"type": "http", "url": "siding"}),
            json!("siding hook"),
        ] {
            assert_eq!(names.parse_hook_handler(&other), None, "{other}");
        }
        let handler = json!({"command": "siding", "args": ["hook", "--budget", "9s", "stop"]});
        assert_eq!(names.hook_budget(&handler).as_deref(), Some("9s"));
        assert_eq!(
            names.parse_hook_handler(&handler).map(|(_, word)| word).as_deref(),
            Some("stop")
        );
        let none = json!({"command": "siding", "args": ["hook", "stop"]});
        assert_eq!(names.hook_budget(&none), None);
        let siding = Some("siding".to_owned());
        assert_eq!(names.parse_server_entry(&json!({"command": ["siding", "mcp"]})), siding);
        assert_eq!(
            names.parse_server_entry(&json!({"command": "siding", "args": ["mcp"]})),
            siding
        );
        assert_eq!(names.parse_server_entry(&json!({"command": "siding", "args": ["ps"]})), None);
        assert_eq!(names.parse_server_entry(&json!({"command": "npx", "args": ["mcp"]})), None);
    }
}
