//! The locations of all sources, and the values of variables and calls, so that the other modules
//! never read the process's environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use siding_model::settings::{Key, RawValue, SYSTEM_FILE};

use crate::sys;

/// The directory of Claude Code's managed settings.
const HOST_MANAGED_DIRECTORY: &str = "/etc/claude-code";

/// The sources of settings. A source that is `None` or empty is skipped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// The administrator's file, the only one that may lock keys and raise the cap.
    pub system_file: Option<PathBuf>,
    /// The file with the user's settings of the host (`settings.json` of Claude Code).
    pub host_file: Option<PathBuf>,
    /// The directory of the host's managed settings.
    pub host_managed_directory: Option<PathBuf>,
    /// The user's settings file, usually `~/.config/siding/config.toml`.
    pub user_file: Option<PathBuf>,
    /// The user's home directory, above which no project files are searched.
    pub home: Option<PathBuf>,
    /// The absolute directory where a search for project files starts.
    pub working_directory: Option<PathBuf>,
    /// The id of the user whose project files are trusted. Root's files are trusted too.
    pub user: u32,
    /// Values of the `SIDING_` variables that name keys.
    pub variables: Vec<(Key, OsString)>,
    /// Values given on the command line or as parameters of a tool. These values override every
    /// other source, except that they can neither change a locked key nor exceed the cap.
    pub call: Vec<CallValue>,
}

/// The value of one setting, given on the command line or as a parameter of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallValue {
    /// The setting to which the value belongs.
    pub key: Key,
    /// The flag or parameter as the caller wrote it, such as `--grace`.
    pub flag: String,
    /// The value as the caller wrote it, not yet checked.
    pub value: RawValue,
}

impl Environment {
    /// Returns the sources of the settings of this process.
    ///
    /// The sources are `/etc/siding/config.toml`; `settings.json` in `CLAUDE_CONFIG_DIR`, otherwise
    /// in `~/.claude`, and Claude Code's managed settings in `/etc/claude-code`;
    /// `siding/config.toml` in `XDG_CONFIG_HOME`, otherwise in `~/.config`; the project of the
    /// working directory; the `SIDING_` variables. An empty variable is treated as unset, and so is
    /// a directory variable with a relative path, as the XDG base directory specification requires.
    #[must_use]
    pub fn from_process() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let directory = |name| set(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = directory("HOME");
        let in_home = |name| home.as_ref().map(|home| home.join(name));
        let host = directory("CLAUDE_CONFIG_DIR").or_else(|| in_home(".claude"));
        let user = directory("XDG_CONFIG_HOME").or_else(|| in_home(".config"));
        let variables = key_variables();
        Self {
            system_file: Some(PathBuf::from(SYSTEM_FILE)),
            host_file: host.map(|dir| dir.join("settings.json")),
            host_managed_directory: Some(PathBuf::from(HOST_MANAGED_DIRECTORY)),
            user_file: user.map(|dir| dir.join("siding/config.toml")),
            working_directory: std::env::current_dir().ok(),
            user: sys::process::effective_uid(),
            home,
            variables,
            call: Vec::new(),
        }
    }

    /// Adds a value given with the call; see [`Self::call`]. The last value for a key wins.
    #[must_use]
    pub fn with_call(mut self, key: Key, flag: &str, value: RawValue) -> Self {
        let flag = flag.to_owned();
        self.call.push(CallValue { key, flag, value });
        self
    }
}

/// Returns the variables that name keys, in the order of the keys. The environment is read once,
/// because a search for each key would take longer than most other steps of a start.
fn key_variables() -> Vec<(Key, OsString)> {
    let is_ours = |name: &OsStr| name.as_bytes().starts_with(Key::VARIABLE_PREFIX.as_bytes());
    let ours: Vec<(OsString, OsString)> =
        std::env::vars_os().filter(|(name, value)| is_ours(name) && !value.is_empty()).collect();
    let value_of = |key: &Key| {
        let variable = key.env_var();
        let found = ours.iter().find(|(name, _)| *name == *variable);
        found.map(|(_, value)| (*key, value.clone()))
    };
    if ours.is_empty() { Vec::new() } else { Key::ALL.iter().filter_map(value_of).collect() }
}
