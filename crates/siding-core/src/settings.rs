//! Settings: where they come from.
//!
//! Owns the finding and reading of every source (files, environment, call) and hands each to
//! [`siding_model::settings`] as one layer, the lowest first; what a value may be and who wins is
//! decided there. It must stay cheap: every `siding run` reads settings, and a source that does
//! not exist costs one failed system call.

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
