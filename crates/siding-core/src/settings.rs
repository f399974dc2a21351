//! Finds and reads the sources of settings.
//!
//! Each of siding's files, the environment variables together, and the values of the call become
//! one layer for [`siding_model::settings`], and each of the host's files becomes two; the lowest
//! comes first. The module in siding-model decides which values are legal and which layer wins.
//! A missing file costs only one failed system call, because every `siding run` reads the settings.

mod environment;
mod error;
mod file;
mod host;
mod load;
mod project;
mod rule_files;
#[cfg(test)]
mod tests;
mod toml_file;

pub use environment::{CallValue, Environment};
pub use error::SettingsError;
pub use file::FILE_MAX;
pub use load::{LoadedSettings, load, read};
pub use rule_files::{RuleFile, RuleFiles, read_rule_files};
