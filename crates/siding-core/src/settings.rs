//! Finds and reads the sources of settings.
//!
//! Each source (file, environment variable, call) becomes one layer for [`siding_model::settings`],
//! the lowest first. The module in siding-model decides which values are legal and which layer
//! wins. Every `siding run` reads the settings, so a missing source costs only one failed system
//! call.

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
