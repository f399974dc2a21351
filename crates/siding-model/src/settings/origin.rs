//! The origin of a setting's value.

use std::fmt;
use std::path::{Path, PathBuf};

/// Path of the administrator's settings file, whose values other sources can override unless it
/// locks them.
pub const SYSTEM_FILE: &str = "/etc/siding/config.toml";

/// The layer that set a value, with the name of its file, variable or flag.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The built-in value of the program.
    BuiltIn,
    /// The administrator's file, which can also lock keys and raise the cap.
    System {
        /// Path of the system file.
        path: PathBuf,
    },
    /// The settings file of the host, which is the agent program that calls siding.
    Host {
        /// Path of the host's settings file.
        path: PathBuf,
    },
    /// The user's settings file.
    User {
        /// Path of the user's settings file.
        path: PathBuf,
    },
    /// The settings file of the project that contains the working directory.
    Project {
        /// Path of the project's settings file.
        path: PathBuf,
    },
    /// An environment variable such as `SIDING_KILL_GRACE`.
    Environment {
        /// Name of the variable.
        name: String,
    },
    /// An argument of the call.
    Call {
        /// Name of the flag or parameter, as the caller wrote it.
        flag: String,
    },
}

impl Origin {
    /// Returns the name of the layer, in one lower-case word.
    #[must_use]
    pub const fn layer(&self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::System { .. } => "system",
            Self::Host { .. } => "host",
            Self::User { .. } => "user",
            Self::Project { .. } => "project",
            Self::Environment { .. } => "environment",
            Self::Call { .. } => "call",
        }
    }

    /// Returns the path of the file, for layers that are files.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::System { path }
            | Self::Host { path }
            | Self::User { path }
            | Self::Project { path } => Some(path),
            Self::BuiltIn | Self::Environment { .. } | Self::Call { .. } => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => write!(f, "built-in"),
            Self::System { path }
            | Self::Host { path }
            | Self::User { path }
            | Self::Project { path } => write!(f, "{} file `{}`", self.layer(), path.display()),
            Self::Environment { name } => write!(f, "environment variable `{name}`"),
            Self::Call { flag } => write!(f, "`{flag}`"),
        }
    }
}

/// The layer that set a value, and the line in the layer's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingSource {
    /// The layer that set the value.
    pub origin: Origin,
    /// Line in the file, counted from 1; `None` if unknown, or if the source is not a file.
    pub line: Option<usize>,
}

impl From<Origin> for SettingSource {
    fn from(origin: Origin) -> Self {
        Self { origin, line: None }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.origin.path(), self.line) {
            (Some(path), Some(line)) => write!(f, "`{}` line {line}", path.display()),
            (Some(path), None) => write!(f, "`{}`", path.display()),
            (None, _) => write!(f, "{}", self.origin),
        }
    }
}
